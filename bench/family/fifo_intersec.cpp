// fifo_intersec.cpp: the rows of seed 002's own FIFO pool in the table `fifo`, before and after.
//
// `intersec-old` is the pool as it was, on mmap; `intersec-old-calloc` has the old policy on the
// new source of pages, so that what the policy and what the source gained can be told apart.
#include "fifo_work.hpp"
#include "intersec_fifo.h"

namespace {

template <bool old, fifo_source source> class Intersec {
  public:
    static constexpr std::size_t page_size = 64 << 10; // their default

    explicit Intersec(const FamilyRequest &) {
        bool started = old ? fifo_old_start(&pool_, page_size, source)
                           : fifo_new_start(&pool_, page_size, source);
        if (!started) family_fail("out of memory");
    }
    ~Intersec() { fifo_stop(&pool_); }
    void *alloc(std::size_t size) {
        return old ? fifo_old_alloc(&pool_, size) : fifo_new_alloc(&pool_, size);
    }
    void free(void *block, std::size_t) {
        if (old) {
            fifo_old_free(&pool_, block);
        } else {
            fifo_new_free(&pool_, block);
        }
    }
    void *realloc(void *block, std::size_t, std::size_t size) {
        return old ? fifo_old_realloc(&pool_, block, size) : fifo_new_realloc(&pool_, block, size);
    }
    void watch(Record &record) {
        record_ = &record;
        pool_.watcher = this;
        pool_.watch = [](void *self) {
            auto row = static_cast<Intersec *>(self);
            row->record_->held(row->pool_.held);
        };
        record.held(pool_.held);
    }
    void watch_no_more() { pool_.watch = nullptr; }

  private:
    fifo pool_;
    Record *record_ = nullptr;
};

using Old = Intersec<true, FIFO_MMAP>;
using Old_calloc = Intersec<true, FIFO_CALLOC>;
using New = Intersec<false, FIFO_CALLOC>;

} // namespace

FAMILY_ROW(old_row, "intersec-old", "as published",
           "the pool's rules before the revision, pages by mmap", FAMILY_RENDITION,
           fifo_work::recorded_cells<Old>)
FAMILY_ROW(old_calloc_row, "intersec-old-calloc", "as published", "the same rules, pages by calloc",
           FAMILY_RENDITION, fifo_work::recorded_cells<Old_calloc>)
FAMILY_ROW(new_row, "intersec-new", "as published",
           "the pool's rules after the revision, pages by calloc", FAMILY_RENDITION,
           fifo_work::recorded_cells<New>)
