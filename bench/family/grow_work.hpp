// grow_work.hpp: the columns `grow` and `grow-copy` of the tables `fifo` and `stack`: what realloc
// gains where the object is the last one.
//
//   grow        an array grows from 16 to 1024 bytes, 16 at a time, by the allocator's own realloc,
//               which moves the end of the last object; then the next array
//   grow-copy   the same by a larger block, a copy and a free of the old block each time
//
// Seed 002: "the typical use of this function is the growing of dynamic arrays". An operation is a
// growth; run.py shows the second by the first as `gain`. Nothing else is allocated meanwhile, so
// that the array always is the last object: with another in between, realloc is a copy as well. A
// row has `grow` iff it has realloc; a stack's frame holds one array.
#ifndef LOAM_BENCH_FAMILY_GROW_WORK_HPP
#define LOAM_BENCH_FAMILY_GROW_WORK_HPP

#include "family.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace grow_work {

constexpr std::size_t element = 16, elements = 64, most = element * elements;

// void *realloc(block, old size, new size) of a row.
template <class Row, class = void> struct has_realloc : std::false_type {};
template <class Row>
struct has_realloc<Row, std::void_t<decltype(std::declval<Row &>().realloc(
                            nullptr, std::size_t{}, std::size_t{}))>> : std::true_type {};

// bigger(block, old size, new size); the first is given no block. All elements are written, and
// looked at in the end.
template <class Bigger> [[gnu::always_inline]] inline unsigned char *array(Bigger bigger) {
    unsigned char *block = nullptr;
    for (std::size_t i = 0; i < elements; i++) {
        block = static_cast<unsigned char *>(
            family_need(bigger(block, i * element, (i + 1) * element)));
        block[i * element] = static_cast<unsigned char>(i);
        family_consume(block);
    }
    for (std::size_t i = 0; i < elements; i++) {
        if (block[i * element] != i) family_fail("an array was not kept when it grew");
    }
    return block;
}

// take(size) and give(block, size) are the row's alloc and free.
template <class Row, bool in_place, class Take, class Give>
[[gnu::always_inline]] inline void one(Row &row, Take take, Give give) {
    unsigned char *block = array([&](unsigned char *old, std::size_t size, std::size_t larger) {
        if (!old) return take(larger);
        if constexpr (in_place) {
            return row.realloc(old, size, larger);
        } else {
            void *copy = take(larger);
            if (copy) {
                std::memcpy(copy, old, size);
                give(old, size);
            }
            return copy;
        }
    });
    give(block, most);
    (void)row;
}

constexpr std::uint64_t arrays(const FamilyRequest &asked) { return asked.n / elements + 1; }

} // namespace grow_work
#endif
