/* cxx.c: finds the C++ library that operator new throws with, when it has to throw.
 *
 *   caller's address ──> its module ──> the module that its __gxx_personality_v0 is bound to
 *                               ├─────> the module itself: a static C++ library inside
 *                               └─────> modules that its other C++ references are bound to
 *   no such module:     the library that loam itself was bound to at start
 *   not even that one:  any module of the process
 *
 * A process may have several C++ libraries, and dlopen and dlclose may load and unload them. An
 * exception is caught only if the handler's library knows it. The personality routine of the
 * caller's module is the function that examines the exception first, so operator new throws with
 * the library that owns that routine. It calls the new handler that the caller's
 * std::set_new_handler has set.
 *
 * The search reads the symbol tables and the relocated words of modules that the caller keeps
 * loaded, so no dlclose in another thread can unmap them. glibc 2.35 finds the module of an address
 * without a lock (_dl_find_object). Before that release the search uses dl_iterate_phdr, as the
 * unwinder does for each throw. It cannot find a C++ library that is linked into a module without
 * exporting one of its symbols.
 *
 * Invariant: the functions in an lm_cxx_t come from one library.
 */
#define _GNU_SOURCE 1 /* dl_iterate_phdr */
#include "cxx.h"
#include "module.h"

/* ---- The C++ library in a module ---- */

/* Looks up a function. The copy converts an object pointer to a function pointer, which POSIX
 * promises and ISO C does not. */
#define FIND(tables, to, name) \
    do { \
        void *found = lm_module_find((tables), (name)); \
        __builtin_memcpy(&(to), &found, sizeof found); \
    } while (0)

static bool can_throw(const lm_cxx_t *cxx) {
    return cxx->throw_bad_alloc != NULL ||
           (cxx->allocate_exception != NULL && cxx->throw_exception != NULL &&
            cxx->destroy != NULL && cxx->type != NULL && cxx->vtable != NULL);
}

/* Returns whether the module is a C++ library, or contains one, and stores its functions. */
static bool library_in(const lm_module_t *module, lm_cxx_t *cxx) {
    lm_tables_t tables;
    *cxx = (lm_cxx_t){0};
    if (!lm_module_tables(module, &tables)) return false;
    FIND(&tables, cxx->throw_bad_alloc, "_ZSt17__throw_bad_allocv");
    FIND(&tables, cxx->allocate_exception, "__cxa_allocate_exception");
    FIND(&tables, cxx->throw_exception, "__cxa_throw");
    FIND(&tables, cxx->destroy, "_ZNSt9bad_allocD1Ev");
    FIND(&tables, cxx->type, "_ZTISt9bad_alloc");
    FIND(&tables, cxx->vtable, "_ZTVSt9bad_alloc");
    if (!can_throw(cxx)) return false;
    FIND(&tables, cxx->get_new_handler, "_ZSt15get_new_handlerv");
    FIND(&tables, cxx->new_nothrow, "_ZnwmRKSt9nothrow_t");
    FIND(&tables, cxx->new_nothrow_aligned, "_ZnwmSt11align_val_tRKSt9nothrow_t");
    if (cxx->new_nothrow == NULL) FIND(&tables, cxx->new_nothrow, "_ZnamRKSt9nothrow_t");
    if (cxx->new_nothrow_aligned == NULL)
        FIND(&tables, cxx->new_nothrow_aligned, "_ZnamSt11align_val_tRKSt9nothrow_t");
    return true;
}

/* ---- The libraries that a module is bound to ---- */

static bool begins(const char *text, const char *prefix) {
    while (*prefix != '\0' && *text == *prefix) text++, prefix++;
    return *prefix == '\0';
}

static bool cxx_name(const char *name) {
    return begins(name, "_Z") || begins(name, "__cxa_") || begins(name, "__gxx_");
}

/* Searches the words that the dynamic linker has bound by name for a C++ library that one of them
 * leads to. Considers only the name `only`, whichever module defines it; if `only` is NULL, each
 * C++ name that the module does not define itself. A call that has not been bound yet leads into
 * the module itself, where no library is found. Returns whether it found one. */
static bool library_bound(const lm_module_t *module, const char *only, lm_cxx_t *cxx) {
    lm_tables_t tables;
    lm_module_t last = {0};
    if (!lm_module_tables(module, &tables)) return false;
    for (int part = 0; part < 2; part++) {
        const ElfW(Rela) *at = tables.relocations[part];
        size_t n = at != NULL ? tables.relocation_bytes[part] / sizeof *at : 0;
        for (; n > 0; n--, at++) {
            /* The symbol's number is the upper half in all 64-bit formats. */
            const ElfW(Sym) *symbol = &tables.symbols[at->r_info >> 32];
            const char *name = tables.names + symbol->st_name;
            if (at->r_info >> 32 == 0) continue;
            if (only != NULL ? !lm_same_name(name, only)
                             : symbol->st_shndx != SHN_UNDEF || !cxx_name(name))
                continue;
            /* Relaxed: a call is bound once, by a store of one word. */
            uintptr_t to = lm_load_relaxed((const uintptr_t *)(tables.base + at->r_offset));
            lm_module_t bound;
            if (!lm_module_of(to, &bound) || bound.dynamic == last.dynamic) continue;
            if (library_in(&bound, cxx)) return true;
            last = bound;
        }
    }
    return false;
}

/* ---- The library that loam itself is bound to ---- */

/* Weak, so that a C program needs no C++ library. */
#define CXX_OWN(type, name, symbol) extern type name __asm__(symbol) __attribute__((weak))
CXX_OWN(void, own_throw_bad_alloc(void), "_ZSt17__throw_bad_allocv");
CXX_OWN(void, (*own_get_new_handler(void))(void), "_ZSt15get_new_handlerv");
CXX_OWN(void *, own_allocate_exception(size_t), "__cxa_allocate_exception");
CXX_OWN(void, own_throw(void *, void *, void (*)(void *)), "__cxa_throw");
CXX_OWN(void, own_destroy(void *), "_ZNSt9bad_allocD1Ev");
CXX_OWN(char, own_type[], "_ZTISt9bad_alloc");
CXX_OWN(char, own_vtable[], "_ZTVSt9bad_alloc");

static bool library_of_start(lm_cxx_t *cxx) {
    *cxx = (lm_cxx_t){
        .throw_bad_alloc = own_throw_bad_alloc,
        .get_new_handler = own_get_new_handler,
        .allocate_exception = own_allocate_exception,
        .throw_exception = own_throw,
        .destroy = own_destroy,
        .type = own_type,
        .vtable = own_vtable,
    };
    return can_throw(cxx);
}

static int any_library(struct dl_phdr_info *info, size_t bytes, void *data) {
    (void)bytes;
    lm_module_t module = lm_module_in(info);
    return library_in(&module, (lm_cxx_t *)data);
}

bool lm_cxx_find(lm_cxx_t *cxx, const void *caller) {
    lm_module_t module;
    if (lm_module_of((uintptr_t)caller, &module) &&
        (library_bound(&module, "__gxx_personality_v0", cxx) || library_in(&module, cxx) ||
         library_bound(&module, NULL, cxx)))
        return true;
    if (library_of_start(cxx)) return true;
    return dl_iterate_phdr(any_library, cxx) != 0;
}
