/*
 * size_phases.c - a program that goes through phases of sizes holds what one phase needs.
 *
 * Catches: freed memory of one size that stays resident while the program fills new memory with
 * another. The secure build keeps groups of sizes apart, so one group cannot use what another has
 * freed: the memory has to go to the system before more is taken. Without that, four phases of
 * different groups peak at two to three times what the largest phase holds.
 *
 * Argument: all (each phase frees everything), part (each phase keeps its last tenth), or threads
 * (four threads, a quarter of each phase each). A second argument is a seed, which is printed where
 * the test fails.
 *
 * A process of its own runs each size alone, and another one all phases in a row: its highest
 * resident memory may be 1.3 times the highest of a single phase, with what is kept. So sizes of
 * blocks, canaries and metadata count on both sides, in all builds. Every group has a phase, in
 * random order, and two more sizes are random.
 */
#include "works.h"

#include <pthread.h>

enum {
    turns = 4,
    phases = 6,
    threads_most = 4,
    phase_mib = 48,
    slack_mib = 8,
    tolerance_tenths = 13
};

static struct {
    size_t size[phases];
    int n, threads;
    bool keeps;
    pthread_barrier_t barrier;
} plan;

static size_t peak_bytes(void) {
    size_t kib = works_proc_number("/proc/self/status", "\nVmHWM:");
    CHECK(kib != 0, "cannot read VmHWM from /proc/self/status");
    return kib * WORKS_KIB;
}

/* Pointers lie in memory of the program's own. */
static void *map_pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "mmap: %s", strerror(errno));
    return p;
}

static void phase(size_t size) {
    size_t count = phase_mib * WORKS_MIB / (size_t)plan.threads / size;
    char **block = map_pages(count * sizeof *block);
    for (size_t i = 0; i < count; i++) {
        block[i] = malloc(size);
        CHECK(block[i] != NULL, "malloc(%zu) returned NULL", size);
        memset(block[i], 0x5a, size);
    }
    pthread_barrier_wait(&plan.barrier); /* all threads are at their highest at once */
    for (size_t i = 0; i < (plan.keeps ? count - count / 10 : count); i++) free(block[i]);
    munmap(block, count * sizeof *block); /* what is kept is not used any more */
    pthread_barrier_wait(&plan.barrier);
}

static void *run(void *nothing) {
    for (int i = 0; i < plan.n; i++) phase(plan.size[i]);
    return nothing;
}

/* Returns the highest resident memory of a process that runs the phases [from, from + n). */
static size_t peak_of(int from, int n) {
    int ends[2];
    size_t peak = 0;
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        works_limit(60);
        memmove(plan.size, plan.size + from, (size_t)n * sizeof plan.size[0]);
        plan.n = n;
        CHECK(pthread_barrier_init(&plan.barrier, NULL, (unsigned)plan.threads) == 0, "a barrier");
        pthread_t id[threads_most];
        for (int i = 1; i < plan.threads; i++)
            CHECK(pthread_create(&id[i], NULL, run, NULL) == 0, "a thread");
        (void)run(NULL);
        for (int i = 1; i < plan.threads; i++) pthread_join(id[i], NULL);
        peak = peak_bytes();
        _exit(write(ends[1], &peak, sizeof peak) == (ssize_t)sizeof peak ? 0 : 1);
    }
    close(ends[1]);
    works_expect_ok(works_wait(child), "a process of phases");
    CHECK(read(ends[0], &peak, sizeof peak) == (ssize_t)sizeof peak, "the child's answer");
    close(ends[0]);
    return peak;
}

/* A size between two bounds; each doubling is as likely as any other. */
static size_t between(uint64_t *state, size_t low, size_t high) {
    size_t bound = low;
    while (bound < high / 2 && works_random(state) % 2 == 0) bound *= 2;
    size_t size = bound + (size_t)(works_random(state) % bound);
    return size < high ? size : high;
}

/* Large objects fill whole slices of 64 KiB but for a page or two. Others leave holes between them
 * that are not resident, and that the next phase touches: that costs every build, and is not meant
 * here. */
static size_t full_slices(size_t size) {
    size_t slices = size / (64 * WORKS_KIB) + 1;
    return (slices < 2 ? 2 : slices) * 64 * WORKS_KIB - 6 * WORKS_KIB;
}

static void choose(uint64_t *state) {
    static const size_t bounds[][2] = {{48, 128},        {130, 1024},  {1100, 64000},
                                       {66000, 1000000}, {130, 64000}, {1100, 1000000}};
    for (int i = 0; i < phases; i++) {
        size_t size = between(state, bounds[i][0], bounds[i][1]);
        plan.size[i] = size > bounds[2][1] ? full_slices(size) : size;
    }
    for (int i = phases - 1; i > 0; i--) {
        int other = (int)(works_random(state) % (unsigned)(i + 1));
        size_t size = plan.size[i];
        plan.size[i] = plan.size[other];
        plan.size[other] = size;
    }
}

/* One sequence of phases, against each of them alone. */
static void try_one(uint64_t *state, uint64_t seed) {
    choose(state);
    size_t alone = 0;
    for (int i = 0; i < phases; i++) {
        size_t peak = peak_of(i, 1);
        if (peak > alone) alone = peak;
    }
    size_t kept = plan.keeps ? (phases - 1) * phase_mib * WORKS_MIB / 10 : 0;
    size_t all = peak_of(0, phases);
    size_t most = (alone + kept) / 10 * tolerance_tenths + slack_mib * WORKS_MIB + WORKS_KEPT;
    CHECK(all <= most,
          "phases of %zu, %zu, %zu, %zu, %zu and %zu bytes peak at %zu KiB; the highest of them "
          "alone at %zu KiB, and %zu KiB are kept; seed %#llx",
          plan.size[0], plan.size[1], plan.size[2], plan.size[3], plan.size[4], plan.size[5],
          all / WORKS_KIB, alone / WORKS_KIB, kept / WORKS_KIB, (unsigned long long)seed);
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(120);
    const char *mode = argc > 1 ? argv[1] : "all";
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : works_now_ms() * 2654435761u + 1;
    uint64_t state = seed;
    (void)works_random(&state);
    plan.threads = strcmp(mode, "threads") == 0 ? threads_most : 1;
    plan.keeps = strcmp(mode, "part") == 0;
    for (int turn = 0; turn < turns; turn++) try_one(&state, seed);
    return 0;
}
