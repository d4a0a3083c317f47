/* options_test.cc: options as text, from a string of the program, the environment and calls: what
 * they set, and the one line that loam prints for an option that it does not understand. */
#include "stderr_of.h"

#include <gtest/gtest.h>
#include <loam/handlers.h>
#include <loam/options.h>

extern "C" {
#include "api/api.h"
}

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

namespace {

using unit::stderr_of;

class Options : public testing::Test {
  protected:
    void TearDown() override {
        lm_options_read(nullptr, nullptr);
        lm_purge_changed();
    }

    /* Reads these entries and the program's string; returns what was said about them. */
    static std::string read(std::vector<std::string> entries, const char *config = nullptr) {
        std::vector<char *> environment;
        for (std::string &entry : entries) environment.push_back(&entry[0]);
        environment.push_back(nullptr);
        return stderr_of([&] { lm_options_read(config, environment.data()); });
    }
    static std::string read_program(const char *config) { return read({}, config); }

    static std::string get(const char *name) {
        char text[64];
        int length = loam_option_get(name, text, sizeof text);
        return length < 0 ? "error " + std::to_string(-length) : text;
    }
};

const std::string kBadDelay = ": not a time from 0ms to 3600000ms; default 300ms used\n";

TEST_F(Options, Defaults) {
    EXPECT_EQ("", read({}));
    EXPECT_EQ(300u, lm_purge_policy.delay_ms);
    EXPECT_TRUE(lm_purge_policy.worker);
    EXPECT_FALSE(lm_purge_never);
    EXPECT_FALSE(lm_misuse_policy.quiet);
    EXPECT_FALSE(lm_misuse_policy.ignore);
    EXPECT_EQ(LM_HUGE_AUTO, lm_huge_policy.when);
    EXPECT_EQ(size_t{16} << 20, lm_huge_policy.least_bytes);
    EXPECT_EQ("", stderr_of([] { lm_options_read(nullptr, nullptr); }));
}

TEST_F(Options, Values) {
    EXPECT_EQ("",
              read({"PATH=/bin", "LOAM_PURGE_DELAY=70", "LOAM_PURGE_THREAD=0", "LOAM_SHOW_ERRORS=0",
                    "LOAM_ON_ERROR=ignore", "XLOAM_PURGE_DELAY=1", "LOAM_PAGE_RESET=0",
                    "LOAM_LARGE_OS_PAGES=1", "LOAM_LARGE_OS_PAGES_AFTER=3MiB"}));
    EXPECT_EQ(70u, lm_purge_policy.delay_ms);
    EXPECT_FALSE(lm_purge_policy.worker);
    EXPECT_TRUE(lm_misuse_policy.quiet);
    EXPECT_TRUE(lm_misuse_policy.ignore);
    EXPECT_TRUE(lm_purge_never);
    EXPECT_EQ(LM_HUGE_ALWAYS, lm_huge_policy.when);
    EXPECT_EQ(size_t{3} << 20, lm_huge_policy.least_bytes);
    EXPECT_EQ("", read({"LOAM_ON_ERROR=abort", "LOAM_LARGE_OS_PAGES=0"}));
    EXPECT_FALSE(lm_misuse_policy.ignore);
    EXPECT_EQ(LM_HUGE_NEVER, lm_huge_policy.when);
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

TEST_F(Options, Units) {
    const struct {
        const char *text;
        unsigned ms;
    } times[] = {{"7ms", 7}, {"2s", 2000}, {"3min", 180000}, {"60min", 3600000},
                 {"0s", 0},  {"3MS", 3},   {"2S", 2000}};
    for (auto &time : times) {
        EXPECT_EQ("", read({std::string("LOAM_PURGE_DELAY=") + time.text}));
        EXPECT_EQ(time.ms, lm_purge_policy.delay_ms) << time.text;
    }
    const struct {
        const char *text;
        size_t bytes;
    } sizes[] = {
        {"4096", 4096}, {"5KiB", 5120}, {"2GiB", size_t{2} << 30}, {"1TiB", size_t{1} << 40}};
    for (auto &size : sizes) {
        EXPECT_EQ("", read({std::string("LOAM_LARGE_OS_PAGES_AFTER=") + size.text}));
        EXPECT_EQ(size.bytes, lm_huge_policy.least_bytes) << size.text;
        EXPECT_EQ(size.bytes == 4096 ? "4KiB" : size.text, get("large_os_pages_after"));
    }
}

/* As other programs take them: binary ones all, in any case. */
TEST_F(Options, ShorterUnits) {
    for (const char *text : {"512M", "512m", "512MB", "512mb", "512mib", "512MIB", "524288K",
                             "524288kB", "536870912B", "536870912b"}) {
        EXPECT_EQ("", read({std::string("LOAM_LIMIT_HARD=") + text})) << text;
        EXPECT_EQ(size_t{512} << 20, lm_limit_policy.hard) << text;
        EXPECT_EQ("512MiB", get("limit_hard"));
    }
    EXPECT_EQ("", read({"LOAM_LIMIT_HARD=3G"}));
    EXPECT_EQ(size_t{3} << 30, lm_limit_policy.hard);
    EXPECT_EQ("", read({"LOAM_LIMIT_HARD=2tb"}));
    EXPECT_EQ(size_t{2} << 40, lm_limit_policy.hard);
    EXPECT_EQ("loam: LOAM_LIMIT_HARD=16777216T: not a size from 0 to 1024TiB; default 0 used\n",
              read({"LOAM_LIMIT_HARD=16777216T"}));
}

/* Switches by other words; other words in any case. */
TEST_F(Options, Words) {
    for (const char *text : {"0", "no", "NO", "false", "False", "off", "OFF"}) {
        EXPECT_EQ("", read({std::string("LOAM_PURGE_THREAD=") + text})) << text;
        EXPECT_EQ("0", get("purge_thread"));
        EXPECT_EQ("", read({std::string("LOAM_LARGE_OS_PAGES=") + text})) << text;
        EXPECT_EQ("0", get("large_os_pages"));
    }
    for (const char *text : {"1", "yes", "Yes", "true", "TRUE", "on", "On"}) {
        EXPECT_EQ("", read({}, (std::string("page_reset=0,large_os_pages=") + text).c_str()));
        EXPECT_EQ("1", get("large_os_pages"));
        EXPECT_EQ(0, loam_option_set("page_reset", text)) << text;
        EXPECT_EQ("1", get("page_reset"));
    }
    EXPECT_EQ("", read({"LOAM_SHOW_STATS=JSON", "LOAM_ON_ERROR=Ignore"}));
    EXPECT_EQ("json", get("show_stats"));
    EXPECT_TRUE(lm_misuse_policy.ignore);
    read({});
    for (const char *text : {"y", "yess", "ye", "o", "tru"})
        EXPECT_EQ(-EINVAL, loam_option_set("page_reset", text)) << text;
    EXPECT_EQ(-EINVAL, loam_option_set("on_error", "yes")) << "no switch";
    EXPECT_EQ("loam: LOAM_RESERVE_HUGE_OS_PAGES_AT=no: not any, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
              "11, 12, 13, 14 or 15; default any used\n",
              read({"LOAM_RESERVE_HUGE_OS_PAGES_AT=no"}));
}

TEST_F(Options, BadNumbers) {
    for (std::string text : {"abc",
                             "",
                             "-1",
                             "+1",
                             " 1",
                             "1 ",
                             "0x10",
                             "1.5",
                             "3600001",
                             "ms",
                             "3m",
                             "3 ms",
                             "3msx",
                             "3KiB",
                             "61min",
                             "3601s",
                             "99999999999999999999999999999999",
                             "18446744073709551617",
                             "18446744073709551615s",
                             "307445734561825861min"}) {
        EXPECT_EQ("loam: LOAM_PURGE_DELAY=" + text + kBadDelay, read({"LOAM_PURGE_DELAY=" + text}));
        EXPECT_EQ(300u, lm_purge_policy.delay_ms);
    }
    for (std::string text : {"1025GiB", "16777216TiB", "16777217TiB", "3ms", "KiB", "3 KiB", "3Ki",
                             "3iB", "3P", "3KBB", "3KiBx", "1.5G", "0.5"}) {
        EXPECT_EQ("loam: LOAM_LARGE_OS_PAGES_AFTER=" + text +
                      ": not a size from 0 to 1TiB; default 16MiB used\n",
                  read({"LOAM_LARGE_OS_PAGES_AFTER=" + text}));
    }
    EXPECT_EQ("loam: LOAM_SHOW_ERRORS=2: not 0 or 1; default 1 used\n",
              read({"LOAM_SHOW_ERRORS=2"}));
    EXPECT_FALSE(lm_misuse_policy.quiet);
}

TEST_F(Options, BadChoice) {
    for (std::string text : {"", "abor", "aborts", "1", "|", "abort|ignore", "abort|"}) {
        EXPECT_EQ("loam: LOAM_ON_ERROR=" + text + ": not abort or ignore; default abort used\n",
                  read({"LOAM_ON_ERROR=" + text}));
        EXPECT_FALSE(lm_misuse_policy.ignore);
    }
    EXPECT_EQ("loam: LOAM_LARGE_OS_PAGES=2: not 0, 1 or auto; default auto used\n",
              read({"LOAM_LARGE_OS_PAGES=2"}));
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
              "loam: LOAM_VERBOSE=x: not 0 or 1; default 0 used\n"
              "loam: unknown option LOAM_B ignored\n",
              read({"LOAM_A=1", "LOAM_VERBOSE=x", "LOAM_PURGE_DELAY=9", "LOAM_B=1"}));
    EXPECT_EQ(9u, lm_purge_policy.delay_ms);
}

TEST_F(Options, NothingStrangeReachesTheTerminal) {
    EXPECT_EQ("loam: LOAM_PURGE_DELAY=?[2J?" + kBadDelay, read({"LOAM_PURGE_DELAY=\x1b[2J\n"}));
    EXPECT_EQ("loam: unknown option LOAM_?? ignored\n", read({"LOAM_\xc3\xa9=1"}));
    EXPECT_EQ("loam: LOAM_PURGE_DELAY=" + std::string(44, '7') + "..." + kBadDelay,
              read({"LOAM_PURGE_DELAY=" + std::string(5000, '7')}));
    std::string line = read({"LOAM_" + std::string(5000, 'X') + "=1"});
    EXPECT_EQ("loam: unknown option LOAM_" + std::string(44, 'X') + "... ignored\n", line);
    line = read({"LOAM_" + std::string(44, 'X') + "=1"});
    EXPECT_EQ("loam: unknown option LOAM_" + std::string(44, 'X') + " ignored\n", line);
}

TEST_F(Options, OtherNames) {
    EXPECT_EQ("", read({"LOAM_RESET_DELAY=80", "LOAM_EAGER_COMMIT_DELAY=3"}));
    EXPECT_EQ(80u, lm_purge_policy.delay_ms);
    EXPECT_EQ(size_t{12} << 20, lm_huge_policy.least_bytes);
    EXPECT_EQ("80ms", get("reset_delay"));
    EXPECT_EQ("loam: LOAM_RESET_DELAY=x" + kBadDelay, read({"LOAM_RESET_DELAY=x"}));
    for (std::string text : {"262145", "2TiB", "18446744073709551615", "4398046511104"}) {
        EXPECT_EQ("loam: LOAM_EAGER_COMMIT_DELAY=" + text +
                      ": not a number from 0 to 262144; default 16MiB used\n",
                  read({"LOAM_EAGER_COMMIT_DELAY=" + text}));
    }
    EXPECT_EQ("", read({"LOAM_EAGER_COMMIT_DELAY=262144"}));
    EXPECT_EQ(size_t{1} << 40, lm_huge_policy.least_bytes);
}

/* loam_option_set takes what loam_option_get gives, by another name, too: it counts in 4 MiB. */
TEST_F(Options, OtherNamesGiveWhatTheyTake) {
    const struct {
        const char *value, *by_alias;
    } sizes[] = {{"8MiB", "2"},    {"0", "0"},         {"5", "5B"},      {"4097", "4097B"},
                 {"6KiB", "6KiB"}, {"1TiB", "262144"}, {"2MiB", "2MiB"}, {"1025GiB", nullptr}};
    for (auto &size : sizes) {
        if (size.by_alias == nullptr) {
            EXPECT_EQ(-EINVAL, loam_option_set("eager_commit_delay", size.value));
            continue;
        }
        ASSERT_EQ(0, loam_option_set("large_os_pages_after", size.value));
        std::string value = get("large_os_pages_after");
        EXPECT_EQ(size.by_alias, get("eager_commit_delay"));
        ASSERT_EQ(0, loam_option_set("large_os_pages_after", "3"));
        EXPECT_EQ(0, loam_option_set("eager_commit_delay", size.by_alias));
        EXPECT_EQ(value, get("large_os_pages_after"));
    }
}

TEST_F(Options, GivenTwice) {
    EXPECT_EQ("loam: LOAM_PURGE_DELAY is given more than once: the first counts\n",
              read({"LOAM_PURGE_DELAY=5", "LOAM_PURGE_DELAY=6"}));
    EXPECT_EQ(5u, lm_purge_policy.delay_ms);
    const std::string ignored =
        "loam: LOAM_RESET_DELAY ignored: LOAM_PURGE_DELAY is given as well\n";
    EXPECT_EQ(ignored, read({"LOAM_RESET_DELAY=5", "LOAM_PURGE_DELAY=6"}));
    EXPECT_EQ(6u, lm_purge_policy.delay_ms) << "its own name counts, in either order";
    EXPECT_EQ(ignored, read({"LOAM_PURGE_DELAY=6", "LOAM_RESET_DELAY=5"}));
    EXPECT_EQ(6u, lm_purge_policy.delay_ms);
    EXPECT_EQ("loam: loam_config: purge_delay is given more than once: the first counts\n",
              read_program("purge_delay=8,purge_delay=9"));
    EXPECT_EQ(8u, lm_purge_policy.delay_ms);
    EXPECT_EQ("loam: loam_config: reset_delay ignored: Purge_Delay is given as well\n",
              read_program("reset_delay=8,Purge_Delay=9"));
    EXPECT_EQ(9u, lm_purge_policy.delay_ms);
}

/* Every row of the table, at its ends and beyond. */
TEST_F(Options, EachRow) {
    enum { ANYTIME, START, PROGRAM };
    enum { ANY = 1, DEBUG = LOAM_DEBUG, SECURE = LM_SECURE, READING = 1 };
    const struct Row {
        const char *name;
        size_t initial, least, most, factor;
        std::string words;
        int when;
        bool here;
    } rows[] = {
#define SWITCH(name, initial, when, build, sentence, text) \
    {#name, initial, 0, 1, 1, "0|1", when, build},
#define NUMBER(name, unit, initial, least, most, when, build, sentence, text) \
    {#name, initial, least, most, 1, "", when, build},
#define CHOICE(name, initial, words, when, build, sentence, text) \
    {#name, initial, 0, 0, 1, words, when, build},
#define SET(name, words, when, build, sentence, text) {#name, 0, 0, 0, 1, words, when, build},
#define PATH(...)
#define ALIAS(name, of, factor, sentence) {#name, 0, 0, 0, factor, #of, ANYTIME, true},
#include "api/options.def"
    };
    auto quiet = [&](const Row &row, const std::string &value) {
        /* VERBOSE speaks when it is on, and so does what only another build has. */
        std::string said = row.when == PROGRAM
                               ? read_program((std::string(row.name) + "=" + value).c_str())
                               : read({std::string("LOAM_") + row.name + "=" + value});
        return said.empty() || said.compare(0, 14, "loam: version ") == 0 ||
               (!row.here && said.find(" ignored: only the ") != std::string::npos);
    };
    for (Row row : rows) {
        SCOPED_TRACE(row.name);
        const std::string name = row.name;
        for (const Row &of : rows) { /* an alias has the ends of what it stands for */
            if (row.words != of.name) continue;
            row.least = of.least / row.factor;
            row.most = of.most / row.factor;
            row.words = of.words;
        }
        if (row.words.empty()) {
            EXPECT_TRUE(quiet(row, std::to_string(row.least)));
            EXPECT_EQ(0u, get(row.name).find(std::to_string(row.least)));
            EXPECT_TRUE(quiet(row, std::to_string(row.most)));
            EXPECT_EQ(row.here, get(row.name).find("0") != 0);
            EXPECT_FALSE(quiet(row, std::to_string(row.most + 1)));
            EXPECT_FALSE(quiet(row, row.least == 0 ? "-1" : std::to_string(row.least - 1)));
        } else {
            for (size_t at = 0; at <= row.words.size();) {
                size_t end = std::min(row.words.find('|', at), row.words.size());
                std::string word = row.words.substr(at, end - at);
                EXPECT_TRUE(quiet(row, word)) << word;
                EXPECT_EQ(row.here ? word : "0", get(row.name));
                EXPECT_FALSE(quiet(row, word + "x")) << word;
                at = end + 1;
            }
        }
        EXPECT_FALSE(quiet(row, ""));
        read({});
        std::string standard = get(row.name);
        EXPECT_EQ(row.when != ANYTIME ? -EBUSY : 0, loam_option_set(row.name, standard.c_str()));
        EXPECT_EQ(standard, get(row.name));
        if (!row.here) {
            EXPECT_EQ("0", standard);
            EXPECT_EQ(-ENOTSUP, loam_option_set(row.name, "1"));
            EXPECT_EQ("0", get(row.name));
        }
    }
}

/* One rule for all: one line, or -ENOTSUP, and it is not set; what asks for nothing is not told. */
TEST_F(Options, OfAnotherBuild) {
    const struct {
        bool here;
        std::string name, off, on, why;
    } rows[] = {
        {LOAM_DEBUG, "RECORD_SITES", "0", "4", "only the debug build can (cmake -DLOAM_DEBUG=ON)"},
        {LOAM_DEBUG, "SHOW_LEAKS", "no", "1", "only the debug build can (cmake -DLOAM_DEBUG=ON)"},
        {LM_SECURE, "PAGE_GUARDS", "0", "yes",
         "only the secure build can (cmake -DLOAM_SECURE=ON)"},
        {LM_SECURE, "RANDOM_ORDER", "0", "1", "only the secure build can (cmake -DLOAM_SECURE=ON)"},
        {LM_SECURE, "RANDOM_ORDER", "0", "auto",
         "only the secure build can (cmake -DLOAM_SECURE=ON)"},
        {LOAM_METER > 1, "METER", "", "rows",
         "this library was built without it (cmake -DLOAM_METER=2)"},
    };
    for (auto &row : rows) {
        if (row.here) continue;
        SCOPED_TRACE(row.name);
        const std::string off = row.name == "METER" ? "" : "0", ignored = " ignored: " + row.why;
        EXPECT_EQ("loam: LOAM_" + row.name + ignored + "\n",
                  read({"LOAM_" + row.name + "=" + row.on}));
        EXPECT_EQ(off, get(row.name.c_str()));
        EXPECT_EQ("loam: loam_config: " + row.name + ignored + "\n",
                  read_program((row.name + "=" + row.on).c_str()));
        EXPECT_EQ(off, get(row.name.c_str()));
        EXPECT_EQ("", read({"LOAM_" + row.name + "=" + row.off}));
        EXPECT_EQ(-ENOTSUP, loam_option_set(row.name.c_str(), row.on.c_str()));
        EXPECT_EQ(off, get(row.name.c_str()));
    }
}

TEST_F(Options, ReservingIsNotSampling) {
    lm_slowpath_hook_limit = LM_QUIET_MOST; /* other tests of this process have sampled */
    EXPECT_EQ("", read({"LOAM_RESERVE_TIMEOUT=5s", "LOAM_RESERVE_OS_MEMORY=1MiB"}));
    EXPECT_EQ(0u, lm_sampling.rate);
    EXPECT_EQ(size_t{LM_QUIET_MOST}, lm_slowpath_hook_limit);
    EXPECT_EQ("", read({"LOAM_GUARD_SAMPLING=5000"}));
    EXPECT_EQ(5000u, lm_sampling.rate);
    EXPECT_EQ(0u, lm_slowpath_hook_limit) << "malloc's slow path looks whether a sample is due";
}

TEST_F(Options, TheProgramsString) {
    EXPECT_EQ("", read_program("purge_delay=2s, ON_ERROR=ignore ,\n\tPurge_Thread = 0,,"));
    EXPECT_EQ(2000u, lm_purge_policy.delay_ms);
    EXPECT_TRUE(lm_misuse_policy.ignore);
    EXPECT_FALSE(lm_purge_policy.worker);
    EXPECT_EQ("", read({"LOAM_PURGE_DELAY=5"}, "purge_delay=2s,show_errors=0"));
    EXPECT_EQ(5u, lm_purge_policy.delay_ms) << "the environment counts more";
    EXPECT_TRUE(lm_misuse_policy.quiet);
    EXPECT_EQ("loam: LOAM_PURGE_DELAY=x: not a time from 0ms to 3600000ms; "
              "loam_config's 2000ms used\n",
              read({"LOAM_PURGE_DELAY=x"}, "purge_delay=2s"));
    EXPECT_EQ(2000u, lm_purge_policy.delay_ms) << "what a lower source said";
    EXPECT_EQ("", read_program(""));
    EXPECT_EQ("", read_program(" , ,,"));
}

TEST_F(Options, MistakesInTheProgramsString) {
    EXPECT_EQ("loam: loam_config: unknown option loam_purge_delay ignored\n"
              "loam: loam_config: verbose ignored: it has no value\n"
              "loam: loam_config: purge_delay=1 2" +
                  kBadDelay + "loam: loam_config: unknown option  ignored\n",
              read_program("loam_purge_delay=1,verbose,purge_delay=1 2,=3,on_error=ignore"));
    EXPECT_TRUE(lm_misuse_policy.ignore) << "the rest counts";
    std::string line = read_program(("purge_delay=" + std::string(5000, '7')).c_str());
    EXPECT_EQ("loam: loam_config: purge_delay=" + std::string(44, '7') + "..." + kBadDelay, line);
    EXPECT_EQ("loam: loam_config: purge_delay=?" + kBadDelay, read_program("purge_delay=\x7f"));
}

TEST_F(Options, Paths) {
    std::string said = read({"LOAM_METER=a\nb"});
    EXPECT_EQ("loam: LOAM_METER=a?b: not a path of at most 1023 printable characters; "
              "default none used\n",
              said);
    said = read({"LOAM_METER=/" + std::string(1023, 'x')});
    EXPECT_NE(std::string::npos, said.find("...: not a path of at most 1023"));
    EXPECT_EQ("", read({"LOAM_METER="}));
    EXPECT_EQ("", get("meter"));
    if (LOAM_METER < 2) return;
    EXPECT_NE("", read({"LOAM_METER=/" + std::string(1022, 'x')})) << "no system has such a name";
    char path[1024];
    EXPECT_EQ(1023, loam_option_get("meter", path, sizeof path));
    EXPECT_EQ("/" + std::string(1022, 'x'), path);
    EXPECT_EQ(-ENOSPC, loam_option_get("meter", path, 1023));
}

TEST_F(Options, Calls) {
    EXPECT_EQ(0, loam_option_set("purge_delay", "2s"));
    EXPECT_EQ(2000u, lm_purge_policy.delay_ms);
    EXPECT_EQ("2000ms", get("PURGE_DELAY"));
    EXPECT_EQ("2000ms", get("Reset_Delay"));
    EXPECT_EQ(0, loam_option_set("RESET_DELAY", "2000ms"));
    EXPECT_EQ(0, loam_option_set("eager_commit_delay", "0"));
    EXPECT_EQ("0", get("large_os_pages_after"));
    for (const char *value : {"", "x", "3600001", "-1", "300 "})
        EXPECT_EQ(-EINVAL, loam_option_set("purge_delay", value)) << value;
    EXPECT_EQ(2000u, lm_purge_policy.delay_ms) << "nothing has changed";
    EXPECT_EQ(-EINVAL, loam_option_set("purge", "1"));
    EXPECT_EQ(-EINVAL, loam_option_set("LOAM_PURGE_DELAY", "1"));
    EXPECT_EQ(-EINVAL, loam_option_set("", "1"));
    EXPECT_EQ(-EINVAL, loam_option_set(nullptr, "1"));
    EXPECT_EQ(-EINVAL, loam_option_set("purge_delay", nullptr));
    EXPECT_EQ(-EBUSY, loam_option_set("verbose", "1"));
    EXPECT_EQ(LOAM_METER > 1 ? -EBUSY : -ENOTSUP, loam_option_set("meter", "rows"));
    char text[8];
    EXPECT_EQ(-EINVAL, loam_option_get("purge", text, sizeof text));
    EXPECT_EQ(-EINVAL, loam_option_get(nullptr, text, sizeof text));
    EXPECT_EQ(-EINVAL, loam_option_get("purge_delay", nullptr, 8));
    EXPECT_EQ(-ENOSPC, loam_option_get("purge_delay", text, 6));
    EXPECT_EQ(6, loam_option_get("purge_delay", text, 7));
    EXPECT_STREQ("2000ms", text);
}

/* What the program would have, and the user may have otherwise. */
TEST_F(Options, DefaultsOfTheProgram) {
    EXPECT_EQ("", read({"LOAM_PURGE_DELAY=7"}, "on_error=ignore"));
    EXPECT_EQ(0, loam_option_set_default("purge_delay", "2s"));
    EXPECT_EQ("7ms", get("purge_delay")) << "the user's counts";
    EXPECT_EQ(0, loam_option_set_default("on_error", "abort"));
    EXPECT_EQ("abort", get("on_error")) << "the program's own earlier one does not";
    EXPECT_FALSE(lm_misuse_policy.ignore);
    EXPECT_EQ(0, loam_option_set_default("page_reset", "0"));
    EXPECT_TRUE(lm_purge_never);
    EXPECT_STREQ("program", loam_option_source("page_reset"));
    EXPECT_EQ(0, loam_option_set("page_reset", "1"));
    EXPECT_EQ(0, loam_option_set_default("page_reset", "0"));
    EXPECT_FALSE(lm_purge_never) << "nor does it undo a call";
    for (const char *name : {"purge_delay", "page_reset"})
        EXPECT_EQ(-EINVAL, loam_option_set_default(name, "x"));
    EXPECT_EQ(-EINVAL, loam_option_set_default("purge", "1"));
    EXPECT_EQ(-EINVAL, loam_option_set_default(nullptr, "1"));
    EXPECT_EQ(-EBUSY, loam_option_set_default("verbose", "1"));
    EXPECT_EQ(0, loam_option_set("limit_hard", "1MiB"));
    EXPECT_EQ(-EINVAL, loam_option_set_default("limit_soft", "2MiB"));
}

TEST_F(Options, Sources) {
    EXPECT_EQ("", read({"LOAM_PURGE_DELAY=7"}, "on_error=ignore"));
    EXPECT_STREQ("environment", loam_option_source("Reset_Delay"));
    EXPECT_STREQ("program", loam_option_source("on_error"));
    EXPECT_STREQ("default", loam_option_source("limit_hard"));
    EXPECT_EQ(0, loam_option_set("limit_hard", "1G"));
    EXPECT_STREQ("call", loam_option_source("LIMIT_HARD"));
    EXPECT_EQ(nullptr, loam_option_source("LOAM_LIMIT_HARD"));
    EXPECT_EQ(nullptr, loam_option_source(nullptr));
}

TEST_F(Options, Numbers) {
    size_t number = 99;
    EXPECT_EQ(0, loam_option_set_number("limit_hard", 12345));
    EXPECT_EQ(size_t{12345}, lm_limit_policy.hard);
    EXPECT_EQ(0, loam_option_get_number("limit_hard", &number));
    EXPECT_EQ(12345u, number);
    EXPECT_EQ(0, loam_option_set("purge_delay", "2s"));
    EXPECT_EQ(0, loam_option_get_number("reset_delay", &number));
    EXPECT_EQ(2000u, number);
    EXPECT_EQ(0, loam_option_set_number("page_reset", 0));
    EXPECT_TRUE(lm_purge_never);
    EXPECT_EQ(0, loam_option_get_number("page_reset", &number));
    EXPECT_EQ(0u, number);
    EXPECT_EQ(0, loam_option_set_number("eager_commit_delay", 3));
    EXPECT_EQ(size_t{12} << 20, lm_huge_policy.least_bytes);
    EXPECT_EQ(0, loam_option_get_number("eager_commit_delay", &number));
    EXPECT_EQ(3u, number);
    EXPECT_EQ("", read({"LOAM_RESERVE_HUGE_OS_PAGES_AT=3"}));
    EXPECT_EQ(0, loam_option_get_number("reserve_huge_os_pages_at", &number));
    EXPECT_EQ(3u, number) << "the word, not its place";
    read({});
    number = 99;
    EXPECT_EQ(-EINVAL, loam_option_get_number("reserve_huge_os_pages_at", &number));
    EXPECT_EQ(-EINVAL, loam_option_get_number("large_os_pages", &number)) << "auto";
    EXPECT_EQ(-EINVAL, loam_option_get_number("meter", &number));
    EXPECT_EQ(0, loam_option_set("large_os_pages_after", "5"));
    EXPECT_EQ(-EINVAL, loam_option_get_number("eager_commit_delay", &number));
    EXPECT_EQ(-EINVAL, loam_option_get_number("purge", &number));
    EXPECT_EQ(-EINVAL, loam_option_get_number(nullptr, &number));
    EXPECT_EQ(-EINVAL, loam_option_get_number("purge_delay", nullptr));
    EXPECT_EQ(99u, number);
    EXPECT_EQ(-EINVAL, loam_option_set_number("page_reset", 2));
    EXPECT_EQ(-EINVAL, loam_option_set_number("purge_delay", SIZE_MAX));
    EXPECT_EQ(-EINVAL, loam_option_set_number(nullptr, 1));
    EXPECT_EQ(-EBUSY, loam_option_set_number("use_numa_nodes", 1));
}

/* Each word of LOAM_IGNORE is the bit of the mistake that reports call so. */
TEST_F(Options, KindsOfMistakes) {
    for (unsigned mistake = 0; mistake < LM_MISTAKES; mistake++) {
        std::string word = lm_mistake_word(mistake);
        EXPECT_EQ("", read({"LOAM_IGNORE=" + word})) << word;
        EXPECT_EQ(1u << mistake, lm_misuse_policy.tolerated) << word;
        for (unsigned other = 0; other < LM_MISTAKES; other++)
            EXPECT_EQ(other == mistake,
                      lm_wrong_goes_on(LM_WRONG_DAMAGE + (other << LM_MISTAKE_SHIFT)));
        lm_line_t line = {};
        lm_line_add_way_out(&line, mistake << LM_MISTAKE_SHIFT);
        EXPECT_EQ(0u, line.used) << "it goes on";
        read({});
        lm_line_add_way_out(&line, mistake << LM_MISTAKE_SHIFT);
        EXPECT_EQ("; LOAM_IGNORE=" + word + " goes on", std::string(line.text, line.used));
    }
    EXPECT_EQ("", read({"LOAM_IGNORE=Wrong-Size+copy,overflow+copy"}));
    EXPECT_EQ("wrong-size+overflow+copy", get("ignore"));
    EXPECT_EQ(0, loam_option_set("ignore", get("ignore").c_str()));
    EXPECT_EQ("wrong-size+overflow+copy", get("ignore")) << "what it says can be said to it";
    size_t number;
    EXPECT_EQ(-EINVAL, loam_option_get_number("ignore", &number));
    EXPECT_EQ(0, loam_option_set("ignore", "none"));
    EXPECT_EQ(0u, lm_misuse_policy.tolerated);
    EXPECT_EQ("", read_program("ignore=wrong-size+double-free,purge_delay=1s"));
    EXPECT_EQ("double-free+wrong-size", get("ignore"));
    for (std::string text :
         {"", "+", "copy+", "+copy", "copy++overflow", "copy overflow", "0", "all"})
        EXPECT_NE("", read({"LOAM_IGNORE=" + text})) << text;
    EXPECT_EQ(0u, lm_misuse_policy.tolerated);
}

TEST_F(Options, AreListed) {
    std::vector<std::string> names;
    for (size_t i = 0; loam_option_name(i) != nullptr; i++) names.push_back(loam_option_name(i));
    EXPECT_EQ("SHOW_STATS", names.front());
    EXPECT_EQ("METER", names.back());
    EXPECT_EQ(nullptr, loam_option_name(names.size() + 5));
    EXPECT_EQ(nullptr, loam_option_name(SIZE_MAX));
    ASSERT_EQ(0, loam_option_set("purge_delay", "7"));
    read({}, nullptr);
    EXPECT_EQ("300ms", get("purge_delay"));
    ASSERT_EQ(0, loam_option_set("purge_delay", "7"));
    std::string all = stderr_of(loam_options_print);
    size_t at = 0;
    for (const std::string &name : names) {
        EXPECT_EQ(at, all.find("LOAM_" + name + "=", at)) << "a line each, in order";
        EXPECT_NE("error 22", get(name.c_str()));
        at = all.find('\n', at) + 1;
    }
    EXPECT_EQ(all.size(), at);
    EXPECT_NE(std::string::npos, all.find("LOAM_PURGE_DELAY=7ms (call): time until free memory "));
}

TEST_F(Options, VerboseSaysWhatIsNotAsByDefault) {
    const char *build = LOAM_DEBUG ? "debug" : LOAM_SECURE ? "secure" : "release";
    std::string start =
        std::string("loam: version ") + LOAM_VERSION_TEXT + ", " + build + " build\n";
    EXPECT_EQ(start + "loam: LOAM_VERBOSE=1 (environment; default 0)\n", read({"LOAM_VERBOSE=1"}));
    EXPECT_EQ(start + "loam: LOAM_VERBOSE=1 (program; default 0)\n"
                      "loam: LOAM_ON_ERROR=ignore (environment; default abort)\n"
                      "loam: LOAM_PURGE_DELAY=1000ms (program; default 300ms)\n",
              read({"LOAM_ON_ERROR=ignore", "LOAM_PURGE_THREAD=1"}, "verbose=1,purge_delay=1s"));
}

TEST_F(Options, SetByManyThreads) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([t] {
            for (int i = 0; i < 2000; i++) {
                (void)loam_option_set("purge_delay", t % 2 != 0 ? "100" : "200");
                (void)loam_option_set("large_os_pages_after", t % 2 != 0 ? "1MiB" : "2MiB");
                char text[32];
                if (loam_option_get("purge_delay", text, sizeof text) != 5) abort();
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    /* What is said is what is done, whoever came last. */
    EXPECT_EQ(std::to_string(lm_purge_policy.delay_ms) + "ms", get("purge_delay"));
    EXPECT_EQ(std::to_string(lm_huge_policy.least_bytes >> 20) + "MiB",
              get("large_os_pages_after"));
}

} // namespace
