/* module.c: reads symbols of loaded modules, and finds the module of an address.
 *
 *   address ──> _dl_find_object ──> module ──> dynamic section ──> hash table ──> symbol
 *
 * loam has to know what a caller's module defines while the dynamic linker may be busy, and its
 * caller may hold any lock. So this file reads the tables in memory and calls no function of the
 * dynamic linker except _dl_find_object, which takes no lock (glibc 2.35). Before that release it
 * uses dl_iterate_phdr, which waits for the linker, as the unwinder does for each throw.
 *
 * The caller keeps the module loaded meanwhile: it is the module that called loam. This file cannot
 * see symbols that a module does not export. Invariant: nothing here allocates, or writes to memory
 * that is not its caller's.
 */
#define _GNU_SOURCE 1 /* dl_iterate_phdr */
#include "module.h"

/* ---- One module ---- */

/* Returns an address in a dynamic section as one of this process. glibc relocates the addresses in
 * most dynamic sections in place, other C libraries in none. */
static const void *module_place(const lm_module_t *module, uintptr_t address) {
    return (const void *)(address >= module->base ? address : address + module->base);
}

bool lm_module_tables(const lm_module_t *module, lm_tables_t *tables) {
    *tables = (lm_tables_t){.base = module->base};
    if (module->dynamic == NULL) return false;
    bool rela = true;
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL; entry++) {
        const void *at = module_place(module, entry->d_un.d_ptr);
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

/* Returns whether the symbol is a definition of `name`. */
static bool defines(const lm_tables_t *tables, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = &tables->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           lm_same_name(tables->names + symbol->st_name, name);
}

static uint32_t find_gnu(const lm_tables_t *tables, const char *name) {
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

static uint32_t find_sysv(const lm_tables_t *tables, const char *name) {
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

void *lm_module_find(const lm_tables_t *tables, const char *name) {
    uint32_t i = tables->gnu_hash != NULL ? find_gnu(tables, name)
                 : tables->hash != NULL   ? find_sysv(tables, name)
                                          : 0;
    return i != 0 ? (void *)(tables->base + tables->symbols[i].st_value) : NULL;
}

bool lm_module_imports(const lm_tables_t *tables, const char *name) {
    /* A GNU hash table begins at the first defined symbol; imported symbols come before it. */
    uint32_t end = tables->gnu_hash != NULL ? tables->gnu_hash[1]
                   : tables->hash != NULL   ? tables->hash[1]
                                            : 0;
    for (uint32_t i = 1; i < end; i++) {
        const ElfW(Sym) *symbol = &tables->symbols[i];
        if (symbol->st_shndx == SHN_UNDEF && lm_same_name(tables->names + symbol->st_name, name))
            return true;
    }
    return false;
}

/* ---- The module of an address ---- */

/* The structure of <dlfcn.h> from glibc 2.35 on. */
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
    lm_module_t module; /* result */
} module_search_t;

lm_module_t lm_module_in(const struct dl_phdr_info *info) {
    lm_module_t module = {info->dlpi_addr, NULL};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_DYNAMIC)
            module.dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + header->p_vaddr);
    }
    return module;
}

static int has_address(struct dl_phdr_info *info, size_t bytes, void *data) {
    (void)bytes;
    module_search_t *search = (module_search_t *)data;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD ||
            search->address - info->dlpi_addr - header->p_vaddr >= header->p_memsz)
            continue;
        search->module = lm_module_in(info);
        return 1;
    }
    return 0;
}

bool lm_module_of(uintptr_t address, lm_module_t *module) {
    int (*volatile find_object)(void *, dl_object_t *) = lm_dl_find_object;
    if (find_object != NULL) {
        dl_object_t object;
        if (find_object((void *)address, &object) != 0 || object.map == NULL) return false;
        *module = (lm_module_t){object.map->l_addr, object.map->l_ld};
    } else {
        module_search_t search = {.address = address};
        if (dl_iterate_phdr(has_address, &search) == 0) return false;
        *module = search.module;
    }
    return module->dynamic != NULL;
}

void *lm_module_finder(void) {
    int (*volatile find_object)(void *, dl_object_t *) = lm_dl_find_object;
    void *found;
    /* C has no cast from a function pointer to an object pointer. */
    __builtin_memcpy(&found, (const void *)&find_object, sizeof found);
    return found;
}

/* ---- The module of a name ---- */

static const char *name_of(const lm_module_t *module) {
    const char *names = NULL;
    const ElfW(Dyn) *name = NULL;
    if (module->dynamic == NULL) return "";
    for (const ElfW(Dyn) *entry = module->dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB) names = module_place(module, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SONAME) name = entry;
        if (names != NULL && name != NULL) return names + name->d_un.d_val;
    }
    return "";
}

/* Needs no lock: libraries that came with the program are first in the list, and stay. */
bool lm_module_named(const char *name, lm_module_t *module) {
    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next) {
        *module = (lm_module_t){map->l_addr, map->l_ld};
        if (lm_same_name(name_of(module), name)) return true;
    }
    return false;
}
