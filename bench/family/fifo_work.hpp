// fifo_work.hpp: what the table `fifo` asks of an allocator: seed 002's benchmark of the FIFO pool.
//
//   immediate   a block is freed as soon as it is had: the shortest queue there is
//   cyclic      10,000 slots in turn: free the oldest block, take a new one: a queue
//   random      10,000 slots at random: almost a queue, and what a FIFO pool is worst at
//
//   grow, grow-copy   an array grows, by realloc and by copying: grow_work.hpp
//
// Sizes are 1 to 512 bytes at random. `immediate` says nothing about an allocator that looks for
// the block it frees: it finds the newest one at once. The other two do. Filling and draining the
// slots are phases of their own.
//
// A row is a class: Row(const FamilyRequest &), void *alloc(size), void free(block, size), where it
// can void *realloc(block, old size, size); give fifo_work::cells<Row> to FAMILY_ROW. A row that
// knows the memory it holds has watch(Record &) and watch_no_more() besides and gives
// recorded_cells<Row>.
#ifndef LOAM_BENCH_FAMILY_FIFO_WORK_HPP
#define LOAM_BENCH_FAMILY_FIFO_WORK_HPP

#include "family.h"
#include "grow_work.hpp"
#include "record.hpp"

#include <cstddef>
#include <cstdint>

namespace fifo_work {

constexpr std::uint64_t slot_count = 10000;
constexpr std::uint64_t size_most = 512;
constexpr std::uint64_t seed = 0x9E3779B97F4A7C15;

inline std::uint64_t below(std::uint64_t &state, std::uint64_t limit) {
    return (family_random(&state) >> 32) * limit >> 32;
}

struct Slot {
    unsigned char *block;
    std::size_t size;
};

// The first and the last byte carry the slot's number, so that a block given twice is noticed.
// Always inline, here and in take: whether the compiler calls them must not depend on the size of a
// row's own inline functions.
template <class Row>
[[gnu::always_inline]] inline void put(Row &row, Slot &slot, std::size_t size, unsigned char mark) {
    unsigned char *block = static_cast<unsigned char *>(family_need(row.alloc(size)));
    block[0] = mark;
    block[size - 1] = mark;
    slot = Slot{block, size};
}

template <class Row>
[[gnu::always_inline]] inline void take(Row &row, const Slot &slot, unsigned char mark) {
    if (slot.block[0] != mark || slot.block[slot.size - 1] != mark) {
        family_fail("a block of %zu bytes was written over", slot.size);
    }
    row.free(slot.block, slot.size);
}

template <class Row> class Slots {
  public:
    Slots() : slots_(static_cast<Slot *>(family_table_of(slot_count, sizeof(Slot)))) {}
    void fill(Row &row, std::uint64_t &state) {
        for (std::uint64_t i = 0; i < slot_count; i++) {
            put(row, slots_[i], 1 + below(state, size_most), static_cast<unsigned char>(i));
        }
    }
    void replace(Row &row, std::uint64_t i, std::size_t size) {
        take(row, slots_[i], static_cast<unsigned char>(i));
        put(row, slots_[i], size, static_cast<unsigned char>(i));
    }
    void drain(Row &row) {
        for (std::uint64_t i = 0; i < slot_count; i++) {
            take(row, slots_[i], static_cast<unsigned char>(i));
        }
    }

  private:
    Slot *slots_;
};

template <class Row> void immediate(const FamilyRequest *asked) {
    Row row(*asked);
    std::uint64_t state = seed;
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < asked->n; i++) {
        Slot slot;
        put(row, slot, 1 + below(state, size_most), static_cast<unsigned char>(i));
        family_consume(slot.block);
        take(row, slot, static_cast<unsigned char>(i));
    }
    family_stop(&clock, "use", asked->n);
}

// Which slot comes next, of the two orders.
struct In_turn {
    std::uint64_t next = 0;
    std::uint64_t operator()(std::uint64_t &) {
        return next = next + 1 < slot_count ? next + 1 : 0;
    }
};
struct At_random {
    std::uint64_t operator()(std::uint64_t &state) { return below(state, slot_count); }
};

template <class Row, class Order> void slots(const FamilyRequest *asked) {
    Row row(*asked);
    Slots<Row> slots;
    std::uint64_t state = seed;
    FamilyClock clock = family_start();
    slots.fill(row, state);
    family_stop(&clock, "fill", slot_count);
    Order order;
    clock = family_start();
    for (std::uint64_t i = 0; i < asked->n; i++) {
        std::uint64_t slot = order(state);
        slots.replace(row, slot, 1 + below(state, size_most));
    }
    family_stop(&clock, "use", asked->n);
    clock = family_start();
    slots.drain(row);
    family_stop(&clock, "drain", slot_count);
}

template <class Row, bool in_place> void grow(const FamilyRequest *asked) {
    if constexpr (!in_place || grow_work::has_realloc<Row>::value) {
        Row row(*asked);
        std::uint64_t arrays = grow_work::arrays(*asked);
        FamilyClock clock = family_start();
        for (std::uint64_t i = 0; i < arrays; i++) {
            grow_work::one<Row, in_place>(
                row, [&](std::size_t size) { return row.alloc(size); },
                [&](void *block, std::size_t size) { row.free(block, size); });
        }
        family_stop(&clock, "use", arrays * grow_work::elements);
    }
}

// The same with the record of memory, and without a time worth looking at.
template <class Row> class Recorded {
  public:
    Recorded(Row &row, Record &record) : row_(row), record_(record) { row.watch(record); }
    ~Recorded() { row_.watch_no_more(); }
    Recorded(const Recorded &) = delete;
    Recorded &operator=(const Recorded &) = delete;
    void *alloc(std::size_t size) {
        void *block = row_.alloc(size);
        record_.took(size);
        return block;
    }
    void free(void *block, std::size_t size) {
        row_.free(block, size);
        record_.gave(size);
    }

  private:
    Row &row_;
    Record &record_;
};

template <class Bare, class Order> void memory(const FamilyRequest *asked) {
    Bare bare(*asked);
    Record record;
    Recorded<Bare> row(bare, record);
    Slots<Recorded<Bare>> slots;
    std::uint64_t state = seed;
    FamilyClock clock = family_start();
    slots.fill(row, state);
    Order order;
    for (std::uint64_t i = 0; i < asked->n; i++) {
        std::uint64_t slot = order(state);
        slots.replace(row, slot, 1 + below(state, size_most));
    }
    slots.drain(row);
    record.also();
    family_stop(&clock, "memory", asked->n);
}

// The last is none where a row has no realloc: that ends the list.
#define FIFO_TIMED_CELLS \
    {"immediate", immediate<Row>}, {"cyclic", slots<Row, In_turn>}, { \
        "random", slots<Row, At_random> \
    }
#define FIFO_GROW_CELLS \
    {"grow-copy", grow<Row, false>}, \
        {grow_work::has_realloc<Row>::value ? "grow" : nullptr, grow<Row, true>}, { \
        nullptr, nullptr \
    }

template <class Row> inline constexpr FamilyCell cells[] = {FIFO_TIMED_CELLS, FIFO_GROW_CELLS};

template <class Row>
inline constexpr FamilyCell recorded_cells[] = {FIFO_TIMED_CELLS,
                                                {"cyclic-memory", memory<Row, In_turn>},
                                                {"random-memory", memory<Row, At_random>},
                                                FIFO_GROW_CELLS};

#undef FIFO_TIMED_CELLS
#undef FIFO_GROW_CELLS

} // namespace fifo_work
#endif
