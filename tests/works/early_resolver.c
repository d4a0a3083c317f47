/*
 * early_resolver.c - the program's indirect functions allocate before thread-local storage exists.
 *
 * The dynamic linker runs their resolvers as it relocates the program, before it copies the initial
 * values of thread-local variables. Catches: malloc reading such a variable; a heap that is
 * forgotten by the copy, and whose blocks the same thread cannot free or use again.
 *
 * The program is linked with -z now, so that the resolvers run at the start and not at first call.
 */
#include "works.h"

#include <pthread.h>

enum { BLOCKS = 2000, LATER = 100 };

/* Written before main; the resolvers may call no function of libc that needs an initialised
 * libc. */
static void *kept[BLOCKS];
static size_t kept_bytes[BLOCKS];
static int failed;
static int constructed;

static int value(void) { return 7; }

static void *any_of(int i, size_t bytes) {
    void *p = NULL;
    switch (i % 6) {
    case 0: return malloc(bytes);
    case 1: return calloc(1, bytes);
    case 2: return realloc(malloc(bytes / 2 + 1), bytes);
    case 3: return aligned_alloc(64, (bytes + 63) / 64 * 64);
    case 4: return posix_memalign(&p, 256, bytes) == 0 ? p : NULL;
    default: free(malloc(bytes)); return malloc(bytes);
    }
}

/* All sizes to a large object; a third is freed at once. */
static void allocate(void) {
    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = (size_t)i * (i % 50 == 0 ? 300 : 7) + 1;
        unsigned char *p = any_of(i, bytes);
        if (p == NULL) {
            failed = i + 1;
            return;
        }
        if (i % 6 == 1 && (p[0] != 0 || p[bytes - 1] != 0)) failed = i + 1;
        p[0] = p[bytes - 1] = (unsigned char)i;
        if (i % 3 == 0) {
            free(p);
            continue;
        }
        kept[i] = p;
        kept_bytes[i] = bytes;
    }
}

__attribute__((used)) static int (*pick(void))(void) {
    allocate();
    return value;
}
__attribute__((used)) static int (*pick_again(void))(void) {
    void *p = malloc(100);
    if (p == NULL) failed = -1;
    free(p);
    return value;
}

int early_one(void) __attribute__((ifunc("pick")));
int early_two(void) __attribute__((ifunc("pick_again")));
/* As data, the same is relocated at another time. */
int (*const volatile early_word)(void) = early_two;

static void before(void) { free(malloc(10)); }
__attribute__((section(".preinit_array"), used)) static void (*const first_of_all)(void) = before;
__attribute__((constructor(101))) static void early_constructor(void) {
    free(malloc(200));
    constructed++;
}

static void *free_some(void *argument) {
    (void)argument;
    for (int i = 0; i < BLOCKS; i += 2) {
        free(kept[i]);
        kept[i] = NULL;
    }
    return NULL;
}

int main(void) {
    works_require_loam();
    works_limit(30);
    CHECK(failed == 0, "block %d", failed);
    CHECK(early_one() == 7 && early_two() == 7 && early_word() == 7, "resolved to something else");
    CHECK(constructed == 1, "the constructor has run %d times", constructed);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *p = kept[i];
        CHECK(p == NULL || (p[0] == (unsigned char)i && p[kept_bytes[i] - 1] == (unsigned char)i),
              "block %d has changed", i);
        if (p != NULL) CHECK(malloc_usable_size(p) >= kept_bytes[i], "block %d is short", i);
    }
    /* The heap is the thread's own, still: what it frees it gets back. */
    uintptr_t freed = 0;
    for (int i = 1; i < BLOCKS && freed == 0; i++) {
        if (kept[i] == NULL || kept_bytes[i] < 1000) continue;
        freed = kept_bytes[i];
        kept[i] = realloc(kept[i], kept_bytes[i] * 2);
        CHECK(kept[i] != NULL, "realloc");
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_some, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    for (int round = 0; round < LATER; round++) {
        void *p[LATER];
        for (int i = 0; i < LATER; i++) p[i] = any_of(i, (size_t)i * 40 + 1);
        for (int i = 0; i < LATER; i++) free(p[i]);
    }
    for (int i = 0; i < BLOCKS; i++) free(kept[i]);
    pid_t pid = fork();
    if (pid == 0) {
        free(malloc(1000));
        _exit(0);
    }
    works_expect_ok(works_wait(pid), "a forked child");
    return 0;
}
