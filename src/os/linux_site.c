/* linux_site.c: return addresses as places in modules, which stay valid after the module is
 * unloaded.
 *
 *   address ── _dl_find_object ──> module in memory ── build ID and name ──> module's number
 *                                        └── address - base ──> site [ number | offset ]
 *   report:   site ──> name+0xoffset, and the function: from the module, if it is still loaded;
 *                      else from its file, if the file has the same build ID
 *
 * A module is recorded once, however often and wherever it is loaded. A module without a build ID
 * is identified by a checksum of its headers and of the beginning of its function table. Names are
 * copied. Records are never removed. Once a process has had more than LM_MODULES_MOST - 1 modules,
 * or names of more than NAMES_BYTES in all, new sites have no module, and reports print their
 * address alone.
 *
 * Recording takes no lock and allocates nothing: malloc and signal handlers call it, and a fork may
 * come at any moment. A record is filled first and joins its list by one compare-and-swap. Two
 * threads that record one module at the same moment agree on the first of their records.
 *
 * It needs _dl_find_object (glibc 2.35). Without it sites are addresses, and a report after dlclose
 * may name the module that was loaded later.
 *
 * Invariant: the number in a site belongs to a complete record.
 */
#define _GNU_SOURCE 1 /* struct dl_find_object */
#include "os/linux_site.h"
#include "os/linux.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

enum {
    OFFSET_BITS = 48,
    NAMES_BYTES = 64 * 1024,
    SITE_LISTS = 256,
    HINTS = 256,
    HEADERS_MOST = 64, /* maximum number of program headers of a module */
    /* The smallest page size. A module's first page can be read in full. */
    SITE_PAGE = 4096,
    ID_BYTES = 32,
    SITE_NAME_MOST = 4096, /* maximum bytes of a module's name */
    FUNCTION_MOST = 256,   /* bytes of a function's name that are read */
    SITE_AT_ONCE = 32,     /* symbols that are read at once */
    FUNCTIONS_MOST = 16,   /* entries of a function table that a checksum covers */
};
LM_STATIC_ASSERT(LM_MODULES_MOST <= 1 << (64 - OFFSET_BITS), "a number's bits");

/* Identity of a module: a build ID with zeros after it, or a checksum. */
typedef struct identity {
    uint8_t bytes[ID_BYTES];
    uint32_t length; /* bytes of the build ID; 0: a checksum */
    /* Position of the build ID in the image. It is not compared. */
    uint64_t at;
} identity_t;

typedef struct module {
    identity_t identity;
    uint32_t next;    /* next record of its list */
    const char *name; /* points into names[] */
} module_t;

static module_t modules[LM_MODULES_MOST]; /* [0] is no module */
static uint32_t modules_used = 1;         /* atomic: records used */
static uint32_t lists[SITE_LISTS];        /* atomic: first record of each list; 0: none */
static char site_names[NAMES_BYTES];
static uint32_t names_used; /* atomic: bytes used */

/* Hints: the module that was last at an address, and the position of its build ID in its first
 * page. A hint is checked against the bytes there. Both words are atomic; the key is xored with the
 * value, so a half-written pair matches no address. */
static struct {
    uint64_t key, value; /* value: number << 32 | offset */
} hints[HINTS];

/* ---- Reading a module, in memory or in its file ---- */

/* Access to a module's contents. read copies bytes from an offset of the file, or from an address
 * in the file's terms; it returns false iff they are not there. */
typedef struct image {
    bool (*read)(const struct image *image, uint64_t at, void *to, size_t bytes);
    uintptr_t base; /* load address, for read_memory */
    int file;       /* descriptor, for read_file */
} image_t;

static bool read_file(const image_t *image, uint64_t at, void *to, size_t bytes) {
    return lm_linux_call(SYS_pread64, image->file, (intptr_t)to, (intptr_t)bytes, (intptr_t)at,
                         0) == (intptr_t)bytes;
}

static bool read_memory(const image_t *image, uint64_t at, void *to, size_t bytes) {
    memcpy(to, (const char *)(image->base + (uintptr_t)at), bytes);
    return true;
}

typedef struct headers {
    ElfW(Ehdr) file;
    ElfW(Phdr) program[HEADERS_MOST];
} headers_t;

static bool known_form(const ElfW(Ehdr) * header) {
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_phentsize == sizeof(ElfW(Phdr)) && header->e_phnum <= HEADERS_MOST &&
           header->e_phoff >= sizeof *header &&
           header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) <= SITE_PAGE;
}

/* Finds the content of program header `of`: in memory at its address, if it is loaded, or at its
 * offset in the file. Returns false iff it is not loaded. */
static bool content_at(const image_t *image, const ElfW(Ehdr) * header, const ElfW(Phdr) * program,
                       const ElfW(Phdr) * of, uint64_t *at) {
    *at = of->p_offset;
    if (image->read == read_file) return true;
    *at = of->p_vaddr;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        const ElfW(Phdr) *load = &program[i];
        if (load->p_type == PT_LOAD && (load->p_flags & PF_R) != 0 &&
            of->p_vaddr >= load->p_vaddr &&
            of->p_vaddr - load->p_vaddr + of->p_filesz <= load->p_filesz)
            return true;
    }
    return false;
}

static bool find_build_id(const image_t *image, uint64_t at, uint64_t bytes, identity_t *identity) {
    ElfW(Nhdr) note;
    char owner[4];
    while (bytes >= sizeof note + sizeof owner && image->read(image, at, &note, sizeof note)) {
        uint64_t name = lm_align_up(note.n_namesz, 4), content = lm_align_up(note.n_descsz, 4);
        if (sizeof note + name + content > bytes) return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner &&
            image->read(image, at + sizeof note, owner, sizeof owner) &&
            memcmp(owner, "GNU", sizeof owner) == 0 && note.n_descsz > 0) {
            identity->length = note.n_descsz < ID_BYTES ? note.n_descsz : ID_BYTES;
            identity->at = at + sizeof note + name;
            return image->read(image, identity->at, identity->bytes, identity->length);
        }
        at += sizeof note + name + content;
        bytes -= sizeof note + name + content;
    }
    return false;
}

/* A checksum like FNV-1a, by words of 4 bytes. It leaves out an incomplete last word. */
static uint64_t sum(uint64_t value, const void *text, size_t bytes) {
    uint32_t word;
    for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word) {
        memcpy(&word, (const char *)text + i, sizeof word);
        value = (value ^ word) * 0x9e3779b97f4a7c15u;
        value ^= value >> 32;
    }
    return value;
}

/* Sets the identity to a checksum of the headers and the beginning of .eh_frame_hdr, which lists
 * the functions' first addresses. */
static void site_sum_up(const image_t *image, const ElfW(Ehdr) * header, const ElfW(Phdr) * program,
                        identity_t *identity) {
    uint64_t value = sum(0xcbf29ce484222325u, header, sizeof *header), at;
    value = sum(value, program, header->e_phnum * sizeof *program);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        uint32_t table[3 + 2 * FUNCTIONS_MOST];
        size_t bytes = program[i].p_filesz < sizeof table ? program[i].p_filesz : sizeof table;
        if (program[i].p_type == PT_GNU_EH_FRAME &&
            content_at(image, header, program, &program[i], &at) &&
            image->read(image, at, table, bytes))
            value = sum(value, table, bytes);
    }
    memcpy(identity->bytes, &value, sizeof value);
}

/* Sets the identity from the build ID, or by a checksum if there is none. Always returns true.
 * `program` has e_phnum entries. */
static bool identify(const image_t *image, const ElfW(Ehdr) * header, const ElfW(Phdr) * program,
                     identity_t *identity) {
    LM_ASSERT(header->e_phnum <= HEADERS_MOST);
    uint64_t at;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (program[i].p_type == PT_NOTE && content_at(image, header, program, &program[i], &at) &&
            find_build_id(image, at, program[i].p_filesz, identity))
            return true;
    }
    *identity = (identity_t){.length = 0};
    site_sum_up(image, header, program, identity);
    return true;
}

/* ---- Records ---- */

/* Replaces strcmp: a preloaded tool may have its own, and allocate there. */
static bool site_same_text(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) a++, b++;
    return *a == *b;
}

/* Returns the bytes of the name including its end, or SITE_NAME_MOST if the name is longer. */
static size_t site_bytes_of(const char *name) {
    size_t bytes = 1;
    while (bytes < SITE_NAME_MOST && name[bytes - 1] != '\0') bytes++;
    return bytes;
}

static bool same_identity(const identity_t *a, const identity_t *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, ID_BYTES) == 0;
}

static bool is_module(const module_t *module, const identity_t *identity, const char *name) {
    return same_identity(&module->identity, identity) && site_same_text(module->name, name);
}

/* Searches a list up to `end`, exclusively. Returns the module's number, or 0 iff it is not
 * there. */
static uint32_t site_look(uint32_t first, uint32_t end, const identity_t *identity,
                          const char *name) {
    for (uint32_t i = first; i != end && i != 0; i = modules[i].next) {
        LM_ASSERT(i < LM_MODULES_MOST);
        if (is_module(&modules[i], identity, name)) return i;
    }
    return 0;
}

/* Reserves `bytes` of `room`. Returns false iff there is not so much left. */
static bool site_take(uint32_t *used, uint32_t bytes, uint32_t room, uint32_t *at) {
    /* Relaxed: a count. The list publishes the contents. */
    *at = lm_load_relaxed(used);
    do {
        LM_ASSERT(*at <= room);
        if (bytes > room - *at) return false;
    } while (!lm_cas_weak_relaxed(used, at, *at + bytes));
    return true;
}

/* Adds a module to the list. Returns its number, or 0 iff there is no room. */
static LM_COLD uint32_t site_add(uint32_t *list, uint32_t first, const identity_t *identity,
                                 const char *name) {
    uint32_t number, at;
    size_t bytes = site_bytes_of(name);
    if (bytes == SITE_NAME_MOST || !site_take(&modules_used, 1, LM_MODULES_MOST, &number)) return 0;
    if (!site_take(&names_used, (uint32_t)bytes, NAMES_BYTES, &at)) return 0;
    LM_ASSERT(number > 0 && number < LM_MODULES_MOST && first < LM_MODULES_MOST);
    LM_ASSERT(at + bytes <= NAMES_BYTES);
    memcpy(site_names + at, name, bytes);
    modules[number] = (module_t){*identity, first, site_names + at};
    /* Release: publish the complete record. Acquire: see another thread's complete record. */
    for (uint32_t seen = first; !lm_cas_weak_acq_rel(list, &seen, number);) {
        uint32_t other = site_look(seen, modules[number].next, identity, name);
        if (other != 0) return other;
        modules[number].next = seen;
    }
    return number;
}

static const char *program_name(void) {
    const char *program = lm_os_program();
    return program != NULL ? program : "program";
}

#ifdef DLFO_EH_SEGMENT_TYPE

/* _dl_find_object is looked up by name: a library that refers to it, even weakly, needs glibc
 * 2.35. */
/* Atomic: set once, by any thread. */
static int (*found)(void *address, struct dl_find_object *result);

bool lm_linux_find_object(uintptr_t address, struct dl_find_object *object) {
    int (*find)(void *, struct dl_find_object *) = lm_load_relaxed(&found);
    return find != NULL && find((void *)address, object) == 0;
}

static const char *object_name(const struct dl_find_object *object) {
    const char *name = object->dlfo_link_map->l_name;
    return name != NULL && *name != '\0' ? name : program_name();
}

/* Identifies a module in memory. The module must stay loaded meanwhile: see lm_linux_module. */
static LM_READS_ANYTHING bool identify_object(const struct dl_find_object *object,
                                              identity_t *identity) {
    const image_t image = {.read = read_memory, .base = object->dlfo_link_map->l_addr};
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)object->dlfo_map_start;
    *identity = (identity_t){.length = 0};
    if (!known_form(header)) return false;
    const char *program = (const char *)header + header->e_phoff;
    return identify(&image, header, (const ElfW(Phdr) *)(const void *)program, identity);
}

/* Returns the module whose build ID is at the hinted position, or 0 iff there is no hint or another
 * module is there. */
static LM_READS_ANYTHING uint32_t hinted(uintptr_t start, const char *name) {
    size_t i = (start >> 12) % HINTS;
    /* Relaxed: only a pair that belongs together is accepted. Acquire: see the complete record. */
    uint64_t value = lm_load_relaxed(&hints[i].value), key = lm_load_acquire(&hints[i].key);
    if ((key ^ value) != start) return 0;
    LM_ASSERT(value >> 32 > 0 && value >> 32 < LM_MODULES_MOST);
    const module_t *module = &modules[value >> 32];
    const char *id = (const char *)start + (uint32_t)value;
    bool is = memcmp(id, module->identity.bytes, module->identity.length) == 0 &&
              site_same_text(name, module->name);
    return is ? (uint32_t)(value >> 32) : 0;
}

static void hint(uintptr_t start, uint32_t number, const identity_t *identity, uintptr_t base) {
    uintptr_t offset = base + identity->at - start;
    size_t i = (start >> 12) % HINTS;
    if (number == 0 || identity->length == 0 || offset > SITE_PAGE - ID_BYTES) return;
    LM_ASSERT(number < LM_MODULES_MOST);
    uint64_t value = (uint64_t)number << 32 | offset;
    lm_store_relaxed(&hints[i].value, value);
    /* Release: publish the complete record. */
    lm_store_release(&hints[i].key, start ^ value);
}

lm_range_t lm_linux_module(uintptr_t address) {
    struct dl_find_object object;
    identity_t identity;
    lm_range_t range = {address, address + 1, 0, 0};
    if (!lm_linux_find_object(address, &object) || object.dlfo_link_map == NULL) return range;
    range.from = (uintptr_t)object.dlfo_map_start;
    range.to = (uintptr_t)object.dlfo_map_end;
    LM_ASSERT(range.from <= address && address < range.to);
    range.base = object.dlfo_link_map->l_addr;
    const char *name = object_name(&object);
    range.number = hinted(range.from, name);
    if (range.number != 0 || !identify_object(&object, &identity)) return range;
    uint32_t *list = &lists[(identity.bytes[0] ^ identity.bytes[5]) % SITE_LISTS];
    uint32_t first = lm_load_acquire(list); /* acquire: the records are complete */
    range.number = site_look(first, 0, &identity, name);
    if (range.number == 0) range.number = site_add(list, first, &identity, name);
    LM_ASSERT(range.number < LM_MODULES_MOST);
    hint(range.from, range.number, &identity, range.base);
    return range;
}

#else

lm_range_t lm_linux_module(uintptr_t address) { return (lm_range_t){address, address + 1, 0, 0}; }

#endif

void lm_os_trace_by(void *finder) {
#ifdef DLFO_EH_SEGMENT_TYPE
    int (*find)(void *, struct dl_find_object *);
    /* C has no cast from an object pointer to a function pointer */
    memcpy(&find, &finder, sizeof find);
    lm_store_relaxed(&found, find);
#else
    (void)finder;
#endif
}

void lm_os_trace_prepare(void) {
#ifdef DLFO_EH_SEGMENT_TYPE
    lm_os_trace_by(dlsym(RTLD_DEFAULT, "_dl_find_object"));
#endif
}

/* ---- Names ---- */

static uint32_t site_number_of(lm_site_t site) { return (uint32_t)(site >> OFFSET_BITS); }

/* Returns the offset of the call before the return address. */
static uintptr_t offset_of(lm_site_t site) {
    return (uintptr_t)(site & (((lm_site_t)1 << OFFSET_BITS) - 1)) - 1;
}

lm_site_t lm_linux_site(const lm_range_t *range, uintptr_t address) {
    if (range->number == 0 || range->number >= LM_MODULES_MOST)
        return address & (((lm_site_t)1 << OFFSET_BITS) - 1); /* no address has more bits */
    return (lm_site_t)range->number << OFFSET_BITS | (address - range->base);
}

void lm_os_site_where(lm_line_t *line, lm_site_t site) {
    if (site_number_of(site) != 0)
        lm_line_add(line, "%s+0x%lx", modules[site_number_of(site)].name, offset_of(site));
    else
        lm_line_add(line, "%p", (void *)offset_of(site));
}

/* Finds the exported function of a file that contains an address, as dladdr chooses it. Returns
 * false iff there is none. */
static bool find_symbol(const image_t *image, const ElfW(Shdr) * symbols,
                        const ElfW(Shdr) * strings, uint64_t address, char *name, uint64_t *value) {
    ElfW(Sym) some[SITE_AT_ONCE];
    ElfW(Word) best = 0;
    *value = 0;
    for (uint64_t at = 0; at + sizeof *some <= symbols->sh_size;) {
        uint64_t left = symbols->sh_size - at;
        size_t bytes = left < sizeof some ? (size_t)(left - left % sizeof *some) : sizeof some;
        if (!image->read(image, symbols->sh_offset + at, some, bytes)) return false;
        for (size_t i = 0; i < bytes / sizeof *some; i++) {
            const ElfW(Sym) *symbol = &some[i];
            unsigned type = symbol->st_info & 0xf;
            if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || type == STT_TLS) continue;
            if (address - symbol->st_value >= (symbol->st_size != 0 ? symbol->st_size : 1))
                continue;
            if (best != 0 && symbol->st_value <= *value) continue;
            best = symbol->st_name;
            *value = symbol->st_value;
        }
        at += bytes;
    }
    if (best == 0 || best >= strings->sh_size) return false;
    uint64_t left = strings->sh_size - best;
    size_t bytes = left < FUNCTION_MOST ? (size_t)left : FUNCTION_MOST;
    if (!image->read(image, strings->sh_offset + best, name, bytes)) return false;
    name[bytes - 1] = '\0';
    return true;
}

/* Appends "function+0x12 " from the file, if it names a function. Returns false iff the file is not
 * the module's. */
static bool add_from_file(lm_line_t *line, const image_t *image, const module_t *module,
                          uintptr_t offset) {
    headers_t headers;
    identity_t identity = {.length = 0};
    ElfW(Shdr) section, strings;
    char name[FUNCTION_MOST];
    uint64_t value;
    const ElfW(Ehdr) *header = &headers.file;
    if (!image->read(image, 0, &headers.file, sizeof headers.file) || !known_form(header) ||
        !image->read(image, header->e_phoff, headers.program,
                     header->e_phnum * sizeof *headers.program) ||
        !identify(image, header, headers.program, &identity) ||
        !same_identity(&identity, &module->identity))
        return false;
    if (header->e_shentsize != sizeof section) return true;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (!image->read(image, header->e_shoff + i * sizeof section, &section, sizeof section))
            break;
        if (section.sh_type != SHT_DYNSYM || section.sh_link >= header->e_shnum) continue;
        uint64_t at = header->e_shoff + section.sh_link * sizeof section;
        if (image->read(image, at, &strings, sizeof strings) &&
            find_symbol(image, &section, &strings, offset, name, &value))
            lm_line_add(line, "%s+0x%lx ", name, offset - (uintptr_t)value);
        break;
    }
    return true;
}

/* Appends the name of a place in a module that is no longer loaded. */
static void add_unloaded(lm_line_t *line, const module_t *module, uintptr_t offset) {
    LM_ASSERT(module->name != NULL && module->identity.length <= ID_BYTES);
    bool same = false;
    bool asks = lm_ask_begin();
    if (asks && !lm_os_filtered()) { /* a sandbox may kill for it */
        intptr_t file = lm_linux_call(SYS_openat, AT_FDCWD, (intptr_t)module->name,
                                      O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0);
        const image_t image = {.read = read_file, .file = (int)file};
        same = !lm_linux_failed(file) && add_from_file(line, &image, module, offset);
        if (!lm_linux_failed(file)) (void)lm_linux_call1(SYS_close, file);
    }
    if (asks) lm_ask_end();
    lm_line_add(line, "(%s+0x%lx", module->name, offset);
    if (!same && module->identity.length != 0) {
        lm_line_add(line, ", build ID ");
        for (uint32_t i = 0; i < module->identity.length; i++)
            lm_line_add(line, "%02x", module->identity.bytes[i]);
    }
    lm_line_add(line, ")");
}

static void add_loaded(lm_line_t *line, uintptr_t call, const char *module, uintptr_t offset) {
    Dl_info info;
    if (dladdr((void *)call, &info) == 0 || info.dli_fname == NULL) {
        lm_line_add(line, "%p", (void *)call);
        return;
    }
    if (info.dli_sname != NULL)
        lm_line_add(line, "%s+0x%lx ", info.dli_sname, call - (uintptr_t)info.dli_saddr);
    if (module == NULL) {
        module = info.dli_fname;
        offset = call - (uintptr_t)info.dli_fbase;
    }
    lm_line_add(line, "(%s+0x%lx)", module, offset);
}

static bool finds_modules(void) {
#ifdef DLFO_EH_SEGMENT_TYPE
    return lm_load_relaxed(&found) != NULL;
#else
    return false;
#endif
}

typedef struct search {
    const module_t *module;
    uintptr_t base; /* result: load address */
} site_search_t;

/* A callback of dl_iterate_phdr, during which the dynamic linker unloads nothing. Returns 1 iff it
 * is the module that is searched for. */
static LM_READS_ANYTHING int site_is_same(struct dl_phdr_info *info, size_t bytes, void *data) {
    site_search_t *search = (site_search_t *)data;
    const image_t image = {.read = read_memory, .base = info->dlpi_addr};
    const char *name = info->dlpi_name;
    identity_t identity = {.length = 0};
    unsigned i = 0;
    (void)bytes;
    if (name == NULL || *name == '\0') name = program_name();
    if (!site_same_text(name, search->module->name)) return 0;
    while (i < info->dlpi_phnum && info->dlpi_phdr[i].p_type != PT_LOAD) i++;
    if (i == info->dlpi_phnum) return 0;
    uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)lm_align_down(start, SITE_PAGE);
    if (!known_form(header) || !identify(&image, header, info->dlpi_phdr, &identity)) return 0;
    if (!is_module(search->module, &identity, name)) return 0;
    search->base = info->dlpi_addr;
    return 1;
}

void lm_os_site_name(lm_line_t *line, lm_site_t site) {
    uint32_t number = site_number_of(site);
    uintptr_t offset = offset_of(site);
    if (number == 0 && finds_modules()) {
        lm_os_site_where(line, site); /* code made at run time, or too many modules */
        return;
    }
    if (number == 0) {
        add_loaded(line, offset, NULL, 0);
        return;
    }
    site_search_t search = {.module = &modules[number]};
    if (dl_iterate_phdr(site_is_same, &search) != 0)
        add_loaded(line, search.base + offset, modules[number].name, offset);
    else
        add_unloaded(line, &modules[number], offset);
}
