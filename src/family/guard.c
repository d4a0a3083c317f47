/* guard.c: objects of checked allocators: their tag, their guards, the list of live objects.
 *
 *   raw ... │ loam_tag, its last 16 bytes 0xE7 │ object │ 16 or more bytes 0xE7
 *
 * A tag's state word is a magic number mixed with the tag's own address, so neither a copy of a tag
 * nor other memory passes for one. Invariant: tags on the live list are in state LIVE;
 * lm_guard_check walks the list. An entry records the lowest and highest address of its objects. A
 * pointer in no entry's range is reported without reading the memory around it, which may not
 * exist. It cannot find a write that jumps over the guards, nor one into another object of the
 * allocator. A pointer into memory that was once an object's and has gone back to the system ends
 * the program when its tag is read.
 */
#include "family/family.h"

#define LIVE ((uintptr_t)0x10A3A11F)
#define GUARD_FREED ((uintptr_t)0x10A3DEAD)
enum { GUARD = LM_GUARD_BYTE, FRESH = LM_FRESH_BYTE, DEAD = LM_DEAD_BYTE };
/* Maximum bytes of an object, and of the rounding after it, that are filled and compared: a large
 * object must not cost a walk through memory that the program may never touch. Tools watch all of
 * it. */
enum { GUARD_FILL_MOST = 64 * 1024, TAIL_MOST = 1024 };

static uintptr_t guard_state_of(const loam_tag *tag, uintptr_t magic) {
    return (uintptr_t)tag ^ magic;
}

size_t lm_guard_head(size_t align) {
    return lm_align_up(sizeof(loam_tag), align < 16 ? 16 : align);
}

size_t lm_guard_whole(size_t bytes, size_t align) {
    size_t head = lm_guard_head(align), most = (size_t)PTRDIFF_MAX - 2 * LM_GUARD_BYTES;
    if (head > most || bytes > most - head) return 0;
    return head + lm_align_up(bytes + LM_GUARD_BYTES, 16);
}

static unsigned char *tail_of(const loam_tag *tag) {
    return (unsigned char *)(uintptr_t)(tag + 1) + tag->bytes;
}
static size_t tail_whole(const loam_tag *tag) {
    return (size_t)((unsigned char *)tag->raw + tag->raw_bytes - tail_of(tag));
}
static size_t tail_bytes(const loam_tag *tag) {
    size_t bytes = tail_whole(tag);
    return bytes < TAIL_MOST ? bytes : TAIL_MOST;
}
/* Returns the bytes of an object that are filled. The tag of a freed object may be hidden together
 * with the object. */
LM_READS_ANYTHING static size_t filled_bytes(const loam_tag *tag) {
    return tag->bytes < GUARD_FILL_MOST ? tag->bytes : GUARD_FILL_MOST;
}

/* Fills at least LM_GUARD_BYTES after the object, in pieces of constant size except for a rare
 * rest. For a size that it knows to be small, the compiler would use an instruction that takes
 * longer than the rest of the allocation. */
static void tail_fill(const loam_tag *tag) {
    unsigned char *tail = tail_of(tag);
    size_t bytes = tail_bytes(tag);
    memset(tail, GUARD, LM_GUARD_BYTES);
    memset(tail + bytes - LM_GUARD_BYTES, GUARD, LM_GUARD_BYTES);
    if (LM_UNLIKELY(bytes > (size_t)2 * LM_GUARD_BYTES))
        memset(tail + LM_GUARD_BYTES, GUARD, bytes - (size_t)2 * LM_GUARD_BYTES);
}

/* Widens the entry's range of addresses. Relaxed, here and in lm_entry_has: another thread that
 * reports a mistake may read it. */
LM_INLINE void widen(loam_entry *owner, const loam_tag *tag) {
    uintptr_t low = (uintptr_t)tag->raw, high = (uintptr_t)tail_of(tag);
    if (owner->low == 0 || low < owner->low) lm_store_relaxed(&owner->low, low);
    if (high > owner->high) lm_store_relaxed(&owner->high, high);
}

typedef size_t word_t __attribute__((may_alias, aligned(1)));
#define WORD_OF(byte) (SIZE_MAX / 0xFF * (byte))

/* Returns 0 iff all LM_GUARD_BYTES are intact. */
LM_INLINE size_t guard_changes(const unsigned char *bytes) {
    const word_t *words = (const word_t *)(const void *)bytes;
    size_t every = WORD_OF(GUARD), changes = (words[0] ^ every) | (words[1] ^ every);
    if (sizeof(word_t) < 8) changes |= (words[2] ^ every) | (words[3] ^ every);
    return changes;
}

LM_READS_ANYTHING static LM_NOINLINE size_t first_changed(const unsigned char *bytes, size_t count,
                                                          unsigned char value) {
    const word_t *words = (const word_t *)(const void *)bytes;
    size_t every = WORD_OF(value), whole = count / sizeof(word_t), w = 0;
    for (; w + 4 <= whole; w += 4) {
        if (((words[w] ^ every) | (words[w + 1] ^ every) | (words[w + 2] ^ every) |
             (words[w + 3] ^ every)) != 0)
            break;
    }
    while (w < whole && words[w] == every) w++;
    size_t i = w * sizeof(word_t);
    while (i < count && bytes[i] == value) i++;
    return i;
}

LM_READS_ANYTHING static uintptr_t state_at(const loam_tag *tag) { return tag->state; }

void *lm_guard_open(loam_entry *owner, void *raw, size_t raw_bytes, size_t bytes, size_t align,
                    const char *file, unsigned line) {
    LM_ASSERT(raw_bytes >= lm_guard_head(align) + bytes + LM_GUARD_BYTES);
    lm_tool_show_undefined(raw, raw_bytes);
    loam_tag *tag = (loam_tag *)(void *)((char *)raw + lm_guard_head(align)) - 1;
    /* Written field by field: a compiler would use a slow instruction for the whole. */
    tag->next = owner->live;
    tag->prev = tag;
    tag->owner = owner;
    tag->file = file;
    tag->line = line;
    tag->align_log2 = lm_log2(align);
    tag->bytes = bytes;
    tag->raw_bytes = raw_bytes;
    tag->raw = raw;
    tag->state = guard_state_of(tag, LIVE);
    if (owner->live != NULL) {
        tag->prev = owner->live->prev;
        owner->live->prev = tag;
    }
    owner->live = tag;
    size_t pad = (size_t)((char *)tag - (char *)raw);
    if (LM_UNLIKELY(pad != 0 && pad <= GUARD_FILL_MOST)) memset(raw, DEAD, pad);
    memset(tag->guard, GUARD, sizeof(tag->guard));
    memset(tag + 1, FRESH, filled_bytes(tag));
    tail_fill(tag);
    widen(owner, tag);
    lm_tool_hide(tag->guard, sizeof(tag->guard));
    lm_tool_hide(tail_of(tag), tail_whole(tag));
    lm_tool_show_undefined(tag + 1, bytes);
    return tag + 1;
}

void lm_guard_resize(loam_entry *owner, loam_tag *tag, size_t raw_bytes, size_t bytes) {
    unsigned char *object = (unsigned char *)(tag + 1);
    size_t old_bytes = tag->bytes, old_filled = filled_bytes(tag);
    LM_ASSERT(owner->live != NULL && tag->owner == owner);
    LM_ASSERT(raw_bytes >= (size_t)((char *)object - (char *)tag->raw) + bytes + LM_GUARD_BYTES);
    tag->raw_bytes = raw_bytes;
    tag->bytes = bytes;
    if (bytes > old_bytes) lm_tool_show_undefined(object + old_bytes, bytes - old_bytes);
    if (filled_bytes(tag) > old_filled)
        memset(object + old_filled, FRESH, filled_bytes(tag) - old_filled);
    lm_tool_show_undefined(tail_of(tag), tail_whole(tag));
    tail_fill(tag);
    widen(owner, tag);
    lm_tool_hide(tail_of(tag), tail_whole(tag));
}

/* Returns true if both guards are certainly intact, after a few instructions. False says
 * nothing. */
LM_INLINE bool is_whole(const loam_tag *tag) {
    const unsigned char *tail = tail_of(tag);
    size_t bytes = tail_whole(tag);
    if (lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE || bytes > (size_t)2 * LM_GUARD_BYTES)
        return false;
    return (guard_changes(tag->guard) | guard_changes(tail) |
            guard_changes(tail + bytes - LM_GUARD_BYTES)) == 0;
}

/* Checks both guards. Reports the first one that was overwritten, in one line, and returns
 * false. */
static LM_NOINLINE bool whole_or_said(const loam_entry *owner, const loam_tag *tag,
                                      const char *file, unsigned line) {
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

LM_INLINE bool whole(const loam_entry *owner, const loam_tag *tag, const char *file,
                     unsigned line) {
    return LM_LIKELY(is_whole(tag)) || whole_or_said(owner, tag, file, line);
}

static bool guard_is_owner(const loam_entry *entry, const void *owner) { return entry == owner; }

/* Returns the tag of a live object of `owner`, whatever the state of its guards; NULL after a
 * report. */
static loam_tag *guard_find(const loam_entry *owner, const void *object, const char *doing,
                            const char *file, unsigned line) {
    loam_tag *tag = (loam_tag *)((uintptr_t)object - sizeof(loam_tag)); /* may point anywhere */
    bool ours = lm_entry_has(owner, object);
    if ((uintptr_t)object % 16 != 0 ||
        (!ours && !lm_entry_tell(lm_entry_has, object, owner, NULL))) {
        lm_family_misuse(owner, file, line, "%s of %p, which is no object of it", doing, object);
        return NULL;
    }
    uintptr_t state = state_at(tag);
    if (state != guard_state_of(tag, GUARD_FREED) && state != guard_state_of(tag, LIVE)) {
        lm_family_misuse(owner, file, line, "%s of %p, which is no object of it", doing, object);
        return NULL;
    }
    /* An allocator may have hidden freed memory as a whole. */
    lm_tool_show(tag, offsetof(loam_tag, guard));
    if (state == guard_state_of(tag, GUARD_FREED)) {
        lm_family_misuse(owner, file, line, "%s of %p after its free at %s:%u, allocated at %s:%u",
                         doing, object, tag->freed_file != NULL ? tag->freed_file : "?",
                         tag->freed_line, tag->file != NULL ? tag->file : "?", tag->line);
        return NULL;
    }
    if (tag->owner != owner) {
        lm_line_t other = {0};
        if (lm_entry_tell(guard_is_owner, tag->owner, owner, &other))
            lm_family_misuse(owner, file, line, "%s of %p, which belongs to %s", doing, object,
                             other.text);
        else /* the entry ended with live objects */
            lm_family_misuse(owner, file, line, "%s of %p, which is no object of it", doing,
                             object);
        return NULL;
    }
    return tag;
}

loam_tag *lm_guard_find(const loam_entry *owner, const void *object, const char *doing,
                        const char *file, unsigned line) {
    loam_tag *tag = guard_find(owner, object, doing, file, line);
    return tag != NULL && whole(owner, tag, file, line) ? tag : NULL;
}

loam_tag *lm_guard_find_broken(const loam_entry *owner, const void *object, const char *doing,
                               const char *file, unsigned line) {
    loam_tag *tag = guard_find(owner, object, doing, file, line);
    if (tag != NULL) (void)whole(owner, tag, file, line);
    return tag;
}

static void *guard_bury(loam_tag *tag, const char *file, unsigned line) {
    tag->state = guard_state_of(tag, GUARD_FREED);
    tag->freed_file = file;
    tag->freed_line = line;
    lm_tool_show_undefined(tag + 1, tag->bytes);
    memset(tag + 1, DEAD, filled_bytes(tag));
    /* An overflow was reported before. From now on only later writes are found. */
    lm_tool_show_undefined(tail_of(tag), tail_bytes(tag));
    tail_fill(tag);
    lm_tool_hide(tag + 1, (size_t)((char *)tag->raw + tag->raw_bytes - (char *)(tag + 1)));
    return tag->raw;
}

void *lm_guard_close(loam_entry *owner, loam_tag *tag, const char *file, unsigned line) {
    loam_tag *newest = owner->live;
    LM_ASSERT(newest != NULL);
    if (tag != newest) {
        tag->prev->next = tag->next;
    } else {
        owner->live = tag->next;
    }
    if (tag->next != NULL)
        tag->next->prev = tag->prev;
    else
        newest->prev = tag->prev;
    return guard_bury(tag, file, line);
}

loam_tag *lm_guard_last(const loam_entry *owner) {
    return owner->live != NULL ? owner->live->prev : NULL;
}

loam_tag *lm_guard_newer(const loam_entry *owner, const loam_tag *tag) {
    LM_ASSERT(owner->live != NULL);
    return tag != owner->live ? tag->prev : NULL;
}

void lm_guard_drop_all(loam_entry *owner) {
    for (loam_tag *tag = owner->live; tag != NULL; tag = tag->next) guard_bury(tag, NULL, 0);
    owner->live = NULL;
}

bool lm_guard_check(const loam_entry *owner) {
    bool good = true;
    for (const loam_tag *tag = owner->live; tag != NULL; tag = tag->next)
        good = whole(owner, tag, NULL, 0) && good;
    return good;
}

bool lm_guard_check_freed(const loam_entry *owner, const loam_tag *tag) {
    if (lm_tool_sees_all()) return true; /* it has reported each write */
    size_t filled = filled_bytes(tag);
    size_t changed = first_changed((const unsigned char *)(tag + 1), filled, DEAD);
    if (changed == filled) return true;
    lm_tool_show(tag, offsetof(loam_tag, guard));
    lm_family_misuse(owner, NULL, 0, "byte %zu of %p written after its free at %s:%u", changed + 1,
                     (const void *)(tag + 1), tag->freed_file != NULL ? tag->freed_file : "?",
                     tag->freed_line);
    return false;
}

size_t lm_guard_leaks(const loam_entry *owner, size_t most) {
    size_t leaks = 0;
    for (const loam_tag *tag = owner->live; tag != NULL; tag = tag->next) {
        if (leaks++ >= most) continue;
        lm_report("loam: %s %s: leak of %zu bytes at %p, allocated at %s:%u", owner->kind->name,
                  lm_entry_name(owner), tag->bytes, (const void *)(tag + 1),
                  tag->file != NULL ? tag->file : "?", tag->line);
    }
    if (leaks > most)
        lm_report("loam: %s %s: %zu leaks more", owner->kind->name, lm_entry_name(owner),
                  leaks - most);
    return leaks;
}

/* ---- Memory whose objects ended together ---- */

enum { GUARD_UNIT = 16 };

/* Returns the tag at `at` if it is that of a dead object that ends at `to` or before, otherwise
 * NULL. */
LM_READS_ANYTHING static const loam_tag *dead_at(const loam_entry *owner, const char *at,
                                                 const char *to) {
    const loam_tag *tag = (const loam_tag *)(const void *)at;
    LM_ASSERT(at < to);
    if ((size_t)(to - at) < sizeof(*tag) || tag->state != guard_state_of(tag, GUARD_FREED))
        return NULL;
    uintptr_t raw = (uintptr_t)tag->raw, object = (uintptr_t)(tag + 1);
    if (tag->owner != owner || raw > (uintptr_t)at) return NULL;
    size_t left = (size_t)((uintptr_t)to - object);
    bool fits = tag->bytes <= left && tag->raw_bytes <= (size_t)((uintptr_t)to - raw) &&
                tag->raw_bytes - (object - raw) >= tag->bytes;
    return fits ? tag : NULL;
}

static const char *guard_after(const loam_tag *tag) {
    return (const char *)tag->raw + tag->raw_bytes;
}

/* Reports that byte `changed` of a dead object, counted from its start, was overwritten. */
static bool say_written(const loam_entry *owner, const loam_tag *tag, size_t changed) {
    const char *file = tag->freed_file != NULL ? tag->freed_file : tag->file;
    lm_family_misuse(owner, NULL, 0, "byte %zu of %p written after its %s at %s:%u", changed + 1,
                     (const void *)(tag + 1), tag->freed_file != NULL ? "free" : "end, allocated",
                     file != NULL ? file : "?",
                     tag->freed_file != NULL ? tag->freed_line : tag->line);
    return false;
}

/* Checks the bytes and the guards of a dead object. */
static bool unit_is_whole(const loam_entry *owner, const loam_tag *tag) {
    size_t filled = filled_bytes(tag), tail = tail_bytes(tag);
    size_t changed = first_changed((const unsigned char *)(tag + 1), filled, DEAD);
    if (changed != filled) return say_written(owner, tag, changed);
    changed = first_changed(tail_of(tag), tail, GUARD);
    return changed == tail || say_written(owner, tag, tag->bytes + changed);
}

/* Checks the unit at `at` and returns its end. Sets *good to false after a report. */
static const char *unit_check(const loam_entry *owner, const char *at, const char *to, bool *good) {
    size_t count = (size_t)(to - at) < GUARD_UNIT ? (size_t)(to - at) : GUARD_UNIT;
    size_t changed = first_changed((const unsigned char *)at, count, DEAD);
    if (changed == count) return at + count;
    const loam_tag *tag = dead_at(owner, at, to);
    if (tag != NULL) {
        *good = unit_is_whole(owner, tag) && *good;
        return guard_after(tag);
    }
    lm_family_misuse(owner, NULL, 0, "%p written after the objects there had ended",
                     (const void *)(at + changed));
    *good = false;
    return to;
}

bool lm_gone_check(const loam_entry *owner, const char *at, const char *gone) {
    bool good = true;
    if (lm_tool_sees_all() || at >= gone) return true; /* a tool has reported each write */
    size_t bytes = (size_t)(gone - at);
    lm_tool_show(at, bytes);
    for (const char *unit = at; unit < gone;) unit = unit_check(owner, unit, gone, &good);
    lm_tool_hide(at, bytes);
    return good;
}

static void guard_fill_dead(char *from, char *to) { memset(from, DEAD, (size_t)(to - from)); }
static void fill_hidden(char *from, char *to) {
    lm_tool_show_undefined(from, (size_t)(to - from));
    guard_fill_dead(from, to);
    lm_tool_hide(from, (size_t)(to - from));
}

/* Restores the bytes of a dead object. Writes to it have been reported. */
static void guard_mend(const loam_tag *tag) {
    unsigned char *object = (unsigned char *)(uintptr_t)(tag + 1);
    size_t filled = filled_bytes(tag);
    if (first_changed(object, filled, DEAD) != filled)
        guard_fill_dead((char *)object, (char *)object + filled);
}

/* With Memcheck it only hides the memory, and nothing is checked later. */
char *lm_gone_bury(const loam_entry *owner, char *from, char *to, char *gone) {
    if (lm_tool_sees_all()) {
        lm_tool_hide(from, (size_t)(to - from));
        return NULL;
    }
    lm_tool_show(from, (size_t)(to - from));
    for (char *at = from; at < to;) {
        const loam_tag *tag = dead_at(owner, at, to);
        char *next = tag != NULL ? (char *)(uintptr_t)guard_after(tag) : at + GUARD_UNIT;
        if (tag == NULL) guard_fill_dead(at, next);
        if (tag != NULL) guard_mend(tag);
        at = next;
    }
    lm_tool_hide(from, (size_t)(to - from));
    return gone > to ? gone : to;
}

char *lm_gone_take(const loam_entry *owner, char *at, char *p, char *end, char *gone) {
    char *from = at;
    bool good = true;
    LM_ASSERT(at <= p && p <= end);
    if (lm_tool_sees_all()) return NULL;
    if (gone > at) {
        lm_tool_show(at, (size_t)(gone - at));
        while (at < end && at < gone) at = (char *)(uintptr_t)unit_check(owner, at, gone, &good);
        lm_tool_hide(from, (size_t)(gone - from));
        if (at > end) gone = lm_gone_cut(end, at, gone);
    }
    if (p > from) fill_hidden(from, p);
    return gone > end ? gone : NULL;
}

char *lm_gone_cut(char *from, char *to, char *gone) {
    LM_ASSERT(from < to);
    if (lm_tool_sees_all()) return NULL;
    if ((size_t)(to - from) > GUARD_FILL_MOST) return NULL; /* untouched memory stays untouched */
    fill_hidden(from, to);
    return gone > to ? gone : to;
}
