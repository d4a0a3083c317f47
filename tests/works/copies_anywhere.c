/* 
 * copies_anywhere.c - copies that are right are made, and never reported, wherever their bytes lie
 * and whoever makes them.
 *
 * The secure build looks at each longer copy. It has to know a live object's bytes from all other
 * memory: stacks, static memory, mappings, another allocator's blocks, objects at an offset. And it
 * has to look at any moment: before main, in a signal handler that interrupts malloc, in a child,
 * in the destructors of a thread and of the process. The same program runs in every build.
 *
 * Catches: a report of a copy that fits; a look that waits for what an interrupted malloc holds; a
 * copy of no bytes that is looked at; with LOAM_IGNORE=copy, a program that is ended for a mistake.
 */
#include "works.h"

#include <loam/loam.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static void *(*volatile v_memcpy)(void *, const void *, size_t) = memcpy;
static void *(*volatile v_memmove)(void *, const void *, size_t) = memmove;
static void *(*volatile v_memset)(void *, int, size_t) = memset;
static char *(*volatile v_strcpy)(char *, const char *) = strcpy;

enum { places = 14, longest = 3000, handler_calls = 3000 };

/* A block of an allocator of the program's own, in the middle of its mapping. */
static char *own_block(void) {
    char *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED, "mmap: %s", strerror(errno));
    return map + 4096 + 24;
}

static char fixed[64][longest]; /* of one round each */
static _Thread_local char of_thread[longest];

/* The last `bytes` bytes of what p has: a byte more would be too much. */
static char *last_of(void *p, size_t bytes) {
    CHECK(p != NULL, "no memory");
    return (char *)p + malloc_usable_size(p) - bytes;
}

static void copy_between_all(uint64_t *state) {
    static _Atomic unsigned rounds;
    unsigned round = rounds++;
    size_t bytes = 1 + works_random(state) % longest, offset = 8 + works_random(state) % 4 * 16;
    char local[longest], shorter[longest], *own = own_block();
    void *exact = malloc(bytes), *wide = aligned_alloc(4096, 8192), *large = malloc(70000 + bytes),
         *huge = malloc(3 * WORKS_MIB), *cleared = calloc(1, bytes),
         *grown = realloc(malloc(bytes / 2 + 1), bytes),
         *apart = loam_malloc_aligned_offset(bytes, 256, offset),
         *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && apart != NULL && huge != NULL, "no memory");
    char *at[places] = {last_of(exact, bytes),
                        last_of(wide, bytes),
                        last_of(large, bytes),
                        last_of(huge, bytes),
                        last_of(cleared, bytes),
                        last_of(grown, bytes),
                        apart,
                        own,
                        shared,
                        fixed[round % 64],
                        of_thread,
                        local,
                        shorter,
                        (char *)huge + WORKS_MIB};
    for (int from = 0; from < places; from++) {
        int to = (int)(works_random(state) % places);
        v_memset(at[from], (int)(round + (unsigned)from) & 0x7f, bytes);
        v_memmove(at[to], at[from], bytes);
        CHECK(at[to][0] == at[from][0] && at[to][bytes - 1] == at[from][bytes - 1],
              "%zu B from place %d to place %d", bytes, from, to);
        if (to != from) v_memcpy(at[to], at[from], bytes);
        at[from][bytes - 1] = 0;
        v_memset(at[from], 'a', bytes - 1);
        if (to != from) v_strcpy(at[to], at[from]);
        CHECK(strlen(at[to]) == bytes - 1, "a text of %zu B at place %d", bytes - 1, to);
    }
    void *all[] = {exact, wide, large, huge, cleared, grown};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    loam_free(apart);
    CHECK(munmap(own - 4096 - 24, 65536) == 0 && munmap(shared, 4096) == 0, "munmap");
}

/* No bytes are copied: neither place need be any that can be read or written. */
static void copy_nothing(void) {
    char *freed = malloc(100), *kept = malloc(100), *volatile stale = freed;
    free(freed);
    char *ends[] = {kept, kept + malloc_usable_size(kept), stale, NULL, (char *)(uintptr_t)8};
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 5; j++) {
            v_memcpy(ends[i], ends[j], 0);
            v_memmove(ends[i], ends[j], 0);
        }
        v_memset(ends[i], 1, 0);
    }
    free(kept);
}

/* ---- From a signal handler ---- */

static char *old_objects[16];
static _Atomic unsigned handled;

static void handle(int signal) {
    char local[longest];
    unsigned n = handled++;
    char *a = old_objects[n % 16], *b = old_objects[(n + 7) % 16];
    (void)signal;
    v_memset(local, (int)n & 0x7f, sizeof local);
    v_memcpy(a, local, 100 + n % (longest - 100));
    v_memcpy(local, b, longest);
    if (a != b) v_memcpy(b, a, longest);
}

static void copy_in_handlers(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
    uint64_t state = 3;
    for (int i = 0; i < 16; i++) CHECK((old_objects[i] = malloc(longest)) != NULL, "no memory");
    CHECK(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    for (int i = 0; handled < handler_calls; i++) {
        void *p[20];
        for (int k = 0; k < 20; k++) p[k] = malloc(works_random(&state) % (i % 50 ? 3000 : 300000));
        for (int k = 0; k < 20; k++) p[k] = realloc(p[k], 1 + works_random(&state) % 5000);
        for (int k = 0; k < 20; k++) free(p[k]);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0, "setitimer");
    for (int i = 0; i < 16; i++) free(old_objects[i]);
}

/* ---- Before main, in threads that end, in children, at the end ---- */

static void at_a_moment(void) {
    static _Atomic uint64_t seed = 1;
    uint64_t state = ++seed;
    for (int i = 0; i < 3; i++) copy_between_all(&state);
}

__attribute__((constructor(101))) static void before_main(void) {
    char *p = malloc(64), *q = strdup("a text that is longer than 16 bytes");
    v_memcpy(p, q, strlen(q) + 1);
    free(p);
    free(q);
}

static void in_destructor(void *key) {
    at_a_moment();
    free(key);
}

static void *in_thread(void *key) {
    CHECK(pthread_setspecific(*(pthread_key_t *)key, malloc(100)) == 0, "pthread_setspecific");
    at_a_moment();
    return NULL;
}

static void copy_in_threads(void) {
    pthread_key_t key;
    pthread_t thread[4];
    CHECK(pthread_key_create(&key, in_destructor) == 0, "pthread_key_create");
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&thread[i], NULL, in_thread, &key) == 0, "pthread_create");
        pid_t child = fork();
        if (child == 0) {
            at_a_moment();
            exit(0);
        }
        CHECK(child > 0, "fork: %s", strerror(errno));
        works_expect_ok(works_wait(child), "a child that copies");
        for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    }
}

/* ---- A mistake, with LOAM_IGNORE=copy ---- */

static void mistaken(void) {
    char from[100];
    char *p = malloc(40), *volatile stale = malloc(200);
    v_memset(from, 5, sizeof from);
    free(stale);
    v_memcpy(from, stale, sizeof from); /* read of a freed object */
    v_memcpy(p, from, 40);
    free(p);
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(60);
    if (count > 1) {
        mistaken();
        return 0;
    }
    atexit(at_a_moment);
    copy_nothing();
    at_a_moment();
    copy_in_handlers();
    copy_in_threads();
    char text[4096];
    char *mode[] = {arguments[0], (char *)"--mistaken", NULL};
    char *environment[] = {(char *)"LOAM_IGNORE=copy", NULL};
    works_expect_ok(works_capture(arguments[0], mode, environment, 2, text, sizeof text),
                    "LOAM_IGNORE=copy");
    return 0;
}
