/* forms_test.cc: each function of loam/malloc.h at its edges: what it returns, errno, and what
 * stays as it was.
 *
 * Sizes that no object can have, products that overflow, alignments that are none, offsets of any
 * size, NULL and 0, in every form that takes them; what happens when the system refuses memory is
 * in faulty/. Contents at random: model_test.cc.
 */
#include "effort.h"

#include <gtest/gtest.h>
#include <loam/malloc.h>

extern "C" {
#include "survey/survey.h"
}

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

#if defined(LOAM_DEBUG) && LOAM_DEBUG
constexpr bool kDebug = true;
#else
constexpr bool kDebug = false;
#endif
constexpr bool kChecked = kDebug || LOAM_SECURE;

/* The same value, unknown to the compiler. */
template <typename T> T hide(T value) {
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

const std::vector<size_t> kImpossible = {static_cast<size_t>(PTRDIFF_MAX) + 1, SIZE_MAX - 65536,
                                         SIZE_MAX - 15, SIZE_MAX};
const std::vector<size_t> kNotAligns = {
    0, 3, 24, 48, 100, 4095, 65537, 3u << 20, SIZE_MAX, SIZE_MAX - 15, (size_t{1} << 63) + 16};
/* A power of two, and yet nowhere: no memory, not a mistake. */
const std::vector<size_t> kHugeAligns = {size_t{1} << 48, size_t{1} << 55, size_t{1} << 62,
                                         size_t{1} << 63};

size_t address(const void *p) { return reinterpret_cast<size_t>(p); }

bool all_zero(const void *p, size_t bytes) {
    const auto *byte = static_cast<const unsigned char *>(p);
    for (size_t i = 0; i < bytes; i++) {
        if (byte[i] != 0) return false;
    }
    return true;
}

/* An object of 100 bytes that failing calls must leave alone. */
class Witness {
  public:
    Witness() : p_(static_cast<unsigned char *>(loam_zalloc(100))) { memset(p_, 0x5a, 100); }
    ~Witness() { loam_free(p_); }
    void *get() const { return hide(p_); }
    bool intact() const {
        for (size_t i = 0; i < 100; i++) {
            if (p_[i] != 0x5a) return false;
        }
        return loam_usable_size(p_) >= 100;
    }

  private:
    unsigned char *p_;
};

void refused(const char *what, int error, const std::function<void *()> &call) {
    errno = 0;
    EXPECT_EQ(nullptr, call()) << what;
    EXPECT_EQ(error, errno) << what;
}

TEST(Forms, ImpossibleSizesAreNoMemoryAndChangeNothing) {
    Witness witness;
    void *p = witness.get();
    for (size_t size : kImpossible) {
        SCOPED_TRACE(size);
        refused("malloc", ENOMEM, [=] { return loam_malloc(size); });
        refused("zalloc", ENOMEM, [=] { return loam_zalloc(size); });
        refused("realloc", ENOMEM, [=] { return loam_realloc(p, size); });
        refused("rezalloc", ENOMEM, [=] { return loam_rezalloc(p, size); });
        refused("expand", ENOMEM, [=] { return loam_expand(p, size); });
        refused("realloc NULL", ENOMEM, [=] { return loam_realloc(nullptr, size); });
        refused("rezalloc NULL", ENOMEM, [=] { return loam_rezalloc(nullptr, size); });
        refused("reallocf NULL", ENOMEM, [=] { return loam_reallocf(nullptr, size); });
        refused("memdup", ENOMEM, [=] { return loam_memdup(p, size); });
        for (size_t align : {size_t{1}, size_t{16}, size_t{64}, size_t{4096}, size_t{1} << 20}) {
            refused("aligned", ENOMEM, [=] { return loam_malloc_aligned(size, align); });
            refused("aligned", ENOMEM, [=] { return loam_zalloc_aligned(size, align); });
            refused("aligned", ENOMEM, [=] { return loam_realloc_aligned(p, size, align); });
            refused("aligned", ENOMEM, [=] { return loam_rezalloc_aligned(p, size, align); });
            for (size_t at : {size_t{8}, size_t{16}, align - 1, SIZE_MAX}) {
                refused("offset", ENOMEM,
                        [=] { return loam_malloc_aligned_offset(size, align, at); });
                refused("offset", ENOMEM,
                        [=] { return loam_zalloc_aligned_offset(size, align, at); });
                refused("offset", ENOMEM,
                        [=] { return loam_realloc_aligned_offset(p, size, align, at); });
                refused("offset", ENOMEM,
                        [=] { return loam_rezalloc_aligned_offset(p, size, align, at); });
            }
        }
        EXPECT_TRUE(witness.intact());
    }
    /* Possible as a size, but not to be had. */
    for (size_t size : {static_cast<size_t>(PTRDIFF_MAX), size_t{1} << 60, size_t{1} << 50}) {
        refused("malloc", ENOMEM, [=] { return loam_malloc(size); });
        refused("zalloc", ENOMEM, [=] { return loam_zalloc(size); });
        refused("realloc", ENOMEM, [=] { return loam_realloc(p, size); });
        refused("expand", ENOMEM, [=] { return loam_expand(p, size); });
        refused("aligned", ENOMEM, [=] { return loam_malloc_aligned(size, 64); });
        refused("offset", ENOMEM, [=] { return loam_malloc_aligned_offset(size, 64, 8); });
        refused("offset", ENOMEM, [=] { return loam_realloc_aligned_offset(p, size, 64, 8); });
    }
    EXPECT_TRUE(witness.intact());
}

TEST(Forms, ProductsThatOverflowAreNoMemory) {
    Witness witness;
    void *p = witness.get();
    const size_t half = size_t{1} << 32;
    const size_t pairs[][2] = {{half, half},      {SIZE_MAX, 2},        {2, SIZE_MAX},
                               {3, SIZE_MAX / 2}, {SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 16 + 1, 16}};
    for (const auto &pair : pairs) {
        size_t n = pair[0], size = pair[1];
        refused("calloc", ENOMEM, [=] { return loam_calloc(n, size); });
        refused("mallocarray", ENOMEM, [=] { return loam_mallocarray(n, size); });
        refused("reallocarray", ENOMEM, [=] { return loam_reallocarray(p, n, size); });
        refused("recalloc", ENOMEM, [=] { return loam_recalloc(p, n, size); });
        refused("recalloc NULL", ENOMEM, [=] { return loam_recalloc(nullptr, n, size); });
        refused("aligned", ENOMEM, [=] { return loam_calloc_aligned(n, size, 64); });
        refused("aligned", ENOMEM, [=] { return loam_recalloc_aligned(p, n, size, 64); });
        refused("offset", ENOMEM, [=] { return loam_calloc_aligned_offset(n, size, 64, 16); });
        refused("offset", ENOMEM, [=] { return loam_recalloc_aligned_offset(p, n, size, 64, 16); });
    }
    EXPECT_TRUE(witness.intact());
}

TEST(Forms, BadAlignmentsAreEinvalAndChangeNothing) {
    Witness witness;
    void *p = witness.get();
    /* p's own 100 bytes would fit: it must not even be looked at. The same with nothing, 0 bytes,
     * too many. */
    for (size_t align : kNotAligns) {
        SCOPED_TRACE(align);
        for (size_t size : {size_t{0}, size_t{50}, SIZE_MAX}) {
            refused("malloc", EINVAL, [=] { return loam_malloc_aligned(size, align); });
            refused("zalloc", EINVAL, [=] { return loam_zalloc_aligned(size, align); });
            refused("calloc", EINVAL, [=] { return loam_calloc_aligned(2, size, align); });
            refused("realloc", EINVAL, [=] { return loam_realloc_aligned(p, size, align); });
            refused("rezalloc", EINVAL, [=] { return loam_rezalloc_aligned(p, size, align); });
            refused("recalloc", EINVAL, [=] { return loam_recalloc_aligned(p, 2, size, align); });
            for (size_t at : {size_t{0}, size_t{8}, SIZE_MAX}) {
                refused("malloc", EINVAL,
                        [=] { return loam_malloc_aligned_offset(size, align, at); });
                refused("zalloc", EINVAL,
                        [=] { return loam_zalloc_aligned_offset(size, align, at); });
                refused("calloc", EINVAL,
                        [=] { return loam_calloc_aligned_offset(2, size, align, at); });
                refused("realloc", EINVAL,
                        [=] { return loam_realloc_aligned_offset(p, size, align, at); });
                refused("rezalloc", EINVAL,
                        [=] { return loam_rezalloc_aligned_offset(p, size, align, at); });
                refused("recalloc", EINVAL,
                        [=] { return loam_recalloc_aligned_offset(p, 2, size, align, at); });
            }
        }
    }
    for (size_t align : kHugeAligns) {
        SCOPED_TRACE(align);
        refused("malloc", ENOMEM, [=] { return loam_malloc_aligned(50, align); });
        refused("zalloc", ENOMEM, [=] { return loam_zalloc_aligned(50, align); });
        refused("malloc", ENOMEM, [=] { return loam_malloc_aligned_offset(50, align, 16); });
        refused("zalloc", ENOMEM,
                [=] { return loam_zalloc_aligned_offset(50, align, align - 16); });
        refused("realloc", ENOMEM, [=] { return loam_realloc_aligned_offset(p, 50, align, 16); });
    }
    EXPECT_TRUE(witness.intact());
}

TEST(Forms, NothingAndNull) {
    void *(*const news[])() = {
        [] { return loam_malloc(0); },
        [] { return loam_zalloc(0); },
        [] { return loam_malloc_small(0); },
        [] { return loam_zalloc_small(0); },
        [] { return loam_mallocarray(0, 5); },
        [] { return loam_mallocarray(SIZE_MAX, 0); },
        [] { return loam_realloc(nullptr, 0); },
        [] { return loam_reallocf(nullptr, 0); },
        [] { return loam_rezalloc(nullptr, 0); },
        [] { return loam_recalloc(nullptr, 0, 9); },
        [] { return loam_malloc_aligned(0, 1); },
        [] { return loam_realloc_aligned(nullptr, 0, 4096); },
        [] { return loam_malloc_aligned_offset(0, 64, 8); },
        [] { return loam_zalloc_aligned_offset(0, 65536, 24); },
        [] { return loam_recalloc_aligned_offset(nullptr, 3, 0, 2, 1); },
    };
    std::vector<void *> all;
    for (auto make : news) {
        void *p = make();
        ASSERT_NE(nullptr, p);
        EXPECT_EQ(kChecked, loam_usable_size(p) == 0); /* release builds: what there is */
        for (void *other : all) EXPECT_NE(other, p);
        all.push_back(p);
    }
    for (void *p : all) loam_free(p);
    /* Size 0 ends an object, in every form; so it does where the product is 0. */
    EXPECT_EQ(nullptr, loam_realloc(loam_malloc(9), 0));
    EXPECT_EQ(nullptr, loam_reallocf(loam_malloc(9), 0));
    EXPECT_EQ(nullptr, loam_recalloc(loam_zalloc(9), 3, 0));
    EXPECT_EQ(nullptr, loam_realloc_aligned(loam_malloc(9), 0, 64));
    EXPECT_EQ(nullptr,
              loam_rezalloc_aligned_offset(loam_zalloc_aligned_offset(9, 64, 8), 0, 64, 8));
    EXPECT_EQ(nullptr, loam_expand(nullptr, 10));
    EXPECT_EQ(0u, loam_usable_size(nullptr));
    errno = 44;
    loam_free(nullptr);
    loam_free_sized(nullptr, 7);
    loam_free_aligned_sized(nullptr, 7, 7);
    EXPECT_EQ(44, errno);
}

TEST(Forms, ReallocfFreesWhatItCannotResize) {
    /* The block is the next one to be had, as it was freed last. */
    void *p = loam_malloc(3000);
    EXPECT_EQ(nullptr, loam_reallocf(p, SIZE_MAX));
    lm_heap_stats_t stats;
    lm_heap_stats(&stats);
    size_t blocks = stats.small_blocks;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(nullptr, loam_reallocf(loam_malloc(3000), SIZE_MAX / 2 + 1));
    lm_heap_stats(&stats);
    EXPECT_EQ(blocks, stats.small_blocks);
    p = loam_reallocf(loam_strdup("stays"), 4000);
    ASSERT_NE(nullptr, p);
    EXPECT_STREQ("stays", static_cast<char *>(p));
    loam_free(p);
}

TEST(Expand, BlocksUpToTheirUsableSize) {
    /* An object of 0 bytes has no block in the secure build. */
    for (size_t size = LM_SECURE; size <= 65536 - 16; size += 1 + size / 9) {
        auto *p = static_cast<unsigned char *>(loam_malloc(size));
        size_t usable = loam_usable_size(p), room = loam_good_size(size);
        ASSERT_EQ(p, loam_expand(p, usable));
        ASSERT_EQ(p, loam_expand(p, room)) << size; /* debug builds: more than was asked for */
        ASSERT_EQ(p, loam_expand(p, 0));
        ASSERT_EQ(p, loam_expand(p, size));
        ASSERT_GE(loam_usable_size(p), size);
        memset(p, 1, loam_usable_size(p));
        errno = 0;
        ASSERT_EQ(nullptr, loam_expand(p, room + room / 4 + 4096));
        ASSERT_EQ(ENOMEM, errno);
        loam_free(p);
    }
}

/* In builds for tools as well, where realloc always moves them. */
TEST(Expand, LargeObjectsWhereTheyAre) {
    for (size_t size : {size_t{100000}, size_t{300000}, size_t{3000000}}) {
        auto *p = static_cast<unsigned char *>(loam_malloc(size));
        memset(p, 1, size);
        for (size_t less : {size_t{1000}, size_t{1}, size_t{30000}, size_t{0}}) {
            ASSERT_EQ(p, loam_expand(p, size - less)) << size << " less " << less;
            ASSERT_GE(loam_usable_size(p), size - less);
            memset(p, 2, size - less);
        }
        loam_free(p);
    }
}

TEST(Expand, LargeObjectsIntoWhatIsFreeBehindThem) {
    const size_t mib = size_t{1} << 20;
    auto *first = static_cast<unsigned char *>(loam_malloc(mib));
    auto *behind = static_cast<unsigned char *>(loam_malloc(mib));
    auto *last = static_cast<unsigned char *>(loam_malloc(mib));
    ASSERT_TRUE(first != nullptr && behind != nullptr && last != nullptr);
    if (address(behind) != address(first) + mib + (kDebug ? 65536 : 0))
        GTEST_SKIP() << "not neighbours";
    memset(first, 1, mib);
    memset(last, 3, mib);
    EXPECT_EQ(nullptr, loam_expand(first, mib + 70000));
    loam_free(behind);
    if (kDebug) (void)loam_collect(); /* what was freed waits: reuse.c */
    EXPECT_EQ(first, loam_expand(first, mib + mib / 2));
    EXPECT_GE(loam_usable_size(first), mib + mib / 2);
    memset(first, 2, mib + mib / 2);
    EXPECT_EQ(nullptr, loam_expand(first, 3 * mib));
    /* And back: what it gives up is free again. */
    EXPECT_EQ(first, loam_expand(first, 1));
    auto *again = static_cast<unsigned char *>(loam_malloc(mib));
    EXPECT_TRUE(address(again) > address(first) && address(again) < address(last));
    EXPECT_EQ(2, first[0]);
    EXPECT_EQ(3, last[mib - 1]);
    for (void *p : {first, last, again}) loam_free(p);
    lm_span_check();
}

TEST(Zeroed, AllThatMayBeUsedAndGrownInto) {
    for (size_t size : {size_t{1}, size_t{17}, size_t{100}, size_t{1000}, size_t{1025},
                        size_t{5000}, size_t{65000}, size_t{70000}, size_t{500001}}) {
        SCOPED_TRACE(size);
        /* What was freed dirty must come back clean. */
        for (int i = 0; i < 3; i++) {
            void *dirty = loam_malloc(size);
            memset(dirty, 0xee, loam_usable_size(dirty));
            loam_free(dirty);
        }
        auto *p = static_cast<unsigned char *>(loam_zalloc(size));
        ASSERT_TRUE(all_zero(p, loam_usable_size(p)));
        memset(p, 7, size);
        /* Less, and more again: what it had there before is gone. */
        for (size_t step :
             {size - size / 3, size, size + size / 7 + 3, 2 * size + 1, size / 2 + 1, 3 * size}) {
            size_t kept = step < size ? step : size;
            p = static_cast<unsigned char *>(loam_rezalloc(p, step));
            ASSERT_NE(nullptr, p);
            for (size_t i = 0; i < kept; i++) ASSERT_EQ(7, p[i]) << step;
            ASSERT_TRUE(all_zero(p + kept, loam_usable_size(p) - kept)) << step;
            memset(p, 7, step);
            size = step;
        }
        loam_free(p);
    }
}

struct Shape {
    size_t align, offset;
};
const std::vector<Shape> kShapes = {
    {2, 1},         {4, 3},         {8, 4},           {16, 8},        {16, 1},
    {32, 16},       {32, 8},        {64, 16},         {64, 63},       {64, 80},
    {128, 120},     {256, 24},      {4096, 16},       {4096, 4000},   {65536, 48},
    {65536, 65520}, {131072, 16},   {131072, 100000}, {1u << 20, 64}, {64, 0},
    {4096, 8192},   {64, SIZE_MAX}, {4u << 20, 4096}, {1, 5},         {131072, 65536},
    {262144, 65536}};

TEST(Offset, EveryShapeAndSize) {
    EFFORT_ONE_THREAD();
    for (const Shape &shape : kShapes) {
        for (size_t size :
             {size_t{0}, size_t{1}, size_t{24}, size_t{100}, size_t{1000}, size_t{5000},
              size_t{30000}, size_t{65536}, size_t{100000}, size_t{1} << 20}) {
            SCOPED_TRACE(std::to_string(size) + " align " + std::to_string(shape.align) +
                         " offset " + std::to_string(shape.offset));
            std::vector<unsigned char *> all;
            for (int i = 0; i < 5; i++) {
                void *made = loam_zalloc_aligned_offset(size, shape.align, shape.offset);
                auto *p = static_cast<unsigned char *>(made);
                ASSERT_NE(nullptr, p);
                ASSERT_EQ(0u, (address(p) + shape.offset) % shape.align);
                size_t usable = loam_usable_size(p);
                ASSERT_GE(usable, size);
                ASSERT_TRUE(all_zero(p, usable));
                memset(p, i + 1, usable);
                all.push_back(p);
            }
            for (unsigned char *&p : all) {
                size_t usable = loam_usable_size(p);
                auto value = static_cast<unsigned char>(&p - all.data() + 1);
                for (size_t i = 0; i < usable; i += 1 + usable / 50) ASSERT_EQ(value, p[i]);
                ASSERT_EQ(p, loam_expand(p, 0));
                loam_free(loam_malloc(100000)); /* what it gave up is somebody else's */
                (void)loam_collect();           /* in checked builds, too */
                ASSERT_TRUE(kChecked || *p == value) << "not even a byte is left";
                ASSERT_EQ(p, loam_expand(p, size));
                memset(p, value, size);
                p = static_cast<unsigned char *>(
                    loam_realloc_aligned_offset(p, size + 1000, shape.align, shape.offset));
                ASSERT_NE(nullptr, p);
                ASSERT_EQ(0u, (address(p) + shape.offset) % shape.align);
                for (size_t i = 0; i < size; i += 1 + size / 50) ASSERT_EQ(value, p[i]);
            }
            /* By realloc, by another thread, and in each form of free. */
            all[0] = static_cast<unsigned char *>(loam_realloc(all[0], size + 200));
            ASSERT_NE(nullptr, all[0]);
            ASSERT_TRUE(size == 0 || all[0][size - 1] == 1);
            std::thread([&] { loam_free(all[1]); }).join();
            loam_free_sized(all[2], size + 1000);
            loam_free_aligned_sized(all[3], shape.align, size + 1000);
            loam_free(all[4]);
            loam_free(all[0]);
        }
    }
    lm_span_check();
}

/* Once all are freed no page and no large object is left behind. */
TEST(Offset, NothingIsLost) {
    lm_heap_stats_t before, after;
    lm_heap_stats(&before);
    std::vector<void *> all;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 6000; i++) {
            const Shape &shape = kShapes[i % 16];
            all.push_back(loam_malloc_aligned_offset(i % 700, shape.align, shape.offset));
            ASSERT_NE(nullptr, all.back());
        }
        lm_heap_stats(&after);
        EXPECT_GE(after.small_blocks + after.large_blocks,
                  before.small_blocks + before.large_blocks + 6000);
        for (size_t i = 0; i < all.size(); i += 2) loam_free(all[i]);
        for (size_t i = 1; i < all.size(); i += 2) loam_free(all[i]);
        all.clear();
    }
    lm_heap_stats(&after);
    EXPECT_EQ(before.small_blocks, after.small_blocks);
    EXPECT_EQ(before.large_blocks, after.large_blocks);
    EXPECT_LE(after.held_bytes, before.held_bytes + 65536) << "empty pages stay";
    lm_span_check();
}

/* Every slice up to the pointer's is in the map while it lives, and none afterwards. */
TEST(Offset, LargeOnesLeaveTheMap) {
    auto *p = static_cast<char *>(loam_malloc_aligned_offset(300000, 262144, 16));
    ASSERT_NE(nullptr, p);
    const lm_page_t *page = lm_page_of(p);
    const char *start = lm_span_start(page);
    ASSERT_GE(p - start, ptrdiff_t{131072});
    for (const char *at = start; at < p; at += 65536) EXPECT_EQ(page, lm_page_of(at));
    loam_free(p);
    for (const char *at = start; at <= p; at += 65536) EXPECT_EQ(&lm_nobody, lm_page_of(at));
}

/* A fork waits for whoever is inside. */
TEST(Offset, ForkTakesTheLock) {
    std::atomic<bool> forked{false};
    lm_lock_take(lm_offset_fork_lock());
    std::thread forks([&] {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            loam_free(loam_malloc_aligned_offset(100, 64, 16));
            _exit(0);
        }
        forked = true;
        int status = 0;
        EXPECT_EQ(child, waitpid(child, &status, 0));
        EXPECT_EQ(0, status);
    });
    usleep(100000);
    EXPECT_FALSE(forked);
    lm_lock_give(lm_offset_fork_lock());
    forks.join();
    EXPECT_TRUE(forked);
    /* And has given it back. */
    loam_free(loam_malloc_aligned_offset(100, 64, 16));
}

/* A fork while other threads are inside finds the lock free and the pages whole. */
TEST(Offset, InTheChildOfAFork) {
#if defined(__aarch64__)
    GTEST_SKIP()
        << "where this processor is emulated, qemu itself dies of forks beside running threads";
#endif
    std::atomic<bool> stop{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 3; i++) {
        busy.emplace_back([&] {
            while (!stop) loam_free(loam_malloc_aligned_offset(100, 64, 16));
        });
    }
    void *mine = loam_zalloc_aligned_offset(100, 64, 16);
    for (int i = 0; i < 50 && !HasFailure(); i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            for (int n = 0; n < 100; n++) loam_free(loam_malloc_aligned_offset(100, 64, 16));
            bool right = all_zero(mine, 100);
            loam_free(mine);
            _exit(right ? 0 : 1);
        }
        int status = 0;
        EXPECT_EQ(child, waitpid(child, &status, 0));
        EXPECT_EQ(0, status);
    }
    stop = true;
    for (std::thread &thread : busy) thread.join();
    loam_free(mine);
}

using OffsetDeath = testing::Test;
/* In every build, and whatever the build finds elsewhere. */
TEST(OffsetDeath, OtherPointersIntoItsBlockAndSecondFrees) {
    for (size_t size : {size_t{100}, size_t{200000}}) {
        auto *p = static_cast<char *>(loam_malloc_aligned_offset(size, 256, 48));
        auto *keeps_the_page = static_cast<char *>(loam_malloc_aligned_offset(size, 256, 48));
        for (ptrdiff_t by : {-16, 16, 1, -1, 64}) {
            EXPECT_DEATH(loam_free(hide(p + by)), "misaligned pointer") << by;
        }
        EXPECT_DEATH((loam_free(hide(p)), loam_free(hide(p))), "double free|loam did not allocate");
        loam_free(p);
        loam_free(keeps_the_page);
    }
}

TEST(OffsetDeath, SmallFormsAskedForMore) {
    if (!kChecked) GTEST_SKIP() << "undefined without checks";
    EXPECT_DEATH((void)loam_malloc_small(hide(size_t{LOAM_SMALL_MOST + 1})), "as a small object");
    EXPECT_DEATH((void)loam_zalloc_small(hide(size_t{70000})), "as a small object");
}

TEST(Small, EverySize) {
    for (size_t size = 0; size <= LOAM_SMALL_MOST; size++) {
        auto *p = static_cast<unsigned char *>(loam_malloc_small(size));
        auto *z = static_cast<unsigned char *>(loam_zalloc_small(size));
        ASSERT_TRUE(p != nullptr && z != nullptr && p != z);
        ASSERT_EQ(0u, address(p) % 16 + address(z) % 16);
        ASSERT_TRUE(loam_usable_size(p) >= size && loam_usable_size(z) >= size);
        ASSERT_TRUE(all_zero(z, loam_usable_size(z)));
        memset(p, 0xa5, loam_usable_size(p));
        memset(z, 0xa5, loam_usable_size(z));
        loam_free(p);
        loam_free(z);
    }
}

TEST(Copies, TextsAndBytes) {
    for (const char *text :
         {"", "a", "sixteen bytes!!!", "longer than a block of the smallest class is"}) {
        char *copy = loam_strdup(text);
        ASSERT_NE(nullptr, copy);
        EXPECT_STREQ(text, copy);
        EXPECT_NE(text, copy);
        for (size_t most : {size_t{0}, size_t{1}, size_t{5}, strlen(text), SIZE_MAX}) {
            char *part = loam_strndup(text, most);
            ASSERT_NE(nullptr, part);
            EXPECT_EQ(std::string(text).substr(0, most), part);
            loam_free(part);
        }
        loam_free(copy);
    }
    /* No byte beyond those asked for is read: there may be none. */
    char open[4] = {'o', 'p', 'e', 'n'};
    char *closed = loam_strndup(open, sizeof open);
    EXPECT_STREQ("open", closed);
    loam_free(closed);
    void *bytes = loam_memdup("a\0b", 4), *nothing = loam_memdup("", 0);
    EXPECT_EQ(0, memcmp(bytes, "a\0b", 4));
    EXPECT_NE(nullptr, nothing);
    loam_free(bytes);
    loam_free(nothing);
}

TEST(Copies, RealpathAsTheCLibrarys) {
    const char *const paths[] = {"/", "/proc/self", "/usr/../usr/./bin//", ".", "/nowhere/at/all",
                                 "",  "/dev/null/x"};
    for (const char *path : paths) {
        SCOPED_TRACE(path);
        char expected[PATH_MAX], got[PATH_MAX];
        errno = 0;
        char *theirs = realpath(path, expected);
        int error = errno;
        errno = 0;
        char *ours = loam_realpath(path, nullptr);
        if (theirs == nullptr) {
            EXPECT_EQ(nullptr, ours);
            EXPECT_EQ(error, errno);
            EXPECT_EQ(nullptr, loam_realpath(path, got));
            EXPECT_EQ(error, errno);
            continue;
        }
        ASSERT_NE(nullptr, ours);
        EXPECT_STREQ(expected, ours);
        EXPECT_GE(loam_usable_size(ours), strlen(ours) + 1); /* an object of ours */
        loam_free(ours);
        EXPECT_EQ(got, loam_realpath(path, got));
        EXPECT_STREQ(expected, got);
    }
    errno = 0;
    EXPECT_EQ(nullptr, loam_realpath(hide(static_cast<const char *>(nullptr)), nullptr));
    EXPECT_EQ(EINVAL, errno);
}

} // namespace
