// stack_limit.cpp: table 002's row of no allocator: an addition in memory that is there already,
// with nothing asked and nothing checked, and a frame that is one pointer of its caller's. What is
// left is the loop, its random numbers and its writes: nobody can be faster than this by more than
// noise.
#include "stack_work.hpp"

namespace {

class Limit {
  public:
    class Frame {
      public:
        explicit Frame(Limit &row) : row_(row), at_(row.at_) {}
        __attribute__((always_inline)) ~Frame() { row_.at_ = at_; }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        Limit &row_;
        std::uintptr_t at_;
    };
    explicit Limit(const FamilyRequest &) {}
    void *alloc(std::size_t size, std::size_t alignment) {
        std::uintptr_t block = (at_ + alignment - 1) & -alignment;
        at_ = block + size;
        return reinterpret_cast<void *>(block);
    }
    void release(void *) {}
    void *realloc(void *block, std::size_t, std::size_t size) {
        at_ = reinterpret_cast<std::uintptr_t>(block) + size; // it is the last one
        return block;
    }

  private:
    static constexpr std::size_t bytes = 32 << 20;
    std::uintptr_t at_ = reinterpret_cast<std::uintptr_t>(family_table_of(bytes, 1));
};

} // namespace

FAMILY_ROW(limit_row, "limit", "-", "no allocator: an addition in memory that is there",
           FAMILY_LIMIT, stack_work::cells<Limit>)
