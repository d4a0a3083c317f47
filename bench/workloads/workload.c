// workload.c: see workload.h.
//
// Written so that no call of malloc comes from here: messages are put together on the stack and
// written at once, threads and tables live in mapped memory. (Creating a thread allocates a little
// inside libc, which is the same for every allocator.)
#include "workload.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_THREADS = 1024, LINE = 512 };

struct Wl wl = {.name = "workload", .threads = 1, .scale = 1.0, .seed = 1};

static bool write_all(int file, const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(file, text, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text += written;
        length -= (size_t)written;
    }
    return true;
}

static bool write_line(int file, const char *format, va_list values) {
    char line[LINE];
    int length = vsnprintf(line, sizeof line - 1, format, values);
    if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
    line[length] = '\n';
    return write_all(file, line, (size_t)length + 1);
}

static bool put_line(int file, const char *format, ...) {
    va_list values;
    va_start(values, format);
    bool written = write_line(file, format, values);
    va_end(values);
    return written;
}

// ---- the command line ---------------------------------------------------------------------------

WL_NORETURN static void wrong_use(const char *what, const char *argument) {
    put_line(STDERR_FILENO, "%s: %s%s (--help lists the options)", wl.name, what, argument);
    _exit(2);
}

static void help(WlKind kind, const WlOption *options) {
    put_line(STDOUT_FILENO, "%s [options]", wl.name);
    if (kind == WL_THREADED) {
        put_line(STDOUT_FILENO, "  --threads N   1 to %d (1)", (int)MOST_THREADS);
    }
    put_line(STDOUT_FILENO, "  --scale F     how much of the work (1.0)");
    put_line(STDOUT_FILENO, "  --seed N      of the random numbers (1)");
    for (; options != NULL && options->name != NULL; options++) {
        bool words = strchr(options->what, '|') != NULL;
        put_line(STDOUT_FILENO, "  %s %s%s", options->name, words ? "" : "N   ", options->what);
    }
}

static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    bool digits = text[0] >= '0' && text[0] <= '9';
    if (!digits || *end != '\0' || errno != 0 || value < least || value > most) {
        put_line(STDERR_FILENO, "%s: %s takes a number from %ju to %ju, not \"%s\"", wl.name, name,
                 (uintmax_t)least, (uintmax_t)most, text);
        _exit(2);
    }
    return value;
}

// The place of `text` among `words`, "a|b|c".
static uint64_t word(const char *name, const char *text, const char *words) {
    size_t length = strlen(text);
    uint64_t place = 0;
    for (const char *at = words; at != NULL; place++) {
        const char *end = strchr(at, '|');
        size_t size = end != NULL ? (size_t)(end - at) : strlen(at);
        if (size == length && memcmp(at, text, size) == 0) return place;
        at = end != NULL ? end + 1 : NULL;
    }
    put_line(STDERR_FILENO, "%s: %s takes %s, not \"%s\"", wl.name, name, words, text);
    _exit(2);
}

static const WlOption *find(const WlOption *options, const char *name) {
    for (; options != NULL && options->name != NULL; options++) {
        if (strcmp(options->name, name) == 0) return options;
    }
    return NULL;
}

void wl_begin(int argc, char **argv, const char *name, WlKind kind, const WlOption *options) {
    wl.name = name;
    for (int at = 1; at < argc; at++) {
        const char *given = argv[at];
        if (strcmp(given, "--help") == 0) {
            help(kind, options);
            exit(0);
        }
        const WlOption *own = find(options, given);
        bool threads = strcmp(given, "--threads") == 0, seed = strcmp(given, "--seed") == 0;
        bool scale = strcmp(given, "--scale") == 0;
        if (own == NULL && !threads && !seed && !scale) wrong_use("unknown option ", given);
        if (++at == argc) wrong_use("nothing follows ", given);
        if (own != NULL && strchr(own->what, '|') != NULL) {
            *own->value = word(given, argv[at], own->what);
        } else if (own != NULL) {
            *own->value = number(given, argv[at], own->least, own->most);
        } else if (threads) {
            wl.threads = (int)number(given, argv[at], 1, kind == WL_SINGLE ? 1 : MOST_THREADS);
        } else if (seed) {
            wl.seed = number(given, argv[at], 0, UINT64_MAX);
        } else {
            char *end;
            wl.scale = strtod(argv[at], &end);
            // Written so that a NaN is refused too.
            if (end == argv[at] || *end != '\0' || !(wl.scale > 0 && wl.scale <= 1000)) {
                wrong_use("--scale takes a number above 0, at most 1000, not ", argv[at]);
            }
        }
    }
}

void wl_order(const char *name, uint64_t least, const char *other, uint64_t most) {
    if (least > most) {
        put_line(STDERR_FILENO, "%s: %s %ju is above %s %ju", wl.name, name, (uintmax_t)least,
                 other, (uintmax_t)most);
        exit(2);
    }
}

uint64_t wl_scaled(uint64_t count) {
    double scaled = (double)count * wl.scale;
    return scaled < 1 ? 1 : (uint64_t)scaled;
}

// ---- random numbers -----------------------------------------------------------------------------

WlRandom wl_random(uint64_t number) {
    // splitmix64's finisher: neighbouring seeds and numbers give streams without a likeness.
    uint64_t x = wl.seed * UINT64_C(0x9e3779b97f4a7c15) + number * UINT64_C(0xd1b54a32d192ed03) + 1;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (WlRandom){x != 0 ? x : 1};
}

// ---- threads ------------------------------------------------------------------------------------

// A cache line of its own for each: the random state in it is written all the time.
typedef struct {
    _Alignas(128) WlWorker worker;
    WlBody body;
    WlTally tally;
    pthread_t thread;
} Slot;

static void *start(void *argument) {
    Slot *slot = argument;
    wl_wait(&slot->worker);
    slot->tally = slot->body(&slot->worker);
    return NULL;
}

WlTally wl_run(int count, WlBody body, void *shared) {
    WlTally total = {0, 0};
    size_t bytes = (size_t)count * sizeof(Slot);
    Slot *slots = wl_table((size_t)count, sizeof(Slot));
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int at = 0; at < count; at++) {
        Slot *slot = &slots[at];
        slot->body = body;
        slot->worker = (WlWorker){at, count, wl_random((uint64_t)at), shared, &barrier};
        if (count == 1) {
            start(slot);
            break;
        }
        int error = pthread_create(&slot->thread, NULL, start, slot);
        if (error != 0) wl_fail("thread %d of %d cannot start: %s", at, count, strerror(error));
    }
    for (int at = 0; at < count; at++) {
        if (count > 1) pthread_join(slots[at].thread, NULL);
        total.ops += slots[at].tally.ops;
        total.sum += slots[at].tally.sum;
    }
    pthread_barrier_destroy(&barrier);
    munmap(slots, bytes);
    return total;
}

void wl_wait(WlWorker *me) { pthread_barrier_wait(me->barrier); }

// ---- memory -------------------------------------------------------------------------------------

void *wl_table(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) wl_fail("a table of that size cannot be");
    void *table = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) wl_fail("cannot map a table of %zu bytes", bytes);
    return table;
}

void wl_fail(const char *format, ...) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    // The first one ends the process; the others must not write a second line before it does.
    while (atomic_flag_test_and_set(&said)) pause();
    char message[LINE / 2];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    put_line(STDERR_FILENO, "%s: %s", wl.name, message);
    _exit(1);
}

// ---- the end ------------------------------------------------------------------------------------

void wl_say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    bool written = write_line(STDOUT_FILENO, format, values);
    va_end(values);
    if (!written) wl_fail("cannot write to stdout: %s", strerror(errno));
}

int wl_end(WlTally tally) {
    if (!put_line(STDOUT_FILENO, "%s threads=%d ops=%ju sum=%ju", wl.name, wl.threads,
                  (uintmax_t)tally.ops, (uintmax_t)tally.sum)) {
        wl_fail("cannot write to stdout: %s", strerror(errno));
    }
    return 0;
}
