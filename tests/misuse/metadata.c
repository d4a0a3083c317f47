/* metadata.c: an overflow runs on, page after page, towards what the allocator itself needs.
 *
 * Stopped: the process dies, at the latest in the work after.
 */
#include "misuse.h"

/* Blocks enough that the allocator has laid them out as it does in a long run; the middle one is
 * it. */
static void run(size_t size, int count, ptrdiff_t from, ptrdiff_t bytes) {
    static char *list[2048];
    for (int i = 0; i < count; i++) list[i] = block(size);
    char *p = list[count / 2];
    expect(p);
    spoil(p + from, bytes);
    free(hide(p));
    for (int i = 0; i < count; i++) {
        if (i != count / 2) free(list[i]);
    }
    survived(size);
}

CASE(small_up_64_kib, "64 KiB after a small block among 2048 others") { run(48, 2048, 48, 65536); }
CASE(small_down_64_kib, "64 KiB before a small block among 2048 others") {
    run(48, 2048, 0, -65536);
}
CASE(large_down_8_kib, "8 KiB before a large block") { run(LARGE, 4, 0, -8192); }
