/* 
 * coroutine_stack.c - a thread may wait in a system call on a stack that is not its own, below
 * which, above which, or behind which memory is missing.
 *
 *     [ guard | coroutine's stack | guard | thread's stack ]   one mapping: the order is certain
 *
 *   guard      the coroutine waits; between its stack and the thread's lies a page without access
 *   hole       the same, and that page is not mapped
 *   alternate  a signal handler waits on an alternate stack in the coroutine's place
 *   vanishing  the thread waits on its own stack, while another thread unmaps and maps what is
 *              below
 *   heap       the coroutine's stack is a block of malloc
 *
 * Catches: a background thread that looks through a sleeping thread's stack, from its stack pointer
 * to its top, and meets the guard. The program has a signal handler: without one nobody needs to
 * look.
 */
#include "works.h"

#include <pthread.h>
#include <ucontext.h>

enum { stack_kib = 64, page = 4096, blocks = 4000, rounds = 12 };

static char *region; /* guard, coroutine's stack, guard, thread's stack */
static char *coroutine_stack;
static ucontext_t thread_context, coroutine;
static int ends[2];
static const char *way;
static _Atomic int waiting;

static void on_signal(int number) { (void)number; }

static void use_memory(void) {
    static void *block[blocks];
    for (int i = 0; i < blocks; i++) block[i] = malloc(1000);
    for (int i = 0; i < blocks; i++) free(block[i]);
}

static void wait_for_byte(void) {
    char byte;
    waiting = 1;
    while (read(ends[0], &byte, 1) != 1) CHECK(errno == EINTR, "read: %s", strerror(errno));
}

static void wait_on_alternate(int number) {
    (void)number;
    wait_for_byte();
}

static void run_coroutine(void) {
    use_memory();
    wait_for_byte();
    use_memory();
}

static void on_alternate_stack(void) {
    stack_t alternate = {.ss_sp = coroutine_stack, .ss_size = stack_kib * WORKS_KIB};
    struct sigaction action = {.sa_handler = wait_on_alternate, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&alternate, NULL) == 0, "sigaltstack: %s", strerror(errno));
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0, "sigaction: %s", strerror(errno));
    use_memory();
    raise(SIGUSR2);
}

static void *run_thread(void *unused) {
    (void)unused;
    free(malloc(10));
    if (strcmp(way, "vanishing") == 0) {
        run_coroutine();
    } else if (strcmp(way, "alternate") == 0) {
        on_alternate_stack();
    } else {
        CHECK(getcontext(&coroutine) == 0, "getcontext: %s", strerror(errno));
        coroutine.uc_stack.ss_sp = coroutine_stack;
        coroutine.uc_stack.ss_size = stack_kib * WORKS_KIB;
        coroutine.uc_link = &thread_context;
        makecontext(&coroutine, run_coroutine, 0);
        CHECK(swapcontext(&thread_context, &coroutine) == 0, "swapcontext: %s", strerror(errno));
    }
    use_memory();
    return NULL;
}

/* What lies below the thread's stack comes and goes. */
static void unmap_and_map(void) {
    char *at = region + page;
    size_t bytes = stack_kib * WORKS_KIB;
    for (int i = 0; i < 2000; i++) {
        CHECK(munmap(at, bytes) == 0, "munmap: %s", strerror(errno));
        void *again =
            mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        CHECK(again == at, "mmap: %s", strerror(errno));
    }
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(55);
    CHECK(count == 2, "usage: coroutine_stack guard|hole|alternate|vanishing|heap");
    way = arguments[1];
    size_t stack = stack_kib * WORKS_KIB, bytes = 2 * stack + 2 * page;
    region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(region != MAP_FAILED, "mmap: %s", strerror(errno));
    coroutine_stack = strcmp(way, "heap") == 0 ? malloc(stack) : region + page;
    char *between = region + page + stack;
    if (strcmp(way, "hole") == 0)
        CHECK(munmap(between, page) == 0, "munmap: %s", strerror(errno));
    else
        CHECK(mprotect(between, page, PROT_NONE) == 0, "mprotect: %s", strerror(errno));
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && pipe(ends) == 0, "%s", strerror(errno));

    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 &&
              pthread_attr_setstack(&attributes, between + page, stack) == 0 &&
              pthread_create(&thread, &attributes, run_thread, NULL) == 0,
          "no thread on a stack of %d KiB", stack_kib);
    while (!waiting) works_sleep_ms(1);
    for (int i = 0; i < rounds; i++) {
        char *block = malloc(4 * WORKS_MIB);
        works_touch(block, 4 * WORKS_MIB);
        free(block);
        if (strcmp(way, "vanishing") == 0) unmap_and_map();
        works_sleep_ms(80);
    }
    CHECK(write(ends[1], "x", 1) == 1, "write: %s", strerror(errno));
    CHECK(pthread_join(thread, NULL) == 0, "pthread_join failed");
    return 0;
}
