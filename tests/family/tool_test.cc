// tool_test.cc: Valgrind, and AddressSanitizer in the program alone, see objects where loam hands out chunks.
#include <gtest/gtest.h>

#include <sys/wait.h>

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

TEST(Tool, NobodyWatches) {
    Outcome outcome = outcome_of(LOAM_TOOL_PROGRAM " none");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "watched: no\n");
}

class Valgrind : public testing::Test {
  protected:
    void SetUp() override {
        if (outcome_of("valgrind --version").status != 0) GTEST_SKIP() << "valgrind is not there";
        if (!says(run("none"), "watched: yes"))
            GTEST_SKIP() << "loam was built without valgrind/memcheck.h";
    }
    static Outcome run(const std::string &mistake) {
        return outcome_of("valgrind --error-exitcode=99 --quiet " LOAM_TOOL_PROGRAM " " + mistake);
    }
};

TEST_F(Valgrind, NoMistakeNoError) {
    Outcome outcome = run("none");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "watched: yes\n");
}

TEST_F(Valgrind, SeesWritesAroundAndAfterAnObject) {
    for (const char *mistake : {"past", "before", "freed"}) {
        Outcome outcome = run(mistake);
        EXPECT_TRUE(says(outcome, "Invalid write of size 1")) << mistake << "\n" << outcome.text;
        EXPECT_NE(outcome.status, 0) << mistake;
    }
}

TEST_F(Valgrind, SeesThatANewObjectIsUndefined) {
    Outcome outcome = run("unset");
    EXPECT_TRUE(says(outcome, "uninitialised")) << outcome.text;
}

class AsanInTheProgram : public testing::Test {
  protected:
    static Outcome run(const std::string &mistake) {
        return outcome_of("ASAN_OPTIONS=abort_on_error=0:exitcode=98 " LOAM_TOOL_PROGRAM_ASAN " " +
                          mistake);
    }
};

TEST_F(AsanInTheProgram, NoMistakeNoError) {
    Outcome outcome = run("none");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "watched: yes\n");
}

TEST_F(AsanInTheProgram, SeesWritesAroundAndAfterAnObject) {
    for (const char *mistake : {"past", "before", "freed"}) {
        Outcome outcome = run(mistake);
        EXPECT_TRUE(says(outcome, "use-after-poison")) << mistake << "\n" << outcome.text;
        EXPECT_EQ(outcome.status, 98) << mistake;
    }
}

#else

TEST(Tool, SeesObjects) {
    GTEST_SKIP() << "a sanitizer is in the library already, or it is for another processor";
    (void)says(outcome_of("true"), "");
}

#endif

} // namespace
