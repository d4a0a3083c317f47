/* libc_test.h: what the tests of the C library's allocator surface share.
 *
 * The compiler knows malloc and free and may drop a pair of them, or fold what their documentation
 * promises: every call here goes through hide(), which makes a value opaque. Functions that the C
 * library under us may lack (C23's free_sized) are looked up at run time, where loam provides them.
 * It cannot tell whose malloc it calls: identity_test.cc does that once for all.
 */
#ifndef LOAM_TESTS_LIBC_TEST_H
#define LOAM_TESTS_LIBC_TEST_H

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace libc_test {

/* A debug build reports exactly what was asked for and writes check bytes behind it. */
#if defined(LOAM_DEBUG) && LOAM_DEBUG
constexpr bool kDebugBuild = true;
#else
constexpr bool kDebugBuild = false;
#endif
#if defined(LOAM_SECURE) && LOAM_SECURE
constexpr bool kSecureBuild = true;
#else
constexpr bool kSecureBuild = false;
#endif

/* The same value, unknown to the optimiser. */
template <typename T> inline T hide(T value) {
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

/* A function of the process under its exported name, nullptr if there is none. */
template <typename F> inline F *symbol(const char *name) {
    return reinterpret_cast<F *>(dlsym(RTLD_DEFAULT, name));
}

inline bool aligned(const void *p, size_t align) {
    return reinterpret_cast<uintptr_t>(p) % align == 0;
}

inline size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

/* Sizes that touch every kind of block: small, beyond the first table, medium, large, huge. */
inline const std::vector<size_t> &sizes_of_every_kind() {
    static const std::vector<size_t> sizes = {
        0,       1,       7,       8,        15,       16,       17,     24,     48,
        100,     127,     128,     129,      1008,     1023,     1024,   1025,   1500,
        3000,    4095,    4096,    4097,     8191,     8192,     8193,   9000,   32768,
        60000,   65535,   65536,   65537,    69633,    100000,   131072, 262145, 1048575,
        1048576, 1048577, 5000000, 16777216, 33554433, 100000001};
    return sizes;
}

/* More than any object may have: PTRDIFF_MAX + 1 and up. */
inline const std::vector<size_t> &impossible_sizes() {
    static const std::vector<size_t> sizes = {static_cast<size_t>(PTRDIFF_MAX) + 1,
                                              static_cast<size_t>(PTRDIFF_MAX) + 4097,
                                              SIZE_MAX - 65536,
                                              SIZE_MAX - 4096,
                                              SIZE_MAX - 4095,
                                              SIZE_MAX - 16,
                                              SIZE_MAX - 15,
                                              SIZE_MAX - 1,
                                              SIZE_MAX};
    return sizes;
}

/* Resident bytes of this process, from /proc/self/statm. */
inline size_t resident_bytes() {
    char text[128] = {0};
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == nullptr) return 0;
    size_t total = 0;
    size_t resident = 0;
    if (fgets(text, sizeof(text), file) != nullptr) sscanf(text, "%zu %zu", &total, &resident);
    fclose(file);
    return resident * page_bytes();
}

} // namespace libc_test

#endif
