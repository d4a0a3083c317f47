/*
 * rlimit_as.c - under RLIMIT_AS of 64 MiB: NULL with ENOMEM when it is used up, and all of it
 * usable again after a free.
 *
 * Catches: an allocator that reserves more addresses than the limit allows and cannot start; one
 * that crashes or aborts when the system says no; one that loses address space at each exhaustion,
 * or cannot reuse for large blocks what small ones used. A thread whose very first malloc comes
 * when nothing is left must get NULL, and memory later.
 *
 * Runs twice: started under the limit (a shell's ulimit -v 65536), and limited at run time to 64
 * MiB more than it has.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { limit_mib = 64, least_mib = 36, thread_stack = 64 * 1024 };

/* Blocks are chained through their first words: a table of them would itself need memory. */
typedef struct chained {
    struct chained *next;
    size_t bytes;
} chained;

static size_t next_size(size_t bytes, uint64_t *seed) {
    return bytes ? bytes : 16 + works_random(seed) % 100000;
}

static size_t use_up(size_t bytes, chained **chain) {
    size_t total = 0;
    uint64_t seed = 7;
    *chain = NULL;
    for (;;) {
        size_t size = next_size(bytes, &seed);
        errno = 0;
        chained *block = malloc(size);
        if (!block) {
            CHECK(errno == ENOMEM, "malloc(%zu) returned NULL with errno %d instead of ENOMEM",
                  size, errno);
            return total;
        }
        works_touch(block, size);
        block->next = *chain;
        block->bytes = size;
        *chain = block;
        total += size;
        CHECK(total < 2 * limit_mib * WORKS_MIB,
              "the limit of %d MiB is not in force: nothing is tested", limit_mib);
    }
}

static void give_all(chained *chain, bool backwards) {
    if (backwards) {
        chained *turned = NULL;
        while (chain) {
            chained *next = chain->next;
            chain->next = turned;
            turned = chain;
            chain = next;
        }
        chain = turned;
    }
    while (chain) {
        chained *next = chain->next;
        free(chain);
        chain = next;
    }
}

/* With nothing left, every other way to ask must say no as well, and leave the object as it was. */
static void expect_refusals(chained *chain) {
    errno = 0;
    CHECK(calloc(64, WORKS_MIB) == NULL && errno == ENOMEM, "calloc of 64 MiB, errno %d", errno);
    errno = 0;
    CHECK(aligned_alloc(4096, 64 * WORKS_MIB) == NULL && errno == ENOMEM,
          "aligned_alloc of 64 MiB, errno %d", errno);
    void *pointer = chain;
    CHECK(posix_memalign(&pointer, 64, 64 * WORKS_MIB) == ENOMEM && pointer == chain,
          "posix_memalign of 64 MiB");
    errno = 0;
    chained before = *chain;
    CHECK(realloc(chain, 64 * WORKS_MIB) == NULL && errno == ENOMEM, "realloc to 64 MiB, errno %d",
          errno);
    CHECK(chain->next == before.next && chain->bytes == before.bytes,
          "a realloc that failed changed its object");
}

static atomic_int turn; /* 0 wait, 1 memory is used up, 2 memory is there again */
static atomic_int ready;

static void *newcomer(void *argument) {
    (void)argument;
    while (atomic_load(&turn) == 0) works_sleep_ms(1);
    void *blocks[200];
    for (int i = 0; i < 200; i++) {
        blocks[i] = malloc((size_t)i * 100 + 1);
        if (blocks[i]) works_fill(blocks[i], (size_t)i * 100 + 1, 1);
    }
    for (int i = 0; i < 200; i++) free(blocks[i]);
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&turn) == 1) works_sleep_ms(1);
    works_block *block = works_block_new(100000, 3);
    works_block_free(block);
    return NULL;
}

static int work(void) {
    static const size_t sizes[] = {48, 1000, 32 * 1024, 1024 * 1024, 0};
    enum { kinds = sizeof sizes / sizeof sizes[0] };
    size_t first[kinds];
    pthread_t ids[3];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, thread_stack);
    for (int t = 0; t < 3; t++)
        CHECK(pthread_create(&ids[t], &attributes, newcomer, NULL) == 0, "pthread_create");

    chained *chain;
    for (int k = 0; k < kinds; k++) {
        first[k] = use_up(sizes[k], &chain);
        CHECK(first[k] >= least_mib * WORKS_MIB,
              "blocks of %zu bytes (0: mixed): only %zu KiB of %d MiB could be had", sizes[k],
              first[k] / 1024, limit_mib);
        expect_refusals(chain);
        if (k == 0) {
            atomic_store(&turn, 1);
            while (atomic_load(&ready) < 3) works_sleep_ms(1);
        }
        give_all(chain, k % 2);
        if (k == 0) {
            atomic_store(&turn, 2);
            for (int t = 0; t < 3; t++) pthread_join(ids[t], NULL);
        }
        for (int again = 0; again < 3; again++) {
            size_t second = use_up(sizes[k], &chain);
            CHECK(second >= first[k] / 10 * 9,
                  "blocks of %zu bytes (0: mixed): %zu KiB at first, %zu KiB after freeing them",
                  sizes[k], first[k] / 1024, second / 1024);
            give_all(chain, again % 2);
        }
    }
    for (int k = 0; k < kinds; k++) { /* and after all the other sizes have been everywhere */
        size_t last = use_up(sizes[k], &chain);
        CHECK(last >= first[k] / 10 * 8,
              "blocks of %zu bytes (0: mixed): %zu KiB at first, %zu KiB after other sizes",
              sizes[k], first[k] / 1024, last / 1024);
        give_all(chain, true);
    }
    return 0;
}

static void limit_to(size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit: %s", strerror(errno));
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(60);
    if (argc > 1 && strcmp(argv[1], "--limited") == 0) return work();
    pid_t pid = fork();
    if (pid == 0) {
        limit_to(limit_mib * WORKS_MIB);
        execl(works_self(), argv[0], "--limited", (char *)NULL);
        _exit(126);
    }
    works_expect_ok(works_wait(pid), "the program started under the limit");
    works_exercise(1, 1000);
    limit_to(works_proc_number("/proc/self/status", "\nVmSize:") * 1024 + limit_mib * WORKS_MIB);
    return work();
}
