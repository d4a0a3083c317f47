/* fifo_remote.c: what other threads free (loam/fifo.h: LOAM_FIFO_REMOTE).
 *
 *   notices ──> page ──> page ──> NULL        pushed by any thread, taken as a whole by the owner
 *               │ remote: 3
 *
 * A free by another thread touches no object: it counts in the page, and only who counts from 0 to
 * 1 pushes the page. Such an object is alive for the owner until that has taken the count; so no
 * page is given back while a thread is between its count and its push, or while it is in the list.
 * In a checked FIFO the notices are objects, by a record in front of each, because the list of live
 * objects is the owner's.
 *
 * When the owner has destroyed the FIFO nobody would come to take: it leaves LEFT in the list. Who
 * finds that when it has to push becomes the owner, counts, takes what others push meanwhile, and
 * leaves in turn, or ends the FIFO. The protocol is tests/protocol/fifo.pml.
 */
#include "family/fifo.h"

/* Instead of a notice: nobody is the owner. */
#define LEFT ((uintptr_t)1)

/* true iff that was the end of a dead FIFO. */
static bool take(loam_fifo *fifo, lm_notice_t *notice) {
    if (fifo->mode == LM_FIFO_CHECKED) {
        const lm_fifo_record_t *record = LM_CONTAINER(notice, lm_fifo_record_t, notice);
        if (!fifo->dead) LM_METER(freed(&fifo->entry, 1));
        return lm_fifo_less(fifo, lm_fifo_close(fifo, record->tag, record->file, record->line), 1);
    }
    lm_fifo_page_t *page = LM_CONTAINER(notice, lm_fifo_page_t, notice);
    /* Acquire: what threads did to the objects comes before their reuse. Release: we have read
     * notice->next before who counts from 0 again writes it. */
    size_t objects = lm_exchange_acq_rel(&page->remote, 0);
    if (!fifo->dead) LM_METER(freed(&fifo->entry, objects));
    return lm_fifo_less(fifo, page, objects);
}

/* The list, by the owner: LEFT is not in it. true iff that was the end of a dead FIFO. */
static bool take_all(loam_fifo *fifo) {
    /* Acquire: links, and the records of a checked FIFO. */
    lm_notice_t *notice = (lm_notice_t *)lm_exchange_acquire(&fifo->notices, 0);
    while (notice != NULL) {
        lm_notice_t *next = notice->next; /* before it may be pushed again */
        if (take(fifo, notice)) return true;
        notice = next;
    }
    return false;
}

void lm_fifo_leave(loam_fifo *fifo) {
    for (;;) {
        uintptr_t none = 0;
        /* Release: the next owner finds pages and lists as we leave them. */
        if (lm_cas_weak_release(&fifo->notices, &none, LEFT)) return;
        if (take_all(fifo)) return;
    }
}

static void push(loam_fifo *fifo, lm_notice_t *notice) {
    uintptr_t first = lm_load_relaxed(&fifo->notices); /* a guess: the exchanges tell */
    for (;;) {
        if (first == LEFT) {
            /* Acquire: as the one before us left it. */
            if (!lm_cas_weak_acquire(&fifo->notices, &first, 0)) continue;
            if (!take(fifo, notice)) lm_fifo_leave(fifo);
            return;
        }
        notice->next = (lm_notice_t *)first;
        /* Release: the link, and the record, are there for who takes the list. */
        if (lm_cas_weak_release(&fifo->notices, &first, (uintptr_t)notice)) return;
    }
}

/* An object of a checked FIFO. Its place is written before `freed`, which tells whose it is. */
static void free_checked(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    loam_tag *tag = lm_fifo_find(fifo, p, file, line);
    if (tag == NULL) return;
    lm_fifo_record_t *record = lm_fifo_record(tag);
    record->file = file;
    record->line = line;
    /* Release: the place. Two frees at the same time: one of them sees the other's. */
    if (lm_exchange_acq_rel(&record->freed, 1) != 0) {
        (void)lm_fifo_find(fifo, p, file, line);
        return;
    }
    lm_tool_hide(p, tag->bytes); /* from now on, not from when the owner looks */
    lm_tool_give(p, tag->bytes);
    push(fifo, &record->notice);
}

void loam_fifo_free_remote_at(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    if (p == NULL || lm_fifo_over(fifo, "free", file, line)) return;
    if (!fifo->remote) {
        lm_family_misuse(&fifo->entry, file, line,
                         "free of %p by loam_fifo_free_remote, without LOAM_FIFO_REMOTE", p);
        return;
    }
    if (fifo->mode == LM_FIFO_CHECKED) {
        free_checked(fifo, p, file, line);
        return;
    }
    if (fifo->mode == LM_FIFO_WATCHED) lm_fifo_hide(p);
    lm_fifo_page_t *page = lm_fifo_page_of(fifo, p);
    /* Release: what we did to the object comes before its reuse; for all that count until the owner
     * takes, as each count goes on from the one before. Acquire: the owner has read the link. */
    if (lm_add_acq_rel(&page->remote, 1) == 0) push(fifo, &page->notice);
}

void loam_fifo_collect(loam_fifo *fifo) {
    /* Relaxed: what comes later is for the next time. A dead one is nobody's. */
    if (fifo->remote && !fifo->dead && lm_load_relaxed(&fifo->notices) != 0) {
        (void)take_all(fifo);
#if LOAM_METER
        loam_meter_fifo_freed(fifo);
#endif
    }
}
