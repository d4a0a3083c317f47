// stack_loam.cpp: loam's rows in the table `stack`: loam/stack.h over its pages, and over one
// reserved range of addresses, where a block grows in place and nothing is searched.
//
// `loam-thread` is the calling thread's own stack, as LOAM_SCOPE uses it.
#include "stack_work.hpp"

#include <loam/stack.h>

namespace {

// Tells the record what the stack holds, whenever the source gave or took.
struct Watched {
    loam_source source = {};
    loam_source *inner = nullptr;
    std::size_t held = 0;
    Record *record = nullptr;

    void watch(loam_source *of) {
        inner = of;
        source.name = "watched";
        source.flags = of->flags;
        source.get = [](loam_source *self, std::size_t bytes, std::size_t align,
                        std::size_t *got) -> void * {
            auto watched = reinterpret_cast<Watched *>(self);
            void *chunk = loam_source_get(watched->inner, bytes, align, got);
            if (chunk) watched->tell(watched->held + *got);
            return chunk;
        };
        source.put = [](loam_source *self, void *chunk, std::size_t got) {
            auto watched = reinterpret_cast<Watched *>(self);
            loam_source_put(watched->inner, chunk, got);
            watched->tell(watched->held - got);
        };
    }
    void tell(std::size_t now) {
        held = now;
        if (record) record->held(now);
    }
};

template <bool reserved> class Loam {
  public:
    class Frame {
      public:
        explicit Frame(Loam &row) : stack_(row.stack_), frame_(loam_stack_push(&row.stack_)) {
            if (!loam_stack_pushed_it(&frame_)) family_fail("out of memory");
        }
        // Inline on every way: a frame whose address is handed to nobody lives in registers.
        __attribute__((always_inline)) ~Frame() { loam_stack_pop(&stack_, frame_); }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        loam_stack &stack_;
        loam_stack_frame frame_;
    };

    explicit Loam(const FamilyRequest &) {
        loam_source *source = loam_pages();
        if (reserved) {
            if (loam_reserve_init(&range_, std::size_t{1} << 32) != 0) family_fail("no addresses");
            source = &range_.source;
        }
        watched_.watch(source);
        if (loam_stack_init(&stack_, source, nullptr) != 0) family_fail("no stack");
    }
    ~Loam() {
        loam_stack_deinit(&stack_);
        if (reserved) loam_reserve_deinit(&range_);
    }
    void *alloc(std::size_t size, std::size_t alignment) {
        return loam_stack_alloc_aligned(&stack_, size, alignment);
    }
    void release(void *) {}
    void *realloc(void *block, std::size_t old_size, std::size_t size) {
        return loam_stack_realloc_aligned(&stack_, block, old_size, size, 8);
    }
    void watch(Record &record) {
        watched_.record = &record;
        loam_stack_deinit(&stack_);
        if (loam_stack_init(&stack_, &watched_.source, nullptr) != 0) family_fail("no stack");
    }
    void watch_no_more() { watched_.record = nullptr; }

  private:
    loam_stack stack_;
    loam_reserve range_;
    Watched watched_;
};

struct Thread {
    struct Frame {
        explicit Frame(Thread &) : frame(loam_stack_push(loam_thread_stack())) {}
        __attribute__((always_inline)) ~Frame() { loam_stack_pop(loam_thread_stack(), frame); }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;
        loam_stack_frame frame;
    };
    explicit Thread(const FamilyRequest &) {}
    void *alloc(std::size_t size, std::size_t alignment) {
        return loam_stack_alloc_aligned(loam_thread_stack(), size, alignment);
    }
    void release(void *) {}
    void *realloc(void *block, std::size_t old_size, std::size_t size) {
        return loam_stack_realloc_aligned(loam_thread_stack(), block, old_size, size, 8);
    }
};

} // namespace

FAMILY_ROW(loam_row, "loam", LOAM_VERSION_TEXT, "loam_stack", FAMILY_LOAM,
           stack_work::recorded_cells<Loam<false>>)
FAMILY_ROW(loam_reserved_row, "loam-reserved", LOAM_VERSION_TEXT,
           "loam_stack over a reserved range: no search", FAMILY_LOAM,
           stack_work::recorded_cells<Loam<true>>)
FAMILY_ROW(loam_thread_row, "loam-thread", LOAM_VERSION_TEXT, "the thread's own stack", FAMILY_LOAM,
           stack_work::cells<Thread>)
