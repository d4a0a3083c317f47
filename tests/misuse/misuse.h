/* misuse.h: what the programs of mistakes share.
 *
 * A family of mistakes is a program; a case of it is one function, one mistake, one process:
 *
 *     double_free small          makes that mistake; `double_free --list` names them all
 *
 *     CASE(name, "what is done") { ... }        counted in the table of survey.py
 *     EXTRA(name, "what is done") { ... }       not counted: another form of a mistake that is
 *
 * A case first says by expect() which pointer and thread the mistake is about. It ends in one of
 * two ways, if the allocator lets it come so far:
 *
 *     survived(size)    after the damaged or freed block has been freed: does a fixed amount of
 *                       ordinary work, most of it with blocks of that size, and exits 42
 *                       ("survived"), or 43 as soon as memory that is in use is handed out again
 *     judged(bad)       the case has looked itself whether the mistake had its bad effect: 42 or 0
 *
 * The programs know nothing of loam: they run on any malloc that is preloaded. Built without
 * optimisation, without fortified functions, and what the compiler could see through goes through
 * hide().
 */
#ifndef LOAM_TESTS_MISUSE_H
#define LOAM_TESTS_MISUSE_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Small blocks are in everyone's smallest classes, medium ones in no thread cache of single
 * objects, and large ones come from the system or from spans of their own. */
enum { SMALL = 40, MEDIUM = 3000, LARGE = 1 << 20, MIB = 1 << 20 };

struct misuse_case {
    const char *name;
    const char *what;
    void (*run)(void);
    bool counted;
    struct misuse_case *next;
};

void enter(struct misuse_case *one);
void expect(const void *p);
void in_another_thread(void *(*body)(void *), void *argument);
void spoil(void *from, ptrdiff_t bytes);
bool holds(const void *p, size_t bytes, uint64_t secret);
void fill(void *p, size_t bytes, uint64_t secret);
char *neighbours(size_t size);
void damaged_moved(char *p);
__attribute__((noreturn)) void neighbours_freed(size_t size);
void free_of_size(void *p, size_t size);
__attribute__((noreturn)) void survived(size_t size);
__attribute__((noreturn)) void judged(bool bad);
__attribute__((noreturn)) void not_set_up(const char *why);

/* The same pointer, of unknown origin to the compiler, which would otherwise warn or "optimise". */
static inline char *hide(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return (char *)p;
}

/* A block that is in use and written, or the end: no memory is no mistake. */
static inline char *block(size_t size) {
    char *p = hide(malloc(size));
    if (p == NULL) not_set_up("malloc gave no memory");
    memset(p, 0x11, size);
    return p;
}

#define MISUSE_CASE(NAME, WHAT, COUNTED) \
    static void case_##NAME(void); \
    static struct misuse_case of_##NAME = {#NAME, WHAT, case_##NAME, COUNTED, NULL}; \
    __attribute__((constructor)) static void enter_##NAME(void) { enter(&of_##NAME); } \
    static void case_##NAME(void)

#define CASE(NAME, WHAT) MISUSE_CASE(NAME, WHAT, true)
#define EXTRA(NAME, WHAT) MISUSE_CASE(NAME, WHAT, false)

#ifdef __cplusplus
}
#endif

#endif
