/* registry.c: the list of named and checked allocators, and operations on all of them.
 *
 *   first ──> entry ──> entry ──> NULL     newest first; each entry has its link's address
 *
 * Two locks of the port protect it. LIST is held for a few instructions, around every access to the
 * links. WALK is held around code that looks into allocators, and around the end of one, so that a
 * walk always finds the next entry. Allocators take their own locks inside WALK; what they report
 * inside their own locks takes only LIST.
 *
 * A fork may copy the process while a thread that passes LIST (os/fork.c) changes the list. Even
 * then the list leads from first to NULL. The next change in the child sets every link again.
 *
 * Invariant: *entry->link == entry for every member while no thread changes the list.
 */
#include "family/family.h"

static loam_entry *registry_first;
/* Atomic, for a copy of the process: LIST is held, and links may be wrong. */
static bool changing;

static void registry_mend(void) {
    loam_entry **link = &registry_first;
    for (loam_entry *entry = registry_first; entry != NULL; entry = entry->next) {
        lm_store_relaxed(&entry->link, link);
        link = &entry->next;
    }
}

static void change_begins(void) {
    lm_port_lock(LM_PORT_LIST);
    if (LM_UNLIKELY(changing)) registry_mend();
    lm_store_relaxed(&changing, true);
    lm_fence_release(); /* orders it before the changes, also in a copy of the process */
}

static void change_ends(void) {
    /* Release: after the changes, also in a copy of the process. */
    lm_store_release(&changing, false);
    lm_port_unlock(LM_PORT_LIST);
}

void lm_entry_init(loam_entry *entry, const loam_kind *kind, const char *name, bool checked) {
    LM_ASSERT(kind != NULL && kind->name != NULL);
    *entry = (loam_entry){.kind = kind, .name = name};
    if (name == NULL && !checked) return;
    change_begins();
    entry->next = registry_first;
    entry->link = &registry_first;
    if (registry_first != NULL) lm_store_relaxed(&registry_first->link, &entry->next);
    /* Release: no copy of the process finds the entry without its next. */
    lm_store_release(&registry_first, entry);
    change_ends();
}

void lm_entry_deinit(loam_entry *entry) {
    LM_METER(over(entry));
    if (!lm_entry_linked(entry)) return;
    lm_port_lock(LM_PORT_WALK);
    change_begins();
    LM_ASSERT(*entry->link == entry);
    LM_ASSERT(entry->next == NULL || lm_load_relaxed(&entry->next->link) == &entry->next);
    *entry->link = entry->next;
    if (entry->next != NULL) lm_store_relaxed(&entry->next->link, entry->link);
    entry->link = NULL;
    change_ends();
    lm_port_unlock(LM_PORT_WALK);
}

/* ---- Tombstones ----
 *
 *   kept   [ chunk of an allocator that has ended │ ... ]      the oldest is dropped for a new one
 *
 * A checked allocator that lived in its own memory would lose its tombstone. If its source is one
 * that no program ends, the chunk stays for a while, so that a late use of the allocator is
 * reported, and does not meet another allocator. */

void lm_entry_bury(loam_entry *entry, char *name, size_t bytes) {
    size_t length = 0;
    LM_ASSERT(bytes != 0 && !lm_entry_linked(entry));
    if (entry->name != NULL) {
        while (length + 1 < bytes && entry->name[length] != '\0') length++;
        for (size_t i = 0; i < length; i++) name[i] = entry->name[i];
        name[length] = '\0';
        entry->name = name;
    }
    entry->live = NULL;
}

bool lm_entry_ended(const loam_entry *entry, const char *doing, const char *file, unsigned line) {
    lm_family_misuse(entry, file, line, "%s after its end", doing);
    return true;
}

#if LM_HOSTED
enum { KEPT = 32, REGISTRY_KEPT_BYTES = 64 * 1024 };

static struct {
    void *memory;
    size_t got;
} kept[KEPT]; /* protected by LIST */
static unsigned kept_next;

bool lm_entry_keep(const loam_source *source, void *memory, size_t got, const void *stone,
                   size_t bytes) {
    loam_source *pages = lm_default_source();
    if (source != pages || got > REGISTRY_KEPT_BYTES) return false;
    LM_ASSERT((uintptr_t)stone >= (uintptr_t)memory && bytes <= got &&
              (uintptr_t)stone - (uintptr_t)memory <= got - bytes);
    lm_tool_hide(memory, got);
    lm_tool_show(stone, bytes);
    lm_tool_give(memory, got);
    lm_port_lock(LM_PORT_LIST);
    void *oldest = kept[kept_next].memory;
    size_t oldest_got = kept[kept_next].got;
    kept[kept_next].memory = memory;
    kept[kept_next].got = got;
    kept_next = (kept_next + 1) % KEPT;
    lm_port_unlock(LM_PORT_LIST);
    if (oldest != NULL) {
        lm_tool_take(oldest, oldest_got);
        lm_tool_show_undefined(oldest, oldest_got);
        loam_source_put(pages, oldest, oldest_got);
    }
    return true;
}
#else
bool lm_entry_keep(const loam_source *source, void *memory, size_t got, const void *stone,
                   size_t bytes) {
    (void)source, (void)memory, (void)got, (void)stone, (void)bytes;
    return false;
}
#endif

const char *lm_entry_name(const loam_entry *entry) {
    return entry->name != NULL ? entry->name : "(unnamed)";
}

bool lm_entry_tell(bool (*holds)(const loam_entry *entry, const void *p), const void *p,
                   const loam_entry *besides, lm_line_t *who) {
    lm_port_lock(LM_PORT_LIST);
    const loam_entry *entry = registry_first;
    while (entry != NULL && (entry == besides || !holds(entry, p))) entry = entry->next;
    if (entry != NULL && who != NULL)
        lm_line_add(who, "%s %s", entry->kind->name, lm_entry_name(entry));
    lm_port_unlock(LM_PORT_LIST);
    return entry != NULL;
}

/* Relaxed: an approximate range of another thread's allocator suffices. */
bool lm_entry_has(const loam_entry *entry, const void *p) {
    return (uintptr_t)p > lm_load_relaxed(&entry->low) &&
           (uintptr_t)p <= lm_load_relaxed(&entry->high);
}

static loam_usage registry_usage_of(const loam_entry *entry) {
    loam_usage usage = {0};
    entry->kind->usage(entry, &usage);
    usage.kind = entry->kind->name;
    usage.name = entry->name != NULL ? entry->name : "";
    return usage;
}

/* Returns the member after entry; NULL: the first member. WALK is held, so entry still exists. */
static const loam_entry *registry_after(const loam_entry *entry) {
    lm_port_lock(LM_PORT_LIST);
    const loam_entry *next = entry != NULL ? entry->next : registry_first;
    lm_port_unlock(LM_PORT_LIST);
    return next;
}

void loam_registry_visit(void (*visit)(const loam_usage *usage, void *context), void *context) {
    lm_port_lock(LM_PORT_WALK);
    for (const loam_entry *entry = registry_after(NULL); entry != NULL;
         entry = registry_after(entry)) {
        loam_usage usage = registry_usage_of(entry);
        visit(&usage, context);
    }
    lm_port_unlock(LM_PORT_WALK);
}

static void registry_print(const loam_usage *usage, void *context) {
    (void)context;
    lm_line_t line = {0};
    lm_line_add(&line, "loam: %s %s: ", usage->kind, usage->name[0] != '\0' ? usage->name : "-");
    if (usage->objects != LOAM_UNKNOWN) lm_line_add(&line, "%zu objects, ", usage->objects);
    lm_report("%s%zu of %zu bytes used, %zu at most, %zu chunks, %zu requests", line.text,
              usage->used_bytes, usage->held_bytes, usage->peak_bytes, usage->chunks,
              usage->requests);
}

void loam_registry_print(void) { loam_registry_visit(registry_print, NULL); }

size_t loam_registry_check(void) {
    size_t broken = 0;
    lm_port_lock(LM_PORT_WALK);
    for (const loam_entry *entry = registry_after(NULL); entry != NULL;
         entry = registry_after(entry))
        broken += !entry->kind->check(entry);
    lm_port_unlock(LM_PORT_WALK);
    return broken;
}

size_t loam_registry_leaks(void) {
    size_t leaks = 0;
    lm_port_lock(LM_PORT_WALK);
    for (const loam_entry *entry = registry_after(NULL); entry != NULL;
         entry = registry_after(entry)) {
        if (entry->kind->hold != NULL) entry->kind->hold(entry, true);
        leaks += lm_guard_leaks(entry, SIZE_MAX);
        if (entry->kind->hold != NULL) entry->kind->hold(entry, false);
    }
    lm_port_unlock(LM_PORT_WALK);
    return leaks;
}

void lm_family_misuse(const loam_entry *entry, const char *file, unsigned line, const char *what,
                      ...) {
    lm_line_t text = {0};
    lm_line_add(&text, "loam: %s %s: ", entry->kind->name, lm_entry_name(entry));
    va_list args;
    va_start(args, what);
    lm_line_add_v(&text, what, args);
    va_end(args);
    lm_line_add(&text, " (");
    if (file != NULL) lm_line_add(&text, "at %s:%u, ", file, line);
    lm_misuse_line(&text);
}
