/*
 * statics.cpp - static constructors that allocate before main, destructors and atexit handlers
 * that free after it.
 *
 * Catches: an allocator that needs its own constructor to have run before it can be called, or
 * whose own destructor takes it apart while the program's and a shared library's destructors (and
 * a thread that is still running) go on using it.
 *
 * The program runs itself three times: leaving main, leaving by exit from a second thread, and by
 * quick_exit. The very last destructor writes a word into a pipe; without that word the test
 * fails.
 */
#include "statics.h"

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> handlers{0};
works_block *from_preinit[16];

struct Early {
    std::map<std::string, std::vector<int>> table;
    Early() {
        for (int i = 0; i < 100; i++)
            table["key " + std::to_string(i)] = std::vector<int>(static_cast<size_t>(i), i);
        for (int i = 0; i < 8; i++) works_block_free(from_preinit[i]);
    }
    ~Early() {
        for (auto &entry : table)
            for (int value : entry.second) CHECK(value < 100, "a vector of a static map changed");
        table.clear();
        for (int i = 8; i < 16; i++) works_block_free(from_preinit[i]);
        works_exercise(4, 200);
    }
};
__attribute__((init_priority(101))) Early early;

struct Late {
    std::string text = std::string(100000, 't');
    ~Late() {
        CHECK(text == std::string(100000, 't'), "a static string changed");
        for (size_t i = 32; i < 64; i++) statics_program_blocks[i] = works_block_new(i * 100, i);
    }
} late;

/* Before the constructor of any library, loam's included. */
void earliest() {
    for (size_t i = 0; i < 16; i++) from_preinit[i] = works_block_new(i * i * 40 + 1, i);
}
__attribute__((section(".preinit_array"), used)) void (*const before_libraries)() = earliest;

void handler() {
    handlers++;
    works_exercise(6, 100);
}

void quick_handler() {
    works_exercise(7, 100);
    works_write(statics_report_fd, "quick", 5);
}

int child(const char *how) {
    statics_report_fd = 1;
    for (int i = 0; i < 40; i++)
        atexit(handler); // more than the C library keeps room for: it allocates
    at_quick_exit(quick_handler);
    for (size_t i = 0; i < 32; i++) statics_program_blocks[i] = works_block_new(i * i * 50, i);
    for (size_t i = 0; i < 64; i += 2) {
        works_block_free(statics_lib_blocks[i]);
        statics_lib_blocks[i] = nullptr;
    }
    std::thread([] { // runs on while everything is destroyed
        for (uint64_t seed = 1;; seed++) works_exercise(seed, 100);
    })
        .detach();
    if (strcmp(how, "thread") == 0) std::thread([] { exit(0); }).join();
    if (strcmp(how, "quick") == 0) quick_exit(0);
    return 0;
}

void expect(const char *how, const char *word) {
    char *arguments[] = {const_cast<char *>(works_self()), const_cast<char *>(how), nullptr};
    char text[64];
    int status = works_capture(arguments[0], arguments, environ, 1, text, sizeof text);
    works_expect_ok(status, how);
    CHECK(strcmp(text, word) == 0,
          "leaving by '%s': the last destructor should write '%s', and '%s' was written", how, word,
          text);
}

} // namespace

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(30);
    if (argc > 1) return child(argv[1]);
    for (int i = 0; i < 20; i++) {
        expect("main", "end");
        expect("thread", "end");
        expect("quick", "quick");
    }
    return 0;
}
