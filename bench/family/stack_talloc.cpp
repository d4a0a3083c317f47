// stack_talloc.cpp: talloc in the table `stack`: a frame is a context, child of the one around it.
//
// `talloc-pool` puts the frames into a pool of 8 MiB. talloc gives a pool's memory out again when
// what was freed lay at its end, which a stack's does, or when all of it is free.
#include "stack_work.hpp"

#include <talloc.h>

namespace {

template <bool in_pool> class Talloc {
  public:
    class Frame {
      public:
        explicit Frame(Talloc &row) : row_(row), around_(row.newest_) {
            row.newest_ = family_need(talloc_new(around_));
        }
        ~Frame() {
            talloc_free(row_.newest_);
            row_.newest_ = around_;
        }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        Talloc &row_;
        void *around_;
    };
    explicit Talloc(const FamilyRequest &)
        : newest_(family_need(in_pool ? talloc_pool(nullptr, 8 << 20) : talloc_new(nullptr))) {}
    ~Talloc() { talloc_free(newest_); }
    Talloc(const Talloc &) = delete;
    Talloc &operator=(const Talloc &) = delete;
    void *alloc(std::size_t size, std::size_t) { return talloc_size(newest_, size); }
    void release(void *) {}
    void *realloc(void *block, std::size_t, std::size_t size) {
        return talloc_realloc_size(newest_, block, size);
    }

  private:
    void *newest_;
};

} // namespace

FAMILY_ROW(talloc_row, "talloc", FAMILY_VERSION, "talloc: a context for each frame", FAMILY_RIVAL,
           stack_work::cells<Talloc<false>>)
FAMILY_ROW(talloc_pool_row, "talloc-pool", FAMILY_VERSION,
           "talloc: a context for each frame, in a pool of 8 MiB", FAMILY_RIVAL,
           stack_work::cells<Talloc<true>>)
