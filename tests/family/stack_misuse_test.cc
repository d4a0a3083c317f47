// stack_misuse_test.cc: mistakes with stacks: what every one of them reports, what only a checked
// one can, word by word, and what happens then.
#include "stack_sources.h"

#include <cstring>

namespace {

class StackMisuse : public testing::TestWithParam<bool> {
  protected:
    StackMisuse() : checked_(GetParam() || LOAM_DEBUG) {
        loam_stack_options options = {};
        options.flags = GetParam() ? LOAM_CHECK : 0;
        options.name = "calls";
        EXPECT_EQ(loam_stack_init(&stack_, nullptr, &options), 0);
        options.name = "other";
        EXPECT_EQ(loam_stack_init(&other_, nullptr, &options), 0);
    }
    ~StackMisuse() override {
        EXPECT_TRUE(loam_stack_check(&stack_));
        loam_stack_deinit(&stack_);
        loam_stack_deinit(&other_);
    }
    loam_stack_frame push() { return loam_stack_push_at(&stack_, "p.c", 5); }
    void pop(loam_stack_frame frame) { loam_stack_pop_at(&stack_, frame, "f.c", 20); }
    char *alloc(size_t bytes) {
        return static_cast<char *>(loam_stack_alloc_at(&stack_, bytes, "a.c", 10));
    }
    void *realloc(void *p, size_t old_bytes, size_t bytes) {
        return loam_stack_realloc_at(&stack_, p, old_bytes, bytes, "f.c", 20);
    }
    /* Without the bracket, and with @ iff that names the call's place. */
    template <typename Code> static std::string said(Code code) {
        std::string text = all_said(code);
        return text.substr(0, text.find(" (")) + (text.find("(at f.c:20") != text.npos ? "@" : "");
    }
    static std::string format(const char *text, const void *p = nullptr) {
        char line[300];
        snprintf(line, sizeof line, text, p);
        return std::string("loam: stack calls: ") + line;
    }
    bool checked_;
    loam_stack stack_, other_;
};

INSTANTIATE_TEST_SUITE_P(Stacks, StackMisuse, testing::Bool(),
                         [](const auto &info) { return info.param ? "checked" : "plain"; });

TEST_P(StackMisuse, FramesPoppedInTheWrongOrder) {
    loam_stack_frame outer = push(), inner = push();
    char *p = alloc(40);
    memset(p, 1, 40);
    EXPECT_EQ(said([&] { pop(outer); }),
              format(checked_ ? "pop of a frame that is not the newest, which was pushed at p.c:5@"
                              : "pop of a frame that is not the newest@"));
    for (int i = 0; i < 40; i++) ASSERT_EQ(p[i], 1) << "and nothing was done";
    pop(inner);
    EXPECT_EQ(said([&] { pop(inner); }), format("pop of a frame that has ended@"));
    pop(outer);
    EXPECT_EQ(said([&] { pop(outer); }), format("pop of a frame that has ended@"));
    EXPECT_EQ(said([&] { loam_stack_unwind_at(&stack_, &outer, "f.c", 20); }),
              format("unwinding to a frame that has ended@"));
}

TEST_P(StackMisuse, AFrameOfAnotherStack) {
    loam_stack_frame theirs = loam_stack_push(&other_);
    loam_stack_frame mine = push();
    EXPECT_EQ(said([&] { pop(theirs); }), format("pop of a frame that has ended@"));
    pop(mine);
    loam_stack_pop(&other_, theirs);
}

TEST_P(StackMisuse, AllocationInASealedFrame) {
    loam_stack_frame frame = push();
    char *p = alloc(8);
    loam_stack_seal(&stack_);
    loam_stack_seal(&stack_);
    void *got = p;
    EXPECT_EQ(said([&] { got = loam_stack_alloc_at(&stack_, 8, "f.c", 20); }),
              format("allocation in a sealed frame@"));
    EXPECT_EQ(got, nullptr);
    EXPECT_EQ(said([&] { got = loam_stack_calloc_at(&stack_, 8, 5, "f.c", 20); }),
              format("allocation in a sealed frame@"));
    EXPECT_EQ(said([&] { got = realloc(p, 8, 100); }), format("realloc in a sealed frame@"));
    EXPECT_EQ(got, nullptr);
    pop(frame);
}

TEST_P(StackMisuse, MarksOfOtherFramesAndEndedOnes) {
    loam_stack_frame outer = push();
    loam_stack_mark mark = loam_stack_mark_here(&stack_);
    (void)alloc(100);
    loam_stack_mark later = loam_stack_mark_here(&stack_);
    loam_stack_frame inner = push();
    EXPECT_EQ(said([&] { loam_stack_rewind_at(&stack_, &mark, "f.c", 20); }),
              format("rewind to a mark of another frame@"));
    pop(inner);
    loam_stack_rewind(&stack_, &mark);
    EXPECT_EQ(said([&] { loam_stack_rewind_at(&stack_, &later, "f.c", 20); }),
              format("rewind to a mark that has ended@"));
    pop(outer);
}

TEST_P(StackMisuse, ReallocFromAnotherFrame) {
    loam_stack_frame outer = push();
    char *p = alloc(40);
    memset(p, 3, 40);
    loam_stack_frame inner = push();
    if (checked_) {
        void *got = p;
        EXPECT_EQ(
            said([&] { got = realloc(p, 40, 80); }),
            format("realloc of %p, which belongs to an older frame, allocated at a.c:10@", p));
        EXPECT_EQ(got, nullptr);
        EXPECT_EQ(said([&] { loam_stack_free_at(&stack_, p, 40, "f.c", 20); }),
                  format("free of %p, which belongs to an older frame, allocated at a.c:10@", p));
    } else {
        auto *moved = static_cast<char *>(realloc(p, 40, 80));
        ASSERT_NE(moved, p) << "into the newest frame";
        for (int i = 0; i < 40; i++) ASSERT_EQ(moved[i], 3);
    }
    pop(inner);
    if (checked_ || !kWatched) {
        EXPECT_EQ(p[39], 3) << "where it was, it still is";
    }
    pop(outer);
}

/* ---- Checked ones only ---- */

class CheckedStack : public StackMisuse {};
INSTANTIATE_TEST_SUITE_P(Stacks, CheckedStack, testing::Values(true),
                         [](const auto &) { return "checked"; });

TEST_P(CheckedStack, AnOverflowIsToldWhenTheFrameEnds) {
    loam_stack_frame frame = push();
    char *p = alloc(40);
    lm_tool_show(p + 40, 8);
    *static_cast<volatile char *>(p + 40) = 1;
    EXPECT_EQ(said([&] { pop(frame); }),
              format("overflow of %p: byte 41 of 40 written, allocated at a.c:10", p));
}

// Before its first block, too.
TEST_P(CheckedStack, AnEmptyOneKnowsNoObject) {
    void *p = loam_stack_alloc_at(&other_, 6, "a.c", 10);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(said([&] { loam_stack_free_at(&stack_, p, 6, "f.c", 20); }),
              format("free of %p, which belongs to stack other@", p));
    EXPECT_EQ(said([&] { EXPECT_EQ(realloc(p, 6, 20), nullptr); }),
              format("realloc of %p, which belongs to stack other@", p));
    EXPECT_EQ(said([&] { loam_stack_free_at(&other_, p, 6, "f.c", 20); }), "");
}

TEST_P(CheckedStack, AnObjectOfAFrameThatEndedIsNoObject) {
    loam_stack_frame outer = push(), inner = push();
    (void)alloc(8);
    char *p = alloc(40);
    pop(inner);
    std::string text = said([&] { EXPECT_EQ(realloc(p, 40, 80), nullptr); });
    EXPECT_EQ(text.substr(0, 30), format("realloc of %p", p).substr(0, 30));
    lm_tool_show(p, 40);
    for (int i = 0; i < 40; i++) ASSERT_EQ(static_cast<unsigned char>(p[i]), 0xdd) << "poisoned";
    lm_tool_hide(p, 40);
    pop(outer);
}

/* What was freed since, be it older or newer than the mark, is looked at as long as it is not used
 * again. */
TEST_P(CheckedStack, RewindForgetsFreedObjectsThatWereNewer) {
    loam_stack_frame frame = push();
    char *older = alloc(40);
    (void)alloc(8);
    loam_stack_mark mark = loam_stack_mark_here(&stack_);
    char *newer = alloc(40);
    (void)alloc(8);
    loam_stack_free_at(&stack_, newer, 40, "f.c", 20);
    loam_stack_free_at(&stack_, older, 40, "f.c", 20);
    loam_stack_rewind(&stack_, &mark);
    for (int i = 0; i < 10; i++) memset(alloc(40), 1, 40);
    EXPECT_TRUE(loam_stack_check(&stack_)) << "the new objects are no freed ones";
    lm_tool_show(older, 8);
    *static_cast<volatile char *>(older) = 1;
    EXPECT_EQ(said([&] { EXPECT_FALSE(loam_stack_check(&stack_)); }),
              format("byte 1 of %p written after its free at f.c:20", older));
    lm_tool_show(older, 8); /* the check hid it again */
    *static_cast<volatile char *>(older) = static_cast<char>(0xdd);
    pop(frame);
}

TEST_P(CheckedStack, LeaksAreThoseOfFramesThatAreAlive) {
    loam_stack_frame frame = push();
    char *p = alloc(40);
    std::string text = unit::stderr_of([] { EXPECT_EQ(loam_registry_leaks(), 1u); });
    char line[200];
    snprintf(line, sizeof line, "loam: stack calls: leak of 40 bytes at %p, allocated at a.c:10\n",
             static_cast<void *>(p));
    EXPECT_EQ(text, line);
    pop(frame);
    EXPECT_EQ(loam_registry_leaks(), 0u);
}

using StackMisuseDeathTest = StackMisuse;
INSTANTIATE_TEST_SUITE_P(Stacks, StackMisuseDeathTest, testing::Bool(),
                         [](const auto &info) { return info.param ? "checked" : "plain"; });

TEST_P(StackMisuseDeathTest, AMistakeEndsTheProgram) {
    loam_stack_frame outer = push(), inner = push();
    EXPECT_DEATH(pop(outer), "loam: stack calls: pop of a frame that is not the newest.*"
                             "\\(at f.c:20, thread [0-9]+\\)");
    pop(inner);
    loam_stack_seal(&stack_);
    EXPECT_DEATH((void)alloc(8), "loam: stack calls: allocation in a sealed frame .at a.c:10");
    pop(outer);
}

/* An invariant that somebody's stray write broke is found, whatever the mode. */
TEST_P(StackMisuse, TheWalkFindsWhatIsBroken) {
    loam_stack_frame outer = push(), inner = push();
    auto finds = [&](const char *what) {
        return all_said([&] { EXPECT_FALSE(loam_stack_check(&stack_)); }).find(what) !=
               std::string::npos;
    };
    stack_.held_bytes += 16;
    EXPECT_TRUE(finds("blocks are lost"));
    stack_.held_bytes -= 16;
    if (!checked_ && !kWatched) {
        stack_.room.end -= 32;
        EXPECT_TRUE(finds("the end is not the current block's"));
        stack_.room.end += 32;
        loam_stack_record *older = inner.record->older;
        inner.record->older = reinterpret_cast<loam_stack_record *>(stack_.room.at);
        EXPECT_TRUE(finds("a frame is not in order"));
        inner.record->older = older;
    } else {
        stack_.room.at = reinterpret_cast<char *>(&stack_);
        EXPECT_TRUE(finds("inline paths are open"));
        stack_.room.at = nullptr;
    }
    pop(inner);
    pop(outer);
}

} // namespace
