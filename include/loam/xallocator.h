/* loam/xallocator.h: xmalloc and xfree: one set of blocks for the whole program (loam/blocks.h),
 * under the names that programs for Lafreniere's xallocator use.
 *
 * Choose it to move a program off the global heap by changing names: malloc to xmalloc, a class by
 * one macro, STL containers by loam/xallocator.hpp. A program that can pass an allocator around
 * takes loam_blocks itself. It cannot tell the program's parts from each other: all share the same
 * lists.
 *
 *   xmalloc(100) ──> class of 128: a block freed before, or a new one      any thread, any time, before main too
 *
 *   #define in the program       effect
 *   STATIC_POOLS                 all memory is a static array: the heap is never called, exhausted is NULL
 *   MAX_BLOCKS          (32)     blocks of each class, with STATIC_POOLS
 *   MAX_ALLOCATORS      (15)     classes, the smallest first, at most
 *   XALLOCATOR_MANUAL            C++ files do not start it and trim it by themselves
 *   AUTOMATIC_XALLOCATOR_INIT_DESTROY   none, nor is it needed: C++ files do what it asks for,
 *                                unless XALLOCATOR_MANUAL is defined
 *   XALLOCATOR_OWN_OPTIONS       the program defines loam_xalloc_options: classes, locks, source, all of it
 *   XALLOCATOR_NO_SHORT_NAMES    xmalloc, xfree, xrealloc, xalloc_* and the global name Allocator stay the program's;
 *                                loam_xmalloc(size), loam_xfree(p), loam_xrealloc(p, size) and loam_xalloc_* serve
 * The first three and XALLOCATOR_OWN_OPTIONS have to be the same in every file that includes this:
 * give them to the compiler. With STATIC_POOLS all files of a program share one array. (A program
 * that clang compiles from C and C++ files has two, one for each language.)
 *
 * Classes are the powers of two from 16 to 4096, 400 (its 396, rounded up to 16) and 768; every
 * block is aligned to 16 and starts where its memory does, without a word in front. Larger requests
 * go to the source one by one, with STATIC_POOLS they are NULL.
 *
 * In C++ each file that includes this has a static object of one byte, before the file's own static
 * objects. The first of all such to be made starts the allocator. Used earlier than that, it starts
 * by itself. The last to go gives unused memory back, and ends nothing: the file may be a plugin's,
 * and the program that closes the plugin may have blocks, and threads that use them. Only
 * xalloc_destroy ends the allocator.
 *
 * Fork: the child has all blocks in use. Free blocks in the lists of other threads are lost to it,
 * at most two batches for each thread and class, unless these threads have called
 * loam_blocks_trim(loam_xalloc_blocks()) before (loam/blocks.h, docs/guide/fork.md).
 *
 * Before C++17 a C++ file sees the functions of C alone: no static object, no classes, no macros
 * for classes.
 *
 * None of these short names is in the library: they are inline functions here, over loam_x* ones.
 */
#ifndef LOAM_XALLOCATOR_H
#define LOAM_XALLOCATOR_H

#include "loam/names_begin.h"

#include "loam/blocks.h"

#if __STDC_HOSTED__
#include <stdio.h>
#else
#include "loam/port.h"
#endif

LOAM_BEGIN

/* ---- What the names below stand for ---- */

/* What the program's blocks are made of; asked once, when they are started. The library has a weak
 * default: heap blocks over loam_pages(), a cache per thread; on a device nothing, so that xmalloc
 * is NULL until the program defines STATIC_POOLS, or this function. The four locks of a port are
 * its member `locks`, with LOAM_THREADS. */
LOAM_API const loam_blocks_options *loam_xalloc_options(void) LOAM_NOEXCEPT;

/* The blocks, started if they are not: for usage, trim, record, check. NULL iff they cannot be. Any
 * thread. */
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
/* Counted: the first begin starts, the end that belongs to it gives unused memory back. */
LOAM_API void loam_xalloc_begin(void) LOAM_NOEXCEPT;
LOAM_API void loam_xalloc_end(void) LOAM_NOEXCEPT;

/* The calls below under long names; they pass the line of the call on. */
#define loam_xmalloc(size) loam_xmalloc_at((size), LOAM_HERE)
#define loam_xfree(p) loam_xfree_at((p), LOAM_HERE)
#define loam_xrealloc(p, size) loam_xrealloc_at((p), (size), LOAM_HERE)

/* ---- The six calls ---- */

#ifndef XALLOCATOR_NO_SHORT_NAMES

/* At least `size` bytes (0: the smallest block), aligned to 16. NULL iff there is no memory; of
 * static pools also when the size's class is exhausted, or it is above the largest. Any thread. */
LOAM_NODISCARD static inline void *xmalloc(size_t size) { return loam_xmalloc_at(size, NULL, 0); }
/* What xmalloc or xrealloc gave; NULL allowed. After xalloc_destroy it does nothing: the memory has
 * gone. */
static inline void xfree(void *p) { loam_xfree_at(p, NULL, 0); }
/* As realloc: contents are kept as far as both sizes go; p NULL allocates; size 0 frees, and gives
 * NULL. NULL otherwise iff there is no memory: p is as it was. */
LOAM_NODISCARD static inline void *xrealloc(void *p, size_t size) {
    return loam_xrealloc_at(p, size, NULL, 0);
}

/* With LOAM_CHECKED, reports name the caller's file and line. As functions, without:
 * (xmalloc)(10). */
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
 * "xallocator Block Size: 128 Block Count: 10001 Blocks In Use: 1". Blocks are made some at a
 * time. */
static inline void xalloc_stats(void) { loam_xalloc_stats(loam_xalloc_to_stdout_, NULL); }

/* Starts it, unless it is started: before there are threads, in C. Not needed but where memory has
 * to be there from the first, or locks want their init. */
static inline void xalloc_init(void) { loam_xalloc_init(); }
/* Gives all memory back, objects in use too. No other thread may be using it, nor a plugin. xmalloc
 * starts it anew. */
static inline void xalloc_destroy(void) { loam_xalloc_destroy(); }

#endif /* XALLOCATOR_NO_SHORT_NAMES */

/* ---- Options, out of the macros ---- */

#if !defined(XALLOCATOR_OWN_OPTIONS) && \
    (defined(STATIC_POOLS) || defined(MAX_ALLOCATORS) || LOAM_CHECKED)
#ifndef MAX_BLOCKS
#define MAX_BLOCKS 32
#endif
#ifndef MAX_ALLOCATORS
#define MAX_ALLOCATORS 15
#endif
#if defined(STATIC_POOLS)
/* One array for all files. (A weak array would be there once for each file, used or not.) */
#define LOAM_XALLOC_BYTES_ LOAM_BLOCKS_DEFAULT_BYTES(MAX_BLOCKS)
#ifndef __cplusplus
extern char loam_xalloc_memory_[];
#endif
LOAM_COMMON char loam_xalloc_memory_[LOAM_XALLOC_BYTES_] __attribute__((__aligned__(16)));
#endif
/* One for all files that were compiled so: weak, and in front of the library's. */
__attribute__((__weak__)) const loam_blocks_options *loam_xalloc_options(void) LOAM_NOEXCEPT {
    static const uint32_t classes[] = {16, 32, 64, 128, 256, 400, 512, 768, 1024, 2048, 4096};
    static loam_blocks_options options;
    options.classes = classes;
    options.class_count = MAX_ALLOCATORS < 11 ? MAX_ALLOCATORS : 11;
    options.name = "xallocator";
#if defined(STATIC_POOLS)
    options.memory = loam_xalloc_memory_;
    options.memory_bytes = LOAM_XALLOC_BYTES_;
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

#if defined(__cplusplus) && __cplusplus >= 201703L

#include "loam/detail.hpp"
#include "loam/pool.h"
#if __STDC_HOSTED__
#include "loam/unload.h"
#endif

#include <cstddef>
#include <new>

namespace loam {

namespace detail {

struct class_allocator;
struct class_allocator_end;

/* The largest power of two that divides both size and `most`, a power of two. */
constexpr std::size_t xalloc_divisor(std::size_t size, std::size_t most) noexcept {
    return (size | most) & (0 - (size | most));
}
constexpr std::size_t xalloc_larger(std::size_t a, std::size_t b) noexcept { return a > b ? a : b; }

/* Memory for XALLOCATOR's operator new; align 0: none was asked for. */
inline void *xalloc_try(std::size_t size, std::size_t align, const char *file,
                        unsigned line) noexcept {
    return align == 0 ? loam_xmalloc_at(size, file, line)
                      : loam_xmalloc_aligned_at(size, align, file, line);
}
/* The rest of that, where there is none. */
__attribute__((__noinline__, __cold__)) inline void *
xalloc_again(std::size_t size, std::size_t align, const char *file, unsigned line) {
    return need(new_again([=]() noexcept { return xalloc_try(size, align, file, line); }));
}
__attribute__((__noinline__, __cold__)) inline void *xalloc_again_nothrow(std::size_t size,
                                                                          std::size_t align,
                                                                          const char *file,
                                                                          unsigned line) noexcept {
    return new_again_nothrow([=]() noexcept { return xalloc_try(size, align, file, line); });
}

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
 *                 pointer; checks take their room out of it: fewer objects then. So does memory that is aligned to less
 *                 than the blocks)
 * align is that of the blocks, a power of two; 0 selects the largest up to 16 that divides the
 * size. Its memory is set up at the first Allocate, so that it can be used before its constructor
 * has run if it is static. One thread at a time. */
class Allocator {
  public:
    constexpr explicit Allocator(std::size_t size, unsigned objects = 0, char *memory = nullptr,
                                 const char *name = nullptr, std::size_t align = 0,
                                 detail::checks checks = LOAM_CHECKS_) noexcept
        : Allocator(size, objects, memory, std::size_t{objects} * block_of(size), name, align,
                    checks) {}
    ~Allocator() {
        if (started_) loam_pool_deinit(&pool_);
    }
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;

    /* A block, for up to the size that was given, at its alignment. NULL iff size is larger, the
     * pool is exhausted, or there is no memory. */
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
    std::size_t GetAlign() const noexcept { return align_; }
    std::size_t GetBlockSize() const noexcept { return block_of(size_); }
    /* Made so far, in use or free. */
    unsigned GetBlockCount() const noexcept { return blocks_; }
    unsigned GetBlocksInUse() const noexcept { return allocations_ - deallocations_; }
    unsigned GetAllocations() const noexcept { return allocations_; }
    unsigned GetDeallocations() const noexcept { return deallocations_; }

  protected:
    constexpr Allocator(std::size_t size, unsigned objects, char *memory, std::size_t memory_bytes,
                        const char *name, std::size_t align, detail::checks checks) noexcept
        : size_(size),
          align_(align != 0 ? align
                            : detail::xalloc_larger(sizeof(void *),
                                                    detail::xalloc_divisor(block_of(size), 16))),
          memory_bytes_(memory_bytes), memory_(memory), name_(name), objects_(objects),
          checks_(checks) {}
    static constexpr std::size_t block_of(std::size_t size) {
        return size == 0 ? sizeof(void *)
                         : (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    }

  private:
    friend struct detail::class_allocator;
    friend struct detail::class_allocator_end;

    bool start() noexcept {
        loam_pool_options options = {};
        options.align = align_;
        options.name = name_;
        options.most_blocks = objects_;
        if (objects_ != 0 && memory_ == nullptr) options.flags = LOAM_FIXED;
        options.flags |= checks_.flags;
        started_ = (memory_ != nullptr ? loam_pool_init_buffer_as(&pool_, memory_, memory_bytes_,
                                                                  block_of(size_), &options, 0)
                                       : loam_pool_init_as(&pool_, loam_pool_source_(nullptr),
                                                           block_of(size_), &options, 0)) == 0;
        return started_;
    }

    loam_pool pool_ = {};
    std::size_t size_, align_, memory_bytes_;
    char *memory_;
    const char *name_;
    unsigned objects_, blocks_ = 0, allocations_ = 0, deallocations_ = 0;
    detail::checks checks_;
    bool started_ = false;
};

/* A static pool that has its memory within itself: N objects of type T. Checks is for LOAM_CHECKED:
 * it is another type in a file with it, with room for tags and guards. */
template <typename T, unsigned N, typename Checks = detail::checks_of_file>
class AllocatorPool : public Allocator {
  public:
    constexpr explicit AllocatorPool(const char *name = nullptr) noexcept
        : Allocator(sizeof(T), N, memory_, sizeof memory_, name, kAlign,
                    detail::checks{Checks::value}) {}

  private:
    static constexpr std::size_t kAlign =
        detail::xalloc_larger(detail::xalloc_larger(alignof(T), sizeof(void *)),
                              detail::xalloc_divisor(block_of(sizeof(T)), 16));
    static constexpr std::size_t kStart = detail::xalloc_larger(kAlign, 16); /* of all blocks */
    /* Of tags and guards. */
    static constexpr std::size_t kCheckBytes = Checks::value != 0 ? 192 + 2 * kStart : 0;
    alignas(kStart) char memory_[N * (block_of(sizeof(T)) + kCheckBytes)] = {};
};

namespace detail {

/* No destructor ends it: objects of a class may be deleted by destructors of any static ones.
 * Blocks are aligned to 64 as far as their size is a multiple of it, so that classes derived from
 * theirs find what they need. align 0 selects the largest alignment that a class of that size can
 * have, up to a page. */
struct class_allocator {
    constexpr class_allocator(std::size_t size, unsigned objects, char *memory, const char *name,
                              std::size_t align = 0, checks own = LOAM_CHECKS_) noexcept
        : allocator(size, objects, memory, name,
                    xalloc_larger(xalloc_larger(align, sizeof(void *)),
                                  xalloc_divisor(size, align != 0 ? 64 : 4096)),
                    own) {}
    ~class_allocator() {}

    /* nullptr where size is larger than the class, or there is no memory. What is aligned to more
     * than the blocks is not from them, but from operator new, where there is one: align is the
     * same when it is freed. */
    void *loam_take_(std::size_t size, std::size_t align, const char *file,
                     unsigned line) noexcept {
        if (LOAM_LIKELY(align <= allocator.GetAlign())) return allocator.Allocate(size, file, line);
#if __STDC_HOSTED__
        if (size <= allocator.GetBlockSize())
            return ::operator new(size, std::align_val_t(align), std::nothrow);
#endif
        return nullptr;
    }
    /* The rest of operator new behind loam_take_, which gave nullptr. The handler is not asked for
     * a class that is too large: it cannot help. */
    __attribute__((__noinline__, __cold__)) void *loam_again_(std::size_t size, std::size_t align,
                                                              const char *file, unsigned line) {
        if (size > allocator.size_) no_memory();
        return need(new_again([&]() noexcept { return loam_take_(size, align, file, line); }));
    }
    __attribute__((__noinline__, __cold__)) void *loam_again_nothrow_(std::size_t size,
                                                                      std::size_t align,
                                                                      const char *file,
                                                                      unsigned line) noexcept {
        if (size > allocator.size_) return nullptr;
        return new_again_nothrow([&]() noexcept { return loam_take_(size, align, file, line); });
    }
    void loam_give_(void *p, std::size_t align, const char *file, unsigned line) noexcept {
        if (LOAM_LIKELY(align <= allocator.GetAlign())) return allocator.Deallocate(p, file, line);
        give_aligned(p, align);
    }
    /* Out of line: gcc takes it for the end of what the class's own operator new has given. */
    __attribute__((__noinline__, __cold__)) static void give_aligned(void *p,
                                                                     std::size_t align) noexcept {
#if __STDC_HOSTED__
        /* gcc would take p, which the class's operator new returned, for a block of the class. */
        __asm__("" : "+r"(p));
        ::operator delete(p, std::align_val_t(align));
#else
        (void)p, (void)align;
#endif
    }

    union {
        Allocator allocator;
    };
};

/* It leaves when its module is unloaded. */
struct class_allocator_end {
#if __STDC_HOSTED__
    explicit class_allocator_end(const Allocator &allocator) noexcept {
        node.run = run;
        node.what = const_cast<Allocator *>(&allocator);
        loam_unload_add(&at_unload, &node);
    }
    static void run(void *what) {
        auto *allocator = static_cast<Allocator *>(what);
        if (allocator->started_) loam_pool_leave(&allocator->pool_);
        allocator->started_ = false;
    }
    loam_unload node = {};
#else /* there are no modules */
    constexpr explicit class_allocator_end(const Allocator &) noexcept {}
#endif
};

} // namespace detail

} // namespace loam

#define LOAM_CLASS_END_(number) LOAM_CLASS_END_OF_(number)
#define LOAM_CLASS_END_OF_(number) loam_class_end_##number##_

/* In a class: its new and delete use an Allocator of its own, which IMPLEMENT_ALLOCATOR defines in
 * one file: objects 0 for heap blocks, memory for a static pool (else 0). Blocks are aligned as the
 * class is. A class derived from it that is larger needs its own: new is std::bad_alloc otherwise,
 * and new (std::nothrow) nullptr. Where there is no memory, new asks the program's new handler
 * first, again and again, as the global one. Arrays use the global operators. One thread at a time.
 * Members that follow the macro are private. */
#define DECLARE_ALLOCATOR \
  public: \
    static void *operator new(std::size_t loam_size_) { \
        void *loam_p_ = loam_allocator_.loam_take_(loam_size_, 1, LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) \
                   ? loam_p_ \
                   : loam_allocator_.loam_again_(loam_size_, 1, LOAM_HERE); \
    } \
    static void *operator new(std::size_t loam_size_, std::align_val_t loam_align_) { \
        void *loam_p_ = loam_allocator_.loam_take_( \
            loam_size_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) \
                   ? loam_p_ \
                   : loam_allocator_.loam_again_( \
                         loam_size_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
    } \
    static void *operator new(std::size_t loam_size_, const std::nothrow_t &) noexcept { \
        void *loam_p_ = loam_allocator_.loam_take_(loam_size_, 1, LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) \
                   ? loam_p_ \
                   : loam_allocator_.loam_again_nothrow_(loam_size_, 1, LOAM_HERE); \
    } \
    static void *operator new(std::size_t loam_size_, std::align_val_t loam_align_, \
                              const std::nothrow_t &) noexcept { \
        void *loam_p_ = loam_allocator_.loam_take_( \
            loam_size_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) \
                   ? loam_p_ \
                   : loam_allocator_.loam_again_nothrow_( \
                         loam_size_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
    } \
    static void *operator new(std::size_t, void *loam_p_) noexcept { return loam_p_; } \
    static void operator delete(void *loam_p_) noexcept { \
        loam_allocator_.loam_give_(loam_p_, 1, LOAM_HERE); \
    } \
    static void operator delete(void *loam_p_, std::align_val_t loam_align_) noexcept { \
        loam_allocator_.loam_give_(loam_p_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
    } \
    static void operator delete(void *loam_p_, const std::nothrow_t &) noexcept { \
        operator delete(loam_p_); \
    } \
    static void operator delete(void *loam_p_, std::align_val_t loam_align_, \
                                const std::nothrow_t &) noexcept { \
        operator delete(loam_p_, loam_align_); \
    } \
    static void operator delete(void *, void *) noexcept {} \
    static const ::loam::Allocator &allocator() noexcept { return loam_allocator_.allocator; } \
\
  private: \
    static ::loam::detail::class_allocator loam_allocator_;

#define IMPLEMENT_ALLOCATOR(Class, objects, memory) \
    ::loam::detail::class_allocator Class::loam_allocator_(sizeof(Class), (objects), (memory), \
                                                           #Class, alignof(Class)); \
    static ::loam::detail::class_allocator_end LOAM_CLASS_END_(__COUNTER__)(Class::allocator());

/* In a class: new and delete of it, and of all classes derived from it, arrays, aligned and
 * std::nothrow ones too, are xmalloc and xfree. Where there is no memory, they ask the program's
 * new handler, as the global ones. Members that follow the macro are public. */
#define XALLOCATOR \
  public: \
    __attribute__((__noinline__, __cold__)) static void *loam_again_(std::size_t loam_size_, \
                                                                     std::size_t loam_align_) { \
        return ::loam::detail::xalloc_again(loam_size_, loam_align_, LOAM_HERE); \
    } \
    __attribute__((__noinline__, __cold__)) static void *loam_again_nothrow_( \
        std::size_t loam_size_, std::size_t loam_align_) noexcept { \
        return ::loam::detail::xalloc_again_nothrow(loam_size_, loam_align_, LOAM_HERE); \
    } \
    static void *operator new(std::size_t loam_size_) { \
        void *loam_p_ = ::loam_xmalloc_at(loam_size_, LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) ? loam_p_ : loam_again_(loam_size_, 0); \
    } \
    static void *operator new(std::size_t loam_size_, std::align_val_t loam_align_) { \
        void *loam_p_ = ::loam_xmalloc_aligned_at( \
            loam_size_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) \
                   ? loam_p_ \
                   : loam_again_(loam_size_, static_cast<std::size_t>(loam_align_)); \
    } \
    static void *operator new(std::size_t loam_size_, const std::nothrow_t &) noexcept { \
        void *loam_p_ = ::loam_xmalloc_at(loam_size_, LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) ? loam_p_ \
                                                       : loam_again_nothrow_(loam_size_, 0); \
    } \
    static void *operator new(std::size_t loam_size_, std::align_val_t loam_align_, \
                              const std::nothrow_t &) noexcept { \
        void *loam_p_ = ::loam_xmalloc_aligned_at( \
            loam_size_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
        return __builtin_expect(loam_p_ != nullptr, 1) \
                   ? loam_p_ \
                   : loam_again_nothrow_(loam_size_, static_cast<std::size_t>(loam_align_)); \
    } \
    static void *operator new(std::size_t, void *loam_p_) noexcept { return loam_p_; } \
    static void *operator new[](std::size_t loam_size_) { return operator new(loam_size_); } \
    static void *operator new[](std::size_t loam_size_, std::align_val_t loam_align_) { \
        return operator new(loam_size_, loam_align_); \
    } \
    static void *operator new[](std::size_t loam_size_, \
                                const std::nothrow_t &loam_none_) noexcept { \
        return operator new(loam_size_, loam_none_); \
    } \
    static void *operator new[](std::size_t loam_size_, std::align_val_t loam_align_, \
                                const std::nothrow_t &loam_none_) noexcept { \
        return operator new(loam_size_, loam_align_, loam_none_); \
    } \
    static void *operator new[](std::size_t, void *loam_p_) noexcept { return loam_p_; } \
    static void operator delete(void *loam_p_) noexcept { ::loam_xfree_at(loam_p_, LOAM_HERE); } \
    static void operator delete(void *loam_p_, std::align_val_t) noexcept { \
        operator delete(loam_p_); \
    } \
    static void operator delete(void *loam_p_, const std::nothrow_t &) noexcept { \
        operator delete(loam_p_); \
    } \
    static void operator delete(void *loam_p_, std::align_val_t, \
                                const std::nothrow_t &) noexcept { \
        operator delete(loam_p_); \
    } \
    static void operator delete(void *, void *) noexcept {} \
    static void operator delete[](void *loam_p_) noexcept { operator delete(loam_p_); } \
    static void operator delete[](void *loam_p_, std::align_val_t) noexcept { \
        operator delete(loam_p_); \
    } \
    static void operator delete[](void *loam_p_, const std::nothrow_t &) noexcept { \
        operator delete(loam_p_); \
    } \
    static void operator delete[](void *loam_p_, std::align_val_t, \
                                  const std::nothrow_t &) noexcept { \
        operator delete(loam_p_); \
    } \
    static void operator delete[](void *, void *) noexcept {}

#ifndef XALLOCATOR_MANUAL
static const ::loam::detail::xalloc_file loam_xalloc_file_ __attribute__((__unused__));
#endif
#if !defined(XALLOCATOR_IN_NAMESPACE) && \
    !defined(XALLOCATOR_NO_SHORT_NAMES) /* where the program has an Allocator of its own */
using loam::Allocator;
using loam::AllocatorPool;
#endif

#endif /* C++17 */

#include "loam/names_end.h"

#endif
