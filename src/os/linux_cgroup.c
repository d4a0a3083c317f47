/* linux_cgroup.c: how full the control groups are that limit this process's memory (cgroups,
 * version 1 and 2).
 *
 *   /proc/self/cgroup     0::/app/worker             the group, where controller "memory" is
 *   /proc/self/mountinfo  ... / /sys/fs/cgroup ...   the mount of that hierarchy, and its root
 *                └──>  /sys/fs/cgroup/app/worker     a level each: used, limit; the fullest counts
 *                      /sys/fs/cgroup/app
 *                      /sys/fs/cgroup
 *
 * Files are read by raw calls into static memory, because the worker does it, which has no libc and
 * a small stack. If a file is missing, or contains no number, there is no such limit: nothing here
 * may stop a program. It cannot see groups above the mount. Nor can it see the innermost groups of
 * a path that is longer than the system opens (PATH_MOST); the groups around them count in that
 * case. Every function closes its descriptors before it returns, so a program that closes all files
 * closes none of loam's.
 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

/* PATH_MOST is the kernel's PATH_MAX, which bounds the paths that it opens and shows in
 * /proc/self/cgroup. A level takes at least two bytes of a path, so LEVELS_MOST suffices for all
 * levels. A line of mountinfo has two such paths. */
enum {
    PATH_MOST = 4096,
    LEVELS_MOST = PATH_MOST / 2,
    CGROUP_NAME_MOST = 64,
    TEXT_MOST = 4 * PATH_MOST
};
/* Maximum number of mounts that are examined until one can be read. */
enum { MOUNTS_MOST = 8 };
enum { FILE_MOST = 32 }; /* maximum bytes of a file's name in a group, with the / in front */

/* Prefix of every path. Tests put a folder there. */
LM_HIDDEN const char *lm_cgroup_below = "";

typedef struct level {
    size_t length; /* length of its path: the first bytes of groups.path */
    size_t limit;  /* in bytes; SIZE_MAX: none */
} level_t;

static struct {
    /* First the path of the process's own group, later that of one file. */
    char path[PATH_MOST + CGROUP_NAME_MOST];
    level_t level[LEVELS_MOST];
    unsigned levels;
    bool first; /* cgroups version 1 */
} groups;

/* ---- Files, line by line ---- */

static struct {
    char text[TEXT_MOST];
    size_t from, to;
    intptr_t file;
} lines;

/* In the section of linux.c: a thread that sleeps here sleeps inside loam. */
static LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d) {
    return lm_syscall(n, a, b, c, d, 0, 0);
}

static bool lines_open(const char *path) {
    lines.from = lines.to = 0;
    lines.file = call(SYS_openat, AT_FDCWD, (intptr_t)path, O_RDONLY | O_CLOEXEC, 0);
    return lines.file >= 0;
}

static void lines_close(void) {
    LM_ASSERT(lines.file >= 0);
    (void)call(SYS_close, lines.file, 0, 0, 0);
}

/* Appends more of the file to the text. Returns false iff there is no more. */
static bool lines_read(void) {
    LM_ASSERT(lines.from <= lines.to && lines.to <= TEXT_MOST);
    if (lines.from > 0) {
        __builtin_memmove(lines.text, lines.text + lines.from, lines.to - lines.from);
        lines.to -= lines.from;
        lines.from = 0;
    }
    intptr_t got;
    do {
        got = call(SYS_read, lines.file, (intptr_t)(lines.text + lines.to),
                   (intptr_t)(TEXT_MOST - lines.to), 0);
    } while (got == -EINTR);
    if (got <= 0) return false;
    lines.to += (size_t)got;
    LM_ASSERT(lines.to <= TEXT_MOST);
    return true;
}

/* Returns the next line, with a 0 for its end, or NULL iff there are no more lines. Lines that do
 * not fit are left out. */
static char *lines_next(void) {
    bool whole = true;
    for (size_t at = lines.from;; at++) {
        if (at == lines.to) {
            if (lines.from == 0 && lines.to == TEXT_MOST) { /* too long: skip to its end */
                whole = false;
                lines.from = at = lines.to = 0;
            }
            size_t seen = at - lines.from;
            bool more = lines_read();
            at = lines.from + seen;
            if (!more && (seen == 0 || !whole || lines.to == TEXT_MOST)) return NULL;
            if (!more) lines.text[lines.to++] = '\n'; /* the last line had no end */
        }
        LM_ASSERT(lines.from <= at && at < lines.to);
        if (lines.text[at] != '\n') continue;
        char *line = lines.text + lines.from;
        lines.text[at] = '\0';
        lines.from = at + 1;
        if (whole) return line;
        whole = true;
    }
}

/* ---- Texts ---- */

/* Returns the text's length. The worker runs this file and must not call libc: libc has no
 * thread-local data for it, and a preloaded tool that wraps strlen may use thread-local data. The
 * pointer is volatile, because compilers would otherwise make the loop a call of strlen. */
static size_t cgroup_length_of(const char *text) {
    const volatile char *at = text;
    size_t length = 0;
    while (at[length] != '\0') length++;
    return length;
}

/* Returns the text after the prefix, or NULL iff the text does not begin with the prefix. */
static const char *cgroup_behind(const char *text, const char *prefix) {
    for (; *prefix != '\0'; text++, prefix++) {
        if (*text != *prefix) return NULL;
    }
    return text;
}

static bool cgroup_same(const char *text, const char *other) {
    const char *end = cgroup_behind(text, other);
    return end != NULL && *end == '\0';
}

/* Ends the text at its first c. Returns the text after it, or NULL iff it contains no c. */
static char *cgroup_cut(char *text, char c) {
    for (; *text != '\0'; text++) {
        if (*text != c) continue;
        *text = '\0';
        return text + 1;
    }
    return NULL;
}

/* Returns whether the word is in a list of words separated by commas. */
static bool among(const char *words, const char *word) {
    for (const char *at = words;; at++) {
        const char *end = cgroup_behind(at, word);
        if (end != NULL && (*end == ',' || *end == '\0')) return true;
        while (*at != ',' && *at != '\0') at++;
        if (*at == '\0') return false;
    }
}

/* Decodes \040 and the like, as mountinfo writes blanks. */
static void unescape(char *text) {
    char *to = text;
    for (; *text != '\0'; text++, to++) {
        *to = *text;
        if (*text != '\\') continue;
        unsigned code = 0, digits = 0;
        while (digits < 3 && text[1 + digits] >= '0' && text[1 + digits] <= '7')
            code = code * 8 + (unsigned)(text[1 + digits++] - '0');
        if (digits < 3) continue;
        *to = (char)code;
        text += 3;
    }
    LM_ASSERT(to <= text);
    *to = '\0';
}

/* Returns whether the path contains "/..": it then names a group beside the root of the process's
 * cgroup namespace. */
static bool leads_out(const char *path) {
    for (; *path != '\0'; path++) {
        if (path[0] == '/' && path[1] == '.' && path[2] == '.' &&
            (path[3] == '/' || path[3] == '\0'))
            return true;
    }
    return false;
}

/* Reads a number that ends at a blank or the end of the text. *value is SIZE_MAX for "max", and for
 * a number that is too large. Returns false iff it is no number. */
static bool cgroup_number(const char *text, size_t *value) {
    *value = 0;
    if (cgroup_same(text, "max")) *value = SIZE_MAX;
    if (*value != 0) return true;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        size_t digit = (size_t)(*at - '0');
        *value = *value > (SIZE_MAX - digit) / 10 ? SIZE_MAX : *value * 10 + digit;
    }
    return at != text && (*at == '\0' || *at == ' ');
}

/* ---- Which group ---- */

/* Path of the process's group, which is compared with mountinfo. */
static char cgroup_own[PATH_MOST];

static bool cgroup_put(char *to, size_t most, const char *text) {
    size_t length = cgroup_length_of(text);
    if (length >= most) return false;
    __builtin_memcpy(to, text, length + 1);
    return true;
}

/* Copies as many outer levels of the path as fit. */
static void put_levels(char *to, size_t most, const char *path) {
    size_t length = 0, i = 0;
    for (; i < most && path[i] != '\0'; i++)
        if (path[i] == '/') length = i;
    if (i < most) length = i; /* all of it fits */
    LM_ASSERT(length < most);
    __builtin_memcpy(to, path, length);
    to[length] = '\0';
}

static bool open_below(const char *path) {
    return cgroup_put(groups.path, PATH_MOST, lm_cgroup_below) &&
           cgroup_put(groups.path + cgroup_length_of(groups.path), CGROUP_NAME_MOST, path) &&
           lines_open(groups.path);
}

/* Writes the path of the process's group into cgroup_own. If the memory controller has a hierarchy
 * of its own (version 1), that hierarchy counts. Returns false iff there is no such group. */
static bool find_own(void) {
    bool found = false;
    if (!open_below("/proc/self/cgroup")) return false;
    groups.first = false;
    for (char *line; (line = lines_next()) != NULL && !groups.first;) {
        char *controllers = cgroup_cut(line, ':'),
             *path = controllers ? cgroup_cut(controllers, ':') : NULL;
        if (path == NULL || *path != '/') continue;
        bool first = among(controllers, "memory");
        if (!first && (found || *controllers != '\0' || !cgroup_same(line, "0"))) continue;
        put_levels(cgroup_own, sizeof cgroup_own, path);
        found = true;
        groups.first = first;
    }
    lines_close();
    return found;
}

/* Returns the path of cgroup_own below the mount's root, which is empty or begins with /; NULL if
 * cgroup_own is not below it. In a cgroup namespace both paths are relative to the root of the
 * namespace, and may begin with one or more "/..". */
static const char *within(const char *root) {
    const char *end = cgroup_same(root, "/") ? cgroup_own : cgroup_behind(cgroup_own, root);
    if (end == NULL || (*end != '/' && *end != '\0') || leads_out(end)) return NULL;
    return cgroup_same(end, "/") ? "" : end;
}

/* Parses a line of mountinfo and stores the path of the group in groups.path. Returns the bytes of
 * that path that are the mount, or 0 if the mount does not serve. */
static size_t take_mount(char *line, bool any) {
    char *root = NULL, *point = NULL, *field = line;
    for (int i = 0; i < 3 && field != NULL; i++) field = cgroup_cut(field, ' ');
    if ((root = field) == NULL || (point = cgroup_cut(root, ' ')) == NULL) return 0;
    char *rest = cgroup_cut(point, ' '), *kind = NULL;
    while (rest != NULL && kind == NULL) { /* skip options and other fields up to a lone - */
        char *next = cgroup_cut(rest, ' ');
        if (cgroup_same(rest, "-")) kind = next;
        rest = next;
    }
    char *source = kind ? cgroup_cut(kind, ' ') : NULL,
         *options = source ? cgroup_cut(source, ' ') : NULL;
    if (options == NULL || !cgroup_same(kind, groups.first ? "cgroup" : "cgroup2")) return 0;
    if (groups.first && !among(options, "memory")) return 0;
    unescape(root);
    unescape(point);
    const char *inside = within(root);
    if (inside == NULL && !any) return 0;
    if (inside == NULL) inside = ""; /* the group is not visible here: take the mount itself */
    size_t base = cgroup_length_of(lm_cgroup_below);
    if (!cgroup_put(groups.path, PATH_MOST, lm_cgroup_below) ||
        !cgroup_put(groups.path + base, PATH_MOST - FILE_MOST - base, point))
        return 0;
    base += cgroup_same(point, "/") ? 0 : cgroup_length_of(point);
    LM_ASSERT(base < PATH_MOST - FILE_MOST);
    put_levels(groups.path + base, PATH_MOST - FILE_MOST - base, inside);
    return base;
}

/* Finds the mount number `skipped` that serves. `any`: it need not show the group. Returns as
 * take_mount. */
static size_t find_mount(bool any, unsigned skipped) {
    size_t base = 0;
    if (!open_below("/proc/self/mountinfo")) return 0;
    for (char *line; base == 0 && (line = lines_next()) != NULL;) {
        base = take_mount(line, any);
        if (base != 0 && skipped-- > 0) base = 0;
    }
    lines_close();
    return base;
}

/* ---- Its numbers ---- */

/* Opens a file of a level. Returns false iff it cannot be opened. */
static bool open_file(const level_t *level, const char *name) {
    static char path[PATH_MOST + CGROUP_NAME_MOST];
    LM_ASSERT(level->length < PATH_MOST - FILE_MOST);
    __builtin_memcpy(path, groups.path, level->length);
    path[level->length] = '/';
    return cgroup_put(path + level->length + 1, CGROUP_NAME_MOST, name) && lines_open(path);
}

/* Reads a file that is one number. Returns false iff it is missing or something else. */
static bool read_number(const level_t *level, const char *name, size_t *value) {
    if (!open_file(level, name)) return false;
    const char *line = lines_next();
    bool is = line != NULL && cgroup_number(line, value);
    lines_close();
    return is;
}

static bool read_used(const level_t *level, size_t *used) {
    return read_number(level, groups.first ? "memory.usage_in_bytes" : "memory.current", used);
}

static size_t read_limit(const level_t *level) {
    size_t most, high;
    if (!read_number(level, groups.first ? "memory.limit_in_bytes" : "memory.max", &most))
        most = SIZE_MAX;
    if (groups.first || !read_number(level, "memory.high", &high)) high = SIZE_MAX;
    if (high < most) most = high;
    /* Version 1 uses a large number for "no limit". */
    return most < SIZE_MAX / 4 ? most : SIZE_MAX;
}

/* Returns a number from a file of lines "name number", or 0 if it is not there. */
static size_t read_named(const level_t *level, const char *file, const char *name) {
    size_t value = 0;
    if (!open_file(level, file)) return 0;
    for (char *line; (line = lines_next()) != NULL;) {
        const char *text = cgroup_cut(line, ' ');
        if (text == NULL || !cgroup_same(line, name)) continue;
        if (!cgroup_number(text, &value)) value = 0;
        break;
    }
    lines_close();
    return value;
}

/* ---- The functions of os.h ---- */

size_t lm_os_memory_bytes(void) {
    struct sysinfo info = {0};
    if (call(SYS_sysinfo, (intptr_t)&info, 0, 0, 0) != 0) return 0;
    return info.totalram * info.mem_unit;
}

/* Records the levels from the group to the mount, which is the first `base` bytes of groups.path.
 * Returns false iff no level can be read. */
static bool take_levels(size_t base) {
    size_t length = cgroup_length_of(groups.path), used;
    bool readable = false;
    LM_ASSERT(base > 0 && base <= length);
    groups.levels = 0;
    while (groups.levels < LEVELS_MOST) {
        level_t *level = &groups.level[groups.levels++];
        *level = (level_t){length, SIZE_MAX};
        readable |= read_used(level, &used);
        if (length <= base) break;
        do length--;
        while (length > base && groups.path[length] != '/');
    }
    if (!readable) groups.levels = 0;
    return readable;
}

bool lm_os_cgroup_find(void) {
    groups.levels = 0;
    if (!find_own()) return false;
    for (int any = 0; any < 2; any++) {
        for (unsigned skipped = 0; skipped < MOUNTS_MOST; skipped++) {
            size_t base = find_mount(any != 0, skipped);
            if (base == 0) break;
            if (take_levels(base)) return true;
        }
    }
    return false;
}

bool lm_os_cgroup_read(bool limits, lm_cgroup_t *fullest) {
    bool readable = false;
    size_t least = 0;
    *fullest = (lm_cgroup_t){0};
    LM_ASSERT(groups.levels <= LEVELS_MOST);
    for (unsigned i = 0; i < groups.levels; i++) {
        level_t *level = &groups.level[i];
        size_t used;
        if (limits) level->limit = read_limit(level);
        if (level->limit != SIZE_MAX && (least == 0 || level->limit < least))
            least = level->limit > 0 ? level->limit : 1;
        /* The process's own group is read in any case, to see whether it exists. */
        if ((level->limit == SIZE_MAX && i > 0) || !read_used(level, &used)) continue;
        readable = true;
        if (level->limit == SIZE_MAX) continue;
        size_t limit = level->limit > 0 ? level->limit : 1;
        if (used / (limit / 8 + 1) >= 6) { /* nearly full: worth reading a long file */
            size_t files = read_named(level, "memory.stat",
                                      groups.first ? "total_inactive_file" : "inactive_file");
            used -= files < used ? files : used;
        }
        /* Compares the fractions used / limit, with a double's precision. */
        if (fullest->limit == 0 ||
            (double)used / (double)limit > (double)fullest->used / (double)fullest->limit)
            *fullest = (lm_cgroup_t){.used = used, .limit = limit};
    }
    LM_ASSERT(fullest->limit == 0 || (least > 0 && least <= fullest->limit));
    fullest->least = least;
    return readable;
}
