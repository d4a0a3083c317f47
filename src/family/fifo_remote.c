/* fifo_remote.c: frees by other threads (loam/fifo.h: LOAM_FIFO_REMOTE).
 *
 *   notices ──> page ──> page ──> NULL      any thread pushes; the owner takes the whole list
 *               │ remote: 3
 *
 * A free by another thread touches no object. It increments the page's count, and only the thread
 * that increments it from 0 to 1 pushes the page. For the owner the object is live until the owner
 * has taken the count. So no page is given back while a thread is between its increment and its
 * push, or while the page is in the list. In a checked FIFO the notices are objects, through a
 * record in front of each, because only the owner may change the list of live objects.
 *
 * Once the owner has destroyed the FIFO, no thread would come to take the list, so the owner leaves
 * LEFT in it. A thread that finds LEFT when it has to push becomes the owner. It counts, takes what
 * other threads push meanwhile, and then leaves in turn, or ends the FIFO. The protocol is
 * tests/protocol/fifo.pml.
 */
#include "family/fifo.h"

/* In place of a notice: the FIFO has no owner. */
#define LEFT ((uintptr_t)1)

/* Takes one notice. Returns true iff that was the end of a destroyed FIFO. */
static bool fifo_remote_take(loam_fifo *fifo, lm_notice_t *notice) {
    if (fifo->mode == LM_FIFO_CHECKED) {
        const lm_fifo_record_t *record = LM_CONTAINER(notice, lm_fifo_record_t, notice);
        LM_ASSERT(lm_load_relaxed(&record->freed) != 0 && lm_fifo_record(record->tag) == record);
        if (!fifo->dead) LM_METER(freed(&fifo->entry, 1));
        return lm_fifo_less(fifo, lm_fifo_close(fifo, record->tag, record->file, record->line), 1);
    }
    lm_fifo_page_t *page = LM_CONTAINER(notice, lm_fifo_page_t, notice);
    /* Acquire: what threads did to the objects comes before their reuse. Release: this thread has
     * read notice->next before the thread that increments from 0 again writes it. */
    size_t objects = lm_exchange_acq_rel(&page->remote, 0);
    if (!fifo->dead) LM_METER(freed(&fifo->entry, objects));
    return lm_fifo_less(fifo, page, objects);
}

/* Takes the whole list, as the owner. Returns true iff that was the end of a destroyed FIFO. */
static bool fifo_remote_take_all(loam_fifo *fifo) {
    /* Acquire: see links, and the records of a checked FIFO. */
    lm_notice_t *notice = (lm_notice_t *)lm_exchange_acquire(&fifo->notices, 0);
    LM_ASSERT(fifo->remote && (uintptr_t)notice != LEFT);
    while (notice != NULL) {
        lm_notice_t *next = notice->next; /* read before it may be pushed again */
        if (fifo_remote_take(fifo, notice)) return true;
        notice = next;
    }
    return false;
}

void lm_fifo_leave(loam_fifo *fifo) {
    LM_ASSERT(lm_load_relaxed(&fifo->dead) && fifo->remote);
    LM_ASSERT(fifo->page == NULL && fifo->busy != NULL);
    for (;;) {
        uintptr_t none = 0;
        /* Release: the next owner sees pages and lists as this one leaves them. */
        if (lm_cas_weak_release(&fifo->notices, &none, LEFT)) return;
        if (fifo_remote_take_all(fifo)) return;
    }
}

static void fifo_remote_push(loam_fifo *fifo, lm_notice_t *notice) {
    /* Relaxed: a guess, which the exchanges verify. */
    uintptr_t first = lm_load_relaxed(&fifo->notices);
    for (;;) {
        if (first == LEFT) {
            /* Acquire: see what the previous owner left. */
            if (!lm_cas_weak_acquire(&fifo->notices, &first, 0)) continue;
            if (!fifo_remote_take(fifo, notice)) lm_fifo_leave(fifo);
            return;
        }
        notice->next = (lm_notice_t *)first;
        /* Release: the thread that takes the list sees the link and the record. */
        if (lm_cas_weak_release(&fifo->notices, &first, (uintptr_t)notice)) return;
    }
}

/* Frees an object of a checked FIFO. Its place is written before `freed`, which decides which
 * thread freed it. */
static void fifo_remote_free_checked(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    loam_tag *tag = lm_fifo_find(fifo, p, file, line);
    if (tag == NULL) return;
    lm_fifo_record_t *record = lm_fifo_record(tag);
    record->file = file;
    record->line = line;
    /* Release: publish the place. Acquire: of two frees at the same moment, one sees the
     * other's. */
    if (lm_exchange_acq_rel(&record->freed, 1) != 0) {
        (void)lm_fifo_find(fifo, p, file, line);
        return;
    }
    /* Now, and not only when the owner takes the notice. */
    lm_tool_hide(p, tag->bytes);
    lm_tool_give(p, tag->bytes);
    fifo_remote_push(fifo, &record->notice);
}

void loam_fifo_free_remote_at(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    if (p == NULL || lm_fifo_over(fifo, "free", file, line)) return;
    if (!fifo->remote) {
        lm_family_misuse(&fifo->entry, file, line,
                         "free of %p by loam_fifo_free_remote, without LOAM_FIFO_REMOTE", p);
        return;
    }
    if (fifo->mode == LM_FIFO_CHECKED) {
        fifo_remote_free_checked(fifo, p, file, line);
        return;
    }
    if (fifo->mode == LM_FIFO_WATCHED) lm_fifo_hide(p);
    lm_fifo_page_t *page = lm_fifo_page_of(fifo, p);
    /* Release: what this thread did to the object comes before its reuse. This holds for all
     * threads that increment until the owner takes the count, because each increment continues the
     * release sequence of the one before. Acquire: the owner has read the link. */
    if (lm_add_acq_rel(&page->remote, 1) == 0) fifo_remote_push(fifo, &page->notice);
}

void loam_fifo_collect(loam_fifo *fifo) {
    /* Relaxed: later notices are for the next call. A destroyed FIFO has no owner. */
    if (fifo->remote && !fifo->dead && lm_load_relaxed(&fifo->notices) != 0) {
        (void)fifo_remote_take_all(fifo);
#if LOAM_METER
        loam_meter_fifo_freed(fifo);
#endif
    }
}
