// pool_malloc.cpp: table 003's rows of the general heap: malloc, operator new, and malloc with
// glibc's own checks, which stands for the seed's "inside the debugger".
//
// On the seed's system a debugger turns a checking heap on; on Linux a debugger changes nothing and
// glibc's checks are a library, libc_malloc_debug, that is preloaded. The cell starts itself again
// with it, and makes sure that malloc comes from there.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE // dladdr
#endif
#include "pool.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <unistd.h>

#define GLIBC "glibc " FAMILY_STRING(__GLIBC__) "." FAMILY_STRING(__GLIBC_MINOR__)

namespace {

void *malloc_create(size_t, uint64_t) { return nullptr; }
inline void *malloc_alloc(void *, size_t size) { return malloc(size); }
inline void malloc_free(void *, void *object, size_t) { free(object); }
void malloc_destroy(void *) {}

#define POOL malloc
#include "pool.h"
FAMILY_ROW(plain, "malloc", GLIBC, "malloc", FAMILY_RIVAL, malloc_cells)

void *new_create(size_t, uint64_t) { return nullptr; }
inline void *new_alloc(void *, size_t size) { return ::operator new(size); }
inline void new_free(void *, void *object, size_t) { ::operator delete(object); }
void new_destroy(void *) {}

#define POOL new
#include "pool.h"
FAMILY_ROW(by_new, "new", GLIBC, "operator new", FAMILY_RIVAL, new_cells)

// ---- checked ------------------------------------------------------------------------------------

const char debug_library[] = "libc_malloc_debug.so.0";
const char checks[] = "glibc.malloc.check=3";

bool malloc_is_checked() {
    Dl_info info;
    void *address = reinterpret_cast<void *>(&malloc); // as this program is bound
    return dladdr(address, &info) && strstr(info.dli_fname, debug_library);
}

[[noreturn]] void again_checked(const FamilyRequest *asked) {
    char n[32];
    snprintf(n, sizeof n, "%llu", static_cast<unsigned long long>(asked->n));
    if (setenv("GLIBC_TUNABLES", checks, 1) || setenv("LD_PRELOAD", debug_library, 1)) {
        family_fail("%s", strerror(errno));
    }
    execl("/proc/self/exe", "pool", "malloc-checked", asked->column->name, "--n", n, "--huge",
          "never", nullptr);
    family_fail("/proc/self/exe: %s", strerror(errno));
}

void *checked_create(size_t, uint64_t) { return nullptr; }
inline void *checked_alloc(void *, size_t size) { return malloc(size); }
inline void checked_free(void *, void *object, size_t) { free(object); }
void checked_destroy(void *) {}

#define POOL checked
#include "pool.h"

void checked(const FamilyRequest *asked) {
    const char *preloaded = getenv("LD_PRELOAD");
    if (!preloaded || strcmp(preloaded, debug_library)) {
        again_checked(asked);
    }
    if (!malloc_is_checked()) {
        fprintf(stderr, "family: %s did not load: it comes with libc6\n", debug_library);
        exit(77);
    }
    const FamilyCell *cell = checked_cells;
    while (strcmp(cell->column, asked->column->name)) {
        cell++;
    }
    cell->run(asked);
}

#define CHECKED(bytes) \
    {bytes "-pair", checked}, {bytes "-lifo", checked}, {bytes "-fifo", checked}, { \
        bytes "-random", checked \
    }
const FamilyCell outer_cells[] = {
    CHECKED("16"), CHECKED("64"), CHECKED("256"), CHECKED("1024"), CHECKED("4096"), FAMILY_END,
};
FAMILY_ROW(checked_row, "malloc-checked", GLIBC, "malloc under glibc's own checks", FAMILY_RIVAL,
           outer_cells)

} // namespace
