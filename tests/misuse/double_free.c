/* double_free.c: a block is freed twice; the second time is the mistake.
 *
 * SMALL, MEDIUM and LARGE are those of misuse.h. Stopped: the process dies, at the latest in the
 * work after.
 */
#include "misuse.h"

static void twice(size_t size) {
    char *p = block(size);
    expect(p);
    free(p);
    free(hide(p));
    survived(size);
}

CASE(small, "a small block is freed twice in a row") { twice(48); }
CASE(medium, "a medium block is freed twice in a row") { twice(MEDIUM); }
CASE(large, "a large block is freed twice in a row") { twice(LARGE); }

/* a b a: what looks only at the list's head does not see it. */
static void interleaved(size_t size) {
    char *a = block(size);
    char *b = block(size);
    expect(a);
    free(a);
    free(b);
    free(hide(a));
    survived(size);
}

CASE(interleaved_small, "a small block is freed, another one, then the first again") {
    interleaved(48);
}
CASE(interleaved_large, "the same with large blocks") { interleaved(LARGE); }

/* So many frees in between that a bounded memory of recent ones has forgotten the first. */
static void delayed(size_t size, int count) {
    char *list[1024];
    char *p = block(size);
    for (int i = 0; i < count; i++) list[i] = block(size);
    expect(p);
    free(p);
    for (int i = 0; i < count; i++) free(list[i]);
    free(hide(p));
    survived(size);
}

CASE(delayed_small, "1024 other small blocks are freed in between") { delayed(48, 1024); }
CASE(delayed_large, "16 other large blocks are freed in between") { delayed(LARGE, 16); }

/* The address has a new owner, if the allocator gives it one at once; the stale free hits him, and
 * then he frees it himself. Where it has none, the stale free is a plain double free. */
static void reused(size_t size, int tries) {
    char *list[256];
    char *p = block(size);
    char *owner = NULL;
    free(p);
    for (int i = 0; i < tries && owner == NULL; i++) {
        list[i] = block(size);
        if (list[i] == hide(p)) owner = list[i];
    }
    expect(p);
    free(hide(p));
    if (owner != NULL) free(hide(owner));
    survived(size);
}

CASE(reused_small,
     "a small block's address has a new owner: the old one frees it, then the new one") {
    reused(48, 256);
}
CASE(reused_large, "the same with a large block") { reused(LARGE, 16); }

static void *release(void *p) {
    free(p);
    return NULL;
}

static void *expected_release(void *p) {
    expect(p);
    free(p);
    return NULL;
}

CASE(by_another_thread, "its owner frees a block, then another thread does, too") {
    char *p = block(48);
    free(p);
    in_another_thread(expected_release, hide(p));
    survived(48);
}

CASE(after_another_thread, "another thread frees a block, then its owner does, too") {
    char *p = block(48);
    in_another_thread(release, p);
    expect(p);
    free(hide(p));
    survived(48);
}

CASE(aligned, "a block that was aligned to 256 is freed twice") {
    char *p = hide(aligned_alloc(256, 512));
    if (p == NULL) not_set_up("aligned_alloc gave no memory");
    expect(p);
    free(p);
    free(hide(p));
    survived(512);
}

CASE(by_realloc, "realloc has moved a block, and the old address is freed") {
    char *p = block(48);
    char *moved = hide(realloc(p, 5000));
    if (moved == NULL) not_set_up("realloc gave no memory");
    expect(p);
    if (moved == hide(p)) free(moved); /* it has not: a plain double free */
    free(hide(p));
    survived(48);
}

CASE(by_realloc_to_nothing, "realloc to no size frees a block, and free frees it again") {
    char *p = block(48);
    char *nothing = hide(realloc(p, 0));
    expect(p);
    if (nothing == hide(p)) free(nothing);
    free(hide(p));
    survived(48);
}

EXTRA(sized, "a block is freed, and then once more by C23's free_sized") {
    char *p = block(200);
    expect(p);
    free(p);
    free_of_size(hide(p), 200);
    survived(200);
}
