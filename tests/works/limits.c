/* 
 * limits.c - limits of the environment: a program that knows nothing of loam gets NULL at its hard
 * limit and goes on; one that has registered a handler hears of the soft one; a control group that
 * is not there costs a line at most.
 *
 * Catches: limits that are read too late, or not kept by realloc, calloc and threads; a program
 * that cannot go on after it has freed; a refusal that ends it; mistakes in the options that stop
 * it.
 *
 * The program starts itself and compares what the child says on standard error.
 */
#include "works.h"

#include <loam/limits.h>
#include <pthread.h>

#define HARD (48 * WORKS_MIB)

static size_t fill(void **all, size_t most, size_t bytes) {
    size_t n = 0;
    while (n < most && (all[n] = malloc(bytes)) != NULL) works_touch(all[n++], bytes);
    return n;
}

/* At the limit with objects of one size, and away from it again. */
static void at_the_limit(size_t bytes) {
    static void *all[1 << 16];
    size_t most = sizeof all / sizeof all[0];
    errno = 0;
    size_t n = fill(all, most, bytes);
    CHECK(n < most, "%zu objects of %zu bytes, and no end", n, bytes);
    CHECK(errno == ENOMEM, "errno %d", errno);
    CHECK(n * bytes > HARD / 2 && n * bytes <= HARD, "%zu objects of %zu bytes", n, bytes);
    CHECK(works_anonymous_bytes() < HARD + 16 * WORKS_MIB, "%zu bytes resident",
          works_anonymous_bytes());
    CHECK(calloc(1, 20 * WORKS_MIB) == NULL, "calloc beyond the limit");
    void *p = realloc(all[0], 40 * WORKS_MIB);
    CHECK(p == NULL, "realloc beyond the limit");
    while (n > 0) free(all[--n]);
    p = malloc(24 * WORKS_MIB);
    CHECK(p != NULL, "nothing after all was freed");
    works_touch(p, 24 * WORKS_MIB);
    free(p);
}

static void *in_a_thread(void *bytes) {
    at_the_limit(*(size_t *)bytes);
    return NULL;
}

static void hard(void) {
    size_t sizes[] = {1500, 30000, 200000, WORKS_MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        at_the_limit(sizes[i]);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, in_a_thread, &sizes[i]) == 0, "no thread");
        pthread_join(thread, NULL);
        pid_t child = fork();
        if (child == 0) {
            at_the_limit(sizes[i]);
            _exit(0);
        }
        works_expect_ok(works_wait(child), "a forked child");
    }
}

static int told;
static void note(size_t held, size_t soft, void *argument) {
    CHECK(soft == 16 * WORKS_MIB && held > 15 * WORKS_MIB, "held %zu of %zu", held, soft);
    ++*(int *)argument;
    free(malloc(1000));
}

static void soft(void) {
    loam_limit_register(note, &told);
    for (int round = 1; round <= 3; round++) {
        void *p[24];
        for (int i = 0; i < 24; i++) p[i] = malloc(WORKS_MIB);
        for (int i = 0; i < 24; i++) CHECK(p[i] != NULL, "the soft limit refuses");
        CHECK(told == round, "told %d times in round %d", told, round);
        for (int i = 0; i < 24; i++) free(p[i]);
        malloc_trim(0);
    }
}

/* Runs `what` with these options; it must say `expected` and end well. */
static void expect(const char *what, const char *option, const char *other, const char *expected) {
    char text[4096];
    char *arguments[] = {(char *)works_self(), (char *)what, NULL};
    char *environment[] = {(char *)option, (char *)other, NULL};
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) works_say("  %.300s", text);
    works_expect_ok(status, option);
    CHECK(strcmp(text, expected) == 0, "%s: said '%.300s'", option, text);
}

int main(int argc, char **argv) {
    works_limit(60);
    if (argc == 2) {
        if (strcmp(argv[1], "hard") == 0) hard();
        if (strcmp(argv[1], "soft") == 0) soft();
        works_exercise(1, 200);
        return 0;
    }
    works_require_loam();
    expect("hard", "LOAM_LIMIT_HARD=48MiB", NULL, "");
    expect("hard", "LOAM_LIMIT_HARD=48MiB", "LOAM_PURGE_THREAD=0", "");
    expect("hard", "LOAM_LIMIT_HARD=48MiB", "LOAM_PAGE_RESET=0", "");
    expect("hard", "LOAM_LIMIT_HARD=48MiB", "LOAM_LIMIT_SOFT=32MiB", "");
    expect("soft", "LOAM_LIMIT_SOFT=16MiB", NULL, "");
    expect("soft", "LOAM_LIMIT_SOFT=16MiB", "LOAM_LIMIT_CGROUP=auto", "");
    expect("none", "LOAM_LIMIT_SOFT=128MiB", "LOAM_LIMIT_HARD=64MiB",
           "loam: LOAM_LIMIT_SOFT=128MiB ignored: it is above LOAM_LIMIT_HARD=64MiB\n");
    return 0;
}
