/* loam/xallocator.h: xmalloc and xfree, one set of blocks for the whole program (loam/blocks.h),
 * under the names that programs for Lafreniere's xallocator use, with its modes of a class's pool.
 *
 * Choose it to move a program off the global heap by changing names: malloc to xmalloc, a class by
 * one macro, STL containers by loam/xallocator.hpp. A program that can pass an allocator around
 * uses loam_blocks itself. xallocator cannot separate parts of a program: all share its lists.
 *
 *   xmalloc(100) ──> class of 128: a block freed before, or a new one     before main, too
 *
 *   #define in the program       effect
 *   STATIC_POOLS                 all memory is a static array: the heap is never called
 *   MAX_BLOCKS          (32)     blocks of each class, with STATIC_POOLS
 *   MAX_ALLOCATORS      (15)     classes, the smallest first, at most
 *   XALLOCATOR_MANUAL            C++ files do not start the allocator and trim it by themselves
 *   AUTOMATIC_XALLOCATOR_INIT_DESTROY   no effect: C++ files do what it asks for, unless
 *                                XALLOCATOR_MANUAL is defined
 *   XALLOCATOR_OWN_OPTIONS       the program defines loam_xalloc_options: classes, locks, source
 *   XALLOCATOR_NO_SHORT_NAMES    xmalloc, xfree, xrealloc, xalloc_* and the global name Allocator
 *                                stay the program's; use loam_xmalloc(size), loam_xalloc_*, ...
 *
 * STATIC_POOLS, MAX_BLOCKS, MAX_ALLOCATORS and XALLOCATOR_OWN_OPTIONS must be the same in every
 * file that includes this header: define them on the compiler's command line. With STATIC_POOLS all
 * files of a program share one array. (A program that clang compiles from C and C++ files has two,
 * one for each language.)
 *
 * Classes are the powers of two from 16 to 4096, 400 (xallocator's 396, rounded up to 16) and 768.
 * Every block is aligned to 16 bytes and has no header. A request for more than 4096 bytes goes to
 * the source by itself; with STATIC_POOLS it returns NULL.
 *
 * In C++ each file that includes this header has a static object of one byte, before the file's own
 * static objects. The first such object to be constructed starts the allocator, as an earlier call
 * does. The last such object to be destroyed gives unused memory back, and ends nothing: its file
 * may belong to a plugin, and the program may still have blocks, and threads that use them. Only
 * xalloc_destroy ends the allocator.
 *
 * Fork: the child has all blocks in use. It loses the free blocks in the lists of other threads, at
 * most two batches for each thread and class, except of threads that have called
 * loam_blocks_trim(loam_xalloc_blocks()) before (loam/blocks.h, docs/guide/fork.md).
 *
 * Before C++17 a C++ file sees the functions of C alone: no static object, no classes, no macros
 * for classes. The library contains no short names: they are inline functions of this header. */
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

/* ---- The functions of the library ---- */

/** Returns the options of the program's blocks; loam calls it once, at the start. The library has a
 * weak default: heap blocks over loam_pages() and a cache for each thread; on a device nothing.
 * There xmalloc returns NULL until the program defines STATIC_POOLS, or this function. The four
 * locks of a port are the options' member `locks`, with LOAM_THREADS. */
LOAM_API const loam_blocks_options *loam_xalloc_options(void) LOAM_NOEXCEPT;

/** Returns the blocks behind xmalloc, for usage, trim, record and check, and starts them if need
 * be. Returns NULL iff they cannot be started. Any thread. */
LOAM_API loam_blocks *loam_xalloc_blocks(void) LOAM_NOEXCEPT;

/** Does what xmalloc does. file and line name the caller, for diagnosis. */
LOAM_API LOAM_NODISCARD void *loam_xmalloc_at(size_t bytes, const char *file,
                                              unsigned line) LOAM_NOEXCEPT;
/** Does what xmalloc does, at a multiple of align (loam_blocks_alloc_aligned). */
LOAM_API LOAM_NODISCARD void *loam_xmalloc_aligned_at(size_t bytes, size_t align, const char *file,
                                                      unsigned line) LOAM_NOEXCEPT;
/** Does what xrealloc does. file and line name the caller. */
LOAM_API LOAM_NODISCARD void *loam_xrealloc_at(void *p, size_t bytes, const char *file,
                                               unsigned line) LOAM_NOEXCEPT;
/** Does what xfree does. file and line name the caller. */
LOAM_API void loam_xfree_at(void *p, const char *file, unsigned line) LOAM_NOEXCEPT;
/** Calls print(line, context) for each class that was ever used; not before the start. */
LOAM_API void loam_xalloc_stats(loam_print *print, void *context) LOAM_NOEXCEPT;
/** Does what xalloc_init does. */
LOAM_API void loam_xalloc_init(void) LOAM_NOEXCEPT;
/** Does what xalloc_destroy does. */
LOAM_API void loam_xalloc_destroy(void) LOAM_NOEXCEPT;
/** Counts a C++ file as begun. The first one starts the allocator. */
LOAM_API void loam_xalloc_begin(void) LOAM_NOEXCEPT;
/** Counts a C++ file as ended. The last one gives unused memory back, and ends nothing. */
LOAM_API void loam_xalloc_end(void) LOAM_NOEXCEPT;
/** Does what xmalloc does, and passes the caller's file and line on. */
#define loam_xmalloc(size) loam_xmalloc_at((size), LOAM_HERE)
/** Does what xfree does, and passes the caller's file and line on. */
#define loam_xfree(p) loam_xfree_at((p), LOAM_HERE)
/** Does what xrealloc does, and passes the caller's file and line on. */
#define loam_xrealloc(p, size) loam_xrealloc_at((p), (size), LOAM_HERE)

/* ---- The six calls ---- */
#ifndef XALLOCATOR_NO_SHORT_NAMES

/** Returns at least `size` bytes, aligned to 16; 0 counts as the smallest block. Returns NULL iff
 * there is no memory; of static pools also when the class of that size is exhausted, or the size is
 * above the largest class. Any thread. */
LOAM_NODISCARD static inline void *xmalloc(size_t size) { return loam_xmalloc_at(size, NULL, 0); }
/** Frees what xmalloc or xrealloc returned; NULL is allowed. After xalloc_destroy it does nothing,
 * because the memory has gone. Any thread. */
static inline void xfree(void *p) { loam_xfree_at(p, NULL, 0); }
/** Resizes an object, as realloc does, and returns its address. The contents are kept as far as
 * both sizes go. If p is NULL it allocates. If size is 0 it frees p and returns NULL. Returns NULL
 * otherwise iff there is no memory: p is as it was. Any thread. */
LOAM_NODISCARD static inline void *xrealloc(void *p, size_t size) {
    return loam_xrealloc_at(p, size, NULL, 0);
}

/* With LOAM_CHECKED reports name the caller's file and line, except of calls as (xmalloc)(10). */
#if LOAM_CHECKED
#define xmalloc(size) loam_xmalloc_at((size), LOAM_HERE)
#define xfree(p) loam_xfree_at((p), LOAM_HERE)
#define xrealloc(p, size) loam_xrealloc_at((p), (size), LOAM_HERE)
#endif

#if __STDC_HOSTED__
/** Writes a line on standard output. Private. */
static inline void loam_xalloc_to_stdout_(const char *line, void *context) {
    (void)context;
    (void)fputs(line, stdout);
}
#else
/** Writes a line through loam_port_write. Private. */
static inline void loam_xalloc_to_stdout_(const char *line, void *context) {
    size_t bytes = 0;
    (void)context;
    while (line[bytes] != 0) bytes++;
    loam_port_write(line, bytes);
}
#endif
/** Prints a line for each class that was ever used, on standard output or by loam_port_write:
 * "xallocator Block Size: 128 Block Count: 10001 Blocks In Use: 1". The count is of blocks made. */
static inline void xalloc_stats(void) { loam_xalloc_stats(loam_xalloc_to_stdout_, NULL); }

/** Starts the allocator unless it is started; in C before there are threads. Needed only if the
 * memory must be there from the first moment, or locks need their initialisation. */
static inline void xalloc_init(void) { loam_xalloc_init(); }
/** Gives all memory back, including objects in use. No other thread and no plugin may use it
 * meanwhile. The next xmalloc starts it again. */
static inline void xalloc_destroy(void) { loam_xalloc_destroy(); }

#endif /* XALLOCATOR_NO_SHORT_NAMES */

/* ---- Options from the macros ---- */
#if !defined(XALLOCATOR_OWN_OPTIONS) && \
    (defined(STATIC_POOLS) || defined(MAX_ALLOCATORS) || LOAM_CHECKED)
#ifndef MAX_BLOCKS
#define MAX_BLOCKS 32 /**< blocks of each class, with STATIC_POOLS */
#endif
#ifndef MAX_ALLOCATORS
#define MAX_ALLOCATORS 15 /**< maximum number of classes; the smallest are kept */
#endif
#if defined(STATIC_POOLS)
/** Size in bytes of the static array. Private. */
#define LOAM_XALLOC_BYTES_ LOAM_BLOCKS_DEFAULT_BYTES(MAX_BLOCKS)
#ifndef __cplusplus
extern char loam_xalloc_memory_[]; /**< the static array; private */
#endif
/** One array for all files. (With a weak array each file would have one, used or not.) Private. */
LOAM_COMMON char loam_xalloc_memory_[LOAM_XALLOC_BYTES_] __attribute__((__aligned__(16)));
#endif
/** The options that the macros select. Weak: files compiled with the same macros share one, which
 * precedes the library's default. */
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
struct class_allocator;     /**< the Allocator of a class; private */
struct class_allocator_end; /**< ends the Allocator of a class; private */

/** Returns the largest power of two that divides both size and `most`, a power of two. */
constexpr std::size_t xalloc_divisor(std::size_t size, std::size_t most) noexcept {
    return (size | most) & (0 - (size | most));
}
/** Returns the larger of two numbers. */
constexpr std::size_t xalloc_larger(std::size_t a, std::size_t b) noexcept { return a > b ? a : b; }

/** Returns memory for XALLOCATOR's operator new, or nullptr. align 0: none was requested. */
inline void *xalloc_try(std::size_t size, std::size_t align, const char *file,
                        unsigned line) noexcept {
    return align == 0 ? loam_xmalloc_at(size, file, line)
                      : loam_xmalloc_aligned_at(size, align, file, line);
}
/** Calls the new handler and tries again. Throws std::bad_alloc if that does not help. */
__attribute__((__noinline__, __cold__)) inline void *
xalloc_again(std::size_t size, std::size_t align, const char *file, unsigned line) {
    return need(new_again([=]() noexcept { return xalloc_try(size, align, file, line); }));
}
/** Calls the new handler and tries again. Returns nullptr if that does not help. */
__attribute__((__noinline__, __cold__)) inline void *xalloc_again_nothrow(std::size_t size,
                                                                          std::size_t align,
                                                                          const char *file,
                                                                          unsigned line) noexcept {
    return new_again_nothrow([=]() noexcept { return xalloc_try(size, align, file, line); });
}

/** Counts a C++ file as begun and ended. */
struct xalloc_file {
    xalloc_file() noexcept { loam_xalloc_begin(); }
    ~xalloc_file() { loam_xalloc_end(); }
    xalloc_file(const xalloc_file &) = delete;
    xalloc_file &operator=(const xalloc_file &) = delete;
};
} // namespace detail

/** Blocks of one size (a loam_pool, with counts), in one of three modes:
 *
 *   heap blocks   Allocator(size): as many blocks as are requested
 *   heap pool     Allocator(size, objects): that many, obtained at the first Allocate
 *   static pool   Allocator(size, objects, memory): in the caller's objects * size bytes
 *
 * For a static pool size is rounded up to a pointer. Checks take their memory from the caller's
 * bytes, and so does memory that is less aligned than the blocks: the pool then has fewer objects.
 * The first Allocate sets the memory up: a static Allocator works before its constructor has run.
 * One thread at a time uses an Allocator. It cannot be copied or moved. */
class Allocator {
  public:
    /** size: of each block in bytes. objects: number of blocks, 0 for no limit. memory: nullptr, or
     * the caller's, which must outlive the Allocator. name: not copied. align: of the blocks, a
     * power of two; 0 selects the largest power of two up to 16 that divides the size. */
    constexpr explicit Allocator(std::size_t size, unsigned objects = 0, char *memory = nullptr,
                                 const char *name = nullptr, std::size_t align = 0,
                                 detail::checks checks = LOAM_CHECKS_) noexcept
        : Allocator(size, objects, memory, std::size_t{objects} * block_of(size), name, align,
                    checks) {}
    /** Gives all memory back, including blocks in use. */
    ~Allocator() {
        if (started_) loam_pool_deinit(&pool_);
    }
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;
    /** Returns a block for up to the size that was given, at its alignment. Returns NULL iff size
     * is larger, the pool is exhausted, or there is no memory. */
    [[nodiscard]] void *Allocate(std::size_t size, const char *file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE()) noexcept {
        if (LOAM_UNLIKELY(size > size_ || (!started_ && !start()))) return nullptr;
        void *block = loam_pool_alloc_at(&pool_, file, line);
        if (LOAM_UNLIKELY(block == nullptr)) return nullptr;
        allocations_++;
        if (GetBlocksInUse() > blocks_) blocks_ = GetBlocksInUse();
        return block;
    }
    /** Frees a block of this Allocator. NULL is allowed. */
    void Deallocate(void *block, const char *file = __builtin_FILE(),
                    unsigned line = __builtin_LINE()) noexcept {
        if (block == nullptr) return;
        deallocations_++;
        loam_pool_free_at(&pool_, block, file, line);
    }

    /** Returns the name as given, or nullptr. */
    const char *GetName() const noexcept { return name_; }
    /** Returns the alignment of the blocks in bytes. */
    std::size_t GetAlign() const noexcept { return align_; }
    /** Returns the size of each block in bytes: size rounded up to a pointer. */
    std::size_t GetBlockSize() const noexcept { return block_of(size_); }
    /** Returns the number of blocks made so far, in use or free: the peak of blocks in use. */
    unsigned GetBlockCount() const noexcept { return blocks_; }
    /** Returns the number of blocks in use. */
    unsigned GetBlocksInUse() const noexcept { return allocations_ - deallocations_; }
    /** Returns the number of successful calls of Allocate. */
    unsigned GetAllocations() const noexcept { return allocations_; }
    /** Returns the number of calls of Deallocate with a block. */
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

/** A static pool with memory of its own: N objects of type T. Checks is for LOAM_CHECKED: it makes
 * another type in a file that is compiled with it, with memory for tags and guards. The name is not
 * copied. */
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
    /* Bytes of one block's tag and guards. */
    static constexpr std::size_t kCheckBytes = Checks::value != 0 ? 192 + 2 * kStart : 0;
    alignas(kStart) char memory_[N * (block_of(sizeof(T)) + kCheckBytes)] = {};
};

namespace detail {
/** The Allocator of a class. No destructor ends it: destructors of static objects may delete its
 * objects. Blocks are aligned as far as their size allows: to 64, for derived classes. align 0
 * selects the largest alignment that a class of that size can have, up to a page. */
struct class_allocator {
    constexpr class_allocator(std::size_t size, unsigned objects, char *memory, const char *name,
                              std::size_t align = 0, checks own = LOAM_CHECKS_) noexcept
        : allocator(size, objects, memory, name,
                    xalloc_larger(xalloc_larger(align, sizeof(void *)),
                                  xalloc_divisor(size, align != 0 ? 64 : 4096)),
                    own) {}
    ~class_allocator() {}
    /** Returns memory; nullptr if size is larger than the class, or there is none. A request of a
     * larger alignment than the blocks' uses the global new. loam_give_ needs the alignment. */
    void *loam_take_(std::size_t size, std::size_t align, const char *file,
                     unsigned line) noexcept {
        if (LOAM_LIKELY(align <= allocator.GetAlign())) return allocator.Allocate(size, file, line);
#if __STDC_HOSTED__
        if (size <= allocator.GetBlockSize())
            return ::operator new(size, std::align_val_t(align), std::nothrow);
#endif
        return nullptr;
    }
    /** Calls the new handler and tries again. Throws std::bad_alloc if that does not help. It does
     * not call the handler for a class that is too large. */
    __attribute__((__noinline__, __cold__)) void *loam_again_(std::size_t size, std::size_t align,
                                                              const char *file, unsigned line) {
        if (size > allocator.size_) no_memory();
        return need(new_again([&]() noexcept { return loam_take_(size, align, file, line); }));
    }
    /** Calls the new handler and tries again. Returns nullptr if that does not help. */
    __attribute__((__noinline__, __cold__)) void *loam_again_nothrow_(std::size_t size,
                                                                      std::size_t align,
                                                                      const char *file,
                                                                      unsigned line) noexcept {
        if (size > allocator.size_) return nullptr;
        return new_again_nothrow([&]() noexcept { return loam_take_(size, align, file, line); });
    }
    /** Frees what loam_take_ returned for the same align. */
    void loam_give_(void *p, std::size_t align, const char *file, unsigned line) noexcept {
        if (LOAM_LIKELY(align <= allocator.GetAlign())) return allocator.Deallocate(p, file, line);
        give_aligned(p, align);
    }
    /* Out of line: otherwise gcc takes the call for the end of what the class's new returned. */
    __attribute__((__noinline__, __cold__)) static void give_aligned(void *p,
                                                                     std::size_t align) noexcept {
#if __STDC_HOSTED__
        /* Hides from gcc that p came from the class's operator new. */
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

/** Ends a class's Allocator when its module is unloaded (loam_pool_leave). */
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

/** In a class: its new and delete use an Allocator, which IMPLEMENT_ALLOCATOR defines in one file.
 * Blocks are aligned as the class is. A derived class that is larger needs its own macro: otherwise
 * new throws std::bad_alloc, and new (std::nothrow) returns nullptr. If there is no memory, new
 * calls the program's new handler again and again, as the global new does. Arrays use the global
 * operators. One thread at a time uses the class. Members that follow the macro are private. */
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

/** In one file: defines the Allocator of a class with DECLARE_ALLOCATOR. objects: 0 for heap
 * blocks, otherwise their number. memory: that of a static pool, otherwise 0. */
#define IMPLEMENT_ALLOCATOR(Class, objects, memory) \
    ::loam::detail::class_allocator Class::loam_allocator_(sizeof(Class), (objects), (memory), \
                                                           #Class, alignof(Class)); \
    static ::loam::detail::class_allocator_end LOAM_CLASS_END_(__COUNTER__)(Class::allocator());

/** In a class: new and delete of the class and of all derived classes are xmalloc and xfree. This
 * includes arrays and the aligned and std::nothrow forms. If there is no memory, new calls the
 * program's new handler, as the global new does. Members that follow the macro are public. */
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
/** Starts the allocator before this file's static objects, and trims it after them. */
static const ::loam::detail::xalloc_file loam_xalloc_file_ __attribute__((__unused__));
#endif
/* XALLOCATOR_IN_NAMESPACE: the program has a global Allocator of its own. */
#if !defined(XALLOCATOR_IN_NAMESPACE) && !defined(XALLOCATOR_NO_SHORT_NAMES)
/** The short name of loam::Allocator. */
using loam::Allocator;
/** The short name of loam::AllocatorPool. */
using loam::AllocatorPool;
#endif
#endif /* C++17 */

#include "loam/names_end.h"

#endif
