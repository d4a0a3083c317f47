/* driver.c: runs workloads on layout sketches (shared objects) and compares their CPU time.
 *
 *   driver check LAYOUT.so...           contents survive, blocks never overlap, foreign is noticed
 *   driver count LAYOUT.so              calls in windows for count.py, to be run under callgrind
 *   driver time ROUNDS CPU LAYOUT.so... paired rounds; a table of medians, then ratios
 *
 * time: each measurement is a fresh process pinned to one processor, so that every layout starts
 * from the same state. In each round all layouts run one after the other, the first one rotating,
 * so that what disturbs the machine hits all alike; ratios are taken within a round, then the
 * median of them. Within a process the workload runs three times and the shortest counts. CPU time
 * of the process, system time included; filling happens before the clock starts. The same random
 * numbers everywhere. It cannot see threads, and says nothing about memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAYOUTS_MOST = 8, ROUNDS_MOST = 101, REPEATS = 3, BATCH = 16, QUEUE = 1000 };

typedef struct layout {
    char name[32];
    void *(*malloc)(size_t);
    void (*free)(void *);
    uint64_t (*foreign)(void);
} layout_t;

typedef struct workload {
    const char *name;
    long (*run)(const layout_t *with, const struct workload *what); /* returns malloc+free pairs */
    size_t least, most;                                             /* bytes */
    size_t objects;
    long pairs;
} workload_t;

static void fail(const char *what) {
    fprintf(stderr, "driver: %s\n", what);
    exit(1);
}

static uint64_t random_state;

static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t random_below(size_t n) { return (size_t)(((random_next() >> 32) * n) >> 32); }

static size_t random_size(const workload_t *what) {
    return what->least + random_below(what->most - what->least + 1);
}

static void *take(const layout_t *with, size_t bytes) {
    char *p = with->malloc(bytes);
    if (p == NULL) fail("out of memory");
    *(volatile char *)p = 1; /* a program writes what it allocates */
    return p;
}

/* ---- Workloads ---- */

static long run_batch(const layout_t *with, const workload_t *what) {
    void *block[BATCH];
    for (long n = 0; n < what->pairs; n += BATCH) {
        for (int i = 0; i < BATCH; i++) block[i] = take(with, what->most);
        for (int i = 0; i < BATCH; i++) with->free(block[i]);
    }
    return what->pairs;
}

static void **live;

static long run_replace(const layout_t *with, const workload_t *what) {
    for (long n = 0; n < what->pairs; n++) {
        size_t i = random_below(what->objects);
        with->free(live[i]);
        live[i] = take(with, random_size(what));
    }
    return what->pairs;
}

static long run_lifo(const layout_t *with, const workload_t *what) {
    static void *stack[QUEUE];
    for (long n = 0; n < what->pairs; n += QUEUE) {
        for (int i = 0; i < QUEUE; i++) stack[i] = take(with, random_size(what));
        for (int i = QUEUE; i-- > 0;) with->free(stack[i]);
    }
    return what->pairs;
}

static long run_fifo(const layout_t *with, const workload_t *what) {
    size_t at = 0;
    for (long n = 0; n < what->pairs; n++) {
        with->free(live[at]);
        live[at] = take(with, random_size(what));
        if (++at == what->objects) at = 0;
    }
    return what->pairs;
}

static const workload_t workloads[] = {
    {"batch 16 x 48 B", run_batch, 48, 48, 0, 8000000},
    {"batch 16 x 3000 B", run_batch, 3000, 3000, 0, 6000000},
    {"batch 16 x 40000 B", run_batch, 40000, 40000, 0, 3000000},
    {"LIFO 1000, 16-512 B", run_lifo, 16, 512, 0, 4000000},
    {"FIFO 1000, 16-512 B", run_fifo, 16, 512, 1000, 4000000},
    {"replace 1e3, 16-512 B", run_replace, 16, 512, 1000, 4000000},
    {"replace 1e5, 16-512 B", run_replace, 16, 512, 100000, 2000000},
    {"replace 3e6, 16-512 B", run_replace, 16, 512, 3000000, 700000},
    {"replace 1e3, 1-64 KiB", run_replace, 1024, 65536, 1000, 2000000},
    {"replace 1e4, 1-64 KiB", run_replace, 1024, 65536, 10000, 700000},
};
enum { WORKLOADS = sizeof(workloads) / sizeof(workloads[0]) };

/* ---- Measuring ---- */

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void fill(const layout_t *with, const workload_t *what) {
    random_state = 88172645463325252u;
    live = mmap(NULL, (what->objects + 1) * sizeof(void *), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (live == MAP_FAILED) fail("no memory for the live set");
    for (size_t i = 0; i < what->objects; i++) live[i] = take(with, random_size(what));
}

/* ns for a malloc and a free. */
static double measure_here(const layout_t *with, const workload_t *what) {
    fill(with, what);
    what->run(with, what); /* warm up */
    double best = 1e300;
    for (int i = 0; i < REPEATS; i++) {
        double start = cpu_ns();
        long pairs = what->run(with, what);
        double each = (cpu_ns() - start) / (double)pairs;
        if (each < best) best = each;
    }
    return best;
}

static double measure(const layout_t *with, const workload_t *what, int cpu) {
    int ends[2];
    if (pipe(ends) != 0) fail("pipe");
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof(set), &set) != 0) fail("sched_setaffinity");
        double result = measure_here(with, what);
        _exit(write(ends[1], &result, sizeof(result)) == (ssize_t)sizeof(result) ? 0 : 1);
    }
    close(ends[1]);
    double result;
    ssize_t got = read(ends[0], &result, sizeof(result));
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) fail("a measuring process failed");
    if (got != (ssize_t)sizeof(result)) fail("a measuring process said nothing");
    return result;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct spread {
    double least, quarter, median, three_quarters;
} spread_t;

static spread_t spread_of(const double *values, int count) {
    double sorted[ROUNDS_MOST];
    memcpy(sorted, values, (size_t)count * sizeof(double));
    qsort(sorted, (size_t)count, sizeof(double), by_value);
    return (spread_t){sorted[0], sorted[count / 4], sorted[count / 2], sorted[3 * count / 4]};
}

static double results[WORKLOADS][LAYOUTS_MOST][ROUNDS_MOST];

static void print_table(const layout_t *layouts, int count, int rounds, int reference) {
    printf("CPU ns for malloc + free: median of %d rounds (least)\n%-22s", rounds, "");
    for (int l = 0; l < count; l++) printf(" %15s", layouts[l].name);
    for (int w = 0; w < WORKLOADS; w++) {
        printf("\n%-22s", workloads[w].name);
        for (int l = 0; l < count; l++) {
            spread_t s = spread_of(results[w][l], rounds);
            printf("  %6.2f (%5.2f)", s.median, s.least);
        }
    }
    printf("\n\nRatio to layout %s within a round: median [quartiles]\n%-22s",
           layouts[reference].name, "");
    for (int l = 0; l < count; l++) printf(" %17s", layouts[l].name);
    for (int w = 0; w < WORKLOADS; w++) {
        printf("\n%-22s", workloads[w].name);
        for (int l = 0; l < count; l++) {
            double ratio[ROUNDS_MOST];
            for (int r = 0; r < rounds; r++) ratio[r] = results[w][l][r] / results[w][reference][r];
            spread_t s = spread_of(ratio, rounds);
            printf("  %4.2f [%4.2f-%4.2f]", s.median, s.quarter, s.three_quarters);
        }
    }
    printf("\n");
}

static int time_all(const layout_t *layouts, int count, int rounds, int cpu) {
    int reference = 0;
    for (int l = 0; l < count; l++)
        if (strcmp(layouts[l].name, "c") == 0) reference = l;
    for (int r = 0; r < rounds; r++) {
        for (int w = 0; w < WORKLOADS; w++)
            for (int i = 0; i < count; i++) {
                int l = (i + r) % count;
                results[w][l][r] = measure(&layouts[l], &workloads[w], cpu);
            }
        fprintf(stderr, "\rround %d of %d", r + 1, rounds);
    }
    fprintf(stderr, "\n");
    print_table(layouts, count, rounds, reference);
    return 0;
}

/* ---- Correctness: every block is filled with a pattern of its own and looked at when freed
 * ---- */

static int check(const layout_t *with) {
    enum { OBJECTS = 3000, STEPS = 400000 };
    static unsigned char *block[OBJECTS];
    static size_t bytes[OBJECTS];
    random_state = 42;
    for (int n = 0; n < STEPS; n++) {
        size_t i = random_below(OBJECTS);
        if (block[i] != NULL) {
            unsigned char mark = (unsigned char)i;
            if (block[i][0] != mark || block[i][bytes[i] - 1] != mark ||
                block[i][bytes[i] / 2] != mark) {
                fprintf(stderr, "%s: a block of %zu bytes was overwritten\n", with->name, bytes[i]);
                return 1;
            }
            with->free(block[i]);
            block[i] = NULL;
        } else {
            bytes[i] = 1 + random_below((size_t)1 << (4 + random_below(13)));
            block[i] = with->malloc(bytes[i]);
            if (block[i] == NULL || (uintptr_t)block[i] % 16 != 0) fail("no block, or misaligned");
            memset(block[i], (int)i, bytes[i]);
        }
    }
    with->free(NULL);
    bool sees_foreign = strcmp(with->name, "a") != 0; /* A has no test: it would fault */
    uint64_t before = with->foreign();
    if (sees_foreign) {
        static char global[16];
        char local[16];
        with->free(global);
        with->free(local);
        if (with->foreign() != before + 2) {
            fprintf(stderr, "%s: a foreign pointer was not noticed\n", with->name);
            return 1;
        }
    }
    printf("%-5s %d steps, contents intact, foreign pointers %s\n", with->name, STEPS,
           sees_foreign ? "noticed" : "not tested for: this layout has no test");
    return 0;
}

/* ---- Windows for callgrind ---- */

__attribute__((noinline)) void window_open(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void window_close(void) { __asm__ volatile("" ::: "memory"); }

static void count_calls(const layout_t *with) {
    static const size_t sizes[] = {48, 3000, 40000};
    enum { WINDOWS = 12, ROUNDS = 64 };
    void *block[WINDOWS];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < WINDOWS; i++) {
                window_open();
                block[i] = with->malloc(sizes[s]);
                window_close();
                if (block[i] == NULL) fail("out of memory");
                printf("malloc %zu 1\n", sizes[s]);
            }
            for (int i = 0; i < WINDOWS; i++) {
                window_open();
                with->free(block[i]);
                window_close();
                printf("free %zu 1\n", sizes[s]);
            }
        }
        workload_t pairs = {"", run_batch, sizes[s], sizes[s], 0, ROUNDS * BATCH};
        run_batch(with, &pairs);
        window_open();
        run_batch(with, &pairs);
        window_close();
        printf("pair %zu %d\n", sizes[s], ROUNDS * BATCH);
    }
    window_open();
    with->free(NULL);
    window_close();
    printf("free-NULL 0 1\n");
}

static layout_t load(const char *path) {
    layout_t result = {.name = ""};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail(dlerror());
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    snprintf(result.name, sizeof(result.name), "%.*s", (int)strcspn(base, "."), base);
    *(void **)&result.malloc = dlsym(library, "sketch_malloc");
    *(void **)&result.free = dlsym(library, "sketch_free");
    *(void **)&result.foreign = dlsym(library, "sketch_foreign_count");
    if (!result.malloc || !result.free || !result.foreign) fail("not a sketch");
    return result;
}

int main(int argc, char **argv) {
    if (argc < 3) fail("usage: driver check|count|time ...");
    int first = strcmp(argv[1], "time") == 0 ? 4 : 2, count = 0;
    layout_t layouts[LAYOUTS_MOST];
    for (int i = first; i < argc && count < LAYOUTS_MOST; i++) layouts[count++] = load(argv[i]);
    if (count == 0) fail("no layout given");
    if (strcmp(argv[1], "check") == 0) {
        int bad = 0;
        for (int l = 0; l < count; l++) bad |= check(&layouts[l]);
        return bad;
    }
    if (strcmp(argv[1], "count") == 0) {
        count_calls(&layouts[0]);
        return 0;
    }
    int rounds = atoi(argv[2]);
    if (rounds < 1 || rounds > ROUNDS_MOST) fail("rounds: 1 to 101");
    return time_all(layouts, count, rounds, atoi(argv[3]));
}
