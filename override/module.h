/* module.h: reads what the dynamic linker has loaded, without its locks; for cxx.c and owner.c. */
#ifndef LM_OVERRIDE_MODULE_H
#define LM_OVERRIDE_MODULE_H

#include "api/api.h"

#include <link.h>

/* A program or a shared library in this process. */
typedef struct lm_module {
    uintptr_t base; /* load address: added to the addresses in the file */
    const ElfW(Dyn) * dynamic;
} lm_module_t;

/* Contents of a module's dynamic section, as addresses of this process. Each may be NULL except the
 * first two. */
typedef struct lm_tables {
    const ElfW(Sym) * symbols;
    const char *names;
    uintptr_t base;
    const uint32_t *gnu_hash, *hash;
    /* [0]: relocations of data, [1]: of calls. */
    const ElfW(Rela) * relocations[2];
    size_t relocation_bytes[2];
} lm_tables_t;

/* Finds the module that contains an address. Returns false iff there is none. */
bool lm_module_of(uintptr_t address, lm_module_t *module);

/* Finds the library of that name (its DT_SONAME) in the program's namespace. Returns false iff
 * there is none. Calls no function. Only for libraries that are loaded with the program and
 * stay. */
bool lm_module_named(const char *name, lm_module_t *module);

/* Returns the module that dl_iterate_phdr describes. */
lm_module_t lm_module_in(const struct dl_phdr_info *info);

/* Reads the module's dynamic section. Returns false iff the module has no symbols. */
bool lm_module_tables(const lm_module_t *module, lm_tables_t *tables);

/* Returns the address of the module's own definition of `name`, or NULL iff it exports none. */
void *lm_module_find(const lm_tables_t *tables, const char *name);

/* Returns whether the module imports `name` from another one. Also returns false if that cannot be
 * told. */
bool lm_module_imports(const lm_tables_t *tables, const char *name);

/* Returns glibc's function that finds the module of an address without a lock; NULL before glibc
 * 2.35. */
void *lm_module_finder(void);

LM_INLINE bool lm_same_name(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) a++, b++;
    return *a == *b;
}

#endif
