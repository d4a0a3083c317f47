/*
 * signal_inside.c - signals arrive inside malloc, free and realloc; their handlers do not
 * allocate.
 *
 * Catches: a system call that is interrupted (EINTR, no SA_RESTART here) and taken for a failure;
 * state of the allocator that depends on a register or a thread-local value which the handler's
 * own use disturbs; free that does not preserve errno. Handlers that allocate are outside what any
 * malloc promises, and outside this test.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { threads = 3, run_ms = 2000, fewest_signals = 2000 };

static atomic_bool stop;
static atomic_ulong signals_seen;
static _Atomic pid_t tid[threads];
static __thread volatile unsigned long of_this_thread;
static __thread volatile char scratch[512];

static void handler(int number) {
    int saved = errno;
    volatile char deep[2048];
    for (size_t i = 0; i < sizeof deep; i += 64) deep[i] = (char)number;
    for (size_t i = 0; i < sizeof scratch; i += 64) scratch[i] = deep[i];
    of_this_thread = of_this_thread + 1;
    atomic_fetch_add(&signals_seen, 1);
    errno = saved;
}

static void *work(void *argument) {
    size_t self = (size_t)(uintptr_t)argument;
    uint64_t seed = self + 1;
    works_block *blocks[128] = {0};
    atomic_store(&tid[self], (pid_t)syscall(SYS_gettid));
    while (!atomic_load(&stop)) {
        size_t at = works_random(&seed) % 128;
        if (blocks[at]) {
            errno = 1234;
            works_block_check(blocks[at]);
            if (works_random(&seed) % 4 == 0) {
                size_t bytes = blocks[at]->bytes;
                works_block *moved = realloc(blocks[at], bytes * 2 + 100);
                CHECK(moved != NULL, "realloc(%zu) returned NULL", bytes * 2 + 100);
                blocks[at] = moved;
                works_block_check(moved);
                errno = 1234;
            }
            free(blocks[at]);
            CHECK(errno == 1234, "free changed errno to %d", errno);
        }
        size_t bytes =
            works_random(&seed) % 512 == 0 ? 3 * WORKS_MIB : works_random_size(&seed) % 8192;
        blocks[at] = works_block_new(bytes, seed);
    }
    for (size_t at = 0; at < 128; at++)
        if (blocks[at]) works_block_free(blocks[at]);
    return NULL;
}

int main(void) {
    works_require_loam();
    works_limit(60);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGVTALRM, &action, NULL);
    pthread_t ids[threads];
    for (size_t t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
    struct itimerval every = {{0, 300}, {0, 300}};
    setitimer(ITIMER_PROF, &every, NULL);
    setitimer(ITIMER_VIRTUAL, &every, NULL);
    uint64_t end = works_now_ms() + run_ms;
    /* on a busy machine this thread comes to send too rarely: until it has sent enough */
    while (works_now_ms() < end || atomic_load(&signals_seen) < fewest_signals) {
        for (size_t t = 0; t < threads; t++)
            if (atomic_load(&tid[t])) syscall(SYS_tgkill, getpid(), atomic_load(&tid[t]), SIGUSR1);
        for (volatile int i = 0; i < 2000; i++) {}
    }
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_PROF, &every, NULL);
    setitimer(ITIMER_VIRTUAL, &every, NULL);
    atomic_store(&stop, true);
    for (size_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    return 0;
}
