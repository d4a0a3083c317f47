// ended_test.cc: memory tools see a use of an object whose allocator has ended, in every form that
// ended_program.c generates; and ThreadSanitizer sees what races_program.cc does, with a library
// that was not compiled for it.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct Outcome {
    std::string text; // both streams
    int status;       // exit status, or 128 + signal
};

[[maybe_unused]] Outcome outcome_of(const std::string &command) {
    Outcome outcome{"", -1};
    FILE *pipe = popen(("exec 2>&1; " + command).c_str(), "r");
    if (pipe == nullptr) return outcome;
    char part[512];
    for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) outcome.text.append(part, n);
    int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
}

[[maybe_unused]] bool says(const Outcome &outcome, const char *words) {
    return outcome.text.find(words) != std::string::npos;
}

[[maybe_unused]] int forms_of(const Outcome &outcome) {
    size_t at = outcome.text.rfind(" forms\n");
    if (at == std::string::npos) return 0;
    size_t from = outcome.text.find_last_of('\n', at - 1);
    return atoi(outcome.text.c_str() + (from == std::string::npos ? 0 : from + 1));
}

TEST(Ended, EveryFormUnderAddressSanitizer) {
#ifdef LOAM_ENDED_PROGRAM_ASAN
    Outcome outcome = outcome_of("ASAN_OPTIONS=abort_on_error=0:exitcode=98:symbolize=0:"
                                 "detect_leaks=0 " LOAM_ENDED_PROGRAM_ASAN);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_GT(forms_of(outcome), 1000) << outcome.text;
#else
    GTEST_SKIP() << "the library is sanitized, or the compiler has no AddressSanitizer";
#endif
}

TEST(Ended, AFewFormsUnderMemcheck) {
#ifdef LOAM_ENDED_PROGRAM
    if (outcome_of("valgrind --version").status != 0) GTEST_SKIP() << "valgrind is not there";
    Outcome outcome =
        outcome_of("valgrind -q --error-limit=no --log-file=/dev/null " LOAM_ENDED_PROGRAM " few");
    if (outcome.status == 77) GTEST_SKIP() << "loam was built without valgrind/memcheck.h";
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_GT(forms_of(outcome), 300) << outcome.text;
#else
    GTEST_SKIP() << "the library is sanitized";
#endif
}

class Races : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(All, Races,
                         testing::Values("pool", "pool_heap", "pool_checked", "pooled", "blocks",
                                         "blocks_heap", "blocks_checked", "xmalloc", "region",
                                         "scratch", "stack", "fifo"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(Races, TrueOnesAlone) {
#ifdef LOAM_RACES_PROGRAM
    std::string program = "TSAN_OPTIONS=exitcode=66 " LOAM_RACES_PROGRAM " ", kind = GetParam();
    Outcome outcome = outcome_of(program + kind + " right");
    if (says(outcome, "FATAL: ThreadSanitizer")) GTEST_SKIP() << outcome.text;
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "done\n");
    if (kind == "region" || kind == "scratch" || kind == "stack" || kind == "fifo") return;
    outcome = outcome_of(program + kind + " wrong");
    EXPECT_TRUE(says(outcome, "data race")) << outcome.text;
    EXPECT_EQ(outcome.status, 66);
#else
    GTEST_SKIP() << "the library is sanitized, or the compiler has no ThreadSanitizer";
#endif
}

} // namespace
