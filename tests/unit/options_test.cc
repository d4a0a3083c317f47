/* options_test.cc: LOAM_* as text, what it sets, and the one line for what is not understood. */
#include "stderr_of.h"

#include <gtest/gtest.h>

extern "C" {
#include "api/api.h"
}

#include <string>
#include <vector>

namespace {

using unit::stderr_of;

class Options : public testing::Test {
  protected:
    void TearDown() override { lm_options_read(nullptr); }

    /* Reads these entries; returns what was said about them. */
    static std::string read(std::vector<std::string> entries) {
        std::vector<char *> environment;
        for (std::string &entry : entries) environment.push_back(&entry[0]);
        environment.push_back(nullptr);
        return stderr_of([&] { lm_options_read(environment.data()); });
    }
};

TEST_F(Options, Defaults) {
    EXPECT_EQ("", read({}));
    EXPECT_EQ(300u, lm_purge_policy.delay_ms);
    EXPECT_TRUE(lm_purge_policy.worker);
    EXPECT_FALSE(lm_misuse_policy.quiet);
    EXPECT_FALSE(lm_misuse_policy.ignore);
    EXPECT_EQ("", stderr_of([] { lm_options_read(nullptr); }));
}

TEST_F(Options, Values) {
    EXPECT_EQ("", read({"PATH=/bin", "LOAM_PURGE_DELAY=70", "LOAM_PURGE_THREAD=0",
                        "LOAM_SHOW_ERRORS=0", "LOAM_ON_ERROR=ignore", "XLOAM_PURGE_DELAY=1"}));
    EXPECT_EQ(70u, lm_purge_policy.delay_ms);
    EXPECT_FALSE(lm_purge_policy.worker);
    EXPECT_TRUE(lm_misuse_policy.quiet);
    EXPECT_TRUE(lm_misuse_policy.ignore);
    EXPECT_EQ("", read({"LOAM_ON_ERROR=abort"}));
    EXPECT_FALSE(lm_misuse_policy.ignore);
    EXPECT_EQ(300u, lm_purge_policy.delay_ms) << "what is not named is the default again";
}

TEST_F(Options, EndsOfTheRange) {
    EXPECT_EQ("", read({"LOAM_PURGE_DELAY=0"}));
    EXPECT_EQ(0u, lm_purge_policy.delay_ms);
    EXPECT_EQ("", read({"LOAM_PURGE_DELAY=3600000"}));
    EXPECT_EQ(3600000u, lm_purge_policy.delay_ms);
    EXPECT_EQ("", read({"LOAM_PURGE_DELAY=00000000000000000000000000005"}));
    EXPECT_EQ(5u, lm_purge_policy.delay_ms);
}

TEST_F(Options, BadNumbers) {
    for (std::string text : {"abc", "", "-1", "+1", " 1", "1 ", "0x10", "1.5", "3600001",
                             "99999999999999999999999999999999", "18446744073709551617"}) {
        EXPECT_EQ("loam: LOAM_PURGE_DELAY=" + text +
                      ": not a number from 0 to 3600000; default 300 used\n",
                  read({"LOAM_PURGE_DELAY=" + text}));
        EXPECT_EQ(300u, lm_purge_policy.delay_ms);
    }
    EXPECT_EQ("loam: LOAM_SHOW_ERRORS=2: not a number from 0 to 1; default 1 used\n",
              read({"LOAM_SHOW_ERRORS=2"}));
    EXPECT_FALSE(lm_misuse_policy.quiet);
}

TEST_F(Options, BadChoice) {
    for (std::string text : {"", "abor", "aborts", "ABORT", "1"}) {
        EXPECT_EQ("loam: LOAM_ON_ERROR=" + text + ": not abort or ignore; default abort used\n",
                  read({"LOAM_ON_ERROR=" + text}));
        EXPECT_FALSE(lm_misuse_policy.ignore);
    }
}

TEST_F(Options, UnknownNames) {
    EXPECT_EQ("loam: unknown option LOAM_PURGE ignored\n", read({"LOAM_PURGE=1"}));
    EXPECT_EQ("loam: unknown option LOAM_PURGE_DELAYS ignored\n", read({"LOAM_PURGE_DELAYS=1"}));
    EXPECT_EQ("loam: unknown option LOAM_purge_delay ignored\n", read({"LOAM_purge_delay=1"}));
    EXPECT_EQ("loam: unknown option LOAM_ ignored\n", read({"LOAM_=1"}));
    EXPECT_EQ("", read({"LOAM_NO_VALUE", "LOAM_", "LOAM", ""})) << "no variables at all";
}

TEST_F(Options, EachMistakeHasALine) {
    EXPECT_EQ("loam: unknown option LOAM_A ignored\n"
              "loam: LOAM_VERBOSE=x: not a number from 0 to 1; default 0 used\n"
              "loam: unknown option LOAM_B ignored\n",
              read({"LOAM_A=1", "LOAM_VERBOSE=x", "LOAM_PURGE_DELAY=9", "LOAM_B=1"}));
    EXPECT_EQ(9u, lm_purge_policy.delay_ms);
}

TEST_F(Options, NothingStrangeReachesTheTerminal) {
    EXPECT_EQ("loam: LOAM_PURGE_DELAY=?[2J?: not a number from 0 to 3600000; default 300 used\n",
              read({"LOAM_PURGE_DELAY=\x1b[2J\n"}));
    EXPECT_EQ("loam: unknown option LOAM_?? ignored\n", read({"LOAM_\xc3\xa9=1"}));
    std::string line = read({"LOAM_PURGE_DELAY=" + std::string(5000, '7')});
    EXPECT_EQ("loam: LOAM_PURGE_DELAY=" + std::string(44, '7') +
                  "...: not a number from 0 to 3600000; default 300 used\n",
              line);
    line = read({"LOAM_" + std::string(5000, 'X') + "=1"});
    EXPECT_EQ("loam: unknown option LOAM_" + std::string(44, 'X') + "... ignored\n", line);
    line = read({"LOAM_" + std::string(44, 'X') + "=1"});
    EXPECT_EQ("loam: unknown option LOAM_" + std::string(44, 'X') + " ignored\n", line);
}

TEST_F(Options, VerboseSaysOneLine) {
    const char *build = LOAM_DEBUG ? "debug" : LOAM_SECURE ? "secure" : "release";
    std::string start =
        std::string("loam: version ") + LOAM_VERSION_TEXT + ", " + build + " build, ";
    EXPECT_EQ(start + "purge after 300 ms in the background\n", read({"LOAM_VERBOSE=1"}));
    EXPECT_EQ(start + "purge after 5 ms in free\n",
              read({"LOAM_VERBOSE=1", "LOAM_PURGE_THREAD=0", "LOAM_PURGE_DELAY=5"}));
}

} // namespace
