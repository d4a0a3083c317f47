/*
 * thread_locals.cpp - C++ thread_local objects whose constructors allocate and whose destructors
 * free and allocate.
 *
 * Catches: the same as key_destructors.c by the other mechanism: the C++ runtime's list of thread
 * exit functions, which runs before the pthread keys' destructors and allocates its own nodes by
 * calloc. Objects are handed to the main thread too, which frees them when their thread is gone.
 */
#include "works.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<unsigned> built{0}, destroyed{0};
std::mutex handing;
std::vector<std::unique_ptr<std::string>> handed;

struct Local {
    std::map<int, std::string> names;
    std::vector<std::unique_ptr<char[]>> blocks;
    Local() {
        built++;
        for (int i = 0; i < 20; i++) {
            names[i] = std::string(10 + static_cast<size_t>(i) * 30, 'x');
            blocks.emplace_back(new char[static_cast<size_t>(i) * 1000 + 1]());
        }
    }
    ~Local() {
        for (auto &name : names)
            CHECK(name.second.find_first_not_of('x') == std::string::npos,
                  "a string's contents changed");
        std::vector<std::string> fresh; // allocation in a destructor
        for (int i = 0; i < 20; i++) fresh.push_back(names[i] + "y");
        auto kept = std::make_unique<std::string>(5000, 'k');
        std::lock_guard<std::mutex> lock(handing);
        handed.push_back(std::move(kept));
        destroyed++;
    }
};

thread_local Local first;
thread_local std::string second(100, 's');
thread_local std::unique_ptr<Local> third;

void work(unsigned seed) {
    first.names[1000] = std::string(seed % 4000, 'x');
    second += "more";
    third = std::make_unique<Local>();
    works_exercise(seed + 1, 20);
}

void run(unsigned threads) {
    for (unsigned i = 0; i < threads; i += 4) {
        std::vector<std::thread> group;
        for (unsigned t = 0; t < 4; t++) group.emplace_back(work, i + t);
        for (auto &thread : group) thread.join();
        std::lock_guard<std::mutex> lock(handing);
        for (auto &string : handed)
            CHECK(*string == std::string(5000, 'k'), "a block of an ended thread changed");
        handed.clear();
    }
}

} // namespace

int main() {
    works_require_loam();
    works_limit(60);
    run(200);
    works_sleep_ms(800);
    size_t start = works_rss_bytes();
    run(2000);
    size_t allowed = start + start / 10 + 512 * WORKS_KIB + WORKS_KEPT,
           end = works_settled(works_rss_bytes, allowed);
    CHECK(built == destroyed && built == 2 * 2200, "%u thread_local objects built, %u destroyed",
          built.load(), destroyed.load());
    CHECK(end <= allowed, "resident memory rose from %zu KiB to %zu KiB over 2000 threads",
          start / 1024, end / 1024);
    return 0;
}
