// stack.cpp: the table `stack` of seed 002: blocks that live as long as the call that took them.
//
// Rows that need nothing but libc and the C++ library: malloc, which frees block by block; obstack,
// which frees back to a mark; std::pmr's monotonic resource, one for each frame, or one for all
// with a first buffer of 64 KiB, reset when only the caller's frame is left: it holds every block
// of a whole tree of calls until then.
#include "stack_work.hpp"

#include <cstdlib>
#include <gnu/libc-version.h>
#include <memory_resource>
#include <obstack.h>

static const FamilyColumn columns[] = {
    {"frame-1", "a frame of 1 block, again and again; an operation is a block", 10000000, 0},
    {"frame-8", "frames of 8 blocks", 20000000, 0},
    {"frame-64", "frames of 64 blocks", 20000000, 0},
    {"frame-512", "frames of 512 blocks", 20000000, 0},
    {"recursion", "recursion to depth 1500, 0 to 24 blocks a call", 10000000, 0},
    {"random", "random recursion: 0 to 3 calls in each, at most 64 deep", 10000000, 0},
    {"worst", "worst_case(20): small frames around large requests", 20, 0},
    {"grow", "arrays that grow from 16 to 1024 bytes by realloc of the last object", 10000000, 0},
    {"grow-copy", "the same by a new block and a copy", 10000000, 0},
    {"worst-memory", "worst_case(20): memory held and used", 1, 0},
};
const FamilyTable family_table = {"002", "Stack: 1 to 512 bytes, freed with the frame they are in",
                                  columns, sizeof columns / sizeof *columns};

struct Malloc {
    struct Frame {
        explicit Frame(Malloc &) {}
    };
    explicit Malloc(const FamilyRequest &) {}
    void *alloc(std::size_t size, std::size_t) { return std::malloc(size); }
    void release(void *block) { std::free(block); }
    void *realloc(void *block, std::size_t, std::size_t size) { return std::realloc(block, size); }
};

// ---- obstack ---------------------------------------------------------------------------------

static void *chunk_alloc(std::size_t size) { return family_need(std::malloc(size)); }
#define obstack_chunk_alloc chunk_alloc
#define obstack_chunk_free std::free

// Its chunks have 64 KiB, as the blocks of the seed's stack; the 4 KiB of its own choice are
// slower.
class Obstack {
  public:
    class Frame {
      public:
        explicit Frame(Obstack &row) : stack_(row.stack_), mark_(obstack_alloc(&row.stack_, 0)) {}
        ~Frame() { obstack_free(&stack_, mark_); }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        obstack &stack_;
        void *mark_;
    };
    explicit Obstack(const FamilyRequest &) {
        obstack_begin(&stack_, 64 << 10);
        obstack_alignment_mask(&stack_) = 7;
    }
    ~Obstack() { obstack_free(&stack_, nullptr); }
    void *alloc(std::size_t size, std::size_t) {
        return obstack_alloc(&stack_, static_cast<int>(size));
    }
    void release(void *) {}

  private:
    obstack stack_;
};

// ---- std::pmr --------------------------------------------------------------------------------

class Pmr_frame {
  public:
    class Frame {
      public:
        explicit Frame(Pmr_frame &row) : row_(row), before_(row.newest_) {
            row.newest_ = &resource_;
        }
        ~Frame() { row_.newest_ = before_; }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        Pmr_frame &row_;
        std::pmr::monotonic_buffer_resource *before_;
        std::pmr::monotonic_buffer_resource resource_;
    };
    explicit Pmr_frame(const FamilyRequest &) {}
    void *alloc(std::size_t size, std::size_t alignment) {
        return newest_->allocate(size, alignment);
    }
    void release(void *) {}

  private:
    std::pmr::monotonic_buffer_resource *newest_ = nullptr;
};

class Pmr_base {
  public:
    class Frame {
      public:
        explicit Frame(Pmr_base &row) : row_(row) { row.depth_++; }
        ~Frame() {
            if (--row_.depth_ == 1) row_.resource_.release();
        }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        Pmr_base &row_;
    };
    explicit Pmr_base(const FamilyRequest &) {}
    void *alloc(std::size_t size, std::size_t alignment) {
        return resource_.allocate(size, alignment);
    }
    void release(void *) {}

  private:
    alignas(16) unsigned char first_[64 << 10];
    std::pmr::monotonic_buffer_resource resource_{first_, sizeof first_};
    unsigned depth_ = 0;
};

FAMILY_ROW(malloc_row, "malloc", gnu_get_libc_version(), "libc's malloc, each block freed singly",
           FAMILY_RIVAL, stack_work::cells<Malloc>)
FAMILY_ROW(obstack_row, "obstack", gnu_get_libc_version(), "libc's obstack, chunks of 64 KiB",
           FAMILY_RIVAL, stack_work::cells<Obstack>)
FAMILY_ROW(pmr_frame_row, "pmr-frame", FAMILY_STRING(_GLIBCXX_RELEASE),
           "std::pmr::monotonic_buffer_resource, one for each frame", FAMILY_RIVAL,
           stack_work::cells<Pmr_frame>)
FAMILY_ROW(pmr_base_row, "pmr-base", FAMILY_STRING(_GLIBCXX_RELEASE),
           "std::pmr::monotonic_buffer_resource, one for all, reset at the base", FAMILY_RIVAL,
           stack_work::cells<Pmr_base>)
