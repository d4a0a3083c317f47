/* bytes.h: looks at many bytes at once, for tests that look at MiB of them. With an assertion for
 * each byte that is most of such a test's time, where compilers optimise little, and under
 * sanitizers and emulators. */
#ifndef LOAM_TESTS_BYTES_H
#define LOAM_TESTS_BYTES_H

#include <cstddef>
#include <cstring>

/* Returns where the first byte lies that is not `value`; `bytes` if there is none. If all are
 * alike, the memory equals itself one byte further on. */
inline size_t first_other(const void *memory, size_t bytes, unsigned char value) {
    auto *p = static_cast<const unsigned char *>(memory);
    if (bytes != 0 && *p == value && memcmp(p, p + 1, bytes - 1) == 0) return bytes;
    size_t at = 0;
    while (at < bytes && p[at] == value) at++;
    return at;
}

#endif
