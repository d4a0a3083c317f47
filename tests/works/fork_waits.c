/* 
 * fork_waits.c - fork never waits for a thread that waits for the allocator, and its child can
 * allocate.
 *
 *   fork_waits stdio            step by step: the forking thread waits for a lock of stdio, whose
 *                               holder waits for a stream, whose holder allocates
 *   fork_waits storm [SECONDS]  8 threads allocate, read streams, flush all streams and fork
 *   fork_waits handler [COUNT]  threads allocate, and are interrupted by a signal handler that
 *                               forks, COUNT hundred times in all
 *
 * Catches: an allocator that holds its locks from the handlers of pthread_atfork on, while libc's
 * fork waits for locks under which other functions of libc allocate; a handler that waits for what
 * its own thread holds; children that find a lock taken, or lists half changed. Children end by
 * their alarm if they hang.
 *
 * The seed is printed, and taken from WORKS_SEED if that is set.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SLOTS = 64, CHILD_SECONDS = 60 };

static uint32_t draw(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

typedef struct table {
    char *slot[SLOTS];
    size_t bytes[SLOTS];
} table;

static _Thread_local volatile sig_atomic_t allocates; /* the thread is in a call of the allocator */
static volatile sig_atomic_t steps_left =
    -1; /* of a child that returned from its handler; negative: no such child */

/* Replaces objects of all sizes; each has its table's mark in its first and last byte. */
static void churn(table *t, uint32_t *seed, int times) {
    char mark = (char)(uintptr_t)t;
    for (int i = 0; i < times; i++) {
        uint32_t s = draw(seed, SLOTS);
        char *old = t->slot[s];
        if (old != NULL && (old[0] != mark || old[t->bytes[s] - 1] != mark)) _exit(8);
        t->slot[s] = NULL; /* a handler may fork now, and its child must not free it again */
        size_t bytes = draw(seed, 16) == 0 ? 65536 + draw(seed, 1000000) : 1 + draw(seed, 3000);
        allocates = 1;
        free(old);
        char *block = malloc(bytes);
        allocates = 0;
        if (block == NULL) _exit(3);
        block[0] = block[bytes - 1] = mark;
        t->bytes[s] = bytes;
        t->slot[s] = block;
        if (steps_left >= 0 && steps_left-- == 0) _exit(0);
    }
}

/* ---- One step at a time ---- */

enum { ROUNDS = 10 };

static atomic_int step;
static FILE *stream;
static atomic_int forking;

static void await(int number) {
    while (atomic_load(&step) < number) usleep(1000);
}

static void fork_begins(void) { atomic_store(&forking, 1); }

static void *flush_all(void *none) {
    await(1);
    atomic_store(&step, 2);
    fflush(NULL); /* holds the list of streams, and waits for the stream */
    return none;
}

static void *fork_once(void *none) {
    await(3);
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        static table t;
        uint32_t seed = 1;
        alarm(CHILD_SECONDS);
        churn(&t, &seed, 500);
        _exit(0);
    }
    works_expect_ok(works_wait(pid), "the child");
    return none;
}

static void *hold_stream(void *none) {
    static table t;
    static uint32_t seed = 1;
    flockfile(stream);
    atomic_store(&step, 1);
    await(2);
    /* Until the stream is waited for. Too short a time would make the test blind, not fail. */
    usleep(50000);
    atomic_store(&step, 3);
    while (!atomic_load(&forking)) usleep(1000);
    usleep(50000); /* the same for the list of streams */
    churn(&t, &seed, 300);
    funlockfile(stream);
    return none;
}

static void step_by_step(void) {
    stream = tmpfile();
    CHECK(stream != NULL, "tmpfile: %s", strerror(errno));
    CHECK(pthread_atfork(fork_begins, NULL, NULL) == 0, "pthread_atfork");
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t ids[3];
        void *(*const each[3])(void *) = {hold_stream, flush_all, fork_once};
        atomic_store(&step, 0);
        atomic_store(&forking, 0);
        for (int t = 0; t < 3; t++)
            CHECK(pthread_create(&ids[t], NULL, each[t], NULL) == 0, "pthread_create");
        for (int t = 0; t < 3; t++) CHECK(pthread_join(ids[t], NULL) == 0, "pthread_join");
    }
}

/* ---- All at once ---- */

enum { THREADS = 8, FORKERS = 2, READERS = 3, FLUSHERS = 1 };

static atomic_bool stop;
static atomic_uint forks;
static table tables[THREADS];
static char *path;
static uint32_t first_seed;

static void storm_child(table *t, uint32_t seed) {
    alarm(CHILD_SECONDS);
    churn(t, &seed, 100);
    /* Objects of threads that are not here; one in flight is in no table. */
    for (int i = 0; i < THREADS; i++) {
        if (&tables[i] == t) continue;
        for (int s = 0; s < SLOTS; s++) {
            char *block = tables[i].slot[s];
            tables[i].slot[s] = NULL;
            free(block);
        }
    }
    churn(t, &seed, 100);
    FILE *file = fopen("/dev/null", "w");
    if (file == NULL || fprintf(file, "%d", 1) != 1 || fclose(file) != 0) _exit(4);
    if (seed % 8 == 0) malloc_trim(0);
    _exit(0);
}

static void *storm_thread(void *argument) {
    unsigned number = (unsigned)(uintptr_t)argument;
    table *t = &tables[number];
    uint32_t seed = first_seed + number * 7919;
    while (!atomic_load(&stop)) {
        if (number < FORKERS) {
            churn(t, &seed, (int)draw(&seed, 50));
            pid_t pid = fork();
            CHECK(pid >= 0, "fork: %s", strerror(errno));
            if (pid == 0) storm_child(t, seed);
            works_expect_ok(works_wait(pid), "a child of the storm");
            atomic_fetch_add(&forks, 1);
        } else if (number < FORKERS + READERS) {
            FILE *file = fopen(path, "r");
            char *line = NULL;
            size_t room = 0;
            CHECK(file != NULL && getline(&line, &room, file) > 0, "getline: %s", strerror(errno));
            free(line);
            fclose(file);
        } else if (number < FORKERS + READERS + FLUSHERS) {
            fflush(NULL);
        } else {
            churn(t, &seed, 100);
        }
    }
    return NULL;
}

static void storm(unsigned seconds) {
    static char name[] = "/tmp/fork_waits.XXXXXX";
    static const char line[1000] = {[0 ... 998] = 'x', '\n'};
    int file = mkstemp(name);
    CHECK(file >= 0 && write(file, line, sizeof line) == sizeof line, "mkstemp");
    close(file);
    path = name;
    pthread_t ids[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&ids[t], NULL, storm_thread, (void *)(uintptr_t)t) == 0,
              "pthread_create");
    for (uint64_t end = works_now_ms() + seconds * 1000u; works_now_ms() < end;) {
        unsigned before = atomic_load(&forks);
        uint64_t limit = works_now_ms() + 60000u * WORKS_SLOWNESS;
        while (atomic_load(&forks) == before) {
            CHECK(works_now_ms() < limit, "no fork has ended for a minute, after %u", before);
            usleep(10000);
        }
    }
    atomic_store(&stop, true);
    for (size_t t = 0; t < THREADS; t++) CHECK(pthread_join(ids[t], NULL) == 0, "pthread_join");
    unlink(name);
    printf("%u forks\n", atomic_load(&forks));
}

/* ---- From a signal handler ---- */

enum { CHURNERS = 4 };

static atomic_uint handled, failed;

static void on_signal(int sig) {
    (void)sig;
    int before = errno;
    unsigned n = atomic_fetch_add(&handled, 1);
    pid_t pid = fork();
    if (pid == 0) {
        static table t;
        uint32_t seed = n;
        alarm(CHILD_SECONDS);
        if (setgid(getgid()) != 0 || setuid(getuid()) != 0) _exit(5);
        /* More than POSIX allows in the child of a program with several threads. */
        if (!allocates) churn(&t, &seed, 50);
        if (n % 2 == 0) _exit(0);
        steps_left = 200;
        return;
    }
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        works_say("child %u ended with status %#x", n, (unsigned)status);
        atomic_fetch_add(&failed, 1);
    }
    errno = before;
}

static void *churn_on(void *argument) {
    table *t = &tables[(uintptr_t)argument];
    uint32_t seed = first_seed + (uint32_t)(uintptr_t)argument;
    while (!atomic_load(&stop)) churn(t, &seed, 50);
    return NULL;
}

static void from_handler(unsigned wanted) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    pthread_t ids[CHURNERS];
    uint32_t seed = first_seed;
    for (size_t t = 0; t < CHURNERS; t++)
        CHECK(pthread_create(&ids[t], NULL, churn_on, (void *)(uintptr_t)t) == 0, "pthread_create");
    while (atomic_load(&handled) < wanted) {
        CHECK(pthread_kill(ids[draw(&seed, CHURNERS)], SIGUSR1) == 0, "pthread_kill");
        usleep(draw(&seed, 2000));
    }
    atomic_store(&stop, true);
    for (size_t t = 0; t < CHURNERS; t++) CHECK(pthread_join(ids[t], NULL) == 0, "pthread_join");
    CHECK(atomic_load(&failed) == 0, "%u of %u children failed", atomic_load(&failed),
          atomic_load(&handled));
}

int main(int argc, char **argv) {
    works_require_loam();
    const char *what = argc > 1 ? argv[1] : "stdio", *seed = getenv("WORKS_SEED");
    unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 4;
    works_limit(seconds + 200);
    first_seed = seed != NULL ? (uint32_t)atoi(seed) : (uint32_t)getpid() * 2654435761u;
    printf("seed %u\n", first_seed);
    fflush(stdout);
    if (strcmp(what, "storm") == 0)
        storm(seconds);
    else if (strcmp(what, "handler") == 0)
        from_handler(100 * seconds);
    else
        step_by_step();
    return 0;
}
