/* binding.c: keeps libraries from finding libc's malloc and free instead of loam's.
 *
 *   caller ──> dlopen (below) ──> lm_binding_open: flags without RTLD_DEEPBIND, libc's dlopen
 *                    └─ jump ──> libc's dlopen ── returns to the caller
 *   caller ──> dlsym (below) ──> lm_binding_find: loam's function, or else libc's dlsym
 *                    └─ jump ──> libc's dlsym ── returns to the caller
 *
 * A library that is loaded with RTLD_DEEPBIND looks up names in itself and in its dependencies,
 * libc among them, before the usual places. So it calls libc's malloc and free, while the rest of
 * the program calls loam's, and the first object that passes from one side to the other ends the
 * program. PHP loads its extensions in this way. dlopen here clears the flag. The library then
 * finds names as every other library does. A program that relies on a second definition of some
 * function in such a library finds the first one instead.
 *
 * A library that is loaded later also finds libc's free if it asks for the next free after its own
 * (RTLD_NEXT), or for the free of libc's own handle. dlsym here answers these questions about the
 * allocation functions with loam's. Python's chdb needs both.
 *
 * LOAM_ALLOW_DEEPBIND=1 leaves the flag and the answers to libc.
 *
 * libc's functions look at their return address: the caller's RUNPATH, its $ORIGIN, its place in
 * the order of libraries and its namespace decide what is found. So the functions here must not be
 * callers of libc's. They restore the arguments and jump. C cannot promise that, so they are in
 * assembly.
 *
 * dlmopen usually has another namespace with its own libc, in which loam is not malloc. In the
 * program's own namespace it is treated like dlopen.
 *
 * Only libloam.so has this file: a program that is linked with loam-override.o has libc's
 * functions. It cannot help a library that defines free itself (owner.c may), that is linked with a
 * static libc, or that calls dlvsym.
 */
#define _GNU_SOURCE 1 /* RTLD_NEXT, RTLD_DEEPBIND, dlmopen */
#include "doors.h"
#include "module.h"

#include <dlfcn.h>

#if defined(RTLD_DEEPBIND) && LM_HAS_JUMPS

typedef void binding_function_t(void);

/* Returned in two registers: the function to jump to, and the argument to pass on. */
typedef struct next {
    binding_function_t *function;
    uintptr_t argument;
} next_t;

/* Converts an object pointer to a function pointer, which POSIX promises and ISO C does not. */
static binding_function_t *function_at(void *object) {
    binding_function_t *function;
    __builtin_memcpy(&function, &object, sizeof function);
    return function;
}

/* ---- The next definitions ---- */

LM_EXPORT void *dlopen(const char *library, int flags);
LM_EXPORT void *dlmopen(Lmid_t space, const char *library, int flags);
LM_EXPORT void *dlsym(void *restrict handle, const char *restrict name);

typedef struct definition {
    const char *name;
    binding_function_t *ours, *found; /* found: atomic; NULL: not looked up yet */
} definition_t;

static definition_t opens = {"dlopen", (binding_function_t *)dlopen, NULL},
                    opens_in = {"dlmopen", (binding_function_t *)dlmopen, NULL},
                    finds = {"dlsym", (binding_function_t *)dlsym, NULL};

static void *nothing_found(void) { return NULL; }

/* Returns libc's own definition, read from its tables: a tool may wrap dlsym, and call this
 * library's dlsym for libc's meanwhile. Before glibc 2.34 these functions were in a library of
 * their own, libdl. */
static void *in_libc(const char *name) {
    static const char *const libraries[] = {"libc.so.6", "libdl.so.2"};
    void *found = NULL;
    lm_module_t module;
    lm_tables_t tables;
    for (size_t i = 0; found == NULL && i < sizeof libraries / sizeof *libraries; i++) {
        if (lm_module_named(libraries[i], &module) && lm_module_tables(&module, &tables))
            found = lm_module_find(&tables, name);
    }
    return found;
}

typedef void *find_t(void *handle, const char *name);
static binding_function_t *definition(definition_t *next);

/* Finds the next definition. A tool that comes after loam may define dlopen, too, but its dlsym is
 * not used. */
static binding_function_t *binding_look_up(definition_t *next) {
    binding_function_t *found = NULL;
    if (next != &finds) found = function_at(lm_next_definition(next->name));
    if (found == NULL || found == next->ours) found = function_at(in_libc(next->name));
    if (found == NULL) return (binding_function_t *)nothing_found;
    /* Relaxed: an independent word, which is always the same. */
    lm_store_relaxed(&next->found, found);
    return found;
}

static binding_function_t *definition(definition_t *next) {
    /* Relaxed: an independent word, which is always the same. */
    binding_function_t *function = lm_load_relaxed(&next->found);
    return function != NULL ? function : binding_look_up(next);
}

void *lm_next_definition(const char *name) {
    return ((find_t *)definition(&finds))(RTLD_NEXT, name);
}

/* ---- dlopen ---- */

static bool binding_keeps(void) {
    size_t set = 0;
    return loam_option_get_number("ALLOW_DEEPBIND", &set) == 0 && set != 0;
}

static int binding_allowed(const char *library, int flags) {
    size_t says = 0;
    if ((flags & RTLD_DEEPBIND) == 0 || binding_keeps()) return flags;
    if (loam_option_get_number("VERBOSE", &says) == 0 && says != 0)
        lm_print("loam: dlopen of %s without RTLD_DEEPBIND, so that it has the program's malloc "
                 "(LOAM_ALLOW_DEEPBIND=1 keeps the flag)",
                 library != NULL ? library : "the program");
    return flags & ~RTLD_DEEPBIND;
}

LM_HIDDEN next_t lm_binding_open(const char *library, int flags);
__attribute__((used)) next_t lm_binding_open(const char *library, int flags) {
    return (next_t){definition(&opens), (unsigned)binding_allowed(library, flags)};
}

LM_HIDDEN next_t lm_binding_open_in(Lmid_t space, const char *library, int flags);
__attribute__((used)) next_t lm_binding_open_in(Lmid_t space, const char *library, int flags) {
    return (next_t){definition(&opens_in),
                    (unsigned)(space == LM_ID_BASE ? binding_allowed(library, flags) : flags)};
}

/* ---- dlsym ---- */

static bool allocates(const char *name) {
    static const char *const names[] = {
        "malloc",         "free",          "calloc", "realloc", "reallocarray",       "memalign",
        "posix_memalign", "aligned_alloc", "valloc", "pvalloc", "malloc_usable_size",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (lm_same_name(name, names[i])) return true;
    }
    return false;
}

/* Returns loam's function of that name, or NULL iff the name is no allocation function. Reads
 * loam's own table, because &malloc may be a program's malloc, which asks for the next one. */
static binding_function_t *ours(const char *name) {
    lm_module_t loam;
    lm_tables_t tables;
    if (!allocates(name) || !lm_module_of((uintptr_t)allocates, &loam)) return NULL;
    return lm_module_tables(&loam, &tables) ? function_at(lm_module_find(&tables, name)) : NULL;
}

/* Returns whether the lookup would find libc's own definition. */
static bool finds_libc(void *handle, const char *name) {
    if (handle == RTLD_DEFAULT) return false;
    if (handle == RTLD_NEXT) return true; /* after loam, only libc defines these names */
    return in_libc(name) == ((find_t *)definition(&finds))(handle, name);
}

/* Returns libc's dlsym, and as the argument the answer, or 0 if libc's dlsym is to answer. */
LM_HIDDEN next_t lm_binding_find(void *handle, const char *name);
__attribute__((used)) next_t lm_binding_find(void *handle, const char *name) {
    binding_function_t *function = ours(name);
    bool answers = function != NULL && !binding_keeps() && finds_libc(handle, name);
    return (next_t){definition(&finds), answers ? (uintptr_t)function : 0};
}

/* ---- The jumps ---- */

LM_JUMP_WITH_SECOND("dlopen", "lm_binding_open");
LM_JUMP_WITH_THIRD("dlmopen", "lm_binding_open_in");
LM_ANSWER_OR_JUMP("dlsym", "lm_binding_find");

#else

void *lm_next_definition(const char *name) { return dlsym(RTLD_NEXT, name); }

#endif
