// tool_test.cc: Valgrind, and AddressSanitizer in the program alone, see objects where loam hands
// out chunks.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct Outcome {
    std::string text; /* both streams */
    int status;       /* exit status, or 128 + signal */
};

Outcome outcome_of(const std::string &command) {
    Outcome outcome{"", -1};
    FILE *pipe = popen(("exec 2>&1; " + command).c_str(), "r");
    if (pipe == nullptr) return outcome;
    char part[512];
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) outcome.text.append(part, n);
    int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
}

bool says(const Outcome &outcome, const char *words) {
    return outcome.text.find(words) != std::string::npos;
}

#ifdef LOAM_TOOL_PROGRAM

/* buffer and static have exactly the blocks that fit: no redzone takes room from them. */
const char *const kAll[] = {"guard",   "pool",   "handles", "buffer", "shared", "blocks",
                            "threads", "static", "large",   "region", "big",    "child",
                            "fifo",    "own",    "remote",  "stack",  "frame",  "ring"};
bool has_redzones(const std::string &allocator) {
    return allocator != "buffer" && allocator != "static";
}
bool has_reset(const std::string &allocator) {
    return allocator != "guard" && allocator != "shared" && allocator != "fifo" &&
           allocator != "own" && allocator != "remote";
}
/* Afterwards the memory is not the program's own. */
bool hides_ended(const std::string &allocator) { return has_redzones(allocator); }

TEST(Tool, NobodyWatches) {
    for (const std::string allocator : kAll) {
        Outcome outcome = outcome_of(LOAM_TOOL_PROGRAM " " + allocator + " none");
        EXPECT_EQ(outcome.status, 0) << allocator << "\n" << outcome.text;
        EXPECT_EQ(outcome.text, "watched: no\n") << allocator;
    }
}

/* ---- LOAM_ON_ERROR, from the environment of a program that has no other door to loam ---- */

TEST(OnError, IgnoreGoesOnAfterTheLine) {
    for (const std::string allocator : {"guard", "pool", "handles"}) {
        std::string command = LOAM_TOOL_PROGRAM " " + allocator + " foreign";
        Outcome outcome = outcome_of("LOAM_ON_ERROR=ignore " + command);
        EXPECT_EQ(outcome.status, 0) << allocator << "\n" << outcome.text;
        bool is_checked = allocator == "guard";
        bool has_line = says(outcome, "which is no object of it");
        EXPECT_TRUE(has_line || !is_checked) << allocator << "\n" << outcome.text;
        outcome = outcome_of("LOAM_ON_ERROR=ignore LOAM_SHOW_ERRORS=0 " + command);
        EXPECT_EQ(outcome.status, 0) << allocator;
        EXPECT_EQ(outcome.text, "watched: no\n") << allocator;
    }
    Outcome outcome = outcome_of(LOAM_TOOL_PROGRAM " guard foreign");
    EXPECT_EQ(outcome.status, 128 + SIGABRT) << outcome.text;
}

/* ---- Tools ---- */

class Valgrind : public testing::TestWithParam<const char *> {
  protected:
    void SetUp() override {
        if (outcome_of("valgrind --version").status != 0) GTEST_SKIP() << "valgrind is not there";
    }
    /* The output of one run with all mistakes, in parts: behind [name] what the mistake made
     * Valgrind say. */
    static std::string part(const Outcome &outcome, const std::string &name) {
        size_t at = outcome.text.find("[" + name + "]\n");
        if (at == std::string::npos) return "nothing";
        at += name.size() + 3;
        return outcome.text.substr(at, outcome.text.find("[", at) - at);
    }
    static bool has(const std::string &text, const char *words) {
        return text.find(words) != std::string::npos;
    }
};
INSTANTIATE_TEST_SUITE_P(All, Valgrind, testing::ValuesIn(kAll),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(Valgrind, SeesMistakesAndNothingElse) {
    std::string allocator = GetParam();
    Outcome outcome = outcome_of("valgrind --error-exitcode=99 --quiet " LOAM_TOOL_PROGRAM " " +
                                 allocator + " all");
    if (!says(outcome, "watched: yes"))
        GTEST_SKIP() << "loam was built without valgrind/memcheck.h";
    const char *write = "Invalid write of size 1";
    EXPECT_TRUE(has(part(outcome, "unset"), "uninitialised")) << outcome.text;
    if (has_redzones(allocator)) {
        EXPECT_TRUE(has(part(outcome, "past"), write)) << outcome.text;
        EXPECT_TRUE(has(part(outcome, "before"), write)) << outcome.text;
    }
    EXPECT_EQ(part(outcome, "end of use"), "") << "frees are no mistakes";
    EXPECT_TRUE(has(part(outcome, "freed"), write)) << outcome.text;
    if (has_reset(allocator)) {
        EXPECT_TRUE(has(part(outcome, "reset"), write)) << outcome.text;
    }
    EXPECT_EQ(part(outcome, "end of all"), "") << "the end is none";
    if (hides_ended(allocator)) {
        EXPECT_TRUE(has(part(outcome, "ended"), write)) << outcome.text;
    }
    EXPECT_EQ(outcome.status, 99) << outcome.text;
}

/* What is not reported may be used: memory of a heap that ended with allocators in it. */
TEST(Heaps, EndWithTheirAllocatorsUnderMemcheck) {
    if (outcome_of("valgrind --version").status != 0) GTEST_SKIP() << "valgrind is not there";
    Outcome outcome =
        outcome_of("valgrind --error-exitcode=99 --quiet " LOAM_TOOL_PROGRAM " heaps none");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
}

#ifdef LOAM_TOOL_PROGRAM_ASAN
TEST(Heaps, EndWithTheirAllocatorsUnderAsan) {
    Outcome outcome = outcome_of(
        "ASAN_OPTIONS=abort_on_error=0:exitcode=98:detect_leaks=0 " LOAM_TOOL_PROGRAM_ASAN
        " heaps none");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
}

class AsanInTheProgram : public testing::TestWithParam<const char *> {
  protected:
    static Outcome run(const std::string &mistake) {
        return outcome_of(
            "ASAN_OPTIONS=abort_on_error=0:exitcode=98:symbolize=0 " LOAM_TOOL_PROGRAM_ASAN " " +
            std::string(GetParam()) + " " + mistake);
    }
    static void expect_seen(const char *mistake) {
        Outcome outcome = run(mistake);
        EXPECT_TRUE(says(outcome, "use-after-poison")) << mistake << "\n" << outcome.text;
        EXPECT_EQ(outcome.status, 98) << mistake;
    }
};
INSTANTIATE_TEST_SUITE_P(All, AsanInTheProgram, testing::ValuesIn(kAll),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(AsanInTheProgram, SeesObjects) {
    Outcome outcome = run("none");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "watched: yes\n");
    expect_seen("freed");
    if (hides_ended(GetParam())) expect_seen("ended");
    if (has_reset(GetParam())) expect_seen("reset");
    if (!has_redzones(GetParam())) return;
    expect_seen("past");
    expect_seen("before");
}
#else
TEST(AsanInTheProgram, SeesObjects) {
    GTEST_SKIP() << "this compiler cannot link with AddressSanitizer";
}
#endif

#else

TEST(Tool, SeesObjects) {
    GTEST_SKIP() << "a sanitizer is in the library already, or it is for another processor";
    (void)says(outcome_of("true"), "");
}

#endif

} // namespace
