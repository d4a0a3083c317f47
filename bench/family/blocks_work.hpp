// blocks_work.hpp: what the table `blocks` asks of an allocator: seed 001's benchmark, and pairs.
//
//   benchmark    10,000 blocks of 2000 bytes; free every other one; 10,000 of 4000; free the other
//                half of the small ones; free the large ones from last to first. Three runs in one
//                process, a phase each, as in the seed: the first shows where the memory comes
//                from, the others what recycling it costs.
//   pair         a block of 100 bytes and its free, over and over
//   pair-sizes   the same with 1 to 4000 bytes at random: whoever looks for a class has to look
//   pair-threads the same as `pair` from two threads at once, each its own blocks
//
// --n is the number of blocks of each kind in `benchmark` and of pairs in the others. `pair` and
// `pair-sizes` say nothing about an allocator that looks for the block it frees.
//
// A row is a class: Row(const FamilyRequest &), void *alloc(size), void free(block, size); give
// blocks_work::cells<Row> to FAMILY_ROW, or cells_of_one_thread<Row> where threads may not share
// it.
#ifndef LOAM_BENCH_FAMILY_BLOCKS_WORK_HPP
#define LOAM_BENCH_FAMILY_BLOCKS_WORK_HPP

#include "family.h"

#include <cstddef>
#include <cstdint>
#include <thread>

namespace blocks_work {

constexpr std::size_t small_size = 2000, large_size = 4000, pair_size = 100;
constexpr std::uint64_t seed = 0x9E3779B97F4A7C15;

// The first and the last byte are written, so that the memory is there and a block given twice is
// noticed when it is freed.
template <class Row> unsigned char *take(Row &row, std::size_t size, unsigned char mark) {
    auto block = static_cast<unsigned char *>(family_need(row.alloc(size)));
    block[0] = mark;
    block[size - 1] = mark;
    return block;
}

template <class Row>
void give(Row &row, unsigned char *block, std::size_t size, unsigned char mark) {
    if (block[0] != mark || block[size - 1] != mark) {
        family_fail("a block of %zu bytes was written over", size);
    }
    row.free(block, size);
}

inline unsigned char mark_of(std::uint64_t i) { return static_cast<unsigned char>(i * 7 + 1); }

template <class Row> void benchmark(const FamilyRequest *asked) {
    static const char *const phases[] = {"run 1", "run 2", "run 3"};
    Row row(*asked);
    const std::uint64_t n = asked->n;
    auto small = static_cast<unsigned char **>(family_table_of(n, sizeof(unsigned char *)));
    auto large = static_cast<unsigned char **>(family_table_of(n, sizeof(unsigned char *)));
    for (const char *phase : phases) {
        FamilyClock clock = family_start();
        for (std::uint64_t i = 0; i < n; i++) small[i] = take(row, small_size, mark_of(i));
        for (std::uint64_t i = 0; i < n; i += 2) give(row, small[i], small_size, mark_of(i));
        for (std::uint64_t i = 0; i < n; i++) large[i] = take(row, large_size, mark_of(i));
        for (std::uint64_t i = 1; i < n; i += 2) give(row, small[i], small_size, mark_of(i));
        for (std::uint64_t i = n; i-- > 0;) give(row, large[i], large_size, mark_of(i));
        family_stop(&clock, phase, 4 * n);
    }
}

template <class Row> void pairs(Row &row, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; i++) {
        unsigned char *block = take(row, pair_size, mark_of(i));
        family_consume(block);
        give(row, block, pair_size, mark_of(i));
    }
}

template <class Row> void pair(const FamilyRequest *asked) {
    Row row(*asked);
    FamilyClock clock = family_start();
    pairs(row, asked->n);
    family_stop(&clock, "use", asked->n);
}

template <class Row> void pair_sizes(const FamilyRequest *asked) {
    Row row(*asked);
    std::uint64_t state = seed;
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < asked->n; i++) {
        std::size_t size = 1 + ((family_random(&state) >> 32) * large_size >> 32);
        unsigned char *block = take(row, size, mark_of(i));
        family_consume(block);
        give(row, block, size, mark_of(i));
    }
    family_stop(&clock, "use", asked->n);
}

// The clock sees both threads: seconds are those of the slower one, cpu_s is the sum.
template <class Row> void pair_threads(const FamilyRequest *asked) {
    Row row(*asked);
    FamilyClock clock = family_start();
    std::thread other([&] { pairs(row, asked->n / 2); });
    pairs(row, asked->n - asked->n / 2);
    other.join();
    family_stop(&clock, "use", asked->n);
}

template <class Row>
inline constexpr FamilyCell cells[] = {{"benchmark", benchmark<Row>},
                                       {"pair", pair<Row>},
                                       {"pair-sizes", pair_sizes<Row>},
                                       {"pair-threads", pair_threads<Row>},
                                       {nullptr, nullptr}};

template <class Row>
inline constexpr FamilyCell cells_of_one_thread[] = {{"benchmark", benchmark<Row>},
                                                     {"pair", pair<Row>},
                                                     {"pair-sizes", pair_sizes<Row>},
                                                     {nullptr, nullptr}};

} // namespace blocks_work
#endif
