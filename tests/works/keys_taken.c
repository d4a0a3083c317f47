/* 
 * keys_taken.c - where a program has taken all pthread keys, threads still begin, allocate and end
 * without growth, and what one of them left behind can be freed by the others.
 *
 *   keys_taken joined     one thread after the other, on stacks that libc uses again
 *   keys_taken apart      each on a stack of its own, mapped for it: no control block is used twice
 *   keys_taken crowd      64 at a time, while 16 others live on; some free what others have
 *                         allocated
 *   keys_taken fork       the same in the child of a fork of a thread
 *
 * Catches: an allocator that learns of a thread's end by a key alone, and loses a heap with each
 * thread.
 */
#include "works.h"

#include <pthread.h>

enum { warm_up = 300, more = 3000, objects = 100, most_grown_kib = 4096, stack_kib = 128 };

static pthread_key_t key[2000];
static int keys;
static void *handed_over[64];

/* In a crowd all are there at once, or it would be chance how many heaps there are at a time. */
static pthread_barrier_t all_there;
static bool crowded;

/* A constructor, because loam takes a key for the first thread that allocates. */
__attribute__((constructor)) static void take_all(void) {
    while (keys < 2000 && pthread_key_create(&key[keys], NULL) == 0) keys++;
}

static void *run(void *number) {
    void *block[objects];
    size_t n = (size_t)(uintptr_t)number;
    for (int i = 0; i < objects; i++) {
        block[i] = malloc(100 + (size_t)i * 20);
        CHECK(block[i], "malloc returned NULL");
        memset(block[i], 1, 100);
    }
    if (crowded) pthread_barrier_wait(&all_there);
    void *mine = malloc(1000);
    void *other = __atomic_exchange_n(&handed_over[n % 64], mine, __ATOMIC_ACQ_REL);
    free(other);
    for (int i = 0; i < objects; i++) free(block[i]);
    pthread_setspecific(key[100], number);
    return NULL;
}

static void join(pthread_t thread) {
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join failed");
}

static void start(pthread_t *thread, const pthread_attr_t *attributes, size_t n) {
    int error = pthread_create(thread, attributes, run, (void *)(uintptr_t)n);
    CHECK(error == 0, "pthread_create: %s", strerror(error));
}

static void joined(size_t from, size_t to) {
    for (size_t n = from; n < to; n++) {
        pthread_t thread;
        start(&thread, NULL, n);
        join(thread);
    }
}

static void apart(size_t from, size_t to) {
    enum { held = 16 };
    static void *stack[held];
    for (size_t n = from; n < to; n++) {
        size_t bytes = stack_kib * WORKS_KIB;
        pthread_attr_t attributes;
        pthread_t thread;
        if (stack[n % held]) munmap(stack[n % held], bytes);
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
        stack[n % held] = at;
        CHECK(pthread_attr_init(&attributes) == 0 &&
                  pthread_attr_setstack(&attributes, at, bytes) == 0,
              "no attributes");
        start(&thread, &attributes, n);
        join(thread);
        pthread_attr_destroy(&attributes);
    }
}

static int ends[2];
static void *live_on(void *unused) {
    char byte;
    free(malloc(100));
    while (read(ends[0], &byte, 1) < 0) CHECK(errno == EINTR, "read: %s", strerror(errno));
    return unused;
}

static void crowd(size_t from, size_t to) {
    enum { at_a_time = 64 };
    pthread_t thread[at_a_time];
    crowded = true;
    CHECK(pthread_barrier_init(&all_there, NULL, at_a_time) == 0, "no barrier");
    for (size_t n = from; n < to; n += at_a_time) {
        for (size_t i = 0; i < at_a_time; i++) start(&thread[i], NULL, n + i);
        for (size_t i = 0; i < at_a_time; i++) join(thread[i]);
    }
    pthread_barrier_destroy(&all_there);
}

static void expect_flat(void (*threads)(size_t from, size_t to)) {
    threads(0, warm_up);
    size_t before = works_anonymous_bytes();
    threads(warm_up, warm_up + more);
    size_t most = before + most_grown_kib * WORKS_KIB;
    size_t now = works_settled(works_anonymous_bytes, most);
    CHECK(now <= most, "%d threads with %d keys taken: %zu KiB resident, then %zu KiB", more, keys,
          before / 1024, now / 1024);
}

static void *in_a_child(void *unused) {
    free(malloc(10));
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        works_limit(55);
        expect_flat(joined);
        _exit(0);
    }
    works_expect_ok(works_wait(pid), "the child");
    return unused;
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(55);
    CHECK(count == 2, "usage: keys_taken joined|apart|crowd|fork");
    const char *way = arguments[1];
    CHECK(keys > 1000, "only %d keys could be taken", keys);
    pthread_t thread;
    if (strcmp(way, "joined") == 0) {
        expect_flat(joined);
    } else if (strcmp(way, "apart") == 0) {
        expect_flat(apart);
    } else if (strcmp(way, "fork") == 0) {
        joined(0, 100);
        CHECK(pthread_create(&thread, NULL, in_a_child, NULL) == 0, "no thread");
        join(thread);
    } else {
        pthread_t old[16];
        CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
        for (int i = 0; i < 16; i++)
            CHECK(pthread_create(&old[i], NULL, live_on, NULL) == 0, "no thread");
        expect_flat(crowd);
        CHECK(close(ends[1]) == 0, "close: %s", strerror(errno));
        for (int i = 0; i < 16; i++) join(old[i]);
    }
    return 0;
}
