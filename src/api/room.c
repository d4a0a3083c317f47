/* room.c: loam_room and loam_check_copy: is there room for what is about to be written or read?
 *
 *   copy of n bytes ── room(to) < n ───> a report of an overflow, before it has happened
 *                   └─ room(from) < n ─> a report of an overread
 *
 * For libloam_copies.so, and for programs with their own copy functions. Memory that is no object
 * of loam counts as having unlimited room. So does the far inside of a large object of more than
 * some MiB (checks/interior.c).
 */
#include "api/api.h"

enum {
    ROOM_BACK = 64, /* slices to walk back for any pointer: 4 MiB */
    /* Walks back one more slice for this many bytes of a copy, at next to no cost beside the
     * copy's. */
    ROOM_BYTES_A_STEP = 1024
};

size_t loam_room(const void *p) {
    const char *object;
    return lm_interior_usable(p, ROOM_BACK, &object);
}

int loam_check_copy(const char *function, void *to, const void *from, size_t bytes) {
    const void *each[2] = {to, from};
    for (int i = 0; i < 2; i++) {
        const char *object = NULL;
        if (each[i] == NULL) continue;
        size_t room = lm_interior_usable(each[i], ROOM_BACK + bytes / ROOM_BYTES_A_STEP, &object);
        if (LM_LIKELY(room >= bytes)) continue;
        lm_copy_misuse(object, function, bytes, i == 0 ? "to" : "from", each[i], room);
        return 1;
    }
    return 0;
}
