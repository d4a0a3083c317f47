// pool_threads.c: table 003's open question: a fixed pool, and many processors.
//
//   pair-T      T threads, each allocates an object of 64 bytes, writes to it and frees it
//   window-T    each keeps 200 objects and frees the oldest for each new one
//   passed      one thread allocates, another frees what it is passed
//
// --n is how many objects a thread allocates. Rows: the pool of many threads, with magazines; one
// of a single thread under a mutex, which is what the paper's reader would do; and its rules so.
// Processor time counts what spins, and not who sleeps on a mutex: `wall_ns`, for each object of
// all threads together, does.

#include "family.h"
#include "kenwright_rules.h"

#include <loam/pool.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { BYTES = 64, THREADS = 8, WINDOW = 200, RING = 1024, SHARED_LINE = 64 };

static const FamilyColumn columns[] = {
    {"pair-1", "a thread, each object freed at once", 5000000, 0},
    {"pair-2", "2 threads, each object freed at once", 5000000, 0},
    {"pair-4", "4 threads, each object freed at once", 2000000, 0},
    {"window-1", "a thread, 200 objects alive", 5000000, 0},
    {"window-2", "2 threads, 200 objects alive in each", 5000000, 0},
    {"window-4", "4 threads, 200 objects alive in each", 2000000, 0},
    {"passed", "allocated by one thread, freed by another", 5000000, 0},
};
const FamilyTable family_table = {"003", "Fixed pools of several threads", columns,
                                  sizeof columns / sizeof *columns};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// ---- work: one set of loops for each row
// ----------------------------------------------------------

typedef struct {
    uint64_t n;
    pthread_barrier_t begin;
    struct {
        void *object;
        char apart[SHARED_LINE - sizeof(void *)];
    } ring[RING];
} Work;

static inline void touch(void *object) {
    *(long *)object = 1;
    family_consume(object);
}

// An array of NULLs is passed round; a slot is the giver's while it is NULL.
static inline void ring_give(Work *work, uint64_t at, void *object) {
    void **slot = &work->ring[at % RING].object;
    while (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != NULL) sched_yield();
    __atomic_store_n(slot, object, __ATOMIC_RELEASE);
}
static inline void *ring_take(Work *work, uint64_t at) {
    void **slot = &work->ring[at % RING].object, *object;
    while ((object = __atomic_load_n(slot, __ATOMIC_ACQUIRE)) == NULL) sched_yield();
    __atomic_store_n(slot, NULL, __ATOMIC_RELEASE);
    return object;
}

static void run(const FamilyRequest *asked, void *(*body)(void *), void *(*other)(void *),
                unsigned threads) {
    static Work work;
    pthread_t ids[THREADS];
    work.n = asked->n;
    if (pthread_barrier_init(&work.begin, NULL, threads + 1) != 0) family_fail("no barrier");
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, i == 0 ? other : body, &work) != 0)
            family_fail("no thread");
    }
    FamilyClock clock = family_start();
    (void)pthread_barrier_wait(&work.begin);
    for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t objects = body == other ? asked->n * threads : asked->n;
    double wall =
        (double)(now.tv_sec - clock.wall.tv_sec) * 1e9 + (double)(now.tv_nsec - clock.wall.tv_nsec);
    family_also("wall_ns", wall / (double)objects);
    family_stop(&clock, "use", objects);
}

#define ROW(row) \
    static void *row##_pairs(void *context) { \
        Work *work = (Work *)context; \
        (void)pthread_barrier_wait(&work->begin); \
        for (uint64_t i = 0; i < work->n; i++) { \
            void *object = family_need(row##_alloc()); \
            touch(object); \
            row##_free(object); \
        } \
        return NULL; \
    } \
    static void *row##_windows(void *context) { \
        Work *work = (Work *)context; \
        void *window[WINDOW] = {NULL}; \
        (void)pthread_barrier_wait(&work->begin); \
        for (uint64_t i = 0; i < work->n; i++) { \
            void **slot = &window[i % WINDOW]; \
            if (*slot != NULL) row##_free(*slot); \
            touch(*slot = family_need(row##_alloc())); \
        } \
        for (int i = 0; i < WINDOW; i++) { \
            if (window[i] != NULL) row##_free(window[i]); \
        } \
        return NULL; \
    } \
    static void *row##_gives(void *context) { \
        Work *work = (Work *)context; \
        (void)pthread_barrier_wait(&work->begin); \
        for (uint64_t i = 0; i < work->n; i++) { \
            void *object = family_need(row##_alloc()); \
            touch(object); \
            ring_give(work, i, object); \
        } \
        return NULL; \
    } \
    static void *row##_takes(void *context) { \
        Work *work = (Work *)context; \
        (void)pthread_barrier_wait(&work->begin); \
        for (uint64_t i = 0; i < work->n; i++) row##_free(ring_take(work, i)); \
        return NULL; \
    } \
    static void row##_pair(const FamilyRequest *asked) { \
        unsigned threads = (unsigned)(asked->column->name[5] - '0'); \
        row##_begin(); \
        run(asked, row##_pairs, row##_pairs, threads); \
    } \
    static void row##_window(const FamilyRequest *asked) { \
        unsigned threads = (unsigned)(asked->column->name[7] - '0'); \
        row##_begin(); \
        run(asked, row##_windows, row##_windows, threads); \
    } \
    static void row##_passed(const FamilyRequest *asked) { \
        row##_begin(); \
        run(asked, row##_gives, row##_takes, 2); \
    } \
    static const FamilyCell row##_cells[] = { \
        {"pair-1", row##_pair},     {"pair-2", row##_pair}, \
        {"pair-4", row##_pair},     {"window-1", row##_window}, \
        {"window-2", row##_window}, {"window-4", row##_window}, \
        {"passed", row##_passed},   FAMILY_END, \
    };

// ---- rows
// -----------------------------------------------------------------------------------------

static KwPool rules;
static void rules_begin(void) {
    if (!kw_create(&rules, BYTES, THREADS * WINDOW + RING)) family_fail("no pool");
}
static inline void *rules_alloc(void) {
    pthread_mutex_lock(&mutex);
    void *object = kw_alloc(&rules);
    pthread_mutex_unlock(&mutex);
    return object;
}
static inline void rules_free(void *object) {
    pthread_mutex_lock(&mutex);
    kw_free(&rules, object);
    pthread_mutex_unlock(&mutex);
}
ROW(rules)
FAMILY_ROW(rules_row, "kenwright-mutex", "2012", "Kenwright's pool under a mutex", FAMILY_RENDITION,
           rules_cells)

static loam_pool single;
static void single_begin(void) {
    if (loam_pool_init(&single, NULL, BYTES, NULL)) family_fail("no pool");
}
static inline void *single_alloc(void) {
    pthread_mutex_lock(&mutex);
    void *object = loam_pool_alloc(&single);
    pthread_mutex_unlock(&mutex);
    return object;
}
static inline void single_free(void *object) {
    pthread_mutex_lock(&mutex);
    loam_pool_free(&single, object);
    pthread_mutex_unlock(&mutex);
}
ROW(single)
FAMILY_ROW(single_row, "loam-mutex", LOAM_VERSION_TEXT, "loam_pool under a mutex", FAMILY_LOAM,
           single_cells)

static loam_shared_pool shared;
static void shared_begin(void) {
    if (loam_shared_pool_init(&shared, NULL, BYTES, NULL)) family_fail("no pool");
}
static inline void *shared_alloc(void) { return loam_shared_pool_alloc(&shared); }
static inline void shared_free(void *object) { loam_shared_pool_free(&shared, object); }
ROW(shared)
FAMILY_ROW(shared_row, "loam-shared", LOAM_VERSION_TEXT, "loam_shared_pool, with magazines",
           FAMILY_LOAM, shared_cells)

static void heap_begin(void) {}
static inline void *heap_alloc(void) { return malloc(BYTES); }
static inline void heap_free(void *object) { free(object); }
ROW(heap)
FAMILY_ROW(heap_row, "malloc", "libc", "malloc", FAMILY_RIVAL, heap_cells)
