/* loam/xallocator.h: xmalloc and xfree: one set of blocks for the whole program (loam/blocks.h), under the names
 * that programs for Lafreniere's xallocator use.
 *
 * Choose it to move a program off the global heap by changing names: malloc to xmalloc, a class by one macro, STL
 * containers by loam/xallocator.hpp. A program that can pass an allocator around takes loam_blocks itself. It
 * cannot tell the program's parts from each other: all share the same lists.
 *
 *   xmalloc(100) ──> class of 128: a block freed before, or a new one      any thread, any time, before main too
 *
 *   #define in the program       effect
 *   STATIC_POOLS                 all memory is a static array: the heap is never called, exhausted is NULL
 *   MAX_BLOCKS          (32)     blocks of each class, with STATIC_POOLS
 *   MAX_ALLOCATORS      (15)     classes, the smallest first, at most
 *   XALLOCATOR_MANUAL            C++ files do not start and end it by themselves
 *   XALLOCATOR_OWN_OPTIONS       the program defines loam_xalloc_options: classes, locks, source, all of it
 * The first three and the last have to be the same in every file that includes this: give them to the compiler.
 *
 * Classes are the powers of two from 16 to 4096, 400 (its 396, rounded up to 16) and 768; every block is aligned
 * to 16 and starts where its memory does, without a word in front. Larger requests go to the source one by one,
 * with STATIC_POOLS they are NULL.
 *
 * In C++ each file that includes this has a static object of one byte, before the file's own static objects. The
 * first of all such to be made starts the allocator, the last to go ends it: so it outlives every static object
 * that is defined below the include. Used earlier than that, it starts by itself.
 *
 * None of these short names is in the library: they are inline functions here, over loam_x* ones.
 */
#ifndef LOAM_XALLOCATOR_H
#define LOAM_XALLOCATOR_H

#include "loam/blocks.h"

#if __STDC_HOSTED__
#include <stdio.h>
#else
#include "loam/port.h"
#endif

LOAM_BEGIN

/* ---- What the names below stand for ---- */

/* What the program's blocks are made of; asked once, when they are started. The library has a weak default: heap
 * blocks over loam_pages(), a cache per thread; on a device nothing, so that xmalloc is NULL until the program
 * defines STATIC_POOLS, or this function. The four locks of a port are its member `locks`, with LOAM_THREADS. */
LOAM_API const loam_blocks_options *loam_xalloc_options(void) LOAM_NOEXCEPT;

/* The blocks, started if they are not: for usage, trim, record, check. NULL iff they cannot be. Any thread. */
LOAM_API loam_blocks *loam_xalloc_blocks(void) LOAM_NOEXCEPT;

LOAM_API LOAM_NODISCARD void *loam_xmalloc_at(size_t bytes, const char *file,
                                              unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD void *loam_xmalloc_aligned_at(size_t bytes, size_t align, const char *file,
                                                      unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD void *loam_xrealloc_at(void *p, size_t bytes, const char *file,
                                               unsigned line) LOAM_NOEXCEPT;
LOAM_API void loam_xfree_at(void *p, const char *file, unsigned line) LOAM_NOEXCEPT;
LOAM_API void loam_xalloc_stats(loam_print *print, void *context) LOAM_NOEXCEPT;
LOAM_API void loam_xalloc_init(void) LOAM_NOEXCEPT;
LOAM_API void loam_xalloc_destroy(void) LOAM_NOEXCEPT;
/* Counted: the first begin starts, the end that belongs to it destroys. */
LOAM_API void loam_xalloc_begin(void) LOAM_NOEXCEPT;
LOAM_API void loam_xalloc_end(void) LOAM_NOEXCEPT;

/* ---- The six calls ---- */

/* At least `size` bytes (0: the smallest block), aligned to 16. NULL iff there is no memory; of static pools also
 * when the size's class is exhausted, or it is above the largest. Any thread. */
LOAM_NODISCARD static inline void *xmalloc(size_t size) { return loam_xmalloc_at(size, NULL, 0); }
/* What xmalloc or xrealloc gave; NULL allowed. After xalloc_destroy it does nothing: the memory has gone. */
static inline void xfree(void *p) { loam_xfree_at(p, NULL, 0); }
/* As realloc: contents are kept as far as both sizes go; p NULL allocates; size 0 frees, and gives NULL. NULL
 * otherwise iff there is no memory: p is as it was. */
LOAM_NODISCARD static inline void *xrealloc(void *p, size_t size) {
    return loam_xrealloc_at(p, size, NULL, 0);
}

/* With LOAM_CHECKED, reports name the caller's file and line. As functions, without: (xmalloc)(10). */
#if LOAM_CHECKED
#define xmalloc(size) loam_xmalloc_at((size), LOAM_HERE)
#define xfree(p) loam_xfree_at((p), LOAM_HERE)
#define xrealloc(p, size) loam_xrealloc_at((p), (size), LOAM_HERE)
#endif

#if __STDC_HOSTED__
static inline void loam_xalloc_to_stdout_(const char *line, void *context) {
    (void)context;
    (void)fputs(line, stdout);
}
#else
static inline void loam_xalloc_to_stdout_(const char *line, void *context) {
    size_t bytes = 0;
    (void)context;
    while (line[bytes] != 0) bytes++;
    loam_port_write(line, bytes);
}
#endif
/* A line for each class that was ever used, on standard output (loam_port_write, on a device):
 * "xallocator Block Size: 128 Block Count: 10001 Blocks In Use: 1". Blocks are made some at a time. */
static inline void xalloc_stats(void) { loam_xalloc_stats(loam_xalloc_to_stdout_, NULL); }

/* Starts it, unless it is started: before there are threads, in C. Not needed but where memory has to be there
 * from the first, or locks want their init. */
static inline void xalloc_init(void) { loam_xalloc_init(); }
/* Gives all memory back. No other thread may be using it. Never in a program with C++ files that start and end it by
 * themselves. xmalloc starts it anew. */
static inline void xalloc_destroy(void) { loam_xalloc_destroy(); }

/* ---- Options, out of the macros ---- */

#if !defined(XALLOCATOR_OWN_OPTIONS) && \
    (defined(STATIC_POOLS) || defined(MAX_ALLOCATORS) || LOAM_CHECKED)
#ifndef MAX_BLOCKS
#define MAX_BLOCKS 32
#endif
#ifndef MAX_ALLOCATORS
#define MAX_ALLOCATORS 15
#endif
/* One for all files that were compiled so: weak, and in front of the library's. */
__attribute__((weak)) const loam_blocks_options *loam_xalloc_options(void) LOAM_NOEXCEPT {
    static const uint32_t classes[] = {16, 32, 64, 128, 256, 400, 512, 768, 1024, 2048, 4096};
    static loam_blocks_options options;
    options.classes = classes;
    options.class_count = MAX_ALLOCATORS < 11 ? MAX_ALLOCATORS : 11;
    options.name = "xallocator";
#if defined(STATIC_POOLS)
    static char memory[LOAM_BLOCKS_DEFAULT_BYTES(MAX_BLOCKS)] __attribute__((aligned(16)));
    options.memory = memory;
    options.memory_bytes = sizeof(memory);
    options.blocks_each = MAX_BLOCKS;
#endif
    options.flags = (LOAM_CHECKED ? (unsigned)LOAM_CHECK : 0u);
#if __STDC_HOSTED__
    options.flags |= (unsigned)LOAM_THREADS;
#endif
    return &options;
}
#endif

LOAM_END

#ifdef __cplusplus

#include "loam/detail.hpp"
#include "loam/pool.h"

#include <cstddef>
#include <new>

namespace loam {

namespace detail {

struct xalloc_file {
    xalloc_file() noexcept { loam_xalloc_begin(); }
    ~xalloc_file() { loam_xalloc_end(); }
    xalloc_file(const xalloc_file &) = delete;
    xalloc_file &operator=(const xalloc_file &) = delete;
};

} // namespace detail

/* Blocks of one size (a loam_pool, with counts), in one of three modes:
 *   heap blocks   Allocator(size): as many as are asked for
 *   heap pool     Allocator(size, objects): so many, whose memory is got at the first
 *   static pool   Allocator(size, objects, memory): in the caller's objects * size bytes (size rounded up to a
 *                 pointer; checks take their room out of it: fewer objects then)
 * Its memory is set up at the first Allocate, so that it can be used before its constructor has run if it is static.
 * One thread at a time. */
class Allocator {
  public:
    constexpr explicit Allocator(std::size_t size, unsigned objects = 0, char *memory = nullptr,
                                 const char *name = nullptr) noexcept
        : Allocator(size, objects, memory, std::size_t{objects} * block_of(size), name) {}
    ~Allocator() {
        if (started_) loam_pool_deinit(&pool_);
    }
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;

    /* A block, for up to the size that was given; aligned to 16 as far as its size is. NULL iff size is larger,
     * the pool is exhausted, or there is no memory. */
    [[nodiscard]] void *Allocate(std::size_t size, const char *file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE()) noexcept {
        if (LOAM_UNLIKELY(size > size_ || (!started_ && !start()))) return nullptr;
        void *block = loam_pool_alloc_at(&pool_, file, line);
        if (LOAM_UNLIKELY(block == nullptr)) return nullptr;
        allocations_++;
        if (GetBlocksInUse() > blocks_) blocks_ = GetBlocksInUse();
        return block;
    }
    /* NULL allowed. */
    void Deallocate(void *block, const char *file = __builtin_FILE(),
                    unsigned line = __builtin_LINE()) noexcept {
        if (block == nullptr) return;
        deallocations_++;
        loam_pool_free_at(&pool_, block, file, line);
    }

    const char *GetName() const noexcept { return name_; }
    std::size_t GetBlockSize() const noexcept { return block_of(size_); }
    /* Made so far, in use or free. */
    unsigned GetBlockCount() const noexcept { return blocks_; }
    unsigned GetBlocksInUse() const noexcept { return allocations_ - deallocations_; }
    unsigned GetAllocations() const noexcept { return allocations_; }
    unsigned GetDeallocations() const noexcept { return deallocations_; }

  protected:
    constexpr Allocator(std::size_t size, unsigned objects, char *memory, std::size_t memory_bytes,
                        const char *name) noexcept
        : size_(size), memory_bytes_(memory_bytes), memory_(memory), name_(name),
          objects_(objects) {}
    static constexpr std::size_t block_of(std::size_t size) {
        return size == 0 ? sizeof(void *)
                         : (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    }

  private:
    bool start() noexcept {
        loam_pool_options options = {};
        options.name = name_;
        options.most_blocks = objects_;
        if (objects_ != 0 && memory_ == nullptr) options.flags = LOAM_FIXED;
        started_ =
            (memory_ != nullptr
                 ? loam_pool_init_buffer(&pool_, memory_, memory_bytes_, block_of(size_), &options)
                 : loam_pool_init(&pool_, nullptr, block_of(size_), &options)) == 0;
        return started_;
    }

    loam_pool pool_ = {};
    std::size_t size_, memory_bytes_;
    char *memory_;
    const char *name_;
    unsigned objects_, blocks_ = 0, allocations_ = 0, deallocations_ = 0;
    bool started_ = false;
};

/* A static pool that has its memory within itself: N objects of type T. */
template <typename T, unsigned N> class AllocatorPool : public Allocator {
  public:
    constexpr explicit AllocatorPool(const char *name = nullptr) noexcept
        : Allocator(sizeof(T), N, memory_, sizeof memory_, name) {}

  private:
    static constexpr std::size_t kCheckBytes = LOAM_CHECKED ? 192 : 0; /* tag and guards */
    static_assert(alignof(T) <= 16, "blocks are aligned to 16");
    alignas(16) char memory_[N * (block_of(sizeof(T)) + kCheckBytes)] = {};
};

namespace detail {

/* Never ends: objects of a class may be deleted by destructors of any static ones. */
struct class_allocator {
    constexpr class_allocator(std::size_t size, unsigned objects, char *memory,
                              const char *name) noexcept
        : allocator(size, objects, memory, name) {}
    ~class_allocator() {}
    union {
        Allocator allocator;
    };
};

} // namespace detail

} // namespace loam

/* In a class: its new and delete use an Allocator of its own, which IMPLEMENT_ALLOCATOR defines in one file:
 * objects 0 for heap blocks, memory for a static pool (else 0). A class derived from it that is larger needs its
 * own: new is std::bad_alloc otherwise. One thread at a time. */
#define DECLARE_ALLOCATOR \
  public: \
    static void *operator new(std::size_t size) { \
        return ::loam::detail::need(loam_allocator_.allocator.Allocate(size)); \
    } \
    static void operator delete(void *p) noexcept { loam_allocator_.allocator.Deallocate(p); } \
    static void *operator new(std::size_t, void *p) noexcept { return p; } \
    static void operator delete(void *, void *) noexcept {} \
    static const ::loam::Allocator &allocator() noexcept { return loam_allocator_.allocator; } \
\
  private: \
    static ::loam::detail::class_allocator loam_allocator_;

#define IMPLEMENT_ALLOCATOR(Class, objects, memory) \
    ::loam::detail::class_allocator Class::loam_allocator_(sizeof(Class), (objects), (memory), \
                                                           #Class);

/* In a class: new and delete of it, and of all classes derived from it, arrays and aligned ones too, are xmalloc
 * and xfree. */
#define XALLOCATOR \
  public: \
    static void *operator new(std::size_t size) { \
        return ::loam::detail::need(::loam_xmalloc_at(size, __builtin_FILE(), __builtin_LINE())); \
    } \
    static void *operator new(std::size_t size, std::align_val_t align) { \
        return ::loam::detail::need( \
            ::loam_xmalloc_aligned_at(size, std::size_t(align), nullptr, 0)); \
    } \
    static void *operator new(std::size_t size, const std::nothrow_t &) noexcept { \
        return ::loam_xmalloc_at(size, nullptr, 0); \
    } \
    static void *operator new[](std::size_t size) { return operator new(size); } \
    static void *operator new[](std::size_t size, std::align_val_t align) { \
        return operator new(size, align); \
    } \
    static void *operator new(std::size_t, void *p) noexcept { return p; } \
    static void operator delete(void *p) noexcept { ::loam_xfree_at(p, nullptr, 0); } \
    static void operator delete(void *p, std::align_val_t) noexcept { operator delete(p); } \
    static void operator delete(void *p, const std::nothrow_t &) noexcept { operator delete(p); } \
    static void operator delete[](void *p) noexcept { operator delete(p); } \
    static void operator delete[](void *p, std::align_val_t) noexcept { operator delete(p); } \
    static void operator delete(void *, void *) noexcept {}

#ifndef XALLOCATOR_MANUAL
static const ::loam::detail::xalloc_file loam_xalloc_file_ __attribute__((unused));
#endif
#ifndef XALLOCATOR_IN_NAMESPACE /* where the program has an Allocator of its own */
using loam::Allocator;
using loam::AllocatorPool;
#endif

#endif /* __cplusplus */

#endif
