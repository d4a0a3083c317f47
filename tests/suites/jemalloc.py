"""jemalloc's own test programs on loam: those of test/integration that need none of its arenas.

The programs allocate by malloc and its kin, and by jemalloc's mallocx and sdallocx, which a small
source builds from the C library's functions. So they run on any malloc. jemalloc's unit tests
are left out: they test its internal modules. NOT_RUN has the programs of test/integration that do
not run, with the reason; the test fails where a program is in neither list.
"""

import suite

PROGRAMS = ("malloc", "aligned_alloc", "posix_memalign", "overflow", "sdallocx", "cpp/basic",
            "cpp/infallible_new_false")
ARENAS = "creates and configures jemalloc's arenas by mallctl"
CLASSES = "expects jemalloc's size classes of functions that other allocators do not have"
NOT_RUN = {
    "MALLOCX_ARENA": ARENAS, "extent": ARENAS, "thread_arena": ARENAS,
    "thread_tcache_enabled": "turns jemalloc's thread caches on and off by mallctl",
    "allocated": "reads jemalloc's counters of each thread by mallctl",
    "mallocx": CLASSES, "rallocx": CLASSES, "xallocx": CLASSES, "slab_sizes": CLASSES,
    "smallocx": "is skipped by jemalloc's own default build, which lacks the function",
    "cpp/infallible_new_true": "replaces the abort in an experimental option of jemalloc's",
}

# In place of jemalloc_test.h: what the programs and their runner (test/src/test.c) need.
HEADER = r"""
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SIZE_T_MAX SIZE_MAX
#define LG_SIZEOF_PTR 3
#define TEST_MALLOC_SIZE malloc_usable_size
#define BUFERROR_BUF 64
#define ZU(n) ((size_t)(n))
#define QU(n) ((uint64_t)(n))
#define JEMALLOC_FORMAT_PRINTF(s, i) __attribute__((format(printf, s, i)))
#define JEMALLOC_DIAGNOSTIC_PUSH
#define JEMALLOC_DIAGNOSTIC_POP
#define JEMALLOC_DIAGNOSTIC_IGNORE_ALLOC_SIZE_LARGER_THAN
#define MALLOCX_LG_ALIGN(lg) ((int)(lg))
#define MALLOCX_ALIGN(align) ((int)__builtin_ctzl(align))
#define MALLOCX_ZERO 0x40
#define unreachable __builtin_unreachable
#define malloc_snprintf snprintf
#define malloc_printf printf
#define malloc_cprintf(callback, argument, ...) printf(__VA_ARGS__)
#define not_reached abort
#define malloc_vcprintf(callback, argument, format, list) vprintf(format, list)
#define get_errno() errno
#define set_errno(value) (errno = (value))
#define buferror(error, text, bytes) snprintf(text, bytes, "%s", strerror(error))
#ifdef __cplusplus
extern "C" {
#endif
extern void (*test_hooks_libc_hook)(), (*test_hooks_arena_new_hook)();
int mallctl(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes);
int mallctlnametomib(const char *name, size_t *mib, size_t *length);
int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_bytes, void *value,
                 size_t bytes);
void *mallocx(size_t size, int flags);
size_t nallocx(size_t size, int flags);
size_t sallocx(const void *p, int flags);
void dallocx(void *p, int flags);
void sdallocx(void *p, size_t size, int flags);
#include "test/test.h"
#ifdef __cplusplus
}
#endif
#undef assert
#define assert(condition) do { if (!(condition)) abort(); } while (0)
"""

# jemalloc's functions, made from the C library's. A size that no object can have stands for
# jemalloc's largest size class.
SOURCE = r"""
#include "test/jemalloc_test.h"
void (*test_hooks_libc_hook)(), (*test_hooks_arena_new_hook)();
int mallctl(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes) {
    if (strcmp(name, "arena.0.purge") == 0) return malloc_trim(0), 0;
    if (strcmp(name, "arenas.nlextents") == 0) return *(unsigned *)old = 1, 0;
    return ENOENT;
}
int mallctlnametomib(const char *name, size_t *mib, size_t *length) {
    return strcmp(name, "arenas.lextent.0.size") == 0 ? 0 : ENOENT;
}
int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_bytes, void *value,
                 size_t bytes) {
    return *(size_t *)old = (size_t)7 << 60, 0;
}
static size_t align_of(int flags) {
    size_t align = (size_t)1 << (flags & 0x3f);
    return align < 16 ? 16 : align;
}
void *mallocx(size_t size, int flags) {
    void *p = NULL;
    if (align_of(flags) == 16) return flags & MALLOCX_ZERO ? calloc(1, size) : malloc(size);
    if (posix_memalign(&p, align_of(flags), size) != 0) return NULL;
    return flags & MALLOCX_ZERO ? memset(p, 0, malloc_usable_size(p)) : p;
}
size_t nallocx(size_t size, int flags) {
    void *p = mallocx(size, flags);
    size_t usable = malloc_usable_size(p);
    free(p);
    return usable;
}
size_t sallocx(const void *p, int flags) { return malloc_usable_size((void *)p); }
void dallocx(void *p, int flags) { free(p); }
void sdallocx(void *p, size_t size, int flags) { free(p); }
"""


def build(tree, out):
    headers = out / "include" / "test"
    headers.mkdir(parents=True, exist_ok=True)
    (headers / "jemalloc_test.h").write_text(HEADER)
    (out / "mapped.c").write_text(SOURCE)
    flags = ["-O1", "-g1", "-w", "-fno-builtin", "-pthread", "-D_GNU_SOURCE", "-I", out / "include",
             "-I", tree / "test/include"]
    objects = {out / "mapped.o": out / "mapped.c", out / "test.o": tree / "test/src/test.c"}
    compile_c = ["gcc", "-std=gnu11", *flags]
    commands = [(output, [*compile_c, "-c", source]) for output, source in objects.items()]
    failed = suite.compile_all(commands)
    folder = tree / "test/integration"
    there = {str(file.relative_to(folder).with_suffix(""))
             for pattern in ("*.c", "cpp/*.cpp") for file in folder.glob(pattern)}
    unknown = there ^ {*PROGRAMS, *NOT_RUN}
    if unknown:
        raise suite.Failed(f"programs that are in no list, or that do not exist: {unknown}")
    commands = []
    for name in PROGRAMS:
        argv = ["g++", *flags, folder / f"{name}.cpp"] if "/" in name else \
            [*compile_c, folder / f"{name}.c"]
        commands.append((out / name.replace("/", "_"), [*argv, *objects]))
    failed.update(suite.compile_all(commands))
    for output, said in failed.items():
        raise suite.Failed(f"{output.name} does not build:\n{said[-3000:]}")
    return [output for output, _ in commands]


def test():
    with suite.Lock("jemalloc"):
        tree = suite.fetch("jemalloc", lambda path: path.startswith("test/"))
        out = suite.CACHE / "jemalloc" / "out"
        out.mkdir(exist_ok=True)
        programs = build(tree, out)
    for name, reason in NOT_RUN.items():
        print(f"not run: {name} {reason}")
    programs = [suite.Program(path.name, [path], {}, 60, None) for path in programs]
    suite.run_suite("jemalloc", programs, len(PROGRAMS))


suite.main(test)
