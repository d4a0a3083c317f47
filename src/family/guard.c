/* guard.c: objects of checked allocators: their tag, their guards, the list of those alive.
 *
 *   raw ... │ loam_tag, its last 16 bytes 0xFB │ object │ 16 or more bytes 0xFB
 *
 * A tag's state word is a magic number mixed with its own address, so that neither a copy nor memory that was
 * never an object passes for one. Invariant: what is on the live list is in state LIVE; lm_guard_check walks it.
 * It cannot find a write that jumps over the guards, nor one into an object of the same allocator.
 */
#include "family/family.h"

#define LIVE ((uintptr_t)0x10A3A11F)
#define FREED ((uintptr_t)0x10A3DEAD)
enum { GUARD = 0xFB, FRESH = 0xA5, DEAD = 0xDD };

static uintptr_t state_of(const loam_tag *tag, uintptr_t magic) { return (uintptr_t)tag ^ magic; }

size_t lm_guard_head(size_t align) {
    return lm_align_up(sizeof(loam_tag), align < 16 ? 16 : align);
}

size_t lm_guard_whole(size_t bytes, size_t align) {
    size_t head = lm_guard_head(align);
    if (bytes > (size_t)PTRDIFF_MAX - head - 2 * LM_GUARD_BYTES) return 0;
    return head + lm_align_up(bytes + LM_GUARD_BYTES, 16);
}

static unsigned char *tail_of(const loam_tag *tag) {
    return (unsigned char *)(uintptr_t)(tag + 1) + tag->bytes;
}
static size_t tail_bytes(const loam_tag *tag) {
    return (size_t)((unsigned char *)tag->raw + tag->raw_bytes - tail_of(tag));
}

LM_READS_ANYTHING static size_t first_changed(const unsigned char *bytes, size_t count,
                                              unsigned char value) {
    size_t i = 0;
    while (i < count && bytes[i] == value) i++;
    return i;
}

LM_READS_ANYTHING static uintptr_t state_at(const loam_tag *tag) { return tag->state; }

void *lm_guard_open(loam_entry *owner, void *raw, size_t raw_bytes, size_t bytes, size_t align,
                    const char *file, unsigned line) {
    lm_tool_show_undefined(raw, raw_bytes);
    loam_tag *tag = (loam_tag *)(void *)((char *)raw + lm_guard_head(align)) - 1;
    *tag = (loam_tag){.next = owner->live,
                      .owner = owner,
                      .file = file,
                      .line = line,
                      .bytes = bytes,
                      .raw_bytes = raw_bytes,
                      .raw = raw};
    tag->state = state_of(tag, LIVE);
    if (owner->live != NULL) owner->live->prev = tag;
    owner->live = tag;
    memset(tag->guard, GUARD, sizeof(tag->guard));
    memset(tag + 1, FRESH, bytes);
    memset(tail_of(tag), GUARD, tail_bytes(tag));
    lm_tool_hide(tag->guard, sizeof(tag->guard));
    lm_tool_hide(tail_of(tag), tail_bytes(tag));
    lm_tool_show_undefined(tag + 1, bytes);
    return tag + 1;
}

/* Both guards; one line on the first that was written to. */
static bool whole(const loam_entry *owner, const loam_tag *tag, const char *file, unsigned line) {
    lm_tool_show(tag->guard, sizeof(tag->guard));
    lm_tool_show(tail_of(tag), tail_bytes(tag));
    size_t below = first_changed(tag->guard, sizeof(tag->guard), GUARD);
    size_t above = first_changed(tail_of(tag), tail_bytes(tag), GUARD);
    lm_tool_hide(tag->guard, sizeof(tag->guard));
    lm_tool_hide(tail_of(tag), tail_bytes(tag));
    const char *allocated = tag->file != NULL ? tag->file : "?";
    if (below != sizeof(tag->guard)) {
        lm_family_misuse(owner, file, line,
                         "underflow of %p: %zu byte(s) before it written, allocated at %s:%u",
                         (const void *)(tag + 1), sizeof(tag->guard) - below, allocated, tag->line);
        return false;
    }
    if (above != tail_bytes(tag)) {
        lm_family_misuse(
            owner, file, line, "overflow of %p: byte %zu of %zu written, allocated at %s:%u",
            (const void *)(tag + 1), tag->bytes + above + 1, tag->bytes, allocated, tag->line);
        return false;
    }
    return true;
}

loam_tag *lm_guard_find(const loam_entry *owner, const void *object, const char *doing,
                        const char *file, unsigned line) {
    loam_tag *tag = (loam_tag *)(uintptr_t)object - 1;
    if ((uintptr_t)object % 16 != 0 || (uintptr_t)object < sizeof(loam_tag)) {
        lm_family_misuse(owner, file, line, "%s of %p, which is no object of it", doing, object);
        return NULL;
    }
    uintptr_t state = state_at(tag);
    if (state == state_of(tag, FREED)) {
        lm_family_misuse(owner, file, line, "%s of %p after its free at %s:%u, allocated at %s:%u",
                         doing, object, tag->freed_file != NULL ? tag->freed_file : "?",
                         tag->freed_line, tag->file != NULL ? tag->file : "?", tag->line);
        return NULL;
    }
    if (state != state_of(tag, LIVE)) {
        lm_family_misuse(owner, file, line, "%s of %p, which is no object of it", doing, object);
        return NULL;
    }
    if (tag->owner != owner) {
        lm_family_misuse(owner, file, line, "%s of %p, which belongs to %s %s", doing, object,
                         tag->owner->kind->name, lm_entry_name(tag->owner));
        return NULL;
    }
    return whole(owner, tag, file, line) ? tag : NULL;
}

static void *bury(loam_tag *tag, const char *file, unsigned line) {
    tag->state = state_of(tag, FREED);
    tag->freed_file = file;
    tag->freed_line = line;
    lm_tool_show_undefined(tag + 1, tag->bytes);
    memset(tag + 1, DEAD, tag->bytes);
    lm_tool_hide(tag + 1, tag->bytes);
    return tag->raw;
}

void *lm_guard_close(loam_entry *owner, loam_tag *tag, const char *file, unsigned line) {
    if (tag->prev != NULL) {
        tag->prev->next = tag->next;
    } else {
        owner->live = tag->next;
    }
    if (tag->next != NULL) tag->next->prev = tag->prev;
    return bury(tag, file, line);
}

void lm_guard_drop_all(loam_entry *owner) {
    for (loam_tag *tag = owner->live; tag != NULL; tag = tag->next) bury(tag, NULL, 0);
    owner->live = NULL;
}

bool lm_guard_check(const loam_entry *owner) {
    bool good = true;
    for (const loam_tag *tag = owner->live; tag != NULL; tag = tag->next)
        good = whole(owner, tag, NULL, 0) && good;
    return good;
}

bool lm_guard_check_freed(const loam_entry *owner, const loam_tag *tag) {
    lm_tool_show(tag + 1, tag->bytes);
    size_t changed = first_changed((const unsigned char *)(tag + 1), tag->bytes, DEAD);
    lm_tool_hide(tag + 1, tag->bytes);
    if (changed == tag->bytes) return true;
    lm_family_misuse(owner, NULL, 0, "byte %zu of %p written after its free at %s:%u", changed + 1,
                     (const void *)(tag + 1), tag->freed_file != NULL ? tag->freed_file : "?",
                     tag->freed_line);
    return false;
}
