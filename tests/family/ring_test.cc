// ring_test.cc: frames that end in any order: objects, what a release frees, blocks, mistakes, and
// a model.
#include "ring_program.h"

#include "stack_sources.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

namespace {

using ring_model::Ring;
using ring_model::run;

TEST(Ring, RefusesWhatItCannotBe) {
    loam_ring ring;
    loam_ring_options options = {};
    options.block_bytes = 255;
    EXPECT_EQ(loam_ring_init(&ring, nullptr, &options), -EINVAL);
    ASSERT_EQ(loam_ring_init(&ring, nullptr, nullptr), 0);
    EXPECT_EQ(loam_ring_trim(&ring), 0u);
    loam_ring_deinit(&ring);
}

TEST(Ring, FramesInOrderUseTheSameBlocksForEver) {
    Counted counted;
    Ring r(&counted.source, 4096);
    std::deque<loam_ring_frame *> frames;
    size_t gets = 0;
    for (int i = 0; i < 20000; i++) {
        frames.push_back(r.open());
        for (int k = 0; k < 5; k++) memset(r.alloc(100), i, 100);
        if (frames.size() > 20) {
            r.release(frames.front());
            frames.pop_front();
        }
        if (i == 100) gets = counted.gets;
    }
    EXPECT_EQ(counted.gets, gets);
    EXPECT_LT(counted.used_bytes, LOAM_DEBUG || kWatched ? 120000u : 40000u);
}

TEST(Ring, AReleasedFrameWaitsForOlderOnes) {
    Ring r;
    loam_ring_frame *a = r.open();
    (void)r.alloc(1000);
    loam_ring_frame *b = r.open();
    (void)r.alloc(1000);
    loam_ring_frame *c = r.open();
    char *kept = r.alloc(1000);
    memset(kept, 7, 1000);
    size_t all = r.used();
    r.release(b);
    EXPECT_EQ(r.used(), all) << "it lies between others";
    r.release(a);
    EXPECT_LT(r.used(), all - 1900) << "now both are gone";
    for (int i = 0; i < 1000; i++) ASSERT_EQ(kept[i], 7);
    r.release(c);
    EXPECT_EQ(r.used(), 0u);
}

TEST(Ring, TheNewestGoesBackAtOnce) {
    Ring r;
    loam_ring_frame *a = r.open();
    (void)r.alloc(100);
    loam_ring_frame *b = r.open();
    char *p = r.alloc(100);
    loam_ring_frame *c = r.open();
    (void)r.alloc(100);
    r.release(b);
    r.release(c);
    loam_ring_frame *again = r.open();
    EXPECT_EQ(again, b);
    EXPECT_EQ(r.alloc(100), p);
    r.release(again);
    EXPECT_NE(r.alloc(10), nullptr) << "in the oldest, which is the newest again";
    r.release(a);
    EXPECT_EQ(r.used(), 0u);
}

TEST(Ring, LargeOnesComeAndGo) {
    Counted counted;
    Ring r(&counted.source);
    for (int i = 0; i < 50; i++) {
        loam_ring_frame *small = r.open();
        memset(r.alloc(100), 1, 100);
        loam_ring_frame *large = r.open();
        memset(r.alloc(3000000), 1, 3000000);
        r.release(i % 2 != 0 ? small : large);
        ASSERT_TRUE(loam_ring_check(&r.ring));
        r.release(i % 2 != 0 ? large : small);
    }
    std::deque<loam_ring_frame *> frames;
    for (int i = 0; i < 3000; i++) {
        frames.push_back(r.open());
        (void)r.alloc(100);
        if (frames.size() > 2) {
            r.release(frames.front());
            frames.pop_front();
        }
    }
    EXPECT_LT(counted.used_bytes, 400000u) << "what nobody needs went back";
    for (loam_ring_frame *frame : frames) r.release(frame);
    EXPECT_GT(loam_ring_trim(&r.ring), 0u);
    EXPECT_EQ(counted.used_bytes, 0u);
    loam_ring_frame *frame = r.open();
    EXPECT_NE(r.alloc(10), nullptr);
    r.release(frame);
}

TEST(Ring, ResizesTheLastInPlace) {
    Ring r;
    loam_ring_frame *frame = r.open();
    char *p = r.alloc(100);
    memset(p, 5, 100);
    EXPECT_EQ(loam_ring_realloc(&r.ring, p, 100, 50), p);
    auto *grown = static_cast<char *>(loam_ring_realloc(&r.ring, p, 50, 5000));
    for (int i = 0; i < 50; i++) ASSERT_EQ(grown[i], 5);
    loam_ring_free(&r.ring, grown, 5000);
    loam_ring_free(&r.ring, nullptr, 0);
    volatile size_t most = SIZE_MAX / 8 + 2;
    EXPECT_EQ(loam_ring_calloc(&r.ring, most, 8), nullptr);
    auto *zero = static_cast<char *>(loam_ring_calloc(&r.ring, 10, 10));
    for (int i = 0; i < 100; i++) ASSERT_EQ(zero[i], 0);
    long *number = LOAM_RING_NEW(&r.ring, long);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(number) % alignof(long), 0u);
    r.release(frame);
}

/* ---- Mistakes ---- */

template <typename Code> std::string said(Code code) {
    std::string text = all_said(code);
    return text.substr(0, text.find(" (")) + (text.find("(at f.c:20") != text.npos ? "@" : "");
}

TEST(RingMisuse, EveryRing) {
    for (unsigned flags : {0u, unsigned{LOAM_CHECK}}) {
        Ring r(nullptr, 0, flags, "mail");
        void *p = &r;
        EXPECT_EQ(said([&] { p = loam_ring_alloc_at(&r.ring, 8, "f.c", 20); }),
                  "loam: ring mail: allocation without a frame@");
        EXPECT_EQ(p, nullptr);
        loam_ring_frame *a = r.open(), *b = r.open(), *c = r.open();
        r.release(b);
        char line[200];
        snprintf(line, sizeof line,
                 "loam: ring mail: release of %p, which is released already, opened at o.c:5@",
                 static_cast<void *>(b));
        EXPECT_EQ(said([&] { r.release(b); }), line);
        alignas(16) static char elsewhere[64];
        snprintf(line, sizeof line, "loam: ring mail: release of %p, which is no frame of it@",
                 static_cast<void *>(elsewhere));
        EXPECT_EQ(said([&] { r.release(reinterpret_cast<loam_ring_frame *>(elsewhere)); }), line);
        r.release(nullptr);
        r.release(c);
        r.release(a);
    }
}

TEST(RingMisuse, CheckedOnes) {
    Ring r(nullptr, 0, LOAM_CHECK, "mail");
    loam_ring_frame *a = r.open();
    char *p = r.alloc(40);
    loam_ring_frame *b = r.open();
    char line[200];
    snprintf(
        line, sizeof line,
        "loam: ring mail: realloc of %p, which belongs to an older frame, allocated at a.c:10@",
        static_cast<void *>(p));
    EXPECT_EQ(
        said([&] { EXPECT_EQ(loam_ring_realloc_at(&r.ring, p, 40, 80, "f.c", 20), nullptr); }),
        line);
    lm_tool_show(p + 40, 8);
    *static_cast<volatile char *>(p + 40) = 1;
    snprintf(line, sizeof line,
             "loam: ring mail: overflow of %p: byte 41 of 40 written, allocated at a.c:10",
             static_cast<void *>(p));
    EXPECT_EQ(said([&] { r.release(a); }), line);
    EXPECT_EQ(loam_registry_leaks(), 0u);
    r.release(b);
    snprintf(line, sizeof line, "loam: ring mail: release of %p, which is no frame of it@",
             static_cast<void *>(b));
    EXPECT_EQ(said([&] { r.release(b); }), line);
}

/* A buffer gives again only what was its last: blocks that do not fit now are kept for later. */
TEST(Ring, ABufferLastsForever) {
    std::vector<char> memory(size_t{256} << 10);
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory.data(), memory.size());
    {
        Ring r(&buffer.source, 4096);
        loam_ring_frame *before = loam_ring_open(&r.ring);
        for (int i = 0; i < 20000; i++) {
            loam_ring_frame *frame = loam_ring_open(&r.ring);
            ASSERT_NE(frame, nullptr) << i;
            ASSERT_NE(loam_ring_alloc(&r.ring, i % 7 == 0 ? 20000 : 500), nullptr) << i;
            loam_ring_release(&r.ring, before);
            before = frame;
        }
        EXPECT_TRUE(loam_ring_check(&r.ring));
    }
    EXPECT_EQ(buffer.out, 0u);
}

using RingMisuseDeathTest = testing::Test;
TEST(RingMisuseDeathTest, AMistakeEndsTheProgram) {
    Ring r(nullptr, 0, 0, "mail");
    EXPECT_DEATH((void)r.alloc(8), "loam: ring mail: allocation without a frame .at a.c:10");
}

TEST(RingMisuse, TheWalkFindsWhatIsBroken) {
    Ring r(nullptr, 0, 0, "mail");
    loam_ring_frame *frame = r.open();
    r.ring.held_bytes += 16;
    EXPECT_NE(all_said([&] { EXPECT_FALSE(loam_ring_check(&r.ring)); }).find("blocks are lost"),
              std::string::npos);
    r.ring.held_bytes -= 16;
    loam_ring_frame *newest = r.ring.newest;
    r.ring.newest = nullptr;
    EXPECT_NE(all_said([&] { EXPECT_FALSE(loam_ring_check(&r.ring)); }).find("the list of frames"),
              std::string::npos);
    r.ring.newest = newest;
    r.release(frame);
}

/* ---- A model ---- */

class RingModel : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RingModel, testing::Range(1, 9));

TEST_P(RingModel, RandomPrograms) {
    for (unsigned flags : {0u, unsigned{LOAM_CHECK}}) {
        for (size_t block : {size_t{512}, size_t{4096}, size_t{64} << 10}) {
            Counted counted;
            Ring r(&counted.source, block, flags);
            ASSERT_NO_FATAL_FAILURE(
                run(r, model::Choices(static_cast<uint64_t>(GetParam())), 1500));
        }
        static char memory[60000];
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory, sizeof memory);
        Ring r(&buffer.source, 1024, flags);
        ASSERT_NO_FATAL_FAILURE(run(r, model::Choices(static_cast<uint64_t>(GetParam())), 1500));
    }
}

} // namespace
