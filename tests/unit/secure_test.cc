/* secure_test.cc: blocks of the secure build: free wipes every byte of a block, and malloc checks
 * before the next use that it is still wiped. */
#include "heap_unit.h"
#include "loam/handlers.h"

extern "C" {
#include "checks/inner.h"
}

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

#if LM_SECURE

/* Reports are kept, and the program goes on. */
class Secure : public unit::HeapTest {
  protected:
    void SetUp() override {
        HeapTest::SetUp();
        lm_misuse_policy.ignore = true;
        loam_error_register(keep, this);
    }
    void TearDown() override {
        loam_error_register(nullptr, nullptr);
        lm_misuse_policy.ignore = false;
        HeapTest::TearDown();
    }

    /* What is said when p, which was freed and then written to at that place, is given out
     * again. */
    std::string said_of(const char *p, size_t bytes) {
        said_.clear();
        std::vector<void *> others;
        void *got = lm_malloc(bytes);
        for (int i = 0; i < 2000 && got != p; i++) { /* what waits comes after frees only */
            if (i % 2 == 0)
                lm_free(got);
            else
                others.push_back(got);
            got = lm_malloc(bytes);
        }
        EXPECT_EQ(p, got);
        for (void *each : others) lm_free(each);
        return said_;
    }

    /* The last byte is where the underflow of the next object begins: such a write is that, if
     * there is one. If the block before is free as well, an overflow from before is named, too. */
    static bool tells(const std::string &said, char *p, size_t at, size_t room) {
        char line[64];
        snprintf(line, sizeof line, "underflow of %p: ", static_cast<void *>(p + room));
        return said.find(written(p, at)) != std::string::npos ||
               (at == room - 1 && said.find(line) != std::string::npos);
    }
    static std::string written(const char *p, size_t at) {
        char line[100];
        snprintf(line, sizeof line, "write after free of %p: 1 byte(s) from byte %zu on",
                 static_cast<const void *>(p), at);
        return line;
    }

    std::string said_;

  private:
    static void keep(int, const char *line, void *self) {
        static_cast<Secure *>(self)->said_ += line;
    }
};

char *hidden(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return static_cast<char *>(p);
}

/* All small sizes of blocks, and each place at which one of their words or pairs begins or ends. */
TEST_F(Secure, EachByteOfAFreedBlockIsWatched) {
    unit::in_thread([this] {
        for (size_t size = 16; size <= LM_SMALL_MOST; size += 16) {
            size_t bytes = size - LM_TRAILER;
            for (size_t at = 0; at < size; at += size <= 272 || at % 16 != 0 ? 1 : 7) {
                char *p = hidden(lm_malloc(bytes));
                lm_free(p);
                p[at] = 1;
                std::string said = said_of(p, bytes);
                ASSERT_TRUE(tells(said, p, at, lm_page_of(p)->block_bytes))
                    << size << " at " << at << ": " << said;
                for (size_t i = 0; i < bytes; i++) ASSERT_EQ(0, p[i]) << size << " at " << at;
                lm_free(p);
            }
        }
    });
}

/* The same where the block is back in its page's list. Its first word is a link: another's
 * report. */
TEST_F(Secure, EachByteOfAListedBlockIsWatched) {
    unit::in_thread([this] {
        for (size_t size = 16; size <= 272; size += 16) {
            size_t bytes = size - LM_TRAILER;
            void *stays = lm_malloc(bytes); /* or the page would leave */
            for (size_t at = 8; at < size; at++) {
                char *p = hidden(lm_malloc(bytes));
                lm_free(p);
                lm_quarantine_empty(lm_heap_self->fheap.own_heap);
                p[at] = 1;
                std::string said = said_of(p, bytes);
                ASSERT_TRUE(tells(said, p, at, lm_page_of(p)->block_bytes))
                    << size << " at " << at << ": " << said;
                lm_free(p);
            }
            lm_free(stays);
        }
    });
}

TEST_F(Secure, EachByteOfABlockIsWiped) {
    unit::in_thread([] {
        for (size_t size = 16; size <= LM_BLOCK_MOST; size += size < 1280 ? 16 : size / 4) {
            size_t bytes = size - LM_TRAILER;
            char *p = hidden(memset(lm_malloc(bytes), 0xff, bytes));
            size_t room = lm_page_of(p)->block_bytes;
            lm_free(p);
            for (size_t at = 0; at < room; at++) ASSERT_EQ(0, p[at]) << size << " at " << at;
        }
    });
}

/* Of blocks above 1 KiB: the ends, but for calloc. */
TEST_F(Secure, TheEndsOfALongerBlockAreWatched) {
    unit::in_thread([this] {
        for (size_t size : {1280u, 4096u, 20480u}) {
            size_t bytes = size - LM_TRAILER;
            for (size_t i = 0; i < 192; i++) {
                char *p = hidden(lm_malloc(bytes));
                size_t room = lm_page_of(p)->block_bytes, at = i < 64 ? i : room - 192 + i;
                lm_free(p);
                p[at] = 1;
                std::string said = said_of(p, bytes);
                ASSERT_TRUE(tells(said, p, at, lm_page_of(p)->block_bytes))
                    << size << " at " << at << ": " << said;
                lm_free(p);
            }
        }
    });
}

/* Another thread frees the block before p, and takes it again, all the time; between two reads of
 * its last word it may have done both. */

/* Zeros over a whole free block leave no trace, and the block may have a new owner by the time of
 * the report. So the object beside the damage is not certainly the culprit. */
TEST_F(Secure, ZerosMayComeFromBeyondTheNextObject) {
    constexpr size_t kBytes = 40;
    std::vector<void *> all;
    const char *last = nullptr;
    char *p = nullptr;
    size_t room = 0;
    for (int i = 0; i < 2000 && p == nullptr; i++) { /* three blocks in a row */
        all.push_back(lm_malloc(kBytes));
        room = lm_page_of(all.back())->block_bytes;
        std::vector<const char *> sorted;
        for (void *each : all) sorted.push_back(static_cast<const char *>(each));
        std::sort(sorted.begin(), sorted.end());
        for (size_t k = 2; k < sorted.size() && p == nullptr; k++) {
            if (sorted[k] != sorted[k - 2] + 2 * room) continue;
            p = const_cast<char *>(sorted[k - 1]), last = sorted[k];
        }
    }
    ASSERT_NE(nullptr, p);
    std::string saved(p, room);
    auto said = [&](size_t from, size_t to, const char *freed) {
        memset(p + from, 0, to - from);
        said_.clear();
        lm_free(const_cast<char *>(freed));
        memcpy(p, saved.data(), room);
        lm_page_of(p)->raw = false;
        return said_;
    };
    char line[100];
    snprintf(line, sizeof line,
             "loam: overflow of %p, or of an object before it: ", static_cast<void *>(p));
    EXPECT_EQ(0u, said(0, room - 4, p).rfind(line, 0)) << said_;
    snprintf(line, sizeof line,
             "loam: underflow of %p, or of an object behind it: ", static_cast<const void *>(last));
    EXPECT_EQ(0u, said(room - 4, room, last).rfind(line, 0)) << said_;
    said_.clear();
    for (void *each : all) {
        if (each != last) lm_free(each); /* that free went on */
    }
    EXPECT_EQ("", said_);
}

TEST_F(Secure, ABlockThatAnotherThreadUsesIsNotDamaged) {
    constexpr size_t kBytes = 4000;
    std::vector<char *> all;
    char *before = nullptr, *p = nullptr;
    for (int i = 0; i < 8; i++) all.push_back(static_cast<char *>(hidden(lm_malloc(kBytes))));
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size() && p == nullptr; i++) {
        lm_page_t *page = lm_page_of(all[i]);
        if (all[i] - all[i - 1] != page->block_bytes || lm_page_of(all[i - 1]) != page) continue;
        before = all[i - 1];
        p = all[i];
    }
    ASSERT_NE(nullptr, p) << "eight objects, and no two of them side by side";
    const lm_page_t *page = lm_page_of(p);
    auto *last = reinterpret_cast<uint64_t *>(before + page->block_bytes - LM_TRAILER);
    uint64_t in_use = *last;
    std::atomic<bool> stop{false};
    std::atomic<unsigned> rounds{0};
    std::thread other([&] {
        for (; !stop.load(std::memory_order_relaxed); rounds.fetch_add(1)) {
            __atomic_store_n(last, in_use, __ATOMIC_RELEASE);
            __atomic_store_n(last, lm_canary_of(before) ^ LM_CLAIMED, __ATOMIC_RELEASE);
            __atomic_store_n(last, 0, __ATOMIC_RELEASE);
        }
    });
    while (rounds.load() < 4000000) lm_before_damaged(page, p);
    stop = true;
    other.join();
    __atomic_store_n(last, in_use, __ATOMIC_RELEASE);
    EXPECT_EQ("", said_);
    for (char *each : all) lm_free(each);
}

#else

TEST(Secure, OnlyInTheSecureBuild) {
    GTEST_SKIP() << "other builds neither wipe freed blocks nor, but for debug, look at them";
}

#endif

} // namespace
