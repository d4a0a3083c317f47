/*
 * copies_each.c - the checked memcpy family: each of its functions reports exactly what leaves an
 * object, and does what the C library's does otherwise. Of bytes and of wide characters; fortified
 * too.
 *
 *   function x size of both objects x how far the text goes x how far from the end it begins x seed
 *
 * Catches: a function that is not looked at; a text without an end that is read beyond its object,
 * or crashes in the look; a report that names another function, object or number; bytes written
 * although the copy is reported; a fortified form that does not end a program that is wrong about a
 * size.
 *
 *     copies_each libloam.so libloam_copies.so
 *     copies_each libloam-secure.so
 *
 * What each function reads and writes is computed a character at a time. The program starts itself
 * with the libraries preloaded and LOAM_ON_ERROR=ignore; a handler takes the reports.
 */
#undef _FORTIFY_SOURCE
#include "works.h"

#include <strings.h>
#include <sys/resource.h>
#include <wchar.h>

/* ---- The functions ---- */

#define BOTH(name) name, name##_CHK
enum {
    BOTH(COPY), /* n characters */
    BOTH(MOVE),
    BOTH(PCOPY), /* the result is the end */
    BOTH(SET),
    BOTH(TEXT), /* up to the 0 */
    BOTH(PTEXT),
    BOTH(PAD), /* n are written */
    BOTH(PPAD),
    BOTH(APPEND),
    BOTH(NAPPEND),
    BOTH(LIMIT), /* strlcpy */
    BOTH(LAPPEND),
    CHAR_KINDS,
    CCOPY = CHAR_KINDS, /* bytes only: memccpy, bcopy, bzero, explicit_bzero */
    BCOPY,
    ZERO,
    EXPLICIT,
    EXPLICIT_CHK,
    KINDS
};

static const char *const names[2][KINDS] = {
    {"memcpy",
     "__memcpy_chk",
     "memmove",
     "__memmove_chk",
     "mempcpy",
     "__mempcpy_chk",
     "memset",
     "__memset_chk",
     "strcpy",
     "__strcpy_chk",
     "stpcpy",
     "__stpcpy_chk",
     "strncpy",
     "__strncpy_chk",
     "stpncpy",
     "__stpncpy_chk",
     "strcat",
     "__strcat_chk",
     "strncat",
     "__strncat_chk",
     "strlcpy",
     "__strlcpy_chk",
     "strlcat",
     "__strlcat_chk",
     "memccpy",
     "bcopy",
     "bzero",
     "explicit_bzero",
     "__explicit_bzero_chk"},
    {"wmemcpy",  "__wmemcpy_chk",
     "wmemmove", "__wmemmove_chk",
     "wmempcpy", "__wmempcpy_chk",
     "wmemset",  "__wmemset_chk",
     "wcscpy",   "__wcscpy_chk",
     "wcpcpy",   "__wcpcpy_chk",
     "wcsncpy",  "__wcsncpy_chk",
     "wcpncpy",  "__wcpncpy_chk",
     "wcscat",   "__wcscat_chk",
     "wcsncat",  "__wcsncat_chk",
     "wcslcpy",  "__wcslcpy_chk",
     "wcslcat",  "__wcslcat_chk",
     NULL,       NULL,
     NULL,       NULL,
     NULL},
};

typedef union called {
    void *object;
    void *(*copy)(void *, const void *, size_t);
    void *(*copy_chk)(void *, const void *, size_t, size_t);
    void *(*set)(void *, int, size_t);
    void *(*set_chk)(void *, int, size_t, size_t);
    void *(*text)(void *, const void *);
    size_t (*limit)(void *, const void *, size_t);
    size_t (*limit_chk)(void *, const void *, size_t, size_t);
    void *(*until)(void *, const void *, int, size_t);
    void (*swapped)(const void *, void *, size_t);
    void (*zero)(void *, size_t);
    void (*zero_chk)(void *, size_t, size_t);
} called_t;

static called_t functions[2][KINDS];

enum { VALUE = 'q', LAST = 'z' };

/* Returns its result, as a number. */
static uintptr_t call(int wide, int kind, void *to, const void *from, size_t n, size_t room) {
    called_t f = functions[wide][kind];
    switch (kind) {
    case SET: return (uintptr_t)f.set(to, VALUE, n);
    case SET_CHK: return (uintptr_t)f.set_chk(to, VALUE, n, room);
    case TEXT:
    case PTEXT:
    case APPEND: return (uintptr_t)f.text(to, from);
    case TEXT_CHK:
    case PTEXT_CHK:
    case APPEND_CHK: return (uintptr_t)f.copy(to, from, room);
    case LIMIT:
    case LAPPEND: return f.limit(to, from, n);
    case LIMIT_CHK:
    case LAPPEND_CHK: return f.limit_chk(to, from, n, room);
    case CCOPY: return (uintptr_t)f.until(to, from, LAST, n);
    case BCOPY: return f.swapped(from, to, n), 0;
    case ZERO:
    case EXPLICIT: return f.zero(to, n), 0;
    case EXPLICIT_CHK: return f.zero_chk(to, n, room), 0;
    default:
        return kind % 2 == 0 ? (uintptr_t)f.copy(to, from, n)
                             : (uintptr_t)f.copy_chk(to, from, n, room);
    }
}

/* ---- What each should do ---- */

/* In characters. Reads of `to` count as well: it is what is copied behind. */
typedef struct effect {
    size_t reads, reads_to, begins, writes;
    size_t copies;      /* of these, what comes from the other object */
    intptr_t result;    /* characters from `to`; -1: NULL or nothing */
    bool counts, fills; /* the result is a number; all is one value */
    int filled;
} effect_t;

/* Characters up to the first 0, at most n; *read: that were read for it. None is where the object
 * ends. */
static size_t length(const char *text, size_t size, size_t room, size_t n, size_t *read) {
    for (size_t i = 0; i < n; i++) {
        *read = i + 1;
        if (i >= room) return i; /* the rest is not known: it is a mistake */
        bool zero = true;
        for (size_t k = 0; k < size; k++) zero &= text[i * size + k] == 0;
        if (zero) return i;
    }
    *read = n;
    return n;
}

static effect_t effect_of(int kind, const char *to, size_t to_room, const char *from,
                          size_t from_room, size_t n, size_t size) {
    effect_t e = {0, 0, 0, n, n, 0, false, false, 0};
    size_t had, text;
    if (kind < CHAR_KINDS) kind &= ~1;
    switch (kind) {
    case COPY:
    case MOVE:
    case BCOPY:
    case PCOPY:
        e.reads = n;
        e.result = kind == PCOPY ? (intptr_t)n : kind == BCOPY ? -1 : 0;
        return e;
    case SET: e.fills = true, e.filled = VALUE; return e;
    case ZERO:
    case EXPLICIT:
    case EXPLICIT_CHK: e.fills = true, e.result = -1; return e;
    case CCOPY:
        for (e.reads = 0, e.result = -1; e.reads < n && e.result < 0;) {
            if (e.reads < from_room && from[e.reads] == LAST) e.result = (intptr_t)e.reads + 1;
            if (e.reads++ >= from_room) break;
        }
        e.writes = e.copies = e.reads;
        return e;
    case TEXT:
    case PTEXT:
        text = length(from, size, from_room, SIZE_MAX, &e.reads);
        e.writes = text + 1, e.copies = text, e.result = kind == PTEXT ? (intptr_t)text : 0;
        return e;
    case PAD:
    case PPAD:
        text = length(from, size, from_room, n, &e.reads);
        e.copies = text, e.result = kind == PPAD ? (intptr_t)text : 0;
        return e;
    case APPEND:
    case NAPPEND:
        had = length(to, size, to_room, SIZE_MAX, &e.reads_to);
        text = length(from, size, from_room, kind == APPEND ? SIZE_MAX : n, &e.reads);
        e.begins = had, e.copies = text, e.writes = text + 1;
        return e;
    default: /* LIMIT, LAPPEND */
        had = kind == LIMIT ? 0 : length(to, size, to_room, n, &e.reads_to);
        text = length(from, size, from_room, SIZE_MAX, &e.reads);
        e.begins = had, e.result = (intptr_t)(had + text), e.counts = true;
        e.copies = had >= n ? 0 : text < n - had ? text : n - had - 1;
        e.writes = had >= n ? 0 : e.copies + 1;
        return e;
    }
}

/* ---- Reports ---- */

static char said[600];
static int reports;

static void take_report(int code, const char *message, void *nothing) {
    (void)code, (void)nothing;
    snprintf(said, sizeof said, "%s", message);
    reports++;
}

static void register_handler(void) {
    union {
        void *object;
        void (*call)(void (*)(int, const char *, void *), void *);
    } set = {dlsym(RTLD_DEFAULT, "loam_error_register")};
    CHECK(set.object != NULL, "loam is not in this process");
    set.call(take_report, NULL);
}

/* ---- Cases ---- */

static bool
    inside; /* the secure library: memcpy, memmove, memset below 16 bytes are not looked at */
static char twin[1 << 18]; /* of `to`, as it should be */

static bool is_short(int wide, int kind, size_t bytes) {
    return inside && !wide && kind <= SET_CHK && (kind & ~1) != PCOPY && bytes < 16;
}

typedef struct object {
    char *start, *p; /* the copy begins at p */
    size_t room;     /* characters from there */
} object_t;

static const size_t sizes[] = {8, 24, 40, 100, 112, 200, 1000, 5000, 65536, 69632, 100000, 135168};

static object_t make(size_t size, uint64_t *seed) {
    object_t o;
    size_t bytes = sizes[works_random(seed) % (sizeof sizes / sizeof *sizes)];
    o.start = malloc(bytes);
    size_t usable = malloc_usable_size(o.start) / size * size;
    size_t back = works_random(seed) % 3 == 0 ? usable / size
                                              : 1 + works_random(seed) % 40; /* from its end */
    if (back > usable / size) back = usable / size;
    o.p = o.start + malloc_usable_size(o.start) / size * size - back * size;
    o.room = back;
    return o;
}

/* A text of about so many characters, or one without an end. */
static void write_text(object_t *o, size_t size, size_t other, uint64_t *seed) {
    size_t usable = (size_t)(o->p - o->start) + o->room * size;
    for (size_t i = 0; i < usable; i++) o->start[i] = (char)('a' + i % 23);
    size_t about = works_random(seed) % 2 ? o->room : other < o->room ? other : o->room;
    size_t at = about + works_random(seed) % 5;
    at = at < 2 ? 0 : at - 2;
    if (works_random(seed) % 4 == 0) at = works_random(seed) % (o->room + 1);
    if (at < o->room) memset(o->p + at * size, 0, size);
}

static void one(int wide, int kind, uint64_t *seed) {
    size_t size = wide ? sizeof(wchar_t) : 1;
    object_t to = make(size, seed), from = make(size, seed);
    write_text(&to, size, 3, seed);
    write_text(&from, size, to.room, seed);
    size_t shorter = works_random(seed) % 2 ? to.room : from.room;
    size_t n = shorter + works_random(seed) % 6;
    n = n < 3 ? 0 : n - 3;
    if (works_random(seed) % 4 == 0) n = works_random(seed) % (shorter + 20);
    effect_t e = effect_of(kind, to.p, to.room, from.p, from.room, n, size);
    bool from_bad = e.reads > from.room;
    bool to_bad = e.reads_to > to.room || (e.writes > 0 && e.begins + e.writes > to.room);
    /* What is too short to be looked at would be made, and be a mistake of this program's. */
    if ((from_bad || to_bad) && is_short(wide, kind, n)) return;
    size_t usable = (size_t)(to.p - to.start) + to.room * size;
    memcpy(twin, to.start, usable);
    reports = 0;
    said[0] = 0;
    uintptr_t got = call(wide, kind, to.p, from.p, n, SIZE_MAX);
    const char *name = names[wide][kind];
#define CASE "%s of %zu, from %zu of %zu, to %zu of %zu: said '%s'"
#define ITS name, n, e.reads, from.room, e.begins + e.writes, to.room, said
    bool bad = from_bad || to_bad;
    CHECK(reports == bad, CASE, ITS);
    if (bad) {
        char start[40], *at = NULL;
        snprintf(start, sizeof start, "loam: %s of ",
                 kind == EXPLICIT_CHK ? "explicit_bzero"
                                      : names[wide][kind < CHAR_KINDS ? kind & ~1 : kind]);
        CHECK(strncmp(said, start, strlen(start)) == 0, CASE, ITS);
        char ends[2][80];
        size_t begins = e.reads_to > to.room ? 0 : e.begins;
        snprintf(ends[0], sizeof *ends, " B to %p, which has %zu left",
                 (void *)(to.p + begins * size),
                 malloc_usable_size(to.start) - (size_t)(to.p + begins * size - to.start));
        snprintf(ends[1], sizeof *ends, " B from %p, which has %zu left", (void *)from.p,
                 malloc_usable_size(from.start) - (size_t)(from.p - from.start));
        if (to_bad) at = strstr(said, ends[0]);
        if (at == NULL && from_bad) at = strstr(said, ends[1]);
        CHECK(at != NULL, CASE, ITS);
    } else {
        char *there = twin + (to.p - to.start) + e.begins * size;
        if (e.fills && (wide || e.filled == 0)) {
            wchar_t w = (wchar_t)e.filled;
            for (size_t i = 0; i < e.writes * size; i++) there[i] = ((char *)&w)[i % size];
        } else if (e.fills) {
            memset(there, e.filled, e.writes);
        } else {
            memcpy(there, from.p, e.copies * size);
            memset(there + e.copies * size, 0, (e.writes - e.copies) * size);
        }
        uintptr_t want = e.counts         ? (uintptr_t)e.result
                         : e.result == -1 ? 0
                                          : (uintptr_t)(to.p + e.result * (intptr_t)size);
        CHECK(got == want, CASE, ITS);
    }
    CHECK(memcmp(to.start, twin, usable) == 0, CASE, ITS);
    free(to.start);
    free(from.start);
}

/* A fortified form ends the program where it would write one character more than it was told. */
static void expect_fortified(int wide, int kind) {
    char text[600] = "";
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], 2);
        wchar_t to[40] = {0}, from[40] = {0};
        size_t n = wide ? 20 : 80;
        wide ? (void)wmemset(from, L'x', n) : (void)memset(from, 'x', n);
        call(wide, kind, to, from, n, n - 1);
        _exit(3);
    }
    close(ends[1]);
    (void)!read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    int status = works_wait(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: status %d", names[wide][kind],
          status);
    CHECK(strstr(text, "loam:") == NULL, "%s said '%s'", names[wide][kind], text);
}

static int run(uint64_t seed, int rounds) {
    works_require_loam();
    register_handler();
    Dl_info of;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "memcpy"), &of) && strstr(of.dli_fname, "libloam"),
          "memcpy is not loam's");
    inside = strstr(of.dli_fname, "loam_copies") == NULL;
    for (int wide = 0; wide < 2; wide++) {
        for (int kind = 0; kind < (wide ? (int)CHAR_KINDS : (int)KINDS); kind++) {
            Dl_info info;
            functions[wide][kind].object = dlsym(RTLD_DEFAULT, names[wide][kind]);
            CHECK(functions[wide][kind].object != NULL &&
                      dladdr(functions[wide][kind].object, &info) &&
                      strcmp(info.dli_fname, of.dli_fname) == 0,
                  "%s is not loam's", names[wide][kind]);
            for (int i = 0; i < rounds; i++) one(wide, kind, &seed);
            if (kind < CHAR_KINDS ? kind % 2 == 1 : kind == EXPLICIT_CHK)
                expect_fortified(wide, kind);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    works_limit(60);
    if (argc == 4 && strcmp(argv[1], "--run") == 0)
        return run(strtoull(argv[2], NULL, 10), atoi(argv[3]));
    CHECK(argc == 2 || argc == 3, "usage: copies_each libloam.so [libloam_copies.so]");
    static char preload[8192], text[8192];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s%s%s", argv[1], argc == 3 ? ":" : "",
             argc == 3 ? argv[2] : "");
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)works_now_ms());
    char *arguments[] = {(char *)works_self(), (char *)"--run", seed, (char *)"150", NULL};
    char *environment[] = {preload, (char *)"LOAM_ON_ERROR=ignore", NULL};
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "seed %s: status %d: %s", seed, status,
          text);
    return 0;
}
