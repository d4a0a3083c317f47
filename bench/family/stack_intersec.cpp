// stack_intersec.cpp: the rows of seed 002's own frame stack in the table `stack`, before and
// after.
#include "intersec_stack.h"
#include "stack_work.hpp"

namespace {

template <bool old> class Intersec {
  public:
    class Frame {
      public:
        explicit Frame(Intersec &row) : stack_(row.stack_) {
            family_need(old ? stack_old_push(&stack_) : stack_new_push(&stack_));
        }
        ~Frame() { stack_pop(&stack_); }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        stack &stack_;
    };

    explicit Intersec(const FamilyRequest &) { stack_start(&stack_); }
    ~Intersec() { stack_stop(&stack_); }
    void *alloc(std::size_t size, std::size_t alignment) {
        return old ? stack_old_alloc(&stack_, size, alignment)
                   : stack_new_alloc(&stack_, size, alignment);
    }
    void release(void *) {}
    void *realloc(void *block, std::size_t old_size, std::size_t size) {
        return old ? stack_old_realloc(&stack_, block, old_size, size, 8)
                   : stack_new_realloc(&stack_, block, old_size, size, 8);
    }
    void watch(Record &record) {
        record_ = &record;
        stack_.watcher = this;
        stack_.watch = [](void *self) {
            auto row = static_cast<Intersec *>(self);
            row->record_->held(row->stack_.held);
        };
    }
    void watch_no_more() { stack_.watch = nullptr; }

  private:
    stack stack_;
    Record *record_ = nullptr;
};

} // namespace

FAMILY_ROW(old_row, "intersec-old", "as published", "the stack's rules before the revision",
           FAMILY_RENDITION, stack_work::recorded_cells<Intersec<true>>)
FAMILY_ROW(new_row, "intersec-new", "as published", "the stack's rules after the revision",
           FAMILY_RENDITION, stack_work::recorded_cells<Intersec<false>>)
