/* owner.c: passes a freed pointer that is not loam's to the allocator inside the caller's library.
 *
 *   library ── its operator new(nothrow), hidden ──> its allocator ──> p
 *           ── its operator delete, exported ──> bound to loam's ──> p is foreign ──> owner_frees
 *                          ^──────────────────────────────────────────────────────────┘
 *
 * A library may contain an allocator with operators new and delete for its own use, and export some
 * of them. ClickHouse in Python's chdb is an example. The dynamic linker binds the exported
 * operators to the first definitions of the process, which are loam's. The operators that the
 * library hides still take memory from its own allocator. Objects of these operators then reach
 * loam's delete. It looks at the caller: if the caller's library has an operator delete (or a free)
 * of its own, that function gets the pointer.
 *
 * loam asks only where it would have reported a mistake, so other pointers cost no time. Some
 * pointers are not passed on, but reported as usual: pointers from code without call frame
 * information, from a library that also imports libc's free (it may have meant that one), from libc
 * itself, and before glibc 2.35. realloc and malloc_usable_size of such a pointer cannot be passed
 * on, because C++ has no such operators.
 */
#define _GNU_SOURCE 1 /* struct dl_phdr_info */
#include "module.h"

typedef void free_t(void *p);

/* The pointer that this thread is passing on: the owner may call free with it again. */
static LM_TLS const void *handed;

/* Returns whether the module is loam or libc, whose pointers are not passed on. */
static bool excepted(const lm_module_t *module) {
    lm_module_t own, libc;
    return (lm_module_of((uintptr_t)&excepted, &own) && own.dynamic == module->dynamic) ||
           (lm_module_named("libc.so.6", &libc) && libc.dynamic == module->dynamic);
}

/* Returns the function of the caller's library that frees, or NULL if there is none. */
static free_t *owner_of(uintptr_t caller) {
    lm_module_t module;
    lm_tables_t tables;
    if (!lm_module_of(caller, &module) || !lm_module_tables(&module, &tables)) return NULL;
    if (excepted(&module)) return NULL;
    void *found = lm_module_find(&tables, "free");
    if (found == NULL && !lm_module_imports(&tables, "free"))
        found = lm_module_find(&tables, "_ZdlPv"); /* operator delete(void *) */
    free_t *function;
    /* C has no cast from an object pointer to a function pointer */
    __builtin_memcpy(&function, &found, sizeof found);
    return function;
}

static bool owner_frees(void *p) {
    uintptr_t caller;
    if (p == handed || lm_module_finder() == NULL) return false;
    lm_os_trace_by(lm_module_finder());
    if (lm_os_trace(&caller, NULL, 1) != 1) return false;
    free_t *function = owner_of(caller - 1); /* an address within the call, not after it */
    if (function == NULL) return false;
    const void *before = handed; /* an owner may free several objects of its own */
    handed = p;
    function(p);
    handed = before;
    return true;
}

static __attribute__((constructor)) void offer(void) { lm_free_elsewhere = owner_frees; }
