/* sampled_report.c: reports the misuse of a sampled object.
 *
 *   loam: overflow: write of byte 0 past the end of 0x7f.. (32 B, ...), thread 17)
 *   loam:   the access, by thread 17:        then a line for each frame, module+offset
 *   loam:   allocated by thread 12:
 *   loam:   freed by thread 9:
 *
 * An error handler gets the first line (loam/handlers.h). Then the others are not printed;
 * loam_sampling_trace returns what they say. All code here may run in a signal handler: it
 * allocates nothing, and it tries the slots' lock for a while instead of waiting, because the
 * thread with the lock may be gone. What is read without the lock can be another object's, if the
 * slot is reused at that very moment. It cannot print names of functions, because finding them
 * takes locks: addr2line does.
 */
#include "sampling/sampling.h"

/* ---- Lines ---- */

/* Counts a report and prints its first line, or passes it to a handler. Returns whether more lines
 * are to be printed; if so, a report has begun. */
static bool say_line(lm_wrong_t wrong, lm_line_t *line) {
    (void)lm_add_relaxed(&lm_sampled.found, 1);
    lm_line_add(line, "thread %u)", lm_port_thread_id());
    lm_line_add_way_out(line, wrong);
    (void)lm_add_relaxed(&lm_wrong_count, 1); /* relaxed: only a number */
    if (lm_port_tell(wrong, line) != LM_TOLD_NOBODY) return false;
    /* Relaxed: the setting stands alone. */
    if (lm_load_relaxed(&lm_misuse_policy.quiet)) return false;
    lm_port_report_begin();
    lm_report("%s", line->text);
    return true;
}

static void say_sites(const char *what, unsigned thread, const lm_site_t *sites, size_t depth) {
    lm_report("loam:   %s by thread %u:", what, thread);
    for (size_t i = 0; i < depth; i++) {
        lm_line_t line = {0};
        lm_os_site_where(&line, sites[i]);
        lm_report("loam:     #%zu %s", i, line.text);
    }
}

static void say_life(const lm_slot_t *slot) {
    say_sites("allocated", slot->allocated.thread, slot->allocated.sites, slot->allocated.depth);
    if (slot->state == LM_SLOT_FREED)
        say_sites("freed", slot->freed.thread, slot->freed.sites, slot->freed.depth);
}

/* Ends the report of a wrong call with its trace and the object's. Ends the program, unless the
 * policy is to go on. */
static void end_call(lm_wrong_t wrong, lm_line_t *line, const lm_slot_t *slot) {
    bool said = say_line(wrong, line);
    if (said) {
        lm_site_t sites[LM_TRACE_FRAMES];
        size_t depth = lm_os_trace(NULL, sites, LM_TRACE_FRAMES);
        say_sites("the call", lm_port_thread_id(), sites, depth);
        say_life(slot);
        lm_port_report_end();
    }
    if (!lm_wrong_goes_on(wrong)) lm_port_abort();
}

/* ---- Calls ---- */

void lm_sampled_misuse(uint32_t index, const void *p, const char *function) {
    const lm_slot_t *slot = &lm_sampled.slots[index];
    size_t bytes = lm_sampled.span[2 * (size_t)index + 1].bytes;
    bool freeing = function[0] == 'f', freed = slot->state == LM_SLOT_FREED;
    lm_line_t line = {0};
    lm_wrong_t mistake = slot->state == LM_SLOT_FRESH ? LM_MISTAKE_FOREIGN
                         : slot->object != p          ? LM_MISTAKE_MISALIGNED
                                                      : LM_MISTAKE_DOUBLE_FREE;
    if (slot->state == LM_SLOT_FRESH)
        lm_line_add(&line, "loam: %s of a pointer that loam did not allocate: %p (", function, p);
    else if (slot->object != p)
        lm_line_add(&line, "loam: misaligned pointer %p passed to %s (%s object of %zu B at %p, ",
                    p, function, freed ? "freed sampled" : "sampled", bytes, (void *)slot->object);
    else
        lm_line_add(&line, "loam: %s%s of %p (sampled object of %zu B, ",
                    freeing ? "double free" : function, freeing ? "" : " after free", p, bytes);
    end_call(LM_WRONG_CALL + mistake, &line, slot);
}

void lm_sampled_damaged(uint32_t index, ptrdiff_t beyond, const char *when) {
    LM_ASSERT(index < lm_sampled.count && beyond != 0);
    const lm_slot_t *slot = &lm_sampled.slots[index];
    size_t bytes = lm_sampled.span[2 * (size_t)index + 1].bytes;
    lm_line_t line = {0};
    lm_line_add(&line, "loam: %s of %p: %zu byte(s) %s %zu requested (found at %s, sampled, ",
                beyond > 0 ? "overflow" : "underflow", (void *)slot->object,
                (size_t)(beyond > 0 ? beyond : -beyond), beyond > 0 ? "past" : "before", bytes,
                when);
    end_call(LM_WRONG_DAMAGE + (beyond > 0 ? LM_MISTAKE_OVERFLOW : LM_MISTAKE_UNDERFLOW), &line,
             slot);
}

/* ---- Accesses ---- */

static lm_wrong_t wrong_access(const lm_bad_access_t *access, const lm_slot_t *slot) {
    return LM_WRONG_DAMAGE + (slot->state == LM_SLOT_FREED ? LM_MISTAKE_USE_AFTER_FREE
                              : access->address < (uintptr_t)slot->object ? LM_MISTAKE_UNDERFLOW
                                                                          : LM_MISTAKE_OVERFLOW);
}

/* Reports a bad access. Returns false iff the slot has had no object: then the address counts as
 * one that never was loam's. */
static bool say_access(const lm_bad_access_t *access, const lm_slot_t *slot, size_t bytes) {
    static const char *const ways[] = {"access", "read", "write"};
    uintptr_t object = (uintptr_t)slot->object, at = access->address;
    bool freed = slot->state == LM_SLOT_FREED, below = at < object, above = at >= object + bytes;
    if (slot->state == LM_SLOT_FRESH) return false;
    lm_line_t line = {0};
    lm_line_add(&line, "loam: %s: %s at %p, ",
                freed   ? "use after free"
                : below ? "underflow"
                        : "overflow",
                ways[access->way], (void *)at);
    /* An access that hits an object in use: another thread's use of the slot ended this moment, or
     * the pages were opened meanwhile. */
    if (below)
        lm_line_add(&line, "%zu byte(s) before", (size_t)(object - at));
    else if (above)
        lm_line_add(&line, "%zu byte(s) past the end of", (size_t)(at - object - bytes) + 1);
    else
        lm_line_add(&line, "%zu byte(s) into", (size_t)(at - object));
    lm_line_add(&line, " the %sobject %p of %zu B (", freed ? "freed " : "", (void *)object, bytes);
    lm_slot_t copy = *slot;
    bool said = say_line(wrong_access(access, slot), &line);
    if (!said) return true;
    lm_site_t sites[LM_TRACE_FRAMES];
    size_t depth = lm_os_trace_from(&access->place, sites, LM_TRACE_FRAMES);
    say_sites("the access", lm_port_thread_id(), sites, depth);
    say_life(&copy);
    lm_port_report_end();
    return true;
}

lm_verdict_t lm_sampled_judge(const lm_bad_access_t *access) {
    uint32_t index;
    const lm_page_t *page = lm_sampled_near((const void *)access->address, &index);
    if (page == NULL) return LM_VERDICT_OTHER;
    lm_slot_t *slot = &lm_sampled.slots[index];
    bool locked = lm_sampled_lock_soon();
    lm_slot_t copy = *slot;
    size_t bytes = page->bytes;
    if (locked) lm_sampled_unlock();
    if (!say_access(access, &copy, bytes)) return LM_VERDICT_OTHER;
    if (!lm_wrong_goes_on(wrong_access(access, &copy))) return LM_VERDICT_END;
    uintptr_t at = lm_align_down(access->address, lm_sampled.page_bytes);
    slot->opened = true; /* the slot is closed before its next use */
    return lm_os_protect((void *)at, lm_sampled.page_bytes, true) ? LM_VERDICT_AGAIN
                                                                  : LM_VERDICT_END;
}
