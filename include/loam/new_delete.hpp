/* loam/new_delete.hpp: operators new and delete of a whole program, from loam's heap.
 *
 *     #include <loam/new_delete.hpp>      // in ONE source file of the program, and in no header
 *
 * Choose it for a C++ program that is linked with libloam.a and keeps the C library's malloc. If
 * libloam.so is preloaded or loam-override.o is linked, the operators are loam's already. It
 * defines functions: including it in two files is an error of the linker. It does not change
 * malloc, strdup and the like, whose memory must still go to free.
 *
 *     new, new[]        plain, nothrow, aligned              ─> loam::heap_new ─> loam_malloc,
 *                                                               loam_malloc_aligned
 *     delete, delete[]  plain, sized, aligned, nothrow       ─> loam_free, loam_free_sized,
 *                                                               loam_free_aligned_sized
 *
 * It replaces each form of new and delete of C++17, with the standard's meaning. new returns at
 * least one byte, and never null except by the nothrow forms. std::bad_alloc is thrown after the
 * new handler has given up. Deleting null does nothing. Any thread may delete an object of another
 * thread. Invariant: each form of delete accepts the memory of each form of new;
 * tests/api/new_delete_test.cc checks it. Cost: as loam_malloc and loam_free. Source:
 * loam/malloc.hpp.
 */
#ifndef LOAM_NEW_DELETE_HPP
#define LOAM_NEW_DELETE_HPP

#include "loam/names_begin.h"

#include "loam/malloc.hpp"

#include <cstddef>
#include <new>

/* Out of line: a compiler that sees the body of one function of a pair, but not of the other, would
 * warn of a mismatch. */
#define LOAM_OPERATOR LOAM_API __attribute__((__noinline__))

/* ---- new ---- */

LOAM_OPERATOR void *operator new(std::size_t bytes) { return loam::heap_new(bytes); }
LOAM_OPERATOR void *operator new[](std::size_t bytes) { return loam::heap_new(bytes); }
LOAM_OPERATOR void *operator new(std::size_t bytes, std::align_val_t align) {
    return loam::heap_new(bytes, static_cast<std::size_t>(align));
}
LOAM_OPERATOR void *operator new[](std::size_t bytes, std::align_val_t align) {
    return loam::heap_new(bytes, static_cast<std::size_t>(align));
}
LOAM_OPERATOR void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
    return loam::heap_new_nothrow(bytes);
}
LOAM_OPERATOR void *operator new[](std::size_t bytes, const std::nothrow_t &) noexcept {
    return loam::heap_new_nothrow(bytes);
}
LOAM_OPERATOR void *operator new(std::size_t bytes, std::align_val_t align,
                                 const std::nothrow_t &) noexcept {
    return loam::heap_new_nothrow(bytes, static_cast<std::size_t>(align));
}
LOAM_OPERATOR void *operator new[](std::size_t bytes, std::align_val_t align,
                                   const std::nothrow_t &) noexcept {
    return loam::heap_new_nothrow(bytes, static_cast<std::size_t>(align));
}

/* ---- delete ---- */

LOAM_OPERATOR void operator delete(void *p) noexcept { loam_free(p); }
LOAM_OPERATOR void operator delete[](void *p) noexcept { loam_free(p); }
LOAM_OPERATOR void operator delete(void *p, std::size_t bytes) noexcept {
    loam_free_sized(p, bytes);
}
LOAM_OPERATOR void operator delete[](void *p, std::size_t bytes) noexcept {
    loam_free_sized(p, bytes);
}
LOAM_OPERATOR void operator delete(void *p, const std::nothrow_t &) noexcept { loam_free(p); }
LOAM_OPERATOR void operator delete[](void *p, const std::nothrow_t &) noexcept { loam_free(p); }
LOAM_OPERATOR void operator delete(void *p, std::align_val_t) noexcept { loam_free(p); }
LOAM_OPERATOR void operator delete[](void *p, std::align_val_t) noexcept { loam_free(p); }
LOAM_OPERATOR void operator delete(void *p, std::size_t bytes, std::align_val_t align) noexcept {
    loam_free_aligned_sized(p, static_cast<std::size_t>(align), bytes);
}
LOAM_OPERATOR void operator delete[](void *p, std::size_t bytes, std::align_val_t align) noexcept {
    loam_free_aligned_sized(p, static_cast<std::size_t>(align), bytes);
}
LOAM_OPERATOR void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept {
    loam_free(p);
}
LOAM_OPERATOR void operator delete[](void *p, std::align_val_t, const std::nothrow_t &) noexcept {
    loam_free(p);
}

#undef LOAM_OPERATOR

#include "loam/names_end.h"

#endif
