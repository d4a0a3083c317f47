// stack_work.hpp: what the table `stack` asks of an allocator: seed 002's benchmarks of the frame
// stack.
//
//   frame-1, -8, -64, -512   so many blocks in a frame of their own, again and again: the price of
//                            a frame and that of a block can be told apart
//   recursion   a function takes some memory, calls itself down to a depth of 1500, takes some more
//   random      the same, but a call has 0 to 3 calls below it, at random
//   worst       worst_case(20): 20 times 20,000 small blocks in a frame, then one block that is
//               larger than what the allocator asks the system for: the free space is all too small
//               for it
//
//   grow, grow-copy   an array in a frame of its own grows, by realloc and by copying:
//               grow_work.hpp
//
// All happens inside a frame of the caller's. Blocks have 1 to 512 bytes at random and lie at
// multiples of 8; in `worst` they have 100 bytes and lie anywhere, as in the seed. Nothing is
// zeroed.
//
// A row is a class: Row(const FamilyRequest &), void *alloc(size, alignment) from the newest frame,
// void release(void *), which is called for every block and does something only where a frame does
// not free its blocks, and a class Row::Frame(Row &) that is a frame for as long as it lives; give
// stack_work::cells<Row> to FAMILY_ROW. A row that knows the memory it holds has watch(Record &)
// and watch_no_more() besides and gives recorded_cells<Row>.
#ifndef LOAM_BENCH_FAMILY_STACK_WORK_HPP
#define LOAM_BENCH_FAMILY_STACK_WORK_HPP

#include "family.h"
#include "grow_work.hpp"
#include "record.hpp"

#include <cstddef>
#include <cstdint>

namespace stack_work {

constexpr unsigned depth_of_recursion = 1500;
constexpr unsigned deepest_random = 64;
constexpr std::uint64_t size_most = 512;
constexpr std::uint64_t blocks_most = 12; // of a call, before and again after the calls below
constexpr unsigned worst_depth = 20, worst_small_blocks = 20000;
constexpr std::size_t worst_small = 100, worst_large = 80000, system_page = 4096;
constexpr std::uint64_t seed = 0x9E3779B97F4A7C15;

inline std::uint64_t below(std::uint64_t &state, std::uint64_t limit) {
    return (family_random(&state) >> 32) * limit >> 32;
}

// A run of one of the columns: the row, the random numbers, and how much is still to be done.
template <class Row> struct Run {
    Row &row;
    std::uint64_t state;
    std::uint64_t left; // blocks
};

// The first and the last byte are written, so that no allocator gets away with memory not touched.
template <class Row>
inline unsigned char *take(Row &row, std::size_t size, std::size_t alignment, unsigned char mark) {
    auto block = static_cast<unsigned char *>(family_need(row.alloc(size, alignment)));
    block[0] = mark;
    block[size - 1] = mark;
    return block;
}

inline void check(const unsigned char *block, unsigned char mark) {
    if (*block != mark) family_fail("a block was written over");
}

template <class Row> void take_some(Run<Row> &run, unsigned char **blocks, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; i++) {
        blocks[i] =
            take(run.row, 1 + below(run.state, size_most), 8, static_cast<unsigned char>(i));
    }
}

template <class Row> void release_some(Row &row, unsigned char **blocks, std::uint64_t count) {
    if (count) check(blocks[count - 1], static_cast<unsigned char>(count - 1));
    for (std::uint64_t i = 0; i < count; i++) row.release(blocks[i]);
}

// ---- frames of a given size ------------------------------------------------------------------

template <class Row, std::uint64_t count> void frames(const FamilyRequest *asked) {
    Row row(*asked);
    Run<Row> run = {row, seed, 0};
    unsigned char *blocks[count];
    std::uint64_t rounds = asked->n / count + 1;
    typename Row::Frame base(row);
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < rounds; i++) {
        typename Row::Frame frame(row);
        take_some(run, blocks, count);
        release_some(row, blocks, count);
    }
    family_stop(&clock, "use", rounds * count);
}

// ---- recursion -------------------------------------------------------------------------------

// The table of a call's blocks is one of them.
template <class Row> unsigned char **take_call(Run<Row> &run, std::uint64_t count) {
    run.left -= run.left < 2 * count + 1 ? run.left : 2 * count + 1;
    void *table = family_need(run.row.alloc((2 * count + 1) * sizeof(unsigned char *), 8));
    return static_cast<unsigned char **>(table);
}

template <class Row> void release_call(Row &row, unsigned char **blocks, std::uint64_t count) {
    release_some(row, blocks, count);
    release_some(row, blocks + count, count);
    row.release(blocks);
}

template <class Row> void descend(Run<Row> &run, unsigned depth) {
    typename Row::Frame frame(run.row);
    std::uint64_t count = below(run.state, blocks_most + 1);
    unsigned char **blocks = take_call(run, count);
    take_some(run, blocks, count);
    if (depth > 1) descend(run, depth - 1);
    take_some(run, blocks + count, count);
    release_call(run.row, blocks, count);
}

template <class Row> void wander(Run<Row> &run, unsigned depth) {
    typename Row::Frame frame(run.row);
    std::uint64_t count = below(run.state, blocks_most + 1);
    unsigned char **blocks = take_call(run, count);
    take_some(run, blocks, count);
    for (std::uint64_t calls = below(run.state, 4); calls > 0; calls--) {
        if (depth < deepest_random && run.left > 0) wander(run, depth + 1);
    }
    take_some(run, blocks + count, count);
    release_call(run.row, blocks, count);
}

template <class Row> void recursion(const FamilyRequest *asked) {
    Row row(*asked);
    Run<Row> run = {row, seed, asked->n};
    typename Row::Frame base(row);
    FamilyClock clock = family_start();
    while (run.left > 0) descend(run, depth_of_recursion);
    family_stop(&clock, "use", asked->n);
}

template <class Row> void random(const FamilyRequest *asked) {
    Row row(*asked);
    Run<Row> run = {row, seed, asked->n};
    typename Row::Frame base(row);
    FamilyClock clock = family_start();
    while (run.left > 0) wander(run, 0);
    family_stop(&clock, "use", asked->n);
}

// ---- the worst case --------------------------------------------------------------------------

// Told of each block and of each frame that ends, where a Record is not.
struct Nobody {
    void took(std::size_t) {}
    void gave(std::size_t) {}
};

template <class Row, class Teller> void worst_case(Row &row, unsigned char **blocks, Teller &told) {
    constexpr std::size_t size = worst_large + system_page * worst_depth;
    typename Row::Frame frame(row);
    unsigned char *large[worst_depth];
    for (unsigned i = 0; i < worst_depth; i++) {
        {
            typename Row::Frame small(row);
            for (unsigned k = 0; k < worst_small_blocks; k++) {
                blocks[k] = take(row, worst_small, 1, static_cast<unsigned char>(k));
                told.took(worst_small);
            }
            release_some(row, blocks, worst_small_blocks);
        }
        told.gave(worst_small * worst_small_blocks);
        large[i] = take(row, size, 1, static_cast<unsigned char>(i));
        told.took(size);
    }
    release_some(row, large, worst_depth);
    told.gave(size * worst_depth);
}

inline unsigned char **worst_table() {
    return static_cast<unsigned char **>(
        family_table_of(worst_small_blocks, sizeof(unsigned char *)));
}

constexpr std::uint64_t worst_blocks = worst_depth * (worst_small_blocks + 1);

template <class Row> void worst(const FamilyRequest *asked) {
    Row row(*asked);
    typename Row::Frame base(row);
    unsigned char **blocks = worst_table();
    FamilyClock clock = family_start();
    Nobody nobody;
    for (std::uint64_t i = 0; i < asked->n; i++) worst_case(row, blocks, nobody);
    family_stop(&clock, "use", asked->n * worst_blocks);
}

template <class Row> void worst_memory(const FamilyRequest *asked) {
    Row row(*asked);
    unsigned char **blocks = worst_table();
    Record record;
    row.watch(record);
    typename Row::Frame base(row);
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < asked->n; i++) worst_case(row, blocks, record);
    record.also();
    family_stop(&clock, "memory", asked->n * worst_blocks);
    row.watch_no_more();
}

template <class Row, bool in_place> void grow(const FamilyRequest *asked) {
    if constexpr (!in_place || grow_work::has_realloc<Row>::value) {
        Row row(*asked);
        typename Row::Frame base(row);
        std::uint64_t arrays = grow_work::arrays(*asked);
        FamilyClock clock = family_start();
        for (std::uint64_t i = 0; i < arrays; i++) {
            typename Row::Frame frame(row);
            grow_work::one<Row, in_place>(
                row, [&](std::size_t size) { return row.alloc(size, 8); },
                [&](void *block, std::size_t) { row.release(block); });
        }
        family_stop(&clock, "use", arrays * grow_work::elements);
    }
}

// The last is none where a row has no realloc: that ends the list.
#define STACK_GROW_CELLS \
    {"grow-copy", grow<Row, false>}, \
        {grow_work::has_realloc<Row>::value ? "grow" : nullptr, grow<Row, true>}, { \
        nullptr, nullptr \
    }

#define STACK_TIMED_CELLS \
    {"frame-1", frames<Row, 1>}, {"frame-8", frames<Row, 8>}, {"frame-64", frames<Row, 64>}, \
        {"frame-512", frames<Row, 512>}, {"recursion", recursion<Row>}, {"random", random<Row>}, { \
        "worst", worst<Row> \
    }

template <class Row> inline constexpr FamilyCell cells[] = {STACK_TIMED_CELLS, STACK_GROW_CELLS};

template <class Row>
inline constexpr FamilyCell recorded_cells[] = {
    STACK_TIMED_CELLS, {"worst-memory", worst_memory<Row>}, STACK_GROW_CELLS};

#undef STACK_TIMED_CELLS
#undef STACK_GROW_CELLS

} // namespace stack_work
#endif
