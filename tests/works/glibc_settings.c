/*
 * glibc_settings.c - what is set for glibc's malloc works as glibc documents it, or is named as
 * ignored.
 *
 * Catches: M_PERTURB, MALLOC_PERTURB_ and glibc.malloc.perturb without effect, in some thread, for
 * some size, or after it was taken back; calloc that is not zero then; a setting that is ignored
 * without a word where LOAM_VERBOSE asks for it; mallopt that answers otherwise than glibc's own,
 * which is asked in the same process.
 *
 *     glibc_settings              starts itself with settings in the environment, and as below
 *     glibc_settings fill VALUE   memory is filled, as the environment says
 *     glibc_settings call VALUE   the same by mallopt, and then no more
 *
 * glibc itself fills less than it documents: not what its threads' caches hand out and take back.
 */
#include "works.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#if defined(LOAM_SECURE) && LOAM_SECURE && !(defined(LOAM_DEBUG) && LOAM_DEBUG)
#define SECURE 1
#else
#define SECURE 0
#endif
#if SECURE || (defined(LOAM_DEBUG) && LOAM_DEBUG)
#define RELEASE 0
#else
#define RELEASE 1
#endif

static unsigned value;

static unsigned char new_byte(void) { return (unsigned char)(value ^ 0xff); }
static unsigned char freed_byte(void) { return (unsigned char)(SECURE ? 0 : value); }

static void expect_filled(const void *p, size_t from, size_t to, unsigned char byte,
                          const char *what) {
    const volatile unsigned char *bytes = p;
    for (size_t i = from; i < to; i++)
        CHECK(bytes[i] == byte, "%s of %zu B: byte %zu is %u, not %u", what, to, i, bytes[i], byte);
}

static size_t any_size(uint64_t *random) {
    switch (works_random(random) % 8) {
    case 0: return 1 + works_random(random) % 60000;
    case 1: return 65537 + works_random(random) % 300000;
    case 2: return 1 + works_random(random) % 5000;
    default: return 1 + works_random(random) % 300;
    }
}

static void *new_object(uint64_t *random, size_t bytes) {
    void *p = NULL;
    switch (works_random(random) % 4) {
    case 0: p = aligned_alloc(64, bytes); break;
    case 1: CHECK(posix_memalign(&p, 256, bytes) == 0, "posix_memalign"); break;
    default: p = malloc(bytes); break;
    }
    CHECK(p != NULL, "no memory");
    expect_filled(p, 0, bytes, new_byte(), "a new object");
    return p;
}

/* What free does to an object. What is large may be gone. */
static void end_object(void *p, size_t bytes) {
    uintptr_t there = (uintptr_t)p;
    memset(p, 7, bytes);
    free(p);
    if (bytes > 60000) return;
    const void *gone = (const void *)there; /* compilers think that nobody may look */
    expect_filled(gone, 16, bytes, freed_byte(), "a freed object");
}

static void use(uint64_t seed, int rounds) {
    uint64_t random = seed;
    for (int i = 0; i < rounds; i++) {
        size_t bytes = any_size(&random), more = bytes + any_size(&random);
        unsigned char *p = calloc(1, bytes);
        CHECK(p != NULL, "no memory");
        expect_filled(p, 0, bytes, 0, "calloc");
        free(p);
        end_object(new_object(&random, bytes), bytes);
        p = new_object(&random, bytes);
        memset(p, 9, bytes);
        uintptr_t before = (uintptr_t)p;
        p = realloc(p, more);
        CHECK(p != NULL, "no memory");
        expect_filled(p, 0, bytes, 9, "realloc's old part");
        /* The secure build hands out zeroes where an object grows in its block. */
        if (!SECURE || (uintptr_t)p != before)
            expect_filled(p, bytes, more, new_byte(), "realloc's new part");
        end_object(p, more);
    }
}

static void *use_in_thread(void *seed) {
    use((uintptr_t)seed, 150);
    return NULL;
}

/* Objects of this thread, freed by another one. */
static void *objects[100];
static void *end_them(void *unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) end_object(objects[i], 100 + 3 * (size_t)i);
    return NULL;
}

static void join(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0, "no thread");
    CHECK(pthread_join(thread, NULL) == 0, "no end");
}

static void use_all(void) {
    uint64_t random = 5;
    use(1, 300);
    join(use_in_thread, (void *)2);
    join(use_in_thread, (void *)3);
    for (int i = 0; i < 100; i++) objects[i] = new_object(&random, 100 + 3 * (size_t)i);
    join(end_them, NULL);
    use(4, 100);
}

static void by_call(unsigned wanted) {
    unsigned char *before[64];
    for (int i = 0; i < 64; i++) {
        before[i] = malloc(20 + 10 * (size_t)i);
        CHECK(before[i] != NULL, "no memory");
    }
    for (int i = 0; i < 64; i += 2) free(before[i]); /* so that lists have free blocks */
    value = wanted & 0xff;
    CHECK(mallopt(M_PERTURB, (int)wanted) == 1, "mallopt refuses");
    for (int i = 1; i < 64; i += 2) end_object(before[i], 20 + 10 * (size_t)i);
    use_all();
    value = 0x3c;
    CHECK(mallopt(M_PERTURB, 0x3c) == 1, "mallopt refuses another value");
    use_all();
    CHECK(mallopt(M_PERTURB, 0) == 1, "mallopt refuses 0");
    for (int i = 0; i < 1000; i++) {
        unsigned char *p = malloc(200);
        CHECK(p != NULL, "no memory");
        uintptr_t there = (uintptr_t)p;
        memset(p, 7, 200);
        free(p);
        if (RELEASE) expect_filled((const void *)there, 16, 200, 7, "an object freed afterwards");
    }
}

/* ---- mallopt's answers, and glibc's ---- */

static void compare_answers(void) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    int (*theirs)(int, int) = NULL;
    if (libc != NULL) *(void **)&theirs = dlsym(libc, "mallopt");
    CHECK(theirs != NULL && theirs != mallopt, "glibc's mallopt is not there");
    static const int parameters[] = {M_MXFAST,   M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD,
                                     M_MMAP_MAX, M_CHECK_ACTION,   M_ARENA_TEST, M_ARENA_MAX};
    static const int settings[] = {0, 1, 2, 64, 160, 161, 4096, 1 << 20, 32 << 20, (32 << 20) + 1,
                                   -1};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        for (size_t j = 0; j < sizeof settings / sizeof *settings; j++) {
            int answer = mallopt(parameters[i], settings[j]);
            int expected = theirs(parameters[i], settings[j]);
            CHECK(answer == expected, "mallopt(%d, %d) is %d, glibc's %d", parameters[i],
                  settings[j], answer, expected);
        }
    }
    CHECK(mallopt(M_TRIM_THRESHOLD, 128 * 1024) == 1, "back to trimming");
}

/* ---- Children ---- */

static void expect(const char *what, const char *number, const char *const *settings,
                   const char *const *lines) {
    /* Freed memory is looked at: it must not be purged before, however busy the machine is. */
    char text[8192], *environment[8] = {(char *)"LOAM_PURGE_DELAY=3600s"};
    char *arguments[] = {(char *)works_self(), (char *)what, (char *)number, NULL};
    for (size_t i = 0; settings[i] != NULL; i++) environment[i + 1] = (char *)settings[i];
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    works_expect_ok(status, settings[0] != NULL ? settings[0] : what);
    const char *at = text;
    for (; *lines != NULL; lines++) {
        const char *found = strstr(at, *lines);
        CHECK(found != NULL, "%s: no line '%s' in '%.2000s'", what, *lines, at);
        at = found + strlen(*lines);
    }
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE ((const char *const[]){NULL})
#define VERBOSE "LOAM_VERBOSE=1"
#if SECURE
#define FREED(n) "0"
#else
#define FREED(n) n
#endif

int main(int argc, char **argv) {
    if (argc == 3) {
        value = (unsigned)strtoul(argv[2], NULL, 0);
        if (strcmp(argv[1], "fill") == 0) use_all();
        if (strcmp(argv[1], "call") == 0) by_call(value);
        if (strcmp(argv[1], "answers") == 0) compare_answers();
        if (strcmp(argv[1], "mxfast") == 0)
            CHECK(mallopt(M_MXFAST, 64) + mallopt(M_MXFAST, 80) == 2, "refused");
        return 0;
    }
    works_limit(60);
    works_require_loam();
    expect("fill", "85", LIST("MALLOC_PERTURB_=85", VERBOSE),
           LIST("loam: MALLOC_PERTURB_=85: new objects are filled with 170, freed ones with " FREED(
               "85") "\n"));
    expect(
        "fill", "0xa5",
        LIST("GLIBC_TUNABLES=glibc.malloc.check=1:glibc.malloc.perturb=0xa5", "MALLOC_PERTURB_=3"),
        NONE);
    expect("fill", "0245", LIST("MALLOC_PERTURB_=0245"), NONE); /* octal */
    expect("fill", "7", LIST("MALLOC_PERTURB_= +7x"), NONE);
    expect("call", "1", NONE, NONE);
    expect("call", "0xff", NONE, NONE);
    expect("call", "256", NONE, NONE); /* its lowest byte is 0: memory is filled all the same */
    expect("answers", "0", NONE, NONE);
    expect("mxfast", "0", LIST(VERBOSE),
           LIST("loam: mallopt(M_MXFAST, 64) ignored: freed blocks of "));
    expect("none", "0",
           LIST(VERBOSE, "MALLOC_ARENA_MAX=2", "MALLOC_CHECK_=3", "MALLOC_TRIM_THRESHOLD_=131072",
                "MALLOC_PERTURB_=300",
                "GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.cpu.x=1:"
                "glibc.malloc.hugetlb=2:glibc.malloc.new=1:broken"),
           LIST("loam: MALLOC_ARENA_MAX=2 ignored: ", "loam: MALLOC_CHECK_=3 ignored: ",
                "loam: MALLOC_TRIM_THRESHOLD_=131072 ignored: ",
                "loam: MALLOC_PERTURB_=300 ignored: a value from 0 to 255",
                "loam: glibc.malloc.tcache_count=0 ignored: ",
                "loam: glibc.malloc.hugetlb=2 ignored: ",
                "loam: glibc.malloc.new=1 ignored: loam does not know it\n"));
    expect("none", "0",
           LIST(VERBOSE, "MALLOC_TRIM_THRESHOLD_=-1", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
                "LOAM_LARGE_OS_PAGES=0"),
           LIST("loam: LOAM_PAGE_RESET=0 (program; default 1)\n",
                "loam: LOAM_LARGE_OS_PAGES=0 (environment; default auto)\n",
                "loam: MALLOC_TRIM_THRESHOLD_=-1: as LOAM_PAGE_RESET=0\n",
                "loam: glibc.malloc.hugetlb=1 ignored: LOAM_LARGE_OS_PAGES is given as well\n"));
    return 0;
}
