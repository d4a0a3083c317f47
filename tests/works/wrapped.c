/*
 * wrapped.c - loam works when a preloaded tool wraps the functions of libc that it calls, and
 * allocates in each of them.
 *
 * Profilers, tracers and fault injectors do so. Catches: a lock that is held while libc is
 * called, and a heap that is not in order then: a hang, an object that two threads have, calloc
 * that is not zero.
 *
 *     LD_PRELOAD=the tool (wrapped_tool.c) wrapped [threads | statistics]
 *
 * threads: threads that use every size and every function of malloc, end and start again, and
 * children that do so, too. statistics: what prints, copies text, samples and finds mistakes.
 */
#include "works.h"

#include <loam/loam.h>
#include <pthread.h>
#include <sys/resource.h>
#include <wchar.h>

enum { THREADS = 4, ROUNDS = 3, STEPS = 4000, OBJECTS = 200, CHILDREN = 3 };

static unsigned long (*calls)(const char *name);

static void find_tool(void) {
    void *symbol = dlsym(RTLD_DEFAULT, "wrapped_calls");
    CHECK(symbol != NULL, "the tool is not preloaded: LD_PRELOAD=%s", getenv("LD_PRELOAD"));
    memcpy(&calls, &symbol, sizeof calls);
}

/* ---- Threads ---- */

static size_t draw(uint64_t *state, int step) {
    static const size_t most[] = {64, 500, 3000, 20000, 150000, 1500000};
    uint64_t r = works_random(state);
    size_t limit = step % 200 == 0 ? most[5] : step % 50 == 0 ? most[4] : most[r % 4];
    return 1 + (size_t)(r >> 8) % limit;
}

static bool all_zero(const char *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (p[i] != 0) return false;
    }
    return true;
}

static works_block *made(works_block *block, size_t bytes, uint64_t seed) {
    CHECK(block != NULL, "%zu bytes: NULL", bytes);
    block->bytes = bytes;
    block->seed = seed;
    works_fill(block + 1, bytes - sizeof *block, seed);
    return block;
}

static works_block *new_block(uint64_t *state, int step) {
    size_t bytes = sizeof(works_block) + draw(state, step);
    uint64_t seed = works_random(state);
    void *p = NULL;
    switch (seed >> 13 & 3) {
    case 0:
        p = calloc(1, bytes);
        CHECK(p == NULL || all_zero((char *)p, bytes), "calloc of %zu bytes is not zero", bytes);
        break;
    case 1: CHECK(posix_memalign(&p, 256, bytes) == 0, "posix_memalign of %zu bytes", bytes); break;
    default: p = malloc(bytes);
    }
    return made((works_block *)p, bytes, seed);
}

static works_block *resized(works_block *block, uint64_t *state, int step) {
    size_t had = block->bytes, bytes = sizeof *block + draw(state, step);
    uint64_t seed = block->seed;
    works_block_check(block);
    block = (works_block *)realloc(block, bytes);
    CHECK(block != NULL, "realloc of %zu to %zu bytes: NULL", had, bytes);
    size_t kept = (had < bytes ? had : bytes) - sizeof *block;
    CHECK(works_filled(block + 1, kept, seed), "realloc of %zu to %zu bytes lost some", had, bytes);
    return made(block, bytes, seed);
}

/* Objects that one thread hands to whichever comes next. */
static works_block *handed[64]; /* atomic */

static void *work(void *argument) {
    uint64_t state = (uint64_t)(uintptr_t)argument * 2654435761u + 1;
    works_block *have[OBJECTS] = {0};
    for (int step = 0; step < STEPS; step++) {
        works_block **at = &have[works_random(&state) % OBJECTS];
        if (*at == NULL)
            *at = new_block(&state, step);
        else if (works_random(&state) % 4 == 0)
            *at = resized(*at, &state, step);
        else if (works_random(&state) % 4 == 0)
            *at = __atomic_exchange_n(&handed[step % 64], *at, __ATOMIC_ACQ_REL);
        else {
            works_block_free(*at);
            *at = NULL;
        }
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (have[i] != NULL) works_block_free(have[i]);
    }
    return NULL;
}

static void run_threads(int round, int count) {
    pthread_t thread[THREADS];
    for (int i = 0; i < count; i++) {
        void *number = (void *)(uintptr_t)(round * THREADS + i + 1);
        CHECK(pthread_create(&thread[i], NULL, work, number) == 0, "pthread_create");
    }
    for (int i = 0; i < count; i++) CHECK(pthread_join(thread[i], NULL) == 0, "pthread_join");
}

static void *fork_often(void *argument) {
    (void)argument;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            works_limit(30);
            (void)work((void *)(uintptr_t)(1000 + i));
            _exit(0);
        }
        works_expect_ok(works_wait(pid), "a child");
    }
    return NULL;
}

static void threads(void) {
    pthread_t forker;
    CHECK(pthread_create(&forker, NULL, fork_often, NULL) == 0, "pthread_create");
    for (int round = 0; round < ROUNDS; round++) run_threads(round, THREADS);
    CHECK(pthread_join(forker, NULL) == 0, "pthread_join");
    CHECK(calls("pthread_setspecific") > 0, "pthread_setspecific was not wrapped");
}

/* ---- Statistics, texts, samples, mistakes ---- */

static void print(void) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    CHECK(stream != NULL, "open_memstream");
    CHECK(malloc_info(0, stream) == 0, "malloc_info");
    (void)fclose(stream);
    CHECK(strstr(text, "</malloc>") != NULL, "malloc_info wrote %zu bytes: %s", bytes, text);
    free(text);
    malloc_stats();
    struct mallinfo2 info = mallinfo2();
    CHECK(info.uordblks > 0, "mallinfo2: nothing is in use");
    (void)malloc_trim(0);
    loam_stats_t stats;
    CHECK(loam_stats_get(&stats, sizeof stats) == 0, "loam_stats_get");
    loam_stats_print();
    CHECK(calls("fprintf") > 0, "fprintf was not wrapped");
}

static void texts(void) {
    char *copy = loam_strdup("a text of more than sixteen bytes"), *some = loam_strndup("text", 2);
    wchar_t *wide = loam_wcsdup(L"wide");
    char *path = loam_realpath("/proc/self/exe", NULL);
    CHECK(copy != NULL && strcmp(copy, "a text of more than sixteen bytes") == 0, "loam_strdup");
    CHECK(some != NULL && strcmp(some, "te") == 0, "loam_strndup");
    CHECK(wide != NULL && wcscmp(wide, L"wide") == 0, "loam_wcsdup");
    CHECK(path != NULL && path[0] == '/', "loam_realpath");
    loam_free(copy);
    loam_free(some);
    loam_free(wide);
    loam_free(path);
}

/* Runs while threads sample. */
static void statistics(void) {
    pthread_t thread[THREADS];
    CHECK(loam_option_set("guard_sampling", "20") == 0, "loam_option_set");
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)) == 0, "thread");
    for (int i = 0; i < 20; i++) {
        print();
        texts();
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0, "join");
    CHECK(calls("strlen") > 0, "strlen was not wrapped");
    CHECK(calls("sigaction") > 0, "sigaction was not wrapped");
}

/* No memory: errno is set, in threads. */
static void *refuse(void *argument) {
    (void)argument;
    for (int i = 0; i < 200; i++) {
        errno = 0;
        void *volatile p = malloc(SIZE_MAX / 2);
        CHECK(p == NULL && errno == ENOMEM, "malloc(SIZE_MAX / 2) gave %p, errno %d", p, errno);
    }
    return NULL;
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(60);
    find_tool();
    const char *what = count > 1 ? arguments[1] : "threads";
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, refuse, NULL) == 0, "pthread_create");
    if (strcmp(what, "threads") == 0)
        threads();
    else
        statistics();
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join");
    CHECK(calls("__errno_location") > 0, "__errno_location was not wrapped");
    return 0;
}
