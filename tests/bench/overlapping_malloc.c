// overlapping_malloc.c: a malloc that is wrong: every third block lies where the one before it
// does, cleared or not. Preloaded into the workloads, which are to notice that.
//
// It frees nothing, so what overlaps is live. Not for anything that runs for more than seconds.
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADER = 16, TURN = 3 };
static const size_t ROOM = (size_t)2
                           << 30; // of addresses; enough for small runs, and a limit for large ones

static size_t *size_of(void *block) { return (size_t *)((char *)block - HEADER); }

void *malloc(size_t size) {
    static _Atomic(char *) start;
    static atomic_size_t used, calls;
    static _Atomic(void *) last;
    if (atomic_load(&start) == NULL) {
        char *none = NULL, *fresh = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fresh == MAP_FAILED) return NULL;
        if (!atomic_compare_exchange_strong(&start, &none, fresh)) munmap(fresh, ROOM);
    }
    void *before = atomic_load(&last);
    // Only small ones lie inside the one before, which must not be overrun.
    if (atomic_fetch_add(&calls, 1) % TURN == 0 && before != NULL && *size_of(before) >= size) {
        return before;
    }
    size_t whole = (size + 2 * HEADER - 1) / HEADER * HEADER;
    size_t at = atomic_fetch_add(&used, whole);
    if (whole < size || at + whole > ROOM) return NULL;
    char *block = atomic_load(&start) + at + HEADER;
    *size_of(block) = size;
    atomic_store(&last, block);
    return block;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (old == NULL || block == NULL || block == old) return block;
    memcpy(block, old, *size_of(old) < size ? *size_of(old) : size);
    return block;
}
