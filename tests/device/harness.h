/* harness.h: a test framework that fits into a device: no heap, no printf, no setjmp.h, no C
 * library.
 *
 *     TEST(buffer_gives_all) { CHECK(loam_source_get(...) != NULL); }
 *
 * Each file is a program; every TEST of it runs, a failed CHECK is printed and the run goes on. The
 * exit status is 0, or 1 if a CHECK failed. The same programs run on the host, on the library
 * compiled there with -ffreestanding. Names of tests are C names.
 */
#ifndef DEVICE_HARNESS_H
#define DEVICE_HARNESS_H

#include "board.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef LOAM_DEBUG /* 1: the library checks everything, and objects need more room */
#define LOAM_DEBUG 0
#endif

struct device_test {
    const char *name;
    void (*run)(void);
};

/* The linker puts these pointers side by side. */
#define TEST(test) \
    static void test(void); \
    static const struct device_test test##_entry = {#test, test}; \
    __attribute__((section("device_tests"), \
                   used)) static const struct device_test *const test##_pointer = &test##_entry; \
    static void test(void)

#define CHECK(condition) device_check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQUAL(a, b) \
    device_check_equal((uintptr_t)(a), (uintptr_t)(b), #a " == " #b, __FILE__, __LINE__)

/* The statement must end in a report that contains this text, and in loam_port_abort, which comes
 * back here. */
#define CHECK_ABORTS(statement, text) \
    do { \
        if (__builtin_setjmp(device_jump) == 0) { \
            device_expect_abort(); \
            statement; \
            device_no_abort(); \
        } \
        device_check_said((text), "abort by " #statement, __FILE__, __LINE__); \
    } while (0)

extern void *device_jump[5];
void device_check(bool good, const char *text, const char *file, int line);
void device_check_equal(uintptr_t a, uintptr_t b, const char *text, const char *file, int line);
void device_expect_abort(void);
void device_no_abort(void);
void device_check_said(const char *text, const char *what, const char *file, int line);

/* What loam has written since the last call of device_forget, as one string. */
const char *device_said(void);
void device_forget(void);
/* How often text stands in what loam has written. */
unsigned device_said_times(const char *text);

/* Pseudo-random numbers below `below`, the same in every run; state must not be 0. */
uint32_t device_random(uint32_t *state, uint32_t below);

#endif
