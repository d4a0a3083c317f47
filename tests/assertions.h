/* assertions.h: googletest's comparisons of the types that most tests compare, compiled once a
 * build (assertions.cc) and not in every test: an eighth of a test's time to compile. Part of the
 * precompiled headers alone. */
#ifndef LOAM_TESTS_ASSERTIONS_H
#define LOAM_TESTS_ASSERTIONS_H

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

/* compared(how, one, other) and printed(type) */
/* clang-format off */
#define LOAM_ASSERTIONS(compared, printed) \
    compared(EQ, int, int) compared(EQ, int, char) compared(EQ, unsigned, unsigned) \
    compared(EQ, unsigned, unsigned long) compared(EQ, unsigned long, unsigned) \
    compared(EQ, unsigned long, unsigned long) compared(EQ, bool, bool) \
    compared(EQ, void *, void *) compared(EQ, void *, std::nullptr_t) \
    compared(EQ, char *, char *) compared(EQ, std::string, std::string) \
    compared(NE, unsigned long, unsigned long) compared(NE, std::nullptr_t, void *) \
    compared(NE, std::nullptr_t, char *) compared(LT, unsigned long, unsigned) \
    compared(LT, unsigned long, unsigned long) compared(LE, unsigned long, unsigned) \
    compared(LE, unsigned long, unsigned long) compared(GT, unsigned long, unsigned) \
    compared(GT, unsigned long, unsigned long) compared(GE, unsigned long, unsigned) \
    compared(GE, unsigned long, unsigned long) \
    printed(int) printed(unsigned) printed(unsigned long) printed(unsigned char) printed(char) \
    printed(void *) printed(char *) printed(std::nullptr_t)
/* clang-format on */

#define LOAM_COMPARED(how, one, other) \
    template testing::AssertionResult testing::internal::CmpHelper##how<one, other>( \
        const char *, const char *, one const &, other const &);
#define LOAM_PRINTED(type) template std::string testing::PrintToString<type>(type const &);
#define LOAM_COMPARED_ONCE(how, one, other) extern LOAM_COMPARED(how, one, other)
#define LOAM_PRINTED_ONCE(type) extern LOAM_PRINTED(type)

LOAM_ASSERTIONS(LOAM_COMPARED_ONCE, LOAM_PRINTED_ONCE)

#endif
