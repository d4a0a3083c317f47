"""g++ on loam: compiling and linking generated C++ that leans on the standard library's templates.

Objects and programs must equal, byte for byte, those made without the preload. The programs use
operator new and delete, containers, strings, exceptions and threads, and print the same with and
without the preload.
"""

import compilers
import preload

TYPES = 2

HEAD = r"""
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 1099511628211u; }
"""

# One of several types with containers of their own, so that every template is made again.
TYPE = r"""
struct alignas(@ALIGN@) Thing@N@ {
    std::string name; std::vector<int> numbers; std::shared_ptr<Thing@N@> next; uint64_t n;
    explicit Thing@N@(uint64_t v)
        : name(v % 60, char('a' + v % 26)), numbers(v % @SPAN@, int(v)), n(v) {}
    bool operator<(const Thing@N@ &other) const { return n < other.n; }
};
using Choice@N@ = std::variant<int, std::string, std::vector<Thing@N@>, std::unique_ptr<Thing@N@>>;

static uint64_t work@N@(uint64_t h)
{
    std::map<std::string, Thing@N@> ordered;
    std::unordered_map<uint64_t, std::unique_ptr<Thing@N@>> hashed;
    std::vector<std::function<uint64_t(uint64_t)>> calls;
    std::shared_ptr<Thing@N@> chain;
    for (uint64_t i = 0; i < 400; i++) {
        h = mix(h, i * @N@ + 7);
        auto key = "key " + std::to_string(h % 300) + std::string(h % 20, '-');
        ordered.insert_or_assign(key, Thing@N@(h % 1000));
        hashed[h % 500] = std::make_unique<Thing@N@>(h % 700);
        auto made = std::make_shared<Thing@N@>(h % 400);
        made->next = i % 100 ? chain : nullptr; chain = made;
        calls.emplace_back([made, key, i](uint64_t v) { return mix(v, made->n + key.size() + i); });
        if (reinterpret_cast<uintptr_t>(hashed[h % 500].get()) % @ALIGN@)
            throw std::logic_error("alignment");
        try { if (h % 5 == 0) throw std::runtime_error("thrown " + key); }
        catch (const std::runtime_error &error) { h = mix(h, std::string(error.what()).size()); }
        if (i % 3 == 0) ordered.erase(ordered.begin());
    }
    for (auto &[key, thing] : ordered) h = mix(h, key.size() + thing.numbers.size());
    for (auto &call : calls) h = call(h);
    std::vector<Thing@N@> all;
    for (auto &[key, thing] : hashed) all.push_back(*thing);
    std::stable_sort(all.begin(), all.end());
    std::vector<Choice@N@> choices;
    choices.emplace_back(5); choices.emplace_back(std::string(200, 'x')); choices.emplace_back(all);
    choices.emplace_back(std::make_unique<Thing@N@>(3));
    for (auto &choice : choices) h = mix(h, choice.index());
    std::ostringstream text;
    for (auto &thing : all) text << thing.name << ' ' << thing.n << '\n';
    return mix(h, std::accumulate(all.begin(), all.end(), uint64_t(0),
        [](uint64_t sum, const Thing@N@ &thing) { return sum + thing.n; }) + text.str().size());
}
"""

MAIN = r"""
int main()
{
    std::ifstream maps("/proc/self/maps");
    std::ofstream(std::getenv("MAPS_COPY")) << maps.rdbuf();
    std::vector<uint64_t> results(8 * std::size(works));
    std::vector<std::thread> threads;
    std::atomic<size_t> next{0};
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            for (size_t i; (i = next++) < results.size();)
                results[i] = works[i % std::size(works)](i + 1);
        });
    for (auto &thread : threads) thread.join();
    try { std::vector<char> huge(size_t(1) << 62); (void)huge; std::cout << "huge\n"; }
    catch (const std::bad_alloc &) { std::cout << "bad_alloc\n"; }
    void *none = ::operator new(size_t(1) << 62, std::nothrow);
    std::cout << (none ? "memory" : "null") << '\n';
    std::cout << std::hex << std::accumulate(results.begin(), results.end(), uint64_t(0), mix)
              << "\nend\n";
}
"""


def test(bench):
    gxx = bench.need("g++")
    types = "".join(
        TYPE.replace("@N@", str(n))
        .replace("@ALIGN@", str(16 << 2 * n))
        .replace("@SPAN@", str(10 + n * 13))
        for n in range(TYPES)
    )
    table = ", ".join(f"work{n}" for n in range(TYPES))
    table = f"\nstatic uint64_t (*const works[])(uint64_t) = {{ {table} }};\n"
    source = bench.write("big.cpp", HEAD + types + table + MAIN)
    options = (["-std=c++17", "-O0", "-g"], ["-std=c++17", "-O2", "-Wall"])
    compilers.check(bench, gxx, "cc1plus", [source], options, ["-pthread"])


preload.main(test)
