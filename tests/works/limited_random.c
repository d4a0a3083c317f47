/* 
 * limited_random.c - under RLIMIT_AS or RLIMIT_DATA, what was freed can be had again, at once and
 * in every form: over sizes, threads and orders drawn by chance.
 *
 *   limited_random address|data|both SEED ROUNDS
 *
 * In each round a child sets a limit and fills it, by one to three threads, with objects of one to
 * four sizes between 16 bytes and 4 MiB, by malloc, calloc, realloc and memalign. It frees them in
 * one of four orders, all, or all except 16 small ones. A moment later it must be able to start a
 * thread whose stack nobody has kept. Then it needs a stream, 52 other sizes, each larger size up
 * to half of what was filled, and objects of yet another size. In the end the addresses go back:
 * the program's own mmap gets half of what was filled, and its size is near what it was.
 *
 * Catches: an allocator that keeps the addresses of free memory, for one kind of object, below a
 * page in use or until a thread of its own comes by; one that maps memory ahead where the limit is
 * near; one that can no longer use freed memory because a guard in it cannot be opened.
 */
#include "works.h"

#include <pthread.h>
#include <sys/resource.h>

enum {
    objects_most = 1 << 20,
    threads_most = 3,
    sizes_most = 4,
    smalls = 52,
    kept = 16,
    tries = 3
};
enum { soon_ms = 200, late_ms = 30000 };

typedef struct part {
    void **object;
    size_t n, filled;
    uint64_t random;
} part;

static part parts[threads_most];
static unsigned threads, sizes, order;
static size_t size[sizes_most], limit_bytes;
static bool others, stays, keeps;
static pthread_barrier_t barrier;
static char what[200];

static void *nothing(void *unused) { return unused; }

static bool thread_runs(size_t stack_bytes) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    bool started = pthread_create(&thread, &attributes, nothing, NULL) == 0;
    if (started) pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* A size between 16 bytes and `most`, each doubling as likely as the others. */
static size_t draw_size(uint64_t *random, size_t most) {
    size_t from = (size_t)16 << works_random(random) % 18,
           bytes = from + works_random(random) % from;
    return bytes < most ? bytes : most;
}

/* Enough for a page to be in memory; of long objects one page in eight. */
static void touch(void *p, size_t bytes) {
    volatile char *c = (volatile char *)p;
    for (size_t i = 0; i<bytes; i += bytes> WORKS_MIB ? 32768 : 4096) c[i] = 1;
    c[bytes - 1] = 1;
}

static void *object_of(size_t bytes, unsigned how) {
    if (how == 0) return calloc(1, bytes);
    if (how == 1) return memalign(64, bytes);
    if (how > 2) return malloc(bytes);
    void *p = malloc(bytes / 2 + 1), *grown = p != NULL ? realloc(p, bytes) : NULL;
    if (grown == NULL) free(p);
    return grown;
}

static void fill(part *own) {
    own->n = own->filled = 0;
    while (own->n < objects_most) {
        uint64_t chance = works_random(&own->random);
        size_t bytes = size[chance % sizes];
        void *p = object_of(bytes, (unsigned)(chance >> 32) % 16);
        if (p == NULL) return;
        touch(p, bytes);
        own->object[own->n++] = p;
        own->filled += bytes;
    }
}

/* Large objects are not kept: they would hold much of the limit. */
static bool is_kept(const part *of, size_t i) {
    return keeps && i % (of->n / kept + 1) == of->n / kept &&
           malloc_usable_size(of->object[i]) <= 64 * WORKS_KIB;
}

static void free_one(part *of, size_t i) {
    if (is_kept(of, i)) return;
    free(of->object[i]);
    of->object[i] = NULL;
}

static void empty(part *of) {
    size_t n = of->n;
    if (order == 2) {
        for (size_t i = n; i > 1; i--) {
            size_t j = works_random(&of->random) % i;
            void *p = of->object[i - 1];
            of->object[i - 1] = of->object[j];
            of->object[j] = p;
        }
    }
    if (order == 3) {
        for (size_t i = 0; i < n; i += 2) free_one(of, i);
        for (size_t i = 1; i < n; i += 2) free_one(of, i);
        return;
    }
    for (size_t i = 0; i < n; i++) free_one(of, order == 1 ? n - 1 - i : i);
}

static void drop_kept(part *of) {
    for (size_t i = 0; i < of->n; i++) free(of->object[i]);
    of->n = 0;
}

static void *fill_and_empty(void *own) {
    size_t number = (size_t)((part *)own - parts);
    fill((part *)own);
    pthread_barrier_wait(&barrier);
    empty(others ? &parts[(number + 1) % threads] : (part *)own);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* ---- What must be there again
 * --------------------------------------------------------------------- */

static void thread_within(uint64_t ms) {
    uint64_t end = works_now_ms() + ms;
    while (!thread_runs(4 * WORKS_MIB)) {
        CHECK(works_now_ms() < end, "%s: no thread after all was freed", what);
        works_sleep_ms(5);
    }
}

static void other_sizes(size_t filled) {
    void *taken[smalls];
    for (size_t i = 0; i < smalls; i++) {
        taken[i] = malloc(16 + i * (i + 1) * 19);
        CHECK(taken[i] != NULL, "%s: malloc(%zu) returns NULL", what, 16 + i * (i + 1) * 19);
    }
    for (size_t i = 0; i < smalls; i++) free(taken[i]);
    FILE *stream = fopen("/dev/zero", "r");
    CHECK(stream != NULL && fgetc(stream) == 0, "%s: no stream", what);
    fclose(stream);
    for (size_t bytes = 3000; bytes <= filled / 2; bytes *= 5) {
        void *p = malloc(bytes);
        CHECK(p != NULL, "%s: malloc(%zu) returns NULL", what, bytes);
        touch(p, bytes);
        free(p);
    }
    void *p = malloc(1000);
    for (size_t bytes = 1500; p != NULL && bytes < filled / 4; bytes *= 3) {
        p = realloc(p, bytes);
        CHECK(p != NULL, "%s: realloc to %zu returns NULL", what, bytes);
    }
    free(p);
}

static size_t address_bytes(void) {
    return works_proc_number("/proc/self/status", "\nVmSize:") * WORKS_KIB;
}

static void addresses_go_back(size_t filled, size_t before) {
    uint64_t end = works_now_ms() + late_ms;
    void *mine;
    while ((mine = mmap(NULL, filled / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                        0)) == MAP_FAILED) {
        CHECK(works_now_ms() < end, "%s: mmap of %zu MiB fails", what, filled / 2 / WORKS_MIB);
        works_sleep_ms(20);
    }
    munmap(mine, filled / 2);
    size_t most = before + filled / 4 + 20 * WORKS_MIB + WORKS_KEPT, now;
    while ((now = address_bytes()) > most) {
        CHECK(works_now_ms() < end, "%s: %zu MiB of addresses before, %zu after %zu were freed",
              what, before / WORKS_MIB, now / WORKS_MIB, filled / WORKS_MIB);
        works_sleep_ms(20);
    }
}

/* ---- A round
 * ---------------------------------------------------------------------------------------- */

static void describe(const char *limit, uint64_t seed) {
    int n = snprintf(what, sizeof what, "%s %llu: %zu MiB, %u thread(s)%s%s, order %u%s, sizes",
                     limit, (unsigned long long)seed, limit_bytes / WORKS_MIB, threads,
                     others ? " that free others'" : "", stays ? " that stay" : "", order,
                     keeps ? ", some kept" : "");
    for (unsigned i = 0; i < sizes && n < (int)sizeof what - 24; i++)
        n += snprintf(what + n, sizeof what - (size_t)n, " %zu", size[i]);
}

static void draw(uint64_t *random) {
    limit_bytes = (48 + works_random(random) % 64) * WORKS_MIB;
    threads = works_random(random) % 3 == 0 ? 2 + (unsigned)(works_random(random) % 2) : 1;
    sizes = works_random(random) % 2 == 0 ? 1 : 2 + (unsigned)(works_random(random) % 3);
    order = (unsigned)(works_random(random) % 4);
    others = threads > 1 && works_random(random) % 2 == 0;
    stays = threads > 1 && works_random(random) % 2 == 0;
    keeps = works_random(random) % 4 == 0;
    for (unsigned i = 0; i < sizes; i++) size[i] = draw_size(random, limit_bytes / 8);
    if (size[0] < 64) size[0] += 64; /* or the tables below are full before the limit is */
    for (unsigned i = 0; i < threads; i++) {
        parts[i].random = works_random(random);
        parts[i].object = (void **)mmap(NULL, objects_most * sizeof(void *), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(parts[i].object != MAP_FAILED, "mmap: %s", strerror(errno));
    }
}

static void set_limit(int resource, size_t used) {
    struct rlimit limit = {used + limit_bytes, used + limit_bytes};
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
}

static void round_of(const char *limit, uint64_t seed) {
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 8; i++) (void)works_random(&random);
    draw(&random);
    describe(limit, seed);
    pthread_t thread[threads_most];
    pthread_barrier_init(&barrier, NULL, threads + 1);
    CHECK(thread_runs(WORKS_MIB), "no thread"); /* what the C library keeps for one is there */
    size_t before = address_bytes();
    if (limit[0] != 'd') set_limit(RLIMIT_AS, before);
    if (limit[0] != 'a')
        set_limit(RLIMIT_DATA, works_proc_number("/proc/self/status", "\nVmData:") * WORKS_KIB);
    if (threads == 1) {
        fill(&parts[0]);
        empty(&parts[0]);
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, WORKS_MIB / 2); /* which is no part of what goes back */
    for (unsigned i = 0; threads > 1 && i < threads; i++)
        CHECK(pthread_create(&thread[i], &attributes, fill_and_empty, &parts[i]) == 0,
              "%s: no thread", what);
    for (int i = 0; threads > 1 && i < (stays ? 2 : 3); i++) pthread_barrier_wait(&barrier);
    for (unsigned i = 0; threads > 1 && !stays && i < threads; i++) pthread_join(thread[i], NULL);
    size_t filled = 0;
    for (unsigned i = 0; i < threads; i++) filled += parts[i].filled;
    CHECK(filled > limit_bytes / 4, "%s: only %zu MiB could be had", what, filled / WORKS_MIB);
    thread_within(others ? late_ms : soon_ms);
    other_sizes(filled);
    addresses_go_back(filled, before);
    for (unsigned i = 0; i < threads; i++) drop_kept(&parts[i]);
    sizes = 1;
    size[0] = draw_size(&random, limit_bytes / 8) + 64;
    fill(&parts[0]);
    CHECK(parts[0].filled > filled / 3, "%s: then only %zu of %zu MiB of %zu bytes", what,
          parts[0].filled / WORKS_MIB, filled / WORKS_MIB, size[0]);
    if (threads > 1 && stays) pthread_barrier_wait(&barrier);
    for (unsigned i = 0; threads > 1 && stays && i < threads; i++) pthread_join(thread[i], NULL);
}

static bool child_is_right(const char *limit, uint64_t seed) {
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        works_limit(60);
        round_of(limit, seed);
        _exit(0);
    }
    int status = works_wait(child);
    CHECK(WIFEXITED(status), "%s, seed %llu: ended by signal %d", limit, (unsigned long long)seed,
          WTERMSIG(status));
    return WEXITSTATUS(status) == 0;
}

int main(int count, char **arguments) {
    works_require_loam();
    CHECK(count == 4, "usage: limited_random address|data|both SEED ROUNDS");
    uint64_t first = strtoull(arguments[2], NULL, 0), rounds = strtoull(arguments[3], NULL, 0);
    for (uint64_t seed = first; seed < first + rounds; seed++) {
        /* Where the worker is just giving most of the memory back, and is stopped by a busy
         * machine, a thread may have to wait. That does not happen each time. */
        bool right = false;
        for (int i = 0; i < tries && !right; i++) right = child_is_right(arguments[1], seed);
        CHECK(right, "seed %llu: %d times of %d", (unsigned long long)seed, (int)tries, (int)tries);
    }
    return 0;
}
