/* linux_cgroup.c: how full the control groups are that limit this process's memory (cgroups,
 * version 1 and 2).
 *
 *   /proc/self/cgroup     0::/app/worker             which group, in the hierarchy that has the controller "memory"
 *   /proc/self/mountinfo  ... / /sys/fs/cgroup ...   where that hierarchy is seen, and from which group on
 *                └──>  /sys/fs/cgroup/app/worker     a level each: used, limit; the fullest counts
 *                      /sys/fs/cgroup/app
 *                      /sys/fs/cgroup
 *
 * Files are read by raw calls into static memory: the worker does it, which has no libc and a small
 * stack. A file that is missing, or says what no number is, is a limit that there is not: nothing
 * here may stop a program. It cannot see groups above the mount, nor the innermost of a path that
 * is longer than the system opens (PATH_MOST): then the ones around them count. Descriptors are
 * closed before anybody returns, so that who closes all files closes none of ours.
 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

/* PATH_MOST is the kernel's PATH_MAX: it opens no longer path, and shows no longer one in
 * /proc/self/cgroup. A level takes two bytes of it at least, so that all of them fit. A line of
 * mountinfo has two such paths. */
enum { PATH_MOST = 4096, LEVELS_MOST = PATH_MOST / 2, NAME_MOST = 64, TEXT_MOST = 4 * PATH_MOST };
enum { MOUNTS_MOST = 8 }; /* that are looked at, until one can be read */
enum { FILE_MOST = 32 };  /* bytes of a file's name in a group, with the / in front */

/* In front of every path; tests put a folder there. */
LM_HIDDEN const char *lm_cgroup_below = "";

typedef struct level {
    size_t length; /* of its path: the first bytes of `path` */
    size_t limit;  /* SIZE_MAX: none */
} level_t;

static struct {
    char path[PATH_MOST + NAME_MOST]; /* of the process's own group, and then of one file */
    level_t level[LEVELS_MOST];
    unsigned levels;
    bool first; /* version 1 */
} groups;

/* ---- Files, line by line ---- */

static struct {
    char text[TEXT_MOST];
    size_t from, to;
    intptr_t file;
} lines;

/* As in linux.c: a thread that sleeps in here sleeps inside loam. */
static LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d) {
    return lm_syscall(n, a, b, c, d, 0, 0);
}

static bool lines_open(const char *path) {
    lines.from = lines.to = 0;
    lines.file = call(SYS_openat, AT_FDCWD, (intptr_t)path, O_RDONLY | O_CLOEXEC, 0);
    return lines.file >= 0;
}

static void lines_close(void) { (void)call(SYS_close, lines.file, 0, 0, 0); }

/* More of the file behind what is there; false iff there is none. */
static bool lines_read(void) {
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
    return true;
}

/* The next line, with a 0 for its end; NULL iff there are no more. Lines that do not fit are left
 * out. */
static char *lines_next(void) {
    bool whole = true;
    for (size_t at = lines.from;; at++) {
        if (at == lines.to) {
            if (lines.from == 0 && lines.to == TEXT_MOST) { /* too long: to its end */
                whole = false;
                lines.from = at = lines.to = 0;
            }
            size_t seen = at - lines.from;
            bool more = lines_read();
            at = lines.from + seen;
            if (!more && (seen == 0 || !whole || lines.to == TEXT_MOST)) return NULL;
            if (!more) lines.text[lines.to++] = '\n'; /* the last one had none */
        }
        if (lines.text[at] != '\n') continue;
        char *line = lines.text + lines.from;
        lines.text[at] = '\0';
        lines.from = at + 1;
        if (whole) return line;
        whole = true;
    }
}

/* ---- Texts ---- */

/* The worker runs this file, and must not call a function of libc's: libc has no thread-local data
 * for it, and a preloaded tool that wraps strlen may use some. Volatile: or compilers make the loop
 * a call of strlen. */
static size_t length_of(const char *text) {
    const volatile char *at = text;
    size_t length = 0;
    while (at[length] != '\0') length++;
    return length;
}

/* Returns what lies behind the prefix in the text; NULL iff the text does not begin with it. */
static const char *behind(const char *text, const char *prefix) {
    for (; *prefix != '\0'; text++, prefix++) {
        if (*text != *prefix) return NULL;
    }
    return text;
}

static bool same(const char *text, const char *other) {
    const char *end = behind(text, other);
    return end != NULL && *end == '\0';
}

/* Ends the text at its first c; what is behind it, NULL iff there is none. */
static char *cut(char *text, char c) {
    for (; *text != '\0'; text++) {
        if (*text != c) continue;
        *text = '\0';
        return text + 1;
    }
    return NULL;
}

/* Whether the word is one of those with commas between. */
static bool among(const char *words, const char *word) {
    for (const char *at = words;; at++) {
        const char *end = behind(at, word);
        if (end != NULL && (*end == ',' || *end == '\0')) return true;
        while (*at != ',' && *at != '\0') at++;
        if (*at == '\0') return false;
    }
}

/* \040 and the like, as mountinfo writes blanks. */
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
    *to = '\0';
}

/* Whether the path leads out of itself: a group beside the root of the process's cgroup
 * namespace. */
static bool leads_out(const char *path) {
    for (; *path != '\0'; path++) {
        if (path[0] == '/' && path[1] == '.' && path[2] == '.' &&
            (path[3] == '/' || path[3] == '\0'))
            return true;
    }
    return false;
}

/* A number, and nothing behind it but the end or a blank; "max" and what is too large: SIZE_MAX.
 * false iff none. */
static bool number(const char *text, size_t *value) {
    *value = 0;
    if (same(text, "max")) *value = SIZE_MAX;
    if (*value != 0) return true;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        size_t digit = (size_t)(*at - '0');
        *value = *value > (SIZE_MAX - digit) / 10 ? SIZE_MAX : *value * 10 + digit;
    }
    return at != text && (*at == '\0' || *at == ' ');
}

/* ---- Which group ---- */

/* Room for the path of the process's group, which mountinfo is compared with. */
static char own[PATH_MOST];

static bool put(char *to, size_t most, const char *text) {
    size_t length = length_of(text);
    if (length >= most) return false;
    __builtin_memcpy(to, text, length + 1);
    return true;
}

/* Of a path, as many of the outer levels as there is room for. */
static void put_levels(char *to, size_t most, const char *path) {
    size_t length = 0, i = 0;
    for (; i < most && path[i] != '\0'; i++)
        if (path[i] == '/') length = i;
    if (i < most) length = i; /* there is room for all of it */
    __builtin_memcpy(to, path, length);
    to[length] = '\0';
}

static bool open_below(const char *path) {
    return put(groups.path, PATH_MOST, lm_cgroup_below) &&
           put(groups.path + length_of(groups.path), NAME_MOST, path) && lines_open(groups.path);
}

/* Writes its name into own. Where the memory controller has a hierarchy of its own, that is it. */
static bool find_own(void) {
    bool found = false;
    if (!open_below("/proc/self/cgroup")) return false;
    groups.first = false;
    for (char *line; (line = lines_next()) != NULL && !groups.first;) {
        char *controllers = cut(line, ':'), *path = controllers ? cut(controllers, ':') : NULL;
        if (path == NULL || *path != '/') continue;
        bool first = among(controllers, "memory");
        if (!first && (found || *controllers != '\0' || !same(line, "0"))) continue;
        put_levels(own, sizeof own, path);
        found = true;
        groups.first = first;
    }
    lines_close();
    return found;
}

/* Where in the mount own lies: what is behind the mount's root, which begins with / or is empty;
 * NULL: not in it. In a cgroup namespace both paths are as seen from its root, and may begin with
 * /.. or several of that. */
static const char *within(const char *root) {
    const char *end = same(root, "/") ? own : behind(own, root);
    if (end == NULL || (*end != '/' && *end != '\0') || leads_out(end)) return NULL;
    return same(end, "/") ? "" : end;
}

/* Puts the path of the group into groups.path. Returns how much of it is the mount, 0: it is no
 * such mount. */
static size_t take_mount(char *line, bool any) {
    char *root = NULL, *point = NULL, *field = line;
    for (int i = 0; i < 3 && field != NULL; i++) field = cut(field, ' ');
    if ((root = field) == NULL || (point = cut(root, ' ')) == NULL) return 0;
    char *rest = cut(point, ' '), *kind = NULL;
    while (rest != NULL && kind == NULL) { /* options, and others, to a lonely - */
        char *next = cut(rest, ' ');
        if (same(rest, "-")) kind = next;
        rest = next;
    }
    char *source = kind ? cut(kind, ' ') : NULL, *options = source ? cut(source, ' ') : NULL;
    if (options == NULL || !same(kind, groups.first ? "cgroup" : "cgroup2")) return 0;
    if (groups.first && !among(options, "memory")) return 0;
    unescape(root);
    unescape(point);
    const char *inside = within(root);
    if (inside == NULL && !any) return 0;
    if (inside == NULL) inside = ""; /* another view of it: the mount itself is what we have */
    size_t base = length_of(lm_cgroup_below);
    if (!put(groups.path, PATH_MOST, lm_cgroup_below) ||
        !put(groups.path + base, PATH_MOST - FILE_MOST - base, point))
        return 0;
    base += same(point, "/") ? 0 : length_of(point);
    put_levels(groups.path + base, PATH_MOST - FILE_MOST - base, inside);
    return base;
}

/* any: also one in which the group is not seen. skipped: so many that would do are left out. */
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

/* Opens a file of a level. */
static bool open_file(const level_t *level, const char *name) {
    static char path[PATH_MOST + NAME_MOST];
    __builtin_memcpy(path, groups.path, level->length);
    path[level->length] = '/';
    return put(path + level->length + 1, NAME_MOST, name) && lines_open(path);
}

/* A file that is one number; false iff it is missing or something else. */
static bool read_number(const level_t *level, const char *name, size_t *value) {
    if (!open_file(level, name)) return false;
    const char *line = lines_next();
    bool is = line != NULL && number(line, value);
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
    return most < SIZE_MAX / 4 ? most : SIZE_MAX; /* version 1 says so that there is none */
}

/* Of a file of lines "name number". */
static size_t read_named(const level_t *level, const char *file, const char *name) {
    size_t value = 0;
    if (!open_file(level, file)) return 0;
    for (char *line; (line = lines_next()) != NULL;) {
        const char *text = cut(line, ' ');
        if (text == NULL || !same(line, name)) continue;
        if (!number(text, &value)) value = 0;
        break;
    }
    lines_close();
    return value;
}

/* ---- The contract ---- */

size_t lm_os_memory_bytes(void) {
    struct sysinfo info = {0};
    if (call(SYS_sysinfo, (intptr_t)&info, 0, 0, 0) != 0) return 0;
    return info.totalram * info.mem_unit;
}

/* The levels from the group to the mount, which is the first `base` bytes of groups.path. Returns
 * false iff none can be read. */
static bool take_levels(size_t base) {
    size_t length = length_of(groups.path), used;
    bool readable = false;
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
    for (unsigned i = 0; i < groups.levels; i++) {
        level_t *level = &groups.level[i];
        size_t used;
        if (limits) level->limit = read_limit(level);
        if (level->limit != SIZE_MAX && (least == 0 || level->limit < least))
            least = level->limit > 0 ? level->limit : 1;
        /* The own group's in any case: to see whether it is there. */
        if ((level->limit == SIZE_MAX && i > 0) || !read_used(level, &used)) continue;
        readable = true;
        if (level->limit == SIZE_MAX) continue;
        size_t limit = level->limit > 0 ? level->limit : 1;
        if (used / (limit / 8 + 1) >= 6) { /* worth a look at a long file */
            size_t files = read_named(level, "memory.stat",
                                      groups.first ? "total_inactive_file" : "inactive_file");
            used -= files < used ? files : used;
        }
        /* As fractions: used / limit, by a double's precision. */
        if (fullest->limit == 0 ||
            (double)used / (double)limit > (double)fullest->used / (double)fullest->limit)
            *fullest = (lm_cgroup_t){.used = used, .limit = limit};
    }
    fullest->least = least;
    return readable;
}
