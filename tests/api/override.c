/* override.c: a program whose malloc is loam's by loam/override.h alone; compile.py looks at what
 * its object asks for. */
#include <loam/override.h>

#include <loam/loam.h>

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#define CHECK(condition) \
    if (!(condition)) return printf("override.c:%d: %s\n", __LINE__, #condition), 1

static void *opaque(void *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}

static size_t number(size_t n) {
    __asm__ volatile("" : "+r"(n));
    return n;
}

static size_t noted;
static void note(const char *text, size_t bytes, void *unused) {
    (void)text, (void)unused;
    noted += bytes;
}

static int is_multiple(void *p, size_t of) { return (uintptr_t)p % of == 0; }

static int aligned(void) {
    void *p = aligned_alloc(number(256), 100);
    CHECK(p != NULL && is_multiple(p, 256));
    free_aligned_sized(p, 256, 100);
    errno = 0;
    CHECK(aligned_alloc(number(24), 100) == NULL && errno == EINVAL);
    p = memalign(number(100), 10);
    CHECK(p != NULL && is_multiple(p, 128));
    free(p);
    p = memalign(0, 10);
    CHECK(p != NULL);
    free(p);
    errno = 0;
    CHECK(memalign(number(SIZE_MAX), 10) == NULL && errno == EINVAL);
    void *untouched = &p;
    p = untouched;
    errno = 17;
    CHECK(posix_memalign(&p, number(4), 10) == EINVAL && p == untouched);
    CHECK(posix_memalign(&p, number(24), 10) == EINVAL && p == untouched);
    CHECK(posix_memalign(&p, 64, number((size_t)PTRDIFF_MAX)) == ENOMEM && p == untouched);
    CHECK(errno == ENOMEM);
    errno = 17;
    CHECK(posix_memalign(&p, 4096, 10) == 0 && is_multiple(p, 4096) && errno == 17);
    free(p);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    p = valloc(number(10));
    CHECK(p != NULL && is_multiple(p, page));
    free(p);
    for (size_t size = 0; size < 3 * page; size += page - 1) {
        p = pvalloc(number(size));
        CHECK(p != NULL && is_multiple(p, page));
        size_t whole = size == 0 ? page : (size + page - 1) / page * page;
        CHECK(malloc_usable_size(p) >= whole);
        memset(p, 1, whole);
        free(p);
    }
    errno = 0;
    CHECK(pvalloc(number(SIZE_MAX)) == NULL && errno == ENOMEM);
    CHECK(pvalloc(number(SIZE_MAX - page)) == NULL);
    CHECK(valloc(number(SIZE_MAX)) == NULL);
    return 0;
}

/* They speak of loam's heap, where the object is that was just made. */
static int whole_heap(void) {
    struct mallinfo2 before = mallinfo2();
    void *p = opaque(malloc(number(5000000)));
    struct mallinfo2 with = mallinfo2();
    CHECK(with.hblkhd >= before.hblkhd + 5000000 && with.hblks == before.hblks + 1);
    struct mallinfo narrow = mallinfo();
    CHECK((size_t)narrow.hblkhd == with.hblkhd);
    memset(p, 1, 5000000);
    free(p);
    CHECK(malloc_trim(0) == 1);
    CHECK(mallinfo2().hblkhd == before.hblkhd);
    CHECK(mallopt(M_MMAP_THRESHOLD, 1) == 1 && mallopt(12345, 1) == 0);
    static char document[1 << 16];
    FILE *stream = fmemopen(document, sizeof document, "w");
    CHECK(stream != NULL);
    errno = 0;
    CHECK(malloc_info(number(1), stream) == -1 && errno == EINVAL);
    CHECK(malloc_info(0, stream) == 0);
    CHECK(fclose(stream) == 0 && strncmp(document, "<malloc ", 8) == 0);
    CHECK(strstr(document, "<sizes>") != NULL);
    loam_output_register(note, NULL);
    malloc_stats();
    loam_output_register(NULL, NULL);
    CHECK(noted > 0);
    return 0;
}

int main(void) {
    void *p = opaque(malloc(number(100)));
    CHECK(p != NULL && malloc_usable_size(p) >= 100);
    memset(p, 1, 100);
    p = realloc(p, number(5000));
    CHECK(p != NULL && ((char *)p)[99] == 1);
    p = reallocarray(p, number(10), 1000);
    CHECK(p != NULL && ((char *)p)[99] == 1);
    free_sized(p, 10000);
    char *zeroed = opaque(calloc(number(10), 10));
    CHECK(zeroed != NULL && zeroed[0] == 0 && zeroed[99] == 0);
    /* Not only where they are called. */
    void (*release)(void *) = free;
    CHECK((void *)release == (void *)loam_free);
    release(zeroed);
    char *text = strdup("twice");
    CHECK(text != NULL && strcmp(text, "twice") == 0);
    loam_free(text);
    text = strndup("twice", number(2));
    CHECK(text != NULL && strcmp(text, "tw") == 0);
    loam_free(text);
    text = realpath("/proc/../.", NULL);
    CHECK(text != NULL && strcmp(text, "/") == 0);
    loam_free(text);
    wchar_t *wide = wcsdup(L"wide");
    CHECK(wide != NULL && wcscmp(wide, L"wide") == 0);
    free(wide); /* which aborts where wcsdup is the C library's */
    text = canonicalize_file_name("/proc/../.");
    CHECK(text != NULL && strcmp(text, "/") == 0);
    free(text);
    cfree(malloc(number(5)));
    return aligned() || whole_heap();
}
