/*
 * sampling_children.c - loam works when a process that samples allocations forks: each child
 * samples other allocations than its siblings and its parent, and as many as the rate says, from
 * its first on.
 *
 *   who forks x who allocates in the child x rate x how many objects x seed
 *
 * Catches: a child that goes on with its parent's random numbers, or with lists of blocks that were
 * counted in the parent; a heap of an ended thread that a thread of the child takes over as it was;
 * children of which only one sample differs.
 *
 * What chance may do is allowed: limits are six standard deviations away.
 */
#include "works.h"

#include <loam/malloc.h>
#include <loam/sampling.h>

#include <pthread.h>
#include <sys/syscall.h>

extern pid_t _Fork(void) __attribute__((weak)); /* glibc 2.34 */

enum { children = 80, places = 8 };

/* What a child tells: the places of its first samples, -1: none; and how many there were. */
typedef struct told {
    int place[places];
    int taken;
} told_t;

static size_t each, bytes;

static void *allocate(void *argument) {
    told_t *told = argument;
    loam_sampling_numbers before, after;
    int n = 0;
    for (int i = 0; i < places; i++) told->place[i] = -1;
    loam_sampling_get(&before);
    for (size_t i = 0; i < each; i++) {
        void *p = malloc(bytes);
        if (n < places && loam_sampling_holds(p)) told->place[n++] = (int)i;
        free(p);
    }
    loam_sampling_get(&after);
    told->taken = (int)(after.taken - before.taken);
    return NULL;
}

static void in_thread(told_t *told) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate, told) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

static void *ended(void *nothing) {
    for (int i = 0; i < 500; i++) free(malloc(bytes)); /* its heap is the next thread's */
    return nothing;
}

static pthread_mutex_t waits = PTHREAD_MUTEX_INITIALIZER;
static void *wait_there(void *nothing) {
    void *p = malloc(100);
    pthread_mutex_lock(&waits);
    pthread_mutex_unlock(&waits);
    free(p);
    return nothing;
}

typedef struct way {
    const char *name;
    bool threads;   /* the parent has several */
    bool by_thread; /* a thread of the child's allocates */
    bool twice;     /* a child of a child does */
    bool seen;      /* loam is told of the fork: it is not by _Fork or clone */
} way_t;

static const way_t ways[] = {
    {"fork", false, false, false, true},
    {"fork of one with threads", true, false, false, true},
    {"fork, a thread", false, true, false, true},
    {"fork of one with threads, a thread", true, true, false, true},
    {"fork, twice", false, false, true, true},
    {"_Fork", false, false, false, false},
};

static pid_t copy(const way_t *way) {
    if (way->seen) return fork();
    return _Fork != NULL ? _Fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void child(const way_t *way, int end) {
    told_t told;
    if (way->twice) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid > 0) {
            works_expect_ok(works_wait(pid), "a child of a child");
            _exit(0);
        }
    }
    if (way->by_thread)
        in_thread(&told);
    else
        allocate(&told);
    works_write(end, (const char *)&told, sizeof told);
    _exit(0);
}

static told_t all[children + 1];

/* How many different values there are at that place among all who have one. */
static int different(int place, int *have) {
    int n = 0;
    *have = 0;
    for (int i = 0; i <= children; i++) {
        int value = all[i].place[place], j = 0;
        if (value < 0) continue;
        (*have)++;
        while (j < i && all[j].place[place] != value) j++;
        n += j == i;
    }
    return n;
}

static void try(const way_t *way, size_t rate, size_t objects) {
    each = objects;
    pthread_t thread;
    CHECK(loam_sampling_set(rate) == 0, "loam_sampling_set");
    if (way->by_thread) {
        pthread_create(&thread, NULL, ended, NULL);
        pthread_join(thread, NULL);
    }
    pthread_mutex_lock(&waits);
    if (way->threads) pthread_create(&thread, NULL, wait_there, NULL);
    for (size_t i = 0; i < rate / 2; i++) free(malloc(bytes)); /* lists that are in use */
    double sum = 0;
    for (int i = 0; i < children; i++) {
        int ends[2];
        CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
        pid_t pid = copy(way);
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) child(way, ends[1]);
        CHECK(read(ends[0], &all[i], sizeof all[i]) == sizeof all[i], "nothing from the child");
        close(ends[0]);
        close(ends[1]);
        works_expect_ok(works_wait(pid), way->name);
        sum += all[i].taken;
    }
    allocate(&all[children]); /* the parent itself */
    pthread_mutex_unlock(&waits);
    if (way->threads) pthread_join(thread, NULL);
    double mean = (double)children * (double)objects / (double)rate, off = sum - mean;
    /* One that loam does not see has what was drawn before in common with all others: two
     * samples. */
    if (way->seen)
        CHECK(off * off < 36 * mean, "%s, one in %zu: %.0f samples, not %.0f", way->name, rate, sum,
              mean);
    for (int place = way->seen ? 0 : 2; place < 4; place++) {
        int have, n = different(place, &have);
        /* Of `have` draws from `rate` values or more, geometric: a third of what uniform ones
         * had. */
        int least = have < (int)rate ? have / 3 : (int)rate / 2;
        CHECK(n >= least && have > 20, "%s, one in %zu: of %d samples number %d, %d places",
              way->name, rate, have, place + 1, n);
    }
}

int main(void) {
    works_require_loam();
    works_limit(60);
    uint64_t seed = works_now_ms();
    static const size_t rates[] = {5, 50, 1000};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        size_t rate = rates[works_random(&seed) % 3];
        bytes = 16 + works_random(&seed) % 1000;
        for (size_t k = 0; k < 20; k++) free(malloc(bytes));
        try(&ways[i], rate, 8 * rate + works_random(&seed) % rate);
    }
    return 0;
}
