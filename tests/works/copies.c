/* 
 * copies.c - libloam_copies.so: copies that fit are the C library's, copies that do not end the
 * program before anything is written.
 *
 * Catches: an overflow or overread that goes unseen, or is told after it happened; reports about
 * stacks and static memory; functions that do something else than the C library's; programs that do
 * not start.
 *
 *     copies libloam.so libloam_copies.so
 *     copies libloam-secure.so
 *
 * The program starts itself, and others, with both preloaded. The secure library has the functions
 * itself, and also stops copies to and from freed objects.
 */
#undef _FORTIFY_SOURCE
#include "works.h"

#include <strings.h>
#include <wchar.h>

extern char **environ;

/* Called through these, so that the compiler makes nothing of it inline. */
static void *(*volatile v_memcpy)(void *, const void *, size_t) = memcpy;
static void *(*volatile v_memmove)(void *, const void *, size_t) = memmove;
static void *(*volatile v_mempcpy)(void *, const void *, size_t) = mempcpy;
static void *(*volatile v_memset)(void *, int, size_t) = memset;
static void (*volatile v_bcopy)(const void *, void *, size_t) = bcopy;
static void (*volatile v_bzero)(void *, size_t) = bzero;
static void (*volatile v_explicit_bzero)(void *, size_t) = explicit_bzero;
static void *(*volatile v_memccpy)(void *, const void *, int, size_t) = memccpy;
static char *(*volatile v_strcpy)(char *, const char *) = strcpy;
static char *(*volatile v_stpcpy)(char *, const char *) = stpcpy;
static char *(*volatile v_strncpy)(char *, const char *, size_t) = strncpy;
static char *(*volatile v_stpncpy)(char *, const char *, size_t) = stpncpy;
static char *(*volatile v_strcat)(char *, const char *) = strcat;
static char *(*volatile v_strncat)(char *, const char *, size_t) = strncat;
static wchar_t *(*volatile v_wmemcpy)(wchar_t *, const wchar_t *, size_t) = wmemcpy;
static wchar_t *(*volatile v_wmemmove)(wchar_t *, const wchar_t *, size_t) = wmemmove;
static wchar_t *(*volatile v_wmemset)(wchar_t *, wchar_t, size_t) = wmemset;
void *__memcpy_chk(void *to, const void *from, size_t n, size_t room);
char *__strcpy_chk(char *to, const char *from, size_t room);
static void *(*volatile v_memcpy_chk)(void *, const void *, size_t, size_t) = __memcpy_chk;
static char *(*volatile v_strcpy_chk)(char *, const char *, size_t) = __strcpy_chk;

enum {
    MEMCPY,
    MEMMOVE,
    MEMPCPY,
    MEMSET,
    BCOPY,
    BZERO,
    EXPLICIT_BZERO,
    MEMCCPY,
    STRCPY,
    STPCPY,
    STRNCPY,
    STPNCPY,
    STRCAT,
    STRNCAT,
    WMEMCPY,
    WMEMMOVE,
    WMEMSET,
    MEMCPY_CHK,
    STRCPY_CHK,
    FUNCTIONS
};
static const char *const names[FUNCTIONS] = {
    "memcpy",  "memmove",  "mempcpy", "memset",  "bcopy",   "bzero",  "explicit_bzero",
    "memccpy", "strcpy",   "stpcpy",  "strncpy", "stpncpy", "strcat", "strncat",
    "wmemcpy", "wmemmove", "wmemset", "memcpy",  "strcpy",
};

/* Runs one; wide ones copy n / 4. Returns where the result points to. */
static void *call(int function, char *to, const char *from, size_t n) {
    wchar_t *wide_to = (wchar_t *)(void *)to;
    const wchar_t *wide_from = (const wchar_t *)(const void *)from;
    switch (function) {
    case MEMCPY: return v_memcpy(to, from, n);
    case MEMMOVE: return v_memmove(to, from, n);
    case MEMPCPY: return v_mempcpy(to, from, n);
    case MEMSET: return v_memset(to, 'q', n);
    case BCOPY: return v_bcopy(from, to, n), NULL;
    case BZERO: return v_bzero(to, n), NULL;
    case EXPLICIT_BZERO: return v_explicit_bzero(to, n), NULL;
    case MEMCCPY: return v_memccpy(to, from, 'z', n);
    case STRCPY: return v_strcpy(to, from);
    case STPCPY: return v_stpcpy(to, from);
    case STRNCPY: return v_strncpy(to, from, n);
    case STPNCPY: return v_stpncpy(to, from, n);
    case STRCAT: return v_strcat(to, from);
    case STRNCAT: return v_strncat(to, from, n);
    case WMEMCPY: return v_wmemcpy(wide_to, wide_from, n / sizeof(wchar_t));
    case WMEMMOVE: return v_wmemmove(wide_to, wide_from, n / sizeof(wchar_t));
    case WMEMSET: return v_wmemset(wide_to, L'w', n / sizeof(wchar_t));
    case MEMCPY_CHK: return v_memcpy_chk(to, from, n, n);
    default: return v_strcpy_chk(to, from, strlen(from) + 1);
    }
}

/* ---- What each should do, a byte at a time; -1: the result is NULL, or there is none ---- */

static ptrdiff_t expected(int function, char *to, const char *from, size_t n) {
    size_t length = 0, had = 0, i;
    while (from[length] != 0) length++;
    while (to[had] != 0) had++;
    size_t most = length < n ? length : n, whole = n / sizeof(wchar_t) * sizeof(wchar_t);
    wchar_t w = L'w';
    switch (function) {
    case MEMCPY:
    case MEMCPY_CHK:
    case MEMMOVE:
    case MEMPCPY:
    case BCOPY:
        for (i = 0; i < n; i++) to[i] = from[i];
        return function == MEMPCPY ? (ptrdiff_t)n : function == BCOPY ? -1 : 0;
    case MEMSET:
        for (i = 0; i < n; i++) to[i] = 'q';
        return 0;
    case BZERO:
    case EXPLICIT_BZERO:
        for (i = 0; i < n; i++) to[i] = 0;
        return -1;
    case MEMCCPY:
        for (i = 0; i < n; i++) {
            to[i] = from[i];
            if (from[i] == 'z') return (ptrdiff_t)i + 1;
        }
        return -1;
    case STRCPY:
    case STPCPY:
    case STRCPY_CHK:
        for (i = 0; i <= length; i++) to[i] = from[i];
        return function == STPCPY ? (ptrdiff_t)length : 0;
    case STRNCPY:
    case STPNCPY:
        for (i = 0; i < n; i++) to[i] = i < length ? from[i] : (char)0;
        return function == STPNCPY ? (ptrdiff_t)most : 0;
    case STRCAT:
        for (i = 0; i <= length; i++) to[had + i] = from[i];
        return 0;
    case STRNCAT:
        for (i = 0; i < most; i++) to[had + i] = from[i];
        to[had + most] = 0;
        return 0;
    case WMEMCPY:
    case WMEMMOVE:
        for (i = 0; i < whole; i++) to[i] = from[i];
        return 0;
    default:
        for (i = 0; i < whole; i++) to[i] = ((const char *)&w)[i % sizeof w];
        return 0;
    }
}

/* In `to` there are a short text and room for all that comes. */
static void compare(char *to, size_t room, uint64_t *state) {
    static char from[512], twin[1200];
    size_t length = works_random(state) % 300, had = works_random(state) % 100;
    for (size_t i = 0; i < sizeof from; i++) from[i] = (char)('a' + works_random(state) % 26);
    from[length] = 0;
    for (size_t i = 0; i < room; i++) to[i] = i < had ? 'h' : i == had ? (char)0 : 'r';
    for (size_t i = 0; i < room; i++) twin[i] = to[i];
    int function = (int)(works_random(state) % FUNCTIONS);
    size_t n = works_random(state) % 400;
    ptrdiff_t want = expected(function, twin, from, n);
    void *got = call(function, to, from, n);
    CHECK(got == (want < 0 ? NULL : to + want), "%s of %zu B, text of %zu: %p for %p",
          names[function], n, length, got, (void *)to);
    for (size_t i = 0; i < room; i++)
        CHECK(to[i] == twin[i], "%s of %zu B, text of %zu: byte %zu", names[function], n, length,
              i);
}

static void behave(void) {
    static char fixed[1200];
    char local[1200];
    char *small = malloc(1200), *large = malloc(300000);
    uint64_t state = 7;
    for (int i = 0; i < 20000; i++) {
        compare(small, 1200, &state);
        compare(large + 298800, 1200, &state); /* its last byte is the object's */
        compare(fixed, sizeof fixed, &state);
        compare(local, sizeof local, &state);
    }
    for (int i = 0; i < 2000; i++) { /* overlapping, both ways */
        size_t a = works_random(&state) % 400, b = works_random(&state) % 400;
        size_t n = works_random(&state) % 400;
        for (size_t k = 0; k < 1200; k++) small[k] = fixed[k] = (char)works_random(&state);
        for (size_t k = 0; k < n; k++) local[k] = small[a + k];
        for (size_t k = 0; k < n; k++) fixed[b + k] = local[k];
        if (i % 2)
            v_memmove(small + b, small + a, n);
        else
            v_bcopy(small + a, small + b, n);
        CHECK(memcmp(small, fixed, 1200) == 0, "overlap of %zu B from %zu to %zu", n, a, b);
    }
    free(small);
    free(large);
}

/* ---- Mistakes: the room is all that the block has, whatever the build knows ---- */

static size_t *seen; /* shared with the parent: what it is to look at */

static void overflow(int function, bool large, bool over_read) {
    size_t asked = large ? 300000 : 64;
    char *p = malloc(asked), *other = malloc(2 * asked + 4096);
    size_t room = malloc_usable_size(p);
    memset(p, 0, room);
    memset(other, 'x', room + 4);
    other[room + 4] = 0;
    size_t n = room / 4 * 4 + 4; /* too many, by 4 at most */
    if (function < STRCPY || function == MEMCPY_CHK) n = function == WMEMSET ? n : room + 1;
    if (function == STRCPY || function == STPCPY || function == STRCAT || function == STRCPY_CHK) {
        other[room] = 0; /* it is the 0 that has no room */
    }
    if (function == STRNCAT) n = room;
    seen[0] = (size_t)p;
    seen[1] = room;
    if (over_read) /* the copy has room, its source ends */
        call(function, other, p, n);
    else
        call(function, p, other, n);
    works_say("not seen: p[0] is %d", p[0]);
    _exit(3);
}

static void expect_stopped(int function, bool large, bool over_read) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        dup2(ends[1], 2);
        overflow(function, large, over_read);
    }
    close(ends[1]);
    char text[600], want[200];
    ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close(ends[0]);
    int status = works_wait(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s%s: status %d, said '%s'",
          names[function], large ? ", large" : "", status, text);
    snprintf(want, sizeof want, "loam: %s of ", names[function]);
    CHECK(strncmp(text, want, strlen(want)) == 0, "said '%s'", text);
    snprintf(want, sizeof want, " B %s %p, which has %zu left (thread ", over_read ? "from" : "to",
             (void *)seen[0], seen[1]);
    CHECK(strstr(text, want) != NULL, "said '%s', not '%s'", text, want);
}

/* The secure library, too, says so of an object that was freed, of any size of a block. */
static void stale(int function, size_t bytes, bool from_it) {
    char *p = malloc(bytes), *other = malloc(bytes);
    memset(p, 'x', bytes);
    memset(other, 'y', bytes);
    p[bytes - 1] = other[bytes - 1] = 0;
    seen[0] = (size_t)p;
    free(p);
    call(function, from_it ? other : p, from_it ? p : other, bytes - 1);
    works_say("not seen: %s of a freed object of %zu B", names[function], bytes);
    _exit(3);
}

static void expect_stale_stopped(int function, size_t bytes, bool from_it) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        dup2(ends[1], 2);
        stale(function, bytes, from_it);
    }
    close(ends[1]);
    char text[600], want[200];
    ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    close(ends[0]);
    int status = works_wait(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s%s freed %zu B: %d, said '%s'",
          names[function], from_it ? " from" : " to", bytes, status, text);
    snprintf(want, sizeof want, " B %s %p, which was freed (thread ", from_it ? "from" : "to",
             (void *)seen[0]);
    CHECK(strstr(text, want) != NULL, "said '%s', not '%s'", text, want);
}

/* Freed objects of the secure library, small ones and those that malloc looks at in their ends
 * only. */
static void freed_objects(void) {
    static const size_t sizes[] = {24, 100, 900, 5000, 40000, 65000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int function = MEMCPY; function <= MEMCCPY; function++)
            expect_stale_stopped(function, sizes[i], false);
        for (int function = MEMCPY; function <= MEMPCPY; function++)
            expect_stale_stopped(function, sizes[i], true);
    }
    expect_stale_stopped(STRCPY, 100, false);
    expect_stale_stopped(STRNCAT, 100, false);
}

/* Under LOAM_ON_ERROR=ignore the copy is left out: so it is looked at before. */
static void ignored(void) {
    char *p = malloc(64), from[8192];
    size_t room = malloc_usable_size(p);
    memset(p, 1, room);
    memset(from, 2, sizeof from);
    CHECK(v_memcpy(p, from, room + 1) == p, "result");
    for (size_t i = 0; i < room; i++) CHECK(p[i] == 1, "byte %zu was written", i);
    CHECK(v_memcpy(p, from, room) == p && p[room - 1] == 2, "what fits is copied");
    free(p);
}

static void children(const char *self, char *preload) {
    char *ignore = (char *)"LOAM_ON_ERROR=ignore", text[4096];
    char *mode[] = {(char *)self, (char *)"--ignored", NULL};
    char *environment[] = {preload, ignore, NULL};
    works_expect_ok(works_capture(self, mode, environment, 2, text, sizeof text), "ignore");
    CHECK(strstr(text, "loam: memcpy of ") == text, "said '%s'", text);
    char *behaves[] = {(char *)self, (char *)"--behave", NULL};
    char *sampled[] = {preload, (char *)"LOAM_GUARD_SAMPLING=3", NULL};
    works_expect_ok(works_capture(self, behaves, sampled, 2, text, sizeof text), "sampling");
    static const char *const real[] = {
        "ls -lR /etc >/dev/null 2>&1; true",
        "seq 20000 | sort -R | sort -n | tail -n 1 | grep -qx 20000",
        ("command -v python3 >/dev/null || exit 0; python3 -c 'import json, re; "
         "assert json.loads(json.dumps(list(range(9999))))[-1] == 9998'"),
    };
    char *plain[] = {preload, (char *)"PATH=/usr/bin:/bin", NULL};
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        char *run[] = {(char *)"/bin/sh", (char *)"-c", (char *)real[i], NULL};
        works_expect_ok(works_capture("/bin/sh", run, plain, 2, text, sizeof text), real[i]);
        CHECK(text[0] == 0, "%s said '%s'", real[i], text);
    }
}

int main(int argc, char **argv) {
    works_limit(100);
    if (argc == 2 && strcmp(argv[1], "--behave") == 0) return behave(), 0;
    if (argc == 2 && strcmp(argv[1], "--ignored") == 0) return ignored(), 0;
    if (argc == 4) {
        works_require_loam();
        Dl_info info;
        CHECK(dladdr(dlsym(RTLD_DEFAULT, "memcpy"), &info) && strstr(info.dli_fname, "libloam"),
              "memcpy is not ours");
        bool inside = strstr(info.dli_fname, "loam_copies") == NULL;
        behave();
        seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        for (int function = 0; function < FUNCTIONS; function++) {
            expect_stopped(function, false, false);
            expect_stopped(function, true, false);
        }
        for (int function = MEMCPY; function <= MEMPCPY; function++)
            expect_stopped(function, function == MEMMOVE, true);
        if (inside) freed_objects();
        children(works_self(), argv[3]);
        return 0;
    }
    CHECK(argc == 2 || argc == 3, "usage: copies libloam.so [libloam_copies.so]");
    char preload[8192], alone[8192], text[4096];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s%s%s", argv[1], argc == 3 ? ":" : "",
             argc == 3 ? argv[2] : "");
    snprintf(alone, sizeof alone, "LD_PRELOAD=%s", argv[argc - 1]);
    char *both[] = {preload, NULL}, *without_loam[] = {alone, NULL};
    char *all[] = {(char *)works_self(), (char *)"both", (char *)"preload", preload, NULL};
    int status = works_capture(all[0], all, both, 2, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d: %s", status, text);
    char *behaves[] = {(char *)works_self(), (char *)"--behave", NULL};
    works_expect_ok(works_capture(behaves[0], behaves, without_loam, 2, text, sizeof text),
                    "alone");
    return 0;
}
