// fifo_misuse_test.cc: mistakes that only a FIFO can be used with, word by word: another thread's
// free, a wrong size of realloc, frees from elsewhere; and what its walk finds. The mistakes that
// all allocators report are in contract/mistakes_test.cc.
#include "loam/fifo.h"

#include "unit/stderr_of.h"

extern "C" {
#include "base/base.h"
#include "family/family.h"
#include "family/fifo.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

namespace {

using unit::stderr_of;

class FifoMisuse : public testing::Test {
  protected:
    FifoMisuse() {
        loam_fifo_options options = {};
        options.flags = LOAM_CHECK;
        options.name = "queue";
        fifo_ = loam_fifo_create(nullptr, &options);
        options.flags |= LOAM_FIFO_REMOTE;
        remote_ = loam_fifo_create(nullptr, &options);
    }
    ~FifoMisuse() override {
        EXPECT_TRUE(loam_fifo_check(fifo_) && loam_fifo_check(remote_));
        loam_fifo_destroy(fifo_);
        loam_fifo_destroy(remote_);
    }
    static char *alloc(loam_fifo *fifo, size_t bytes) {
        return static_cast<char *>(loam_fifo_alloc_at(fifo, bytes, "a.c", 10));
    }
    static void free(loam_fifo *fifo, void *p) { loam_fifo_free_at(fifo, p, "f.c", 20); }
    static void free_remote(loam_fifo *fifo, void *p) {
        loam_fifo_free_remote_at(fifo, p, "f.c", 20);
    }
    template <typename Code> static std::string all_said(Code code) {
        lm_misuse_policy.ignore = true;
        std::string text = stderr_of(code);
        lm_misuse_policy.ignore = false;
        return text;
    }
    /* Without the bracket, and with @ iff that names the call's place. */
    template <typename Code> static std::string said(Code code) {
        std::string text = all_said(code);
        return text.substr(0, text.find(" (")) + (text.find("(at f.c:20") != text.npos ? "@" : "");
    }
    static std::string format(const char *text, const void *p) {
        char line[300];
        snprintf(line, sizeof line, text, p);
        return std::string("loam: fifo queue: ") + line;
    }
    loam_fifo *fifo_, *remote_;
};

using FifoMisuseDeathTest = FifoMisuse;

TEST_F(FifoMisuseDeathTest, AMistakeEndsTheProgram) {
    char *p = alloc(fifo_, 40);
    free(fifo_, p);
    EXPECT_DEATH(free(fifo_, p), "loam: fifo queue: free of 0x[0-9a-f]+ after its free at f.c:20, "
                                 "allocated at a.c:10 \\(at f.c:20, thread [0-9]+\\)");
}

TEST_F(FifoMisuse, AnotherThreadsFreeWithoutTheOption) {
    char *p = alloc(fifo_, 40);
    memset(p, 1, 40);
    std::string text = said([&] { std::thread([&] { free(fifo_, p); }).join(); });
    EXPECT_EQ(text, format("free of %p by a thread that does not own the fifo@", p));
    text = said([&] {
        std::thread([&] {
            EXPECT_EQ(loam_fifo_realloc_at(fifo_, p, 40, 80, "f.c", 20), nullptr);
        }).join();
    });
    EXPECT_EQ(text, format("realloc of %p by a thread that does not own the fifo@", p));
    EXPECT_EQ(said([&] { free_remote(fifo_, p); }),
              format("free of %p by loam_fifo_free_remote, without LOAM_FIFO_REMOTE@", p));
    for (int i = 0; i < 40; i++) ASSERT_EQ(p[i], 1) << "it is as it was";
    free(fifo_, p);
}

/* With the option as well, where it is not free_remote. */
TEST_F(FifoMisuse, AnotherThreadsPlainFree) {
    char *p = alloc(remote_, 40);
    std::string text = said([&] { std::thread([&] { free(remote_, p); }).join(); });
    EXPECT_EQ(text, format("free of %p by a thread that does not own the fifo@", p));
    EXPECT_EQ(said([&] { std::thread([&] { free_remote(remote_, p); }).join(); }), "");
    loam_fifo_collect(remote_);
    loam_usage usage;
    loam_fifo_usage(remote_, &usage);
    EXPECT_EQ(usage.objects, 0u);
}

/* A FIFO may be handed on: to who allocates, or says that it has it. */
TEST_F(FifoMisuse, HandedOnItIsAnotherThreads) {
    char *p = alloc(fifo_, 40), *q = alloc(fifo_, 40);
    EXPECT_EQ(said([&] {
                  std::thread([&] {
                      loam_fifo_adopt(fifo_);
                      free(fifo_, p);
                  }).join();
                  std::thread([&] { free(fifo_, alloc(fifo_, 10)); }).join();
              }),
              "");
    EXPECT_EQ(said([&] { free(fifo_, q); }),
              format("free of %p by a thread that does not own the fifo@", q));
    loam_fifo_adopt(fifo_);
    free(fifo_, q);
}

TEST_F(FifoMisuse, FreedTwiceFromElsewhere) {
    char *p = alloc(remote_, 40);
    free_remote(remote_, p);
    std::string twice = format("free of %p after its free at f.c:20, allocated at a.c:10@", p);
    EXPECT_EQ(said([&] { free_remote(remote_, p); }), twice) << "the owner has not looked yet";
    EXPECT_EQ(said([&] { free(remote_, p); }), twice);
    EXPECT_EQ(
        said([&] { EXPECT_EQ(loam_fifo_realloc_at(remote_, p, 40, 80, "f.c", 20), nullptr); }),
        format("realloc of %p after its free at f.c:20, allocated at a.c:10@", p));
    char *keep = alloc(remote_, 8);
    loam_fifo_collect(remote_);
    EXPECT_EQ(said([&] { free_remote(remote_, p); }), twice) << "and now it has";
    EXPECT_EQ(said([&] { free_remote(remote_, keep + 16); }),
              format("free of %p, which is no object of it@", keep + 16));
    free(remote_, keep);
}

TEST_F(FifoMisuse, ReallocOfAnotherSize) {
    char *p = alloc(fifo_, 40);
    EXPECT_EQ(said([&] { EXPECT_EQ(loam_fifo_realloc_at(fifo_, p, 41, 80, "f.c", 20), nullptr); }),
              format("realloc of %p with 41 bytes, allocated with 40 at a.c:10@", p));
    free(fifo_, p);
}

/* Objects of a destroyed one are guarded as before. */
TEST_F(FifoMisuse, MistakesAfterDestroy) {
    loam_fifo_options options = {};
    options.flags = LOAM_CHECK;
    options.name = "queue";
    loam_fifo *fifo = loam_fifo_create(nullptr, &options);
    char *p = alloc(fifo, 40), *q = alloc(fifo, 40);
    loam_fifo_destroy(fifo);
    EXPECT_EQ(loam_registry_leaks(), 2u) << "alive: leaks, until they are freed";
    free(fifo, p);
    EXPECT_EQ(said([&] { free(fifo, p); }),
              format("free of %p after its free at f.c:20, allocated at a.c:10@", p));
    free(fifo, q);
    EXPECT_EQ(loam_registry_leaks(), 0u);
}

TEST_F(FifoMisuse, WrittenAfterItsFreeUntilThePageIsUsedAgain) {
    char *p = alloc(fifo_, 40), *keep = alloc(fifo_, 40);
    free(fifo_, p);
    lm_tool_show(p, 40);
    p[7] = 1;
    std::string words = format("byte 8 of %p written after its free at f.c:20", p);
    EXPECT_EQ(said([&] { EXPECT_FALSE(loam_fifo_check(fifo_)); }), words);
    free(fifo_, keep);
    EXPECT_EQ(said([&] { (void)loam_fifo_trim(fifo_); }), words) << "the last chance to see it";
}

/* ---- An invariant that somebody's stray write broke is found, checked or not ---- */

class FifoBroken : public FifoMisuse {
  protected:
    FifoBroken() { (void)loam_fifo_init(&plain_, nullptr, nullptr); }
    ~FifoBroken() override {
        EXPECT_TRUE(loam_fifo_check(&plain_));
        loam_fifo_deinit(&plain_);
    }
    void expect_found(const char *words) {
        std::string text = all_said([&] { EXPECT_FALSE(loam_fifo_check(&plain_)); });
        EXPECT_NE(text.find(words), text.npos) << text;
    }
    loam_fifo plain_;
};

TEST_F(FifoBroken, TheWalkFindsIt) {
    for (int i = 0; i < 300; i++) (void)alloc(&plain_, 1000);
    loam_fifo_free(&plain_, alloc(&plain_, 100000));
    plain_.held_bytes++;
    expect_found("pages are lost");
    plain_.held_bytes--;
    plain_.chunks++;
    expect_found("pages are lost");
    plain_.chunks--;
    lm_fifo_page_t *busy = plain_.busy;
    size_t live = busy->head.live;
    busy->head.live = 0;
    expect_found("a page's count");
    busy->head.live = live;
    busy->prev = busy;
    expect_found("the list of pages");
    busy->prev = nullptr;
    char *at = busy->at;
    busy->at = reinterpret_cast<char *>(busy);
    expect_found("a page's position is outside of it");
    busy->at = at;
    plain_.spare_count++;
    expect_found("the spare pages");
    plain_.spare_count--;
    plain_.made--;
    plain_.page->head.live += 500;
    expect_found("the current page's count");
    plain_.page->head.live -= 500;
    plain_.made++;
    if (plain_.mode != LM_FIFO_PLAIN) {
        plain_.room.at = reinterpret_cast<char *>(&plain_);
        expect_found("inline paths are open");
        plain_.room.at = nullptr;
        return;
    }
    plain_.room.end += 8;
    expect_found("the room is not in the current page");
    plain_.room.end -= 8;
    plain_.room.at[3] = 1;
    expect_found("what is ready is not zero");
    plain_.room.at[3] = 0;
}

} // namespace
