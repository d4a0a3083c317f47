/* generated.cpp: makes one mistake, whose parameters generate.py draws at random.
 *
 *     GENERATED="overflow memcpy 3000 17 2 64 other" generated mistake
 *
 *     mistake    overflow, far_overflow, overread, underflow, underread, double_free, invalid_free,
 *                write_after_free, read_after_free, wrong_size, zero_write, zero_read or old_data
 *     means      how bytes are written, which pointer is freed, or how memory is had
 *     size       bytes that are requested for the object
 *     distance   bytes that are written or read; of a far overflow, the distance of its one byte
 *     at         index of the object among its neighbours, offset in it in bytes, or the wrong size
 *     pause      number of operations between the mistake and what could find it; -1: the object is
 *                never freed
 *     thread     same or other: the thread that makes the mistake
 *
 * Choose this program for rates over many parameters, and the other programs for mistakes that have
 * a name. It cannot tell a harmless mistake from a harmful one: a terminating zero that lands on a
 * padding byte counts as a mistake that was not stopped. Stopped, prevented and survived are as in
 * judge.py. Invariant: no path makes a second mistake, unless the first one has damaged memory.
 */
#include "misuse.h"
#include <new>

enum { NEIGHBOURS = 8, KEPT_MAX = 1024, SOURCE_BYTES = (16 << 20) + 8192 };

static struct {
    char mistake[32], means[16], thread[8];
    size_t size, distance, at;
    long pause;
} drawn;

static char *around[NEIGHBOURS];
static char *kept[KEPT_MAX];
static char source[SOURCE_BYTES];
static char target[8192];
static char *object;
static bool seen;
static const unsigned char secret[8] = {0xa7, 0x5e, 0xc2, 0xe7, 0x5b, 0xc3, 0xd7, 0x9d};

static bool mistake_is(const char *name) { return strcmp(drawn.mistake, name) == 0; }
static bool means_is(const char *name) { return strcmp(drawn.means, name) == 0; }
static size_t operations(void) { return drawn.pause > 0 ? (size_t)drawn.pause : 0; }

static void *in_thread(void *body) {
    (*(void (**)(void))body)();
    return NULL;
}

/* Makes the mistake in the drawn thread. */
static void act(void (*body)(void)) {
    if (strcmp(drawn.thread, "other") == 0) {
        in_another_thread(in_thread, &body);
    } else {
        body();
    }
}

/* Writes bytes [from, from+bytes) by the drawn means. */
static void write_bytes(char *from, size_t bytes) {
    memset(source, 'B', bytes);
    if (means_is("memcpy")) {
        memcpy(hide(from), hide(source), bytes);
    } else if (means_is("memset")) {
        memset(hide(from), 'C', bytes);
    } else if (means_is("strcpy")) {
        source[bytes - 1] = 0;
        strcpy(hide(from), hide(source));
    } else {
        spoil(hide(from), (ptrdiff_t)bytes);
    }
}

/* Reads bytes [from, from+bytes) by the drawn means. */
static void read_bytes(char *from, size_t bytes) {
    if (means_is("memcpy")) {
        memcpy(hide(target), hide(from), bytes);
    } else {
        volatile char *p = hide(from);
        for (size_t i = 0; i < bytes; i++) (void)p[i];
    }
}

/* Copies begin at the object's start, as they do in programs; stores begin at its end. */
static void overflow(void) {
    if (mistake_is("far_overflow")) {
        spoil(hide(object) + drawn.size + drawn.distance - 1, 1);
    } else if (means_is("store")) {
        write_bytes(object + drawn.size, drawn.distance);
    } else {
        write_bytes(object, drawn.size + drawn.distance);
    }
}

static void underflow(void) {
    if (means_is("store")) {
        spoil(hide(object), -(ptrdiff_t)drawn.distance);
    } else {
        write_bytes(hide(object) - drawn.distance, drawn.distance);
    }
}

static void overread(void) { read_bytes(object + drawn.size, drawn.distance); }
static void underread(void) { read_bytes(hide(object) - drawn.distance, drawn.distance); }
static void write_inside(void) { write_bytes(object + drawn.at, drawn.distance); }
static void free_object(void) { free(hide(object)); }
static void free_as_other_size(void) { ::operator delete(hide(object), drawn.at); }

/* Sets `seen` if 8 bytes in a row, or all bytes of a smaller object, are those of the secret. */
static void look(char *p, size_t bytes) {
    size_t step = bytes < sizeof(secret) ? bytes : sizeof(secret);
    for (size_t at = 0; at + step <= bytes; at += step) {
        seen = seen || memcmp(hide(p) + at, secret, step) == 0;
    }
}

static void look_at_object(void) { look(object, drawn.size); }

static char *secret_block(void) {
    char *p = block(drawn.size);
    for (size_t at = 0; at < drawn.size; at++) p[at] = (char)secret[at % sizeof(secret)];
    return p;
}

/* The work of survived() has no objects below 16 bytes: their addresses come back here. */
__attribute__((noreturn)) static void go_on(void) {
    static char *small[4096];
    for (int round = 0; drawn.size < 16 && round < 3; round++) {
        for (char *&p : small) p = block(drawn.size);
        for (char *p : small) free(p);
    }
    survived(drawn.size);
}

static void make_neighbours(void) {
    for (int i = 0; i < NEIGHBOURS; i++) around[i] = block(drawn.size);
    object = around[drawn.at];
    expect(object);
}

__attribute__((noreturn)) static void beyond(void (*body)(void), bool reads) {
    make_neighbours();
    act(body);
    if (reads) judged(true);
    for (size_t i = 0; i < operations(); i++) free(block(drawn.size));
    if (drawn.pause >= 0) free(hide(object));
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        if (i != drawn.at) free(around[i]);
    }
    go_on();
}

__attribute__((noreturn)) static void freed_twice(void) {
    for (size_t i = 0; i < operations(); i++) kept[i] = block(drawn.size);
    object = block(drawn.size);
    expect(object);
    free(hide(object));
    for (size_t i = 0; i < operations(); i++) free(kept[i]);
    act(free_object);
    go_on();
}

__attribute__((noreturn)) static void freed_wrongly(void) {
    static char in_data[8192] = {1};
    char on_stack[8192];
    memset(hide(on_stack), 1, sizeof(on_stack));
    char *p = block(drawn.size);
    object = (means_is("stack")    ? hide(on_stack)
              : means_is("static") ? hide(in_data)
                                   : p) +
             drawn.at;
    expect(object);
    act(free_object);
    go_on();
}

/* Frees the object, and allocates others of its size, which stay in use. */
static void free_and_go_on(void) {
    char *before = block(drawn.size);
    object = secret_block();
    expect(object);
    free(hide(object));
    for (size_t i = 0; i < operations(); i++) kept[i] = block(drawn.size);
    free(before);
}

__attribute__((noreturn)) static void written_late(void) {
    free_and_go_on();
    act(write_inside);
    for (size_t i = 0; i < operations(); i++) {
        for (size_t at = 0; at < drawn.size; at++) {
            if (kept[i][at] != 0x11) judged(true);
        }
    }
    go_on();
}

__attribute__((noreturn)) static void read_late(void) {
    free_and_go_on();
    act(look_at_object);
    judged(seen);
}

__attribute__((noreturn)) static void freed_as_other_size(void) {
    object = hide(::operator new(drawn.size));
    memset(object, 0x11, drawn.size);
    expect(object);
    act(free_as_other_size);
    go_on();
}

__attribute__((noreturn)) static void nothing_used(bool reads) {
    object = hide(means_is("calloc") ? calloc(16, 0) : malloc(0));
    expect(object);
    if (object == NULL) judged(false); /* nothing can be written there */
    if (drawn.pause > 0) free(hide(object));
    drawn.at = 0;
    act(reads ? overread : write_inside);
    if (reads) judged(true);
    if (drawn.pause <= 0) free(hide(object));
    survived(0);
}

static void look_at_new(void) {
    for (size_t i = 0; i < operations(); i++) {
        char *p = hide(means_is("realloc") ? realloc(block(1), drawn.size) : malloc(drawn.size));
        if (p == NULL) not_set_up("no memory");
        look(p, drawn.size);
    }
}

__attribute__((noreturn)) static void old_data(void) {
    for (size_t i = 0; i < operations(); i++) kept[i] = secret_block();
    for (size_t i = 0; i < operations(); i++) free(kept[i]);
    expect(kept[0]);
    act(look_at_new);
    judged(seen);
}

EXTRA(mistake, "what GENERATED describes, which generate.py draws; a double free without it") {
    const char *text = getenv("GENERATED");
    if (text == NULL) text = "double_free free 64 1 0 3 same";
    if (sscanf(text, "%31s %15s %zu %zu %zu %ld %7s", drawn.mistake, drawn.means, &drawn.size,
               &drawn.distance, &drawn.at, &drawn.pause, drawn.thread) != 7 ||
        operations() > KEPT_MAX || drawn.size + drawn.distance > SOURCE_BYTES ||
        drawn.distance > sizeof(target))
        not_set_up("GENERATED is: mistake means size distance at pause thread");
    if (mistake_is("overflow") || mistake_is("far_overflow")) beyond(overflow, false);
    if (mistake_is("underflow")) beyond(underflow, false);
    if (mistake_is("overread")) beyond(overread, true);
    if (mistake_is("underread")) beyond(underread, true);
    if (mistake_is("double_free")) freed_twice();
    if (mistake_is("invalid_free")) freed_wrongly();
    if (mistake_is("write_after_free")) written_late();
    if (mistake_is("read_after_free")) read_late();
    if (mistake_is("wrong_size")) freed_as_other_size();
    if (mistake_is("zero_write")) nothing_used(false);
    if (mistake_is("zero_read")) nothing_used(true);
    if (mistake_is("old_data")) old_data();
    not_set_up("there is no such mistake");
}
