/* reported.cpp: makes one mistake among neighbours, which reports.py draws, and says the truth
 * about it.
 *
 *     REPORTED="overflow spoil 3000 64 24 17 0 freed lower same churn 5" reported mistake
 *
 *     mistake    overflow, underflow, far_overflow, far_underflow, write_after_free, double_free,
 *                inside, wrong_size or none
 *     means      how bytes are written: by a loop (spoil: each changes; random; zeros), memset,
 *                memcpy (random bytes), strcpy; or how an object is freed: free, sized or delete
 *     size       bytes requested for each object
 *     align      0: malloc; else the alignment, a power of two
 *     offset     the address plus offset is a multiple of align; not 0: loam's at-offset calls
 *     distance   bytes that are written; far: how far away the one byte is
 *     at         write_after_free, inside: offset in the object; wrong_size: the size that is told
 *     neighbours live, freed (those on both sides, before the mistake) or unused (there are few)
 *     found      order in which the objects are freed after the mistake: own first, lower or higher
 *                addresses first, shuffled, or never
 *     thread     same or other: the thread that makes the mistake
 *     then       after the mistake and before the frees: nothing, churn (objects of that size come
 *                and go), or collect
 *     seed       of everything else that is random
 *
 * It prints a line for each object (address, size, the thread and the function that allocated it),
 * `freed ADDRESS` for each that is freed before the mistake, whose place churn_objects may use
 * again, then `truth ADDRESS FROM TO THREAD`: the object of the mistake, the bytes that are
 * written, or the pointer that is freed, and who does it. It cannot see whether a write changes a
 * byte.
 */
#include "misuse.h"

#include <algorithm>
#include <new>
#include <random>
#include <sys/syscall.h>

extern "C" {
__attribute__((weak)) void *loam_malloc_aligned_offset(size_t size, size_t align, size_t offset);
__attribute__((weak)) void loam_free_sized(void *p, size_t size);
__attribute__((weak)) void loam_free_aligned_sized(void *p, size_t align, size_t size);
__attribute__((weak)) int loam_collect(void);
}

enum { OBJECTS = 48, FAR = 4096 };

static struct {
    char mistake[24], means[16], neighbours[16], found[16], thread[8], then[16];
    size_t size, align, offset, distance, at, seed;
} drawn;

static char *objects[OBJECTS];
static bool gone[OBJECTS];
static int count;
static int victim;
static std::mt19937_64 chance;

static bool is(const char *field, const char *word) { return strcmp(field, word) == 0; }

static char *allocate() {
    if (drawn.offset != 0) {
        if (loam_malloc_aligned_offset == NULL) not_set_up("no loam");
        return hide(loam_malloc_aligned_offset(drawn.size, drawn.align, drawn.offset));
    }
    if (is(drawn.means, "delete")) return hide(::operator new(drawn.size));
    if (drawn.align == 0) return hide(malloc(drawn.size));
    void *p = NULL;
    if (posix_memalign(&p, drawn.align, drawn.size) != 0) not_set_up("no aligned memory");
    return hide(p);
}

/* Not by stdio, which would allocate. */
static void tell(const char *line) {
    if (write(STDOUT_FILENO, line, strlen(line)) < 0) _exit(4);
}

/* Two, so that reports can name the wrong one. */
extern "C" __attribute__((noinline)) char *maker_one() {
    char *p = allocate();
    return hide(p);
}

extern "C" __attribute__((noinline)) char *maker_two() {
    char *p = allocate();
    return hide(p);
}

static void make(int i) {
    bool one = (chance() & 1) != 0;
    char line[120], *p = objects[i] = one ? maker_one() : maker_two();
    if (p == NULL) not_set_up("no memory");
    memset(p, 0x11, drawn.size);
    snprintf(line, sizeof line, "object 0x%lx %zu %ld %s\n", (unsigned long)(uintptr_t)p,
             drawn.size, (long)syscall(SYS_gettid), one ? "maker_one" : "maker_two");
    tell(line);
}

static void *make_all(void *) {
    for (int i = 0; i < count; i++) make(i);
    return NULL;
}

static void make_objects() {
    bool few = is(drawn.neighbours, "unused");
    count = few ? 3 : drawn.size <= 65536 ? OBJECTS : drawn.size <= MIB ? 8 : 4;
    if ((chance() & 3) == 0)
        in_another_thread(make_all, NULL);
    else
        make_all(NULL);
    std::sort(objects, objects + count);
    victim = (int)(chance() % (unsigned)count);
    if (is(drawn.neighbours, "freed")) {
        for (int side : {victim - 1, victim + 1}) {
            if (side < 0 || side >= count) continue;
            char line[40];
            snprintf(line, sizeof line, "freed 0x%lx\n", (unsigned long)(uintptr_t)objects[side]);
            tell(line);
            free(objects[side]);
            gone[side] = true;
        }
    }
}

static void write_bytes(char *from, size_t bytes, bool downward) {
    static char source[(8 << 20) + FAR];
    if (is(drawn.means, "spoil")) {
        spoil(hide(downward ? from + bytes : from),
              downward ? -(ptrdiff_t)bytes : (ptrdiff_t)bytes);
        return;
    }
    if (bytes > sizeof source) not_set_up("more bytes than the source has");
    memset(source, 'B', bytes);
    if (is(drawn.means, "random") || is(drawn.means, "zeros")) {
        volatile char *to = hide(from);
        for (size_t i = 0; i < bytes; i++)
            to[downward ? bytes - 1 - i : i] = is(drawn.means, "zeros") ? 0 : (char)chance();
    } else if (is(drawn.means, "memset")) {
        memset(hide(from), 'C', bytes);
    } else if (is(drawn.means, "strcpy")) {
        source[bytes - 1] = 0;
        strcpy(hide(from), hide(source));
    } else {
        for (size_t i = 0; i < bytes; i++) source[i] = (char)chance();
        memcpy(hide(from), hide(source), bytes);
    }
}

static void release(char *p, size_t size) {
    if (is(drawn.means, "sized"))
        drawn.align == 0 ? loam_free_sized(p, size) : loam_free_aligned_sized(p, drawn.align, size);
    else if (is(drawn.means, "delete"))
        ::operator delete(p, size);
    else
        free(p);
}

static void truth(const char *from, const char *to) {
    char line[200];
    snprintf(line, sizeof line, "truth 0x%lx 0x%lx 0x%lx %ld\npointer 0x%lx thread 0\n",
             (unsigned long)(uintptr_t)objects[victim], (unsigned long)(uintptr_t)from,
             (unsigned long)(uintptr_t)to, (long)syscall(SYS_gettid),
             (unsigned long)(uintptr_t)objects[victim]);
    tell(line);
}

static void written(char *from, char *to, bool downward) {
    truth(from, to);
    write_bytes(from, (size_t)(to - from), downward);
}

static void *mistake(void *) {
    char *p = objects[victim], *end = p + drawn.size;
    size_t distance = drawn.distance;
    if (is(drawn.mistake, "overflow")) {
        bool whole = !is(drawn.means, "spoil") && (drawn.seed & 1) != 0;
        written(whole ? p : end, end + distance, false);
    } else if (is(drawn.mistake, "underflow")) {
        written(p - distance, p, true);
    } else if (is(drawn.mistake, "far_overflow")) {
        written(end + distance - 1, end + distance, false);
    } else if (is(drawn.mistake, "far_underflow")) {
        written(p - distance, p - distance + 1, false);
    } else if (is(drawn.mistake, "write_after_free")) {
        written(p + drawn.at, p + drawn.at + distance, false);
    } else if (is(drawn.mistake, "inside")) {
        truth(p + drawn.at, p + drawn.at);
        free(hide(p + drawn.at));
    } else if (is(drawn.mistake, "wrong_size")) {
        truth(p, p);
        gone[victim] = true;
        release(hide(p), drawn.at);
    } else if (is(drawn.mistake, "double_free")) {
        truth(p, p);
        free(hide(p));
    } else {
        truth(p, p);
    }
    return NULL;
}

/* Exported, so that reports can name it. */
extern "C" __attribute__((noinline)) void churn_objects() {
    static char *others[256];
    int many = drawn.size <= 65536 ? 256 : drawn.size <= MIB ? 12 : 3;
    for (int i = 0; i < many; i++) {
        others[i] = hide(malloc(drawn.size));
        if (others[i] != NULL) others[i][0] = 1;
    }
    for (int i = 0; i < many; i++) free(others[i]);
}

static void free_all() {
    int order[OBJECTS];
    for (int i = 0; i < count; i++) order[i] = is(drawn.found, "higher") ? count - 1 - i : i;
    if (is(drawn.found, "shuffled")) std::shuffle(order, order + count, chance);
    if (is(drawn.found, "own")) std::swap(order[0], order[victim]);
    for (int i = 0; i < count; i++) {
        if (!gone[order[i]]) free(objects[order[i]]);
    }
}

EXTRA(mistake, "what REPORTED describes, which reports.py draws; a double free without it") {
    const char *text = getenv("REPORTED");
    if (text == NULL) text = "double_free free 64 0 0 1 0 live own same nothing 3";
    if (sscanf(text, "%23s %15s %zu %zu %zu %zu %zu %15s %15s %7s %15s %zu", drawn.mistake,
               drawn.means, &drawn.size, &drawn.align, &drawn.offset, &drawn.distance, &drawn.at,
               drawn.neighbours, drawn.found, drawn.thread, drawn.then, &drawn.seed) != 12)
        not_set_up("REPORTED is not as reported.cpp says");
    chance.seed(drawn.seed);
    make_objects();
    if (is(drawn.mistake, "write_after_free") || is(drawn.mistake, "double_free")) {
        free(hide(objects[victim]));
        gone[victim] = true;
    }
    if (is(drawn.thread, "other"))
        in_another_thread(mistake, NULL);
    else
        mistake(NULL);
    if (is(drawn.then, "churn")) churn_objects();
    if (is(drawn.then, "collect") && loam_collect != NULL) (void)loam_collect();
    if (!is(drawn.found, "never")) free_all();
    for (int i = 0; i < 3; i++) churn_objects();
    if (loam_collect != NULL) (void)loam_collect();
    judged(true);
}
