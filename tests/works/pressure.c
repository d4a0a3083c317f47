/* 
 * pressure.c - many threads that allocate until there is no memory, and free, get NULL and ENOMEM,
 * never a signal; they make progress; and memory that nobody writes to does not become resident.
 *
 *   pressure address    RLIMIT_AS
 *   pressure data       RLIMIT_DATA
 *   pressure maps       the kernel's limit of mappings, which the program itself has nearly used up
 *   pressure none       no limit but sizes: 1 GiB at most, cleared and never touched
 *
 * Each limit is tried in children of their own with several numbers of threads, orders of sizes,
 * and ways to allocate, drawn by a seed; a child that hangs is ended by its alarm, which is a
 * failure.
 *
 * Catches: an allocator that loses its own metadata, a thread's heap or a moved object when the
 * system gives no more; and one whose calloc writes to gigabytes that were freed without ever
 * having been touched.
 */
#include "works.h"

#include <pthread.h>
#include <sys/resource.h>

enum { most_threads = 60, most_objects = 60, rounds = 6 };

typedef struct plan {
    unsigned threads, order, way;
    size_t largest;
} plan;

static plan now;
static _Atomic unsigned refused, done;

static size_t size_of(unsigned n, uint64_t *chance, size_t *before) {
    size_t doubling = n < 40 ? (size_t)1 << n : (size_t)1 << 40, sum = before[0] + before[1];
    before[0] = before[1];
    before[1] = sum;
    size_t random = works_random(chance) % ((size_t)1 << (works_random(chance) % 34));
    size_t size = now.order == 0 ? doubling : now.order == 1 ? sum : random + 1;
    return size < now.largest ? size : now.largest;
}

static char *allocate(size_t size, char *old, unsigned way) {
    switch (way % 4) {
    case 0: return malloc(size);
    case 1: return calloc(1, size);
    case 2: return aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
    default: return realloc(old, size);
    }
}

static void *run(void *number) {
    uint64_t chance = (uintptr_t)number * 7919 + now.order + 1;
    for (int round = 0; round < rounds; round++) {
        char *object[most_objects];
        size_t size[most_objects], before[2] = {1, 1};
        unsigned n = 0;
        for (; n < most_objects; n++) {
            size[n] = size_of(n, &chance, before);
            errno = 0;
            object[n] = allocate(size[n], NULL, now.way == 4 ? n : now.way);
            if (!object[n]) {
                CHECK(errno == ENOMEM, "NULL for %zu bytes with errno %d", size[n], errno);
                refused++;
                break;
            }
            object[n][0] = object[n][size[n] - 1] = (char)n;
        }
        for (unsigned i = 0; i < n; i++) {
            CHECK(object[i][size[i] - 1] == (char)i, "an object of %zu bytes changed", size[i]);
            /* Some grow before they go; not the larger ones, which may be copied, and resident
             * then. */
            bool grows = now.way == 3 && i % 3 == 0 && size[i] < WORKS_MIB;
            char *larger = grows ? realloc(object[i], size[i] * 2) : NULL;
            free(larger ? larger : object[i]);
        }
    }
    done++;
    return NULL;
}

static void limit_by(int resource, size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
}

/* Every second page without access: neighbours do not join. Leaves room for so many. */
static void use_up_mappings(int left) {
    char *at = NULL;
    size_t pages = 140000;
    at = mmap(NULL, pages * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
    size_t i = 1;
    while (i < pages && mprotect(at + i * 4096, 4096, PROT_NONE) == 0) i += 2;
    if (i >= pages) SKIP("the kernel allows more than %zu mappings", pages);
    for (int n = 0; n < left / 2; n++) {
        i -= 2;
        CHECK(mprotect(at + i * 4096, 4096, PROT_READ) == 0, "mprotect: %s", strerror(errno));
    }
}

static void child(const char *limit, const plan *chosen, int number) {
    static pthread_t thread[most_threads];
    pthread_attr_t attributes;
    works_limit(50);
    now = *chosen;
    free(malloc(100));
    if (strcmp(limit, "address") == 0) limit_by(RLIMIT_AS, (size_t)(1 + number % 4) << 30);
    if (strcmp(limit, "data") == 0) limit_by(RLIMIT_DATA, (size_t)(1 + number % 4) << 29);
    if (strcmp(limit, "maps") == 0) use_up_mappings(number % 4 * 20);
    CHECK(pthread_attr_init(&attributes) == 0 &&
              pthread_attr_setstacksize(&attributes, 64 * WORKS_KIB) == 0,
          "no attributes");
    unsigned started = 0;
    for (unsigned i = 0; i < now.threads; i++)
        started += pthread_create(&thread[started], &attributes, run, (void *)(uintptr_t)i) == 0;
    if (started == 0) run((void *)(uintptr_t)1);
    for (unsigned i = 0; i < started; i++) pthread_join(thread[i], NULL);
    CHECK(done == (started > 0 ? started : 1), "%u of %u threads came to their end", done, started);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage: %s", strerror(errno));
    /* Debug builds fill what is freed. */
    bool filled = WORKS_KEPT > 0;
    CHECK(filled || (size_t)usage.ru_maxrss <= 512 * 1024,
          "%ld MiB were resident, and next to nothing touched", usage.ru_maxrss / 1024);
    /* What there is serves again. */
    char *again = malloc(64 * WORKS_KIB);
    CHECK(again, "after all is freed, malloc(64 KiB) returned NULL");
    free(again);
}

static void expect_untouched(void) {
    char *object = malloc(1024 * WORKS_MIB);
    CHECK(object, "malloc(1 GiB) returned NULL");
    object[0] = 1;
    free(object);
    size_t before = works_anonymous_bytes();
    for (size_t mib = 1024; mib >= 4; mib /= 4) {
        object = calloc(mib, WORKS_MIB);
        CHECK(object, "calloc of %zu MiB returned NULL", mib);
        CHECK(object[0] == 0 && object[mib * WORKS_MIB / 2] == 0, "calloc of %zu MiB is not zero",
              mib);
        object[mib * WORKS_MIB / 2] = 1;
        size_t now_bytes = works_anonymous_bytes(), most = before + 4 * WORKS_MIB;
        CHECK(works_any_allocator() || now_bytes <= most, "calloc of %zu MiB made %zu MiB resident",
              mib, (now_bytes - before) / WORKS_MIB);
        free(object);
    }
}

int main(int count, char **arguments) {
    works_require_loam();
    CHECK(count == 2, "usage: pressure address|data|maps|none");
    uint64_t chance = 7;
    expect_untouched();
    bool unlimited = strcmp(arguments[1], "none") == 0 || strcmp(arguments[1], "maps") == 0;
    for (int number = 0; number < 10; number++) {
        static const unsigned threads[] = {60, 1, 4, 30, 60};
        plan chosen = {.threads = threads[number % 5],
                       .order = (unsigned)(works_random(&chance) % 3),
                       .way = (unsigned)(works_random(&chance) % 5),
                       .largest = unlimited ? 1024 * WORKS_MIB : (size_t)1 << 46};
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            child(arguments[1], &chosen, number);
            _exit(0);
        }
        char what[96];
        snprintf(what, sizeof what, "%u threads, order %u, way %u, number %d", chosen.threads,
                 chosen.order, chosen.way, number);
        works_expect_ok(works_wait(pid), what);
    }
    return 0;
}
