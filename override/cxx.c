/* cxx.c: finds the C++ library that operator new throws with, at the moment when it has to throw.
 *
 *   caller's address ──> its module ──> the module that its __gxx_personality_v0 is bound to
 *                               ├─────> the module itself: a static C++ library inside
 *                               └─────> modules that its other C++ references are bound to
 *   no such module:     the library that loam itself was bound to at start
 *   not even that one:  any module of the process
 *
 * A process may have several C++ libraries, and any of them may come and go by dlopen and dlclose.
 * An exception is caught only where the handler's library knows it. The personality routine of the
 * caller's module is the function that looks at the exception first, so the library that owns that
 * routine is the one to throw with. Its new handler is the one that the caller's
 * std::set_new_handler has set.
 *
 * The search reads the symbol tables and the relocated words of modules that the caller keeps
 * loaded, so that no dlclose in another thread can unmap them. glibc 2.35 finds the module of an
 * address without a lock (_dl_find_object); before that release the search uses dl_iterate_phdr, as
 * the unwinder does for each throw. Cannot find a C++ library that is linked into a module without
 * exporting one of its symbols.
 *
 * Invariant: the functions in an lm_cxx_t come from one library.
 */
#define _GNU_SOURCE 1 /* dl_iterate_phdr */
#include "cxx.h"

#include <link.h>

/* ---- One module ---- */

typedef struct module {
    uintptr_t base; /* added to the addresses in the file */
    const ElfW(Dyn) * dynamic;
} module_t;

/* What a module's dynamic section says, in addresses of this process. */
typedef struct tables {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu_hash, *hash;
    const ElfW(Rela) * relocations[2]; /* of data, of calls */
    size_t relocation_bytes[2];
} tables_t;

/* glibc relocates the addresses in most dynamic sections in place, other C libraries in none. */
static const void *place(const module_t *module, uintptr_t address) {
    return (const void *)(address >= module->base ? address : address + module->base);
}

static bool read_tables(const module_t *module, tables_t *tables) {
    *tables = (tables_t){.base = module->base};
    if (module->dynamic == NULL) return false;
    bool rela = true;
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL; entry++) {
        const void *at = place(module, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB: tables->symbols = at; break;
        case DT_STRTAB: tables->names = at; break;
        case DT_GNU_HASH: tables->gnu_hash = at; break;
        case DT_HASH: tables->hash = at; break;
        case DT_RELA: tables->relocations[0] = at; break;
        case DT_RELASZ: tables->relocation_bytes[0] = entry->d_un.d_val; break;
        case DT_JMPREL: tables->relocations[1] = at; break;
        case DT_PLTRELSZ: tables->relocation_bytes[1] = entry->d_un.d_val; break;
        case DT_PLTREL: rela = entry->d_un.d_val == DT_RELA; break;
        default: break;
        }
    }
    if (!rela) tables->relocation_bytes[1] = 0;
    return tables->symbols != NULL && tables->names != NULL;
}

/* ---- Symbols ---- */

static bool same(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) a++, b++;
    return *a == *b;
}

static bool begins(const char *text, const char *prefix) {
    while (*prefix != '\0' && *text == *prefix) text++, prefix++;
    return *prefix == '\0';
}

/* Whether the symbol is a definition of `name`. */
static bool defines(const tables_t *tables, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = &tables->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           same(tables->names + symbol->st_name, name);
}

static uint32_t find_gnu(const tables_t *tables, const char *name) {
    const uint32_t *table = tables->gnu_hash;
    uint32_t buckets = table[0], first = table[1], words = table[2], hash = 5381;
    const uint32_t *bucket = table + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    if (buckets == 0) return 0;
    for (const char *c = name; *c != '\0'; c++) hash = hash * 33 + (unsigned char)*c;
    uint32_t i = bucket[hash % buckets];
    if (i < first) return 0;
    for (;; i++) {
        if ((chain[i - first] | 1) == (hash | 1) && defines(tables, i, name)) return i;
        if (chain[i - first] & 1) return 0;
    }
}

static uint32_t find_sysv(const tables_t *tables, const char *name) {
    const uint32_t *table = tables->hash, *chain = table + 2 + table[0];
    uint32_t hash = 0;
    if (table[0] == 0) return 0;
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    for (uint32_t i = table[2 + hash % table[0]]; i != 0; i = chain[i]) {
        if (defines(tables, i, name)) return i;
    }
    return 0;
}

static void *find(const tables_t *tables, const char *name) {
    uint32_t i = tables->gnu_hash != NULL ? find_gnu(tables, name)
                 : tables->hash != NULL   ? find_sysv(tables, name)
                                          : 0;
    return i != 0 ? (void *)(tables->base + tables->symbols[i].st_value) : NULL;
}

/* ---- The C++ library in a module ---- */

/* ISO C has no conversion from object to function pointers; POSIX promises it. */
#define FIND(tables, to, name) \
    do { \
        void *found = find((tables), (name)); \
        __builtin_memcpy(&(to), &found, sizeof found); \
    } while (0)

static bool can_throw(const lm_cxx_t *cxx) {
    return cxx->throw_bad_alloc != NULL ||
           (cxx->allocate_exception != NULL && cxx->throw_exception != NULL &&
            cxx->destroy != NULL && cxx->type != NULL && cxx->vtable != NULL);
}

/* Whether the module is a C++ library, or has one inside. */
static bool library_in(const module_t *module, lm_cxx_t *cxx) {
    tables_t tables;
    *cxx = (lm_cxx_t){0};
    if (!read_tables(module, &tables)) return false;
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

/* ---- The module of an address ---- */

/* As <dlfcn.h> has it from glibc 2.35 on. */
typedef struct dl_object {
    unsigned long long flags;
    void *start, *end;
    struct link_map *map;
    void *more[9];
} dl_object_t;

int lm_dl_find_object(void *address, dl_object_t *object) __asm__("_dl_find_object")
    __attribute__((weak));

typedef struct search {
    uintptr_t address;
    module_t module; /* found */
    lm_cxx_t *cxx;   /* found */
} search_t;

static module_t module_in(const struct dl_phdr_info *info) {
    module_t module = {info->dlpi_addr, NULL};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_DYNAMIC)
            module.dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + header->p_vaddr);
    }
    return module;
}

static int has_address(struct dl_phdr_info *info, size_t bytes, void *data) {
    (void)bytes;
    search_t *search = (search_t *)data;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD ||
            search->address - info->dlpi_addr - header->p_vaddr >= header->p_memsz)
            continue;
        search->module = module_in(info);
        return 1;
    }
    return 0;
}

static bool module_of(uintptr_t address, module_t *module) {
    int (*volatile find_object)(void *, dl_object_t *) = lm_dl_find_object;
    if (find_object != NULL) {
        dl_object_t object;
        if (find_object((void *)address, &object) != 0 || object.map == NULL) return false;
        *module = (module_t){object.map->l_addr, object.map->l_ld};
    } else {
        search_t search = {.address = address};
        if (dl_iterate_phdr(has_address, &search) == 0) return false;
        *module = search.module;
    }
    return module->dynamic != NULL;
}

/* ---- What a module is bound to ---- */

static bool cxx_name(const char *name) {
    return begins(name, "_Z") || begins(name, "__cxa_") || begins(name, "__gxx_");
}

/* Looks through the words that the dynamic linker has bound by name, for a C++ library that one of
 * them leads to. It considers the name `only`, whichever module defines it. If `only` is NULL, it
 * considers each C++ name that the module does not define itself. A call that has not been bound
 * yet leads into the module itself, where no library is found. Returns whether it found one. */
static bool library_bound(const module_t *module, const char *only, lm_cxx_t *cxx) {
    tables_t tables;
    module_t last = {0};
    if (!read_tables(module, &tables)) return false;
    for (int part = 0; part < 2; part++) {
        const ElfW(Rela) *at = tables.relocations[part];
        size_t n = at != NULL ? tables.relocation_bytes[part] / sizeof *at : 0;
        for (; n > 0; n--, at++) {
            /* The symbol's number is the upper half in all 64-bit formats. */
            const ElfW(Sym) *symbol = &tables.symbols[at->r_info >> 32];
            const char *name = tables.names + symbol->st_name;
            if (at->r_info >> 32 == 0) continue;
            if (only != NULL ? !same(name, only) : symbol->st_shndx != SHN_UNDEF || !cxx_name(name))
                continue;
            /* Relaxed: a call is bound once, by a store of one word. */
            uintptr_t to = lm_load_relaxed((const uintptr_t *)(tables.base + at->r_offset));
            module_t bound;
            if (!module_of(to, &bound) || bound.dynamic == last.dynamic) continue;
            if (library_in(&bound, cxx)) return true;
            last = bound;
        }
    }
    return false;
}

/* ---- What loam itself is bound to ---- */

/* Weak, so that a C program needs no C++ library. */
#define OWN(type, name, symbol) extern type name __asm__(symbol) __attribute__((weak))
OWN(void, own_throw_bad_alloc(void), "_ZSt17__throw_bad_allocv");
OWN(void, (*own_get_new_handler(void))(void), "_ZSt15get_new_handlerv");
OWN(void *, own_allocate_exception(size_t), "__cxa_allocate_exception");
OWN(void, own_throw(void *, void *, void (*)(void *)), "__cxa_throw");
OWN(void, own_destroy(void *), "_ZNSt9bad_allocD1Ev");
OWN(char, own_type[], "_ZTISt9bad_alloc");
OWN(char, own_vtable[], "_ZTVSt9bad_alloc");

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
    module_t module = module_in(info);
    return library_in(&module, ((search_t *)data)->cxx);
}

bool lm_cxx_find(lm_cxx_t *cxx, const void *caller) {
    module_t module;
    if (module_of((uintptr_t)caller, &module) &&
        (library_bound(&module, "__gxx_personality_v0", cxx) || library_in(&module, cxx) ||
         library_bound(&module, NULL, cxx)))
        return true;
    if (library_of_start(cxx)) return true;
    search_t search = {.cxx = cxx};
    return dl_iterate_phdr(any_library, &search) != 0;
}
