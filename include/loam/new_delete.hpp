/* loam/new_delete.hpp: operators new and delete of a whole program, from loam's heap.
 *
 *     #include <loam/new_delete.hpp>      // in ONE source file of the program, and in no header
 *
 * Choose it for C++ programs that are linked with libloam.a, whose malloc stays the C library's;
 * with libloam.so preloaded or loam-override.o linked the operators are loam's already. It defines
 * functions: included in two files it is an error of the linker. It cannot reach what the program
 * gets from malloc, strdup and the like, and memory from these must still go to free.
 *
 *     new, new[]  (nothrow, aligned) ─> loam::heap_new ─> loam_malloc, loam_malloc_aligned
 *     delete, delete[]  (sized, aligned, nothrow) ─> loam_free, loam_free_sized, loam_free_aligned_sized
 *
 * Each form of new and delete of C++17 is replaced, with the standard's meaning: at least one byte,
 * never null but by the nothrow forms, std::bad_alloc after the new handler has given up, null is
 * deleted in silence. Any thread may delete what another one made. Invariant: whatever form of
 * delete gets what whatever form of new gave, checked by tests/api/new_delete_test.cc. Cost: as
 * loam_malloc and loam_free. Source: loam/malloc.hpp.
 */
#ifndef LOAM_NEW_DELETE_HPP
#define LOAM_NEW_DELETE_HPP

#include "loam/names_begin.h"

#include "loam/malloc.hpp"

#include <cstddef>
#include <new>

/* Out of line: a compiler that sees through one of a pair, but not the other, would take them for a
 * mistake. */
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
