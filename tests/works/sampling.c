/* 
 * sampling.c - loam works when allocations are sampled: each misuse of a sampled object is told,
 * where it happens, and the program's own ways with bad accesses go on as before.
 *
 * Catches: a report that is missing, names the wrong object, or comes at the wrong place; a process
 * that does not end by the signal that it would have ended by; a handler of the program's that is
 * no longer called, before or after, or on another stack than it asked for, or that calls loam's
 * which calls it without end; sampling that ends with its first report; reports of several threads
 * that are mixed; a trace that names what comes after a call; an access that goes on in vain with
 * LOAM_ON_ERROR=ignore; a child of a fork in which sampling is stuck.
 *
 * The program runs itself once for each case, with every allocation sampled, and reads what the
 * child wrote. Where an object lies, at the right edge of its page or the left one, is up to
 * chance: a case allocates until it has what it needs.
 */
#include "works.h"

#include <loam/malloc.h>
#include <loam/sampling.h>

#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>

enum { size = 32, page = 4096, tries = 200 };

/* A sampled object that ends where its page does, or begins there. */
static volatile char *sampled(bool right) {
    for (int i = 0; i < tries; i++) {
        char *p = malloc(size);
        uintptr_t edge = (uintptr_t)p + (right ? size : 0);
        if (loam_sampling_holds(p) && edge % page == 0) return p;
        free(p);
    }
    SKIP("no sampled object at the edge wanted: pages are larger here");
}

static void give(volatile char *p) { free((void *)(uintptr_t)p); }

static volatile char sink;

static void overflow_write(void) { sampled(true)[size] = 1; }
static void overflow_read(void) { sink = sampled(true)[size]; }
static void overflow_far(void) { sampled(true)[size + 30000] = 1; }
static void underflow_write(void) { sampled(false)[-1] = 1; }
static void underflow_read(void) { sink = sampled(false)[-3]; }
static void free_write(void) {
    volatile char *p = sampled(true);
    give(p);
    p[5] = 1;
}
static void free_read(void) {
    volatile char *p = sampled(false);
    give(p);
    sink = p[5];
}
static void double_free(void) {
    volatile char *p = sampled(true);
    give(p);
    give(p);
}
static void inside_free(void) { give(sampled(true) + 16); }
static void free_realloc(void) {
    volatile char *p = sampled(true);
    give(p);
    p = realloc((void *)(uintptr_t)p, 100);
}
static void other_side(void) {
    volatile char *p = sampled(true);
    p[-2] = 1;
    give(p);
}
/* An aligned object, or one of calloc's, has its exact size: what is written right behind it is
 * found when it is freed, at the latest. */
static void slack(char *p, size_t bytes) {
    CHECK(loam_sampling_holds(p), "not sampled");
    CHECK(loam_usable_size(p) == bytes, "%zu usable", loam_usable_size(p));
    p[bytes] = 1;
    give(p);
}
static void slack_64(void) { slack(memalign(64, 100), 100); }
static void slack_page(void) { slack(memalign(page, 100), 100); }
static void slack_calloc(void) { slack(calloc(1, 100), 100); }

/* Their end is that of their page as well, as far as their alignment allows. */
static void at_edges(void) {
    int edges[4] = {0, 0, 0, 0};
    for (int i = 0; i < tries; i++) {
        char *of[4] = {malloc(112), calloc(1, 112), memalign(32, 96), memalign(16, 112)};
        for (int k = 0; k < 4; k++) {
            CHECK(loam_sampling_holds(of[k]), "not sampled");
            edges[k] += (uintptr_t)(of[k] + (k == 2 ? 96 : 112)) % page == 0;
            give(of[k]);
        }
    }
    for (int k = 0; k < 4; k++)
        CHECK(edges[k] > 0 || sysconf(_SC_PAGESIZE) != page, "%d is at no edge", k);
    _exit(3);
}

static void exact_write(void) {
    for (int i = 0; i < tries; i++) {
        volatile size_t odd = 13;
        volatile char *p = malloc(odd);
        CHECK(loam_sampling_holds((void *)(uintptr_t)p), "not sampled");
        if ((uintptr_t)(p + odd) % page == 0) p[odd] = 1;
        give(p);
    }
    SKIP("no sampled object at the edge wanted: pages are larger here");
}

static void by_realloc(void) {
    volatile char *p = sampled(true), *q = realloc((void *)(uintptr_t)p, 64);
    CHECK(q != p, "a sampled object moves");
    p[0] = 1;
}

/* ---- What is not a mistake, or goes on ---- */

static sigjmp_buf back;
static volatile sig_atomic_t called;

static void own(int number) {
    (void)number;
    called = called + 1;
    siglongjmp(back, 1);
}

static void own_information(int number, siginfo_t *information, void *context) {
    CHECK(context != NULL, "the context");
    sink = *(char *)&information->si_addr;
    own(number);
}

static void touch_nothing(void) {
    char *none = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigsetjmp(back, 1) == 0) *(volatile char *)none = 1;
    munmap(none, page);
}

/* The handler that was there before sampling began is called for the program's own faults, again
 * and again, and after a report, for that one. */
static void own_before(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = own_information;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    CHECK(loam_sampling_set(1) == 0, "loam_sampling_set");
    for (int i = 1; i <= 3; i++) {
        touch_nothing();
        CHECK(called == i, "%d of %d faults", (int)called, i);
    }
    volatile char *p = sampled(true);
    if (sigsetjmp(back, 1) == 0) p[size] = 1;
    CHECK(called == 4, "not called for a sampled object's fault");
    give(p);
    _exit(3);
}

/* One that comes later has the signal to itself; loam_sampling_set takes it back, and passes it
 * on. */
static void own_later(void) {
    give(sampled(true));
    signal(SIGSEGV, own);
    touch_nothing();
    CHECK(called == 1, "not called");
    CHECK(loam_sampling_set(1) == 0, "loam_sampling_set");
    touch_nothing();
    CHECK(called == 2, "not passed on");
    if (sigsetjmp(back, 1) == 0) overflow_write();
    CHECK(called == 3, "not called after the report");
    _exit(3);
}

static struct sigaction older;

static void passes_on(int number, siginfo_t *information, void *context) {
    called = called + 1;
    if (called > 1) works_say("called again");
    if (called > 100) _exit(1);
    older.sa_sigaction(number, information, context);
}

static void puts_back(int number, siginfo_t *information, void *context) {
    (void)information, (void)context;
    called = called + 1;
    if (called > 1) works_say("called again");
    if (called > 100) _exit(1);
    sigaction(number, &older, NULL);
}

/* One that knows who was there before, with sampling taken back: there is an end to it, and it is
 * the signal. */
static void chain(void (*handler)(int, siginfo_t *, void *), int times) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    CHECK(loam_sampling_set(1) == 0, "loam_sampling_set");
    for (int i = 0; i < times; i++) {
        sigaction(SIGSEGV, &action, &older);
        CHECK((older.sa_flags & SA_SIGINFO) != 0, "not ours");
        CHECK(loam_sampling_set(1) == 0, "loam_sampling_set");
    }
}

static void chain_call(void) {
    chain(passes_on, 1);
    free_write();
}
static void chain_call_twice(void) {
    chain(passes_on, 2);
    free_write();
}
static void chain_put_back(void) {
    chain(puts_back, 1);
    free_write();
}
static void chain_own(void) {
    chain(passes_on, 1);
    *(volatile char *)mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
}

/* A handler that asks for no alternate stack has none. */
static void own_deep(int number) {
    volatile char much[6 * page];
    for (size_t i = sizeof much; i > 0; i--) much[i - 1] = (char)number;
    _exit(3);
}

static void own_stack(bool told) {
    char *small = mmap(NULL, 7 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(small + 3 * page, 4 * page, PROT_READ | PROT_WRITE);
    stack_t stack = {.ss_sp = small + 3 * page, .ss_size = 4 * page};
    sigaltstack(&stack, NULL);
    signal(SIGSEGV, own_deep);
    CHECK(loam_sampling_set(1) == 0, "loam_sampling_set");
    if (told) free_write();
    touch_nothing();
}
static void own_stack_told(void) { own_stack(true); }
static void own_stack_other(void) { own_stack(false); }

/* One that is called once only; then the system's way, after a report. */
static void own_once(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = own;
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGSEGV, &action, NULL);
    CHECK(loam_sampling_set(1) == 0, "loam_sampling_set");
    touch_nothing();
    CHECK(called == 1, "not called");
    free_write();
}

/* Who recovers hears of the next one, too. */
static void own_often(void) {
    signal(SIGSEGV, own);
    CHECK(loam_sampling_set(1) == 0, "loam_sampling_set");
    loam_sampling_numbers numbers;
    for (int i = 1; i <= 20; i++) {
        if (sigsetjmp(back, 1) == 0) free_write();
        loam_sampling_get(&numbers);
        CHECK(called == i && numbers.found == (size_t)i, "%d calls, %zu reports", (int)called,
              numbers.found);
    }
    _exit(3);
}

/* The offset that a report must name for a return address: of the call before it. */
static void expect(void *back) {
    Dl_info info;
    CHECK(dladdr(back, &info) != 0, "dladdr");
    works_say("expect +0x%lx", (unsigned long)((char *)back - (char *)info.dli_fbase) - 1);
}

static void lines(void) {
    volatile char *p = sampled(true);
    void *frames[1];
    give(p);
    CHECK(loam_sampling_trace((void *)(uintptr_t)p, 0, frames, 1) == 1, "no trace");
    expect(frames[0]);
    CHECK(loam_sampling_trace((void *)(uintptr_t)p, 1, frames, 1) == 1, "no trace");
    expect(frames[0]);
    p[5] = 1;
}

enum { at_once = 6 };
static pthread_barrier_t barrier;

static void *access_at_once(void *argument) {
    volatile char *p = sampled(argument == &barrier);
    give(p);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 20; i++) {
        if (i > 0) give(p = sampled(true));
        p[5] = 1;
    }
    return NULL;
}

/* Many threads' reports, which the parent takes apart. */
static void together(void) {
    pthread_t threads[at_once];
    pthread_barrier_init(&barrier, NULL, at_once);
    for (size_t i = 0; i < at_once; i++)
        pthread_create(&threads[i], NULL, access_at_once, &barrier);
    for (size_t i = 0; i < at_once; i++) pthread_join(threads[i], NULL);
    _exit(3);
}

static void ends_together(void) { together(); }

/* Each report is of one thread, from its first line to the next one's. */
static void check_apart(const char *name, const char *text) {
    static const char access[] = "loam:   the access by thread ";
    for (const char *at = text; (at = strstr(at, "loam: use after free")) != NULL;) {
        const char *by = strstr(at, "(thread "), *next = strstr(at + 1, "loam: use after free");
        const char *second = strstr(at, access), *last = strstr(at, "loam:   freed by");
        CHECK(by != NULL && second != NULL && last != NULL && (next == NULL || last < next) &&
                  (next == NULL || second < next) &&
                  atoi(by + 8) == atoi(second + sizeof access - 1),
              "%s: mixed: %s", name, at);
        at++;
    }
}

/* Sent, not made: nothing to judge. */
static void sent(void) {
    give(sampled(true));
    raise(SIGSEGV);
    works_say("raise did not end the process");
    _exit(1);
}

static void goes_on(void) {
    volatile char *p = sampled(true);
    p[size] = 7;
    CHECK(p[size] == 7, "written");
    give(p);
    p[3] = 9;
    give(p);
    for (int i = 0; i < 1000; i++)
        give(sampled(true)); /* the slot comes again, and is closed again */
    p = sampled(true);
    loam_sampling_numbers before, after;
    loam_sampling_get(&before);
    p[size] = 7;
    loam_sampling_get(&after);
    CHECK(before.found == 3 && after.found == 4, "%zu, then %zu reports", before.found,
          after.found);
    _exit(3);
}

static void in_child(void) {
    volatile char *p = sampled(true);
    pid_t pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid == 0) {
        give(p);
        give(sampled(false));
        overflow_write();
    }
    int status = works_wait(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the child's status is %d", status);
    give(p);
    give(sampled(true));
    _exit(3);
}

static void exercise(void) {
    works_exercise(3, 20000);
    loam_sampling_numbers numbers;
    loam_sampling_get(&numbers);
    CHECK(numbers.taken > 1000 && numbers.found == 0, "%zu samples, %zu reports", numbers.taken,
          numbers.found);
    _exit(3);
}

/* ---- */

static const struct {
    const char *name;
    void (*run)(void);
    int signal; /* 0: ends with status 3 */
    const char *text, *more, *option;
} cases[] = {
    {"overflow_write", overflow_write, SIGSEGV, "overflow: write at",
     "1 byte(s) past the end of the object", ""},
    {"overflow_read", overflow_read, SIGSEGV, "overflow: read at",
     "1 byte(s) past the end of the object", ""},
    {"overflow_far", overflow_far, SIGSEGV, "overflow: write at",
     "30001 byte(s) past the end of the object", ""},
    {"underflow_write", underflow_write, SIGSEGV, "underflow: write at",
     "1 byte(s) before the object", ""},
    {"underflow_read", underflow_read, SIGSEGV, "underflow: read at", "3 byte(s) before the object",
     ""},
    {"free_write", free_write, SIGSEGV, "use after free: write at",
     "5 byte(s) into the freed object", ""},
    {"free_read", free_read, SIGSEGV, "use after free: read at", "loam:   freed by thread", ""},
    {"double_free", double_free, SIGABRT, "double free of", "loam:   freed by thread", ""},
    {"inside_free", inside_free, SIGABRT, "misaligned pointer",
     "passed to free (sampled object of 32 B at", ""},
    {"free_realloc", free_realloc, SIGABRT, "realloc after free of", "loam:   freed by thread", ""},
    {"other_side", other_side, SIGABRT, "underflow of",
     "2 byte(s) before 32 requested (found at free", ""},
    {"slack_64", slack_64, SIGABRT, "overflow of", "1 byte(s) past 100 requested (found at free",
     ""},
    {"slack_page", slack_page, SIGABRT, "overflow of",
     "1 byte(s) past 100 requested (found at free", ""},
    {"slack_calloc", slack_calloc, SIGABRT, "overflow of",
     "1 byte(s) past 100 requested (found at free", ""},
    {"at_edges", at_edges, 0, NULL, NULL, ""},
    {"exact_write", exact_write, SIGSEGV, "overflow: write at",
     "1 byte(s) past the end of the object", "LOAM_GUARD_SAMPLING_EXACT=1"},
    {"by_realloc", by_realloc, SIGSEGV, "use after free: write at",
     "0 byte(s) into the freed object", ""},
    {"own_before", own_before, 0, "overflow: write at", "1 byte(s) past the end of", ""},
    {"own_later", own_later, 0, "overflow: write at", "1 byte(s) past the end of", ""},
    {"chain_call", chain_call, SIGSEGV, "use after free: write at", "loam:   freed by thread", ""},
    {"chain_call_twice", chain_call_twice, SIGSEGV, "use after free: write at",
     "loam:   freed by thread", ""},
    {"chain_put_back", chain_put_back, SIGSEGV, "use after free: write at",
     "loam:   freed by thread", ""},
    {"chain_own", chain_own, SIGSEGV, NULL, NULL, ""},
    {"own_stack_told", own_stack_told, 0, "use after free: write at", "loam:   freed by thread",
     ""},
    {"own_stack_other", own_stack_other, 0, NULL, NULL, ""},
    {"own_once", own_once, SIGSEGV, "use after free: write at", "loam:   freed by thread", ""},
    {"own_often", own_often, 0, "use after free: write at", "loam:   freed by thread", ""},
    {"lines", lines, SIGSEGV, "use after free: write at", "loam:   freed by thread", ""},
    {"together", together, 0, "use after free: write at", "loam:   freed by thread",
     "LOAM_ON_ERROR=ignore"},
    {"ends_together", ends_together, SIGSEGV, "use after free: write at", "loam:   freed by thread",
     ""},
    {"sent", sent, SIGSEGV, NULL, NULL, ""},
    {"goes_on", goes_on, 0, "double free of", "use after free: write", "LOAM_ON_ERROR=ignore"},
    {"in_child", in_child, 0, "overflow: write at", "1 byte(s) past the end of", ""},
    {"exercise", exercise, 0, NULL, NULL, ""},
};

static void try(size_t i) {
    static char text[1 << 20];
    char number[16];
    snprintf(number, sizeof number, "%zu", i);
    char *arguments[] = {(char *)works_self(), number, NULL};
    char rate[] = "LOAM_GUARD_SAMPLING=1", option[64];
    snprintf(option, sizeof option, "%s", cases[i].option);
    char *environment[] = {rate, option[0] ? option : NULL, NULL};
    int status = works_capture(works_self(), arguments, environment, 2, text, sizeof text);
    const char *name = cases[i].name;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) _exit(77);
    if (cases[i].signal == 0)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%s: status %d: %s", name, status,
              text);
    else
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == cases[i].signal, "%s: status %d: %s", name,
              status, text);
    if (cases[i].text == NULL) {
        CHECK(strstr(text, "loam:") == NULL, "%s: said: %s", name, text);
        return;
    }
    CHECK(strstr(text, cases[i].text) != NULL, "%s: no \"%s\" in: %s", name, cases[i].text, text);
    CHECK(strstr(text, cases[i].more) != NULL, "%s: no \"%s\" in: %s", name, cases[i].more, text);
    check_apart(name, text);
    for (const char *at = text; (at = strstr(at, "expect +0x")) != NULL; at++) {
        char offset[32] = "";
        snprintf(offset, sizeof offset, "%.*s", (int)strcspn(at + 7, "\n"), at + 7);
        CHECK(strstr(strstr(at, "use after free"), offset) != NULL, "%s: no %s: %s", name, offset,
              text);
    }
    if (cases[i].signal != 0 && cases[i].run != ends_together) {
        const char *first = strstr(text, cases[i].text);
        CHECK(strstr(first + 1, cases[i].text) == NULL, "%s: told twice: %s", name, text);
        CHECK(strstr(text, "called again") == NULL, "%s: called again: %s", name, text);
    }
    const char *by = strstr(text, "loam:   allocated by thread");
    CHECK(by != NULL, "%s: not who allocated it: %s", name, text);
    by = strstr(by, "loam:     #0 ");
    CHECK(by != NULL && strstr(by, "works_sampling+0x") != NULL, "%s: no trace: %s", name, text);
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(100);
    if (count > 1) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        cases[atoi(arguments[1])].run();
        works_say("%s: nothing happened", cases[atoi(arguments[1])].name);
        return 1;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) try(i);
    return 0;
}
