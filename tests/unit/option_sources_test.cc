/* option_sources_test.cc: which source of an option counts, and which source messages name: for
 * each option and each of its other names, over generated sets of sources; limits that contradict
 * each other; no environment; limits as shares of the memory.
 *
 * The trace of each failure has the seed of the generated sources.
 */
#include "stderr_of.h"

#include <gtest/gtest.h>
#include <loam/limits.h>
#include <loam/malloc.h>
#include <loam/options.h>

extern "C" {
#include "api/api.h"
}

#include <algorithm>
#include <cerrno>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using unit::stderr_of;

enum { ANYTIME, START, PROGRAM };
enum { ANY = 1, DEBUG = LOAM_DEBUG, SECURE = LM_SECURE, METER = 0, READING = 1 };

struct Row {
    std::string name;
    int when;
    bool here, bytes;
    size_t least, most;
    std::vector<std::string> words;
    bool set;
};

std::vector<std::string> split(const std::string &words) {
    std::vector<std::string> all;
    for (size_t at = 0; at <= words.size();) {
        size_t end = std::min(words.find('|', at), words.size());
        all.push_back(words.substr(at, end - at));
        at = end + 1;
    }
    return all;
}

/* Paths are left out: they belong to a build of their own (tests/meter). */
std::vector<Row> all_rows() {
    return {
#define SWITCH(name, initial, when, build, sentence, text) \
    {#name, when, build != 0, false, 0, 1, split("0|1"), false},
#define NUMBER(name, unit, initial, least, most, when, build, sentence, text) \
    {#name, when, build != 0, std::string(#unit) == "BYTES", least, most, {}, false},
#define CHOICE(name, initial, words, when, build, sentence, text) \
    {#name, when, build != 0, false, 0, 0, split(words), false},
#define SET(name, words, when, build, sentence, text) \
    {#name, when, build != 0, false, 0, 0, split(words), true},
#define PATH(...)
#define ALIAS(...)
#include "api/options.def"
    };
}

struct Alias {
    std::string name, of;
    size_t factor;
};

std::vector<Alias> all_aliases() {
    return {
#define SWITCH(...)
#define NUMBER(...)
#define CHOICE(...)
#define SET(...)
#define PATH(...)
#define ALIAS(name, of, factor, sentence) {#name, #of, factor},
#include "api/options.def"
    };
}

std::string lower(std::string text) {
    for (char &c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

std::string get(const std::string &name) {
    char text[1100];
    int length = loam_option_get(name.c_str(), text, sizeof text);
    return length < 0 ? "error " + std::to_string(-length) : text;
}

std::string read(std::vector<std::string> entries, const std::string &config) {
    std::vector<char *> environment;
    for (std::string &entry : entries) environment.push_back(&entry[0]);
    environment.push_back(nullptr);
    return stderr_of([&] { lm_options_read(config.c_str(), environment.data()); });
}

class OptionSources : public testing::Test {
  protected:
    void SetUp() override { seed = std::random_device{}(); }
    void TearDown() override {
        lm_options_read(nullptr, nullptr);
        lm_purge_changed();
    }
    std::string trace() const { return "seed " + std::to_string(seed); }
    size_t number(size_t least, size_t most) {
        return std::uniform_int_distribution<size_t>(least, most)(random);
    }

    std::string value(const Row &row, size_t factor = 1) {
        if (row.set) { /* one word, or two */
            std::string one = row.words[number(1, row.words.size() - 1)];
            return number(0, 1) != 0 ? one : one + "+" + row.words[number(1, row.words.size() - 1)];
        }
        if (!row.words.empty()) return row.words[number(0, row.words.size() - 1)];
        return std::to_string(number(row.least, row.most) / factor);
    }

    unsigned seed;
    std::mt19937_64 random{0};
};

/* Which of these has set it, by which name and value. */
struct Given {
    std::string name, value;
};
enum { BY_PROGRAM, BY_SET_DEFAULT, BY_ENVIRONMENT, BY_CALL, SOURCES };
const char *const kSources[] = {"program", "program", "environment", "call"};

TEST_F(OptionSources, TheStrongestOfEachSetCounts) {
    random.seed(seed);
    SCOPED_TRACE(trace());
    std::vector<Alias> aliases = all_aliases();
    size_t tried = 0;
    for (const Row &row : all_rows()) {
        if (!row.here) continue; /* 0 by every source: Options.OfAnotherBuild */
        std::vector<Alias> names = {{row.name, row.name, 1}};
        for (const Alias &alias : aliases)
            if (alias.of == row.name) names.push_back({alias.name, alias.of, alias.factor});
        for (unsigned set = 1; set < 1u << SOURCES; set++) {
            bool calls = (set >> BY_CALL | set >> BY_SET_DEFAULT) & 1;
            if (calls && row.when != ANYTIME) continue;
            if ((set >> BY_ENVIRONMENT & 1) != 0 && row.when == PROGRAM) continue;
            Given given[SOURCES];
            int last = 0;
            for (int source = 0; source < SOURCES; source++) {
                if ((set >> source & 1) == 0) continue;
                const Alias &by = names[number(0, names.size() - 1)];
                given[source] = {by.name, value(row, by.factor)};
                last = source;
            }
            SCOPED_TRACE(row.name + ", sources " + std::to_string(set));
            /* The strongest one alone. */
            read({}, lower(given[last].name) + "=" + given[last].value);
            std::string right = get(row.name);
            std::string config = "show_errors=1";
            if ((set & 1) != 0) config += "," + given[0].name + "=" + given[0].value;
            std::vector<std::string> entries = {"X=1"};
            if ((set >> BY_ENVIRONMENT & 1) != 0)
                entries.push_back("LOAM_" + given[BY_ENVIRONMENT].name + "=" +
                                  given[BY_ENVIRONMENT].value);
            if (row.name == "SHOW_ERRORS") config = config.substr(13 + ((set & 1) != 0));
            std::string said = read(entries, config);
            if (said.compare(0, 14, "loam: version ") != 0) {
                EXPECT_EQ("", said);
            }
            /* Calls in either order: the stronger one counts. */
            bool call_first = number(0, 1) != 0;
            for (int turn = 0; turn < 2; turn++) {
                bool call = (turn == 0) == call_first;
                int source = call ? BY_CALL : BY_SET_DEFAULT;
                if ((set >> source & 1) == 0) continue;
                auto function = call ? loam_option_set : loam_option_set_default;
                EXPECT_EQ(0, function(given[source].name.c_str(), given[source].value.c_str()));
            }
            EXPECT_EQ(right, get(row.name));
            EXPECT_STREQ(kSources[last], loam_option_source(row.name.c_str()));
            tried++;
        }
    }
    EXPECT_GT(tried, 200u);
}

/* A value that is none is as if its source had said nothing; the message names whose value counts.
 * */
TEST_F(OptionSources, ABadValueLeavesTheNextSource) {
    random.seed(seed);
    SCOPED_TRACE(trace());
    for (const Row &row : all_rows()) {
        if (!row.here || row.when == PROGRAM) continue;
        SCOPED_TRACE(row.name);
        std::string good = value(row);
        read({}, row.name + "=" + good);
        std::string right = get(row.name);
        std::string said = read({"LOAM_" + row.name + "=?"}, row.name + "=" + good);
        EXPECT_EQ(right, get(row.name));
        EXPECT_STREQ("program", loam_option_source(row.name.c_str()));
        EXPECT_NE(std::string::npos, said.find("; loam_config's " + right + " used\n")) << said;
        said = read({"LOAM_" + row.name + "=?"}, "");
        EXPECT_NE(std::string::npos, said.find("; default " + get(row.name) + " used\n")) << said;
        said = read({"LOAM_" + row.name + "=" + good}, row.name + "=?");
        EXPECT_NE(std::string::npos, said.find("; default ")) << said;
        EXPECT_EQ(right, get(row.name));
        EXPECT_STREQ("environment", loam_option_source(row.name.c_str()));
    }
}

/* The own name counts though it is bad: an alias beside it is ignored, in either order. */
TEST_F(OptionSources, AnAliasBesideABadValue) {
    for (const Alias &alias : all_aliases()) {
        std::string own = "LOAM_" + alias.of + "=?", other = "LOAM_" + alias.name + "=1";
        for (bool first : {false, true}) {
            std::vector<std::string> entries = {own, other};
            if (first) std::swap(entries[0], entries[1]);
            read({}, alias.of + "=7");
            std::string right = get(alias.of);
            EXPECT_NE("", read(entries, alias.of + "=7"));
            EXPECT_EQ(right, get(alias.of)) << alias.name;
            EXPECT_STREQ("program", loam_option_source(alias.of.c_str()));
        }
    }
}

/* ---- Limits that contradict each other ---- */

/* What each source says of a limit, by strength; absent: nothing. */
using Says = std::map<int, size_t>;

/* Slow and obvious: takes the value of the weaker source away until nothing contradicts. */
void agree(Says soft, Says hard, std::pair<int, size_t> *s, std::pair<int, size_t> *h) {
    soft[-1] = hard[-1] = 0;
    while (true) {
        *s = *soft.rbegin();
        *h = *hard.rbegin();
        if (s->second == 0 || h->second == 0 || s->second <= h->second) return;
        if (s->first > h->first)
            hard.erase(h->first);
        else
            soft.erase(s->first);
    }
}

const char *source_of(int source) { return source < 0 ? "default" : kSources[source]; }

TEST_F(OptionSources, OfLimitsThatContradictTheStrongerCounts) {
    random.seed(seed);
    SCOPED_TRACE(trace());
    const size_t mib = size_t{1} << 20;
    for (int round = 0; round < 600; round++) {
        Says soft, hard;
        std::string config;
        std::vector<std::string> entries;
        auto size = [&] { return number(0, 5) * mib * 16384; };
        auto text = [](size_t bytes) { return std::to_string(bytes >> 20) + "MiB"; };
        for (bool is_hard : {false, true}) {
            Says &says = is_hard ? hard : soft;
            const char *name = is_hard ? "limit_hard" : "limit_soft";
            if (number(0, 1) != 0) {
                says[BY_PROGRAM] = size();
                config += std::string(name) + "=" + text(says[BY_PROGRAM]) + ",";
            }
            if (number(0, 1) != 0) {
                says[BY_ENVIRONMENT] = size();
                entries.push_back(std::string(is_hard ? "LOAM_LIMIT_HARD=" : "LOAM_LIMIT_SOFT=") +
                                  text(says[BY_ENVIRONMENT]));
            }
        }
        std::string said = read(entries, config), trace = config;
        for (const std::string &entry : entries) trace += " " + entry;
        std::pair<int, size_t> s, h;
        agree(soft, hard, &s, &h);
        /* One line for each that is ignored, which names who says so. */
        size_t lines = 0;
        for (bool is_hard : {false, true}) {
            for (auto [source, bytes] : is_hard ? hard : soft) {
                if (source <= (is_hard ? h : s).first) continue;
                lines++;
                std::string name =
                    source == BY_PROGRAM
                        ? (is_hard ? "loam_config: limit_hard" : "loam_config: limit_soft")
                        : (is_hard ? "LOAM_LIMIT_HARD" : "LOAM_LIMIT_SOFT");
                EXPECT_NE(std::string::npos, said.find("loam: " + name + "=")) << trace << said;
                bool by_program = (is_hard ? s : h).first == BY_PROGRAM;
                EXPECT_NE(std::string::npos, said.find(by_program ? " of loam_config\n"
                                                       : is_hard  ? "below LOAM_LIMIT_SOFT="
                                                                  : "above LOAM_LIMIT_HARD="))
                    << trace << said;
            }
        }
        EXPECT_EQ(lines, static_cast<size_t>(std::count(said.begin(), said.end(), '\n'))) << said;
        for (int call = 0; call < 4; call++) {
            agree(soft, hard, &s, &h);
            SCOPED_TRACE(trace);
            ASSERT_EQ(s.second, lm_limit_policy.soft == SIZE_MAX ? 0 : lm_limit_policy.soft);
            ASSERT_EQ(h.second, lm_limit_policy.hard == SIZE_MAX ? 0 : lm_limit_policy.hard);
            ASSERT_STREQ(source_of(s.first), loam_option_source("limit_soft"));
            ASSERT_STREQ(source_of(h.first), loam_option_source("limit_hard"));
            bool is_hard = number(0, 1) != 0, weak = number(0, 2) == 0;
            int source = weak ? BY_SET_DEFAULT : BY_CALL;
            size_t bytes = size();
            Says &says = is_hard ? hard : soft, &other = is_hard ? soft : hard;
            const char *name = is_hard ? "limit_hard" : "limit_soft";
            int result = 0;
            std::string line = stderr_of([&] {
                auto function = weak ? loam_option_set_default : loam_option_set;
                result = function(name, text(bytes).c_str());
            });
            trace += std::string(weak ? " default:" : " call:") + name + "=" + text(bytes);
            std::pair<int, size_t> strongest{-1, 0}, by{-1, 0};
            if (!other.empty()) strongest = *other.rbegin();
            if (!says.empty()) by = (is_hard ? h : s);
            if (by.first > source) {
                EXPECT_EQ(0, result) << "as it is";
                continue;
            }
            size_t a = is_hard ? strongest.second : bytes, b = is_hard ? bytes : strongest.second;
            bool against = a != 0 && b != 0 && a > b;
            if (against && (strongest.first >= source || (weak && strongest.first == BY_PROGRAM))) {
                EXPECT_EQ(-EINVAL, result) << trace;
                EXPECT_EQ("", line);
                continue;
            }
            EXPECT_EQ(0, result) << trace;
            bool users = (is_hard ? s : h).first == BY_ENVIRONMENT;
            says[source] = bytes;
            agree(soft, hard, &s, &h);
            users = users && (is_hard ? s : h).first != BY_ENVIRONMENT;
            EXPECT_EQ(users, !line.empty())
                << "what the user has said is not put aside in silence: " << line;
        }
    }
}

/* Both at once, by any other call's values. */
TEST_F(OptionSources, LimitsByTheirOwnCall) {
    EXPECT_EQ("", read({"LOAM_LIMIT_SOFT=1GiB"}, ""));
    EXPECT_EQ(0, loam_limit_set(0, size_t{1} << 29));
    EXPECT_EQ("0", get("limit_soft"));
    EXPECT_STREQ("call", loam_option_source("limit_soft"));
    EXPECT_EQ("512MiB", get("limit_hard"));
    EXPECT_EQ(0, loam_limit_set(0, 0));
}

/* Whoever comes last: what is said is what is done, and nothing contradicts. */
TEST_F(OptionSources, LimitsSetByManyThreads) {
    unit::stderr_of([&] {
        std::string entry = "LOAM_LIMIT_SOFT=3MiB";
        char *environment[] = {&entry[0], nullptr};
        lm_options_read("limit_hard=2MiB", environment);
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 4; t++) {
            threads.emplace_back([t] {
                for (unsigned i = 0; i < 2000; i++) {
                    std::string bytes = std::to_string(1 + (i * 7 + t * 3) % 5) + "GiB";
                    if (i % 3 == t % 3)
                        (void)loam_limit_set(size_t{t} << 30, size_t{5} << 30);
                    else
                        (void)loam_option_set(t % 2 != 0 ? "limit_soft" : "limit_hard",
                                              bytes.c_str());
                }
            });
        }
        for (std::thread &thread : threads) thread.join();
    });
    size_t soft = 99, hard = 99;
    EXPECT_EQ(0, loam_option_get_number("limit_soft", &soft));
    EXPECT_EQ(0, loam_option_get_number("limit_hard", &hard));
    EXPECT_EQ(soft, lm_limit_policy.soft == SIZE_MAX ? 0 : lm_limit_policy.soft);
    EXPECT_EQ(hard, lm_limit_policy.hard == SIZE_MAX ? 0 : lm_limit_policy.hard);
    EXPECT_TRUE(soft == 0 || hard == 0 || soft <= hard) << soft << " " << hard;
    EXPECT_EQ(0, loam_limit_set(0, 0));
}

/* ---- No environment ---- */

TEST_F(OptionSources, TheProgramMayTurnTheEnvironmentOff) {
    random.seed(seed);
    SCOPED_TRACE(trace());
    std::vector<std::string> entries = {"LOAM_UNKNOWN=1", "LOAM_ENVIRONMENT=1"};
    for (const Row &row : all_rows()) entries.push_back("LOAM_" + row.name + "=" + value(row));
    for (const char *off : {"0", "no", "off", "False"}) {
        for (const char *before : {"", "purge_delay=3s,", " , "}) {
            std::string config = std::string(before) + "Environment=" + off + ",show_errors=0";
            EXPECT_EQ("", read(entries, config)) << config;
            for (const Row &row : all_rows()) {
                bool set = row.name == "ENVIRONMENT" || row.name == "SHOW_ERRORS" ||
                           (before[0] == 'p' && row.name == "PURGE_DELAY");
                EXPECT_STREQ(set ? "program" : "default", loam_option_source(row.name.c_str()));
            }
        }
    }
    EXPECT_EQ("loam: LOAM_ENVIRONMENT ignored: it counts in the program's string alone\n",
              read({"LOAM_ENVIRONMENT=0", "LOAM_PURGE_DELAY=5"}, "environment=1"));
    EXPECT_EQ("5ms", get("purge_delay"));
    EXPECT_EQ(-EBUSY, loam_option_set("environment", "0"));
    EXPECT_EQ(-EBUSY, loam_option_set_default("environment", "0"));
}

/* ---- Messages name their source ---- */

TEST_F(OptionSources, MessagesOfOtherPartsNameTheSource) {
    EXPECT_EQ("LOAM_PURGE_DELAY", std::string(lm_option_called("PURGE_DELAY").text));
    read({"LOAM_RESERVE_OS_MEMORY=1MiB"}, "reserve_large_os_pages=1,purge_delay=5");
    EXPECT_EQ("loam_config: purge_delay", std::string(lm_option_called("PURGE_DELAY").text));
    EXPECT_EQ("loam_config: reserve_large_os_pages",
              std::string(lm_option_called("RESERVE_LARGE_OS_PAGES").text));
    EXPECT_EQ("LOAM_RESERVE_OS_MEMORY", std::string(lm_option_called("RESERVE_OS_MEMORY").text));
    EXPECT_EQ(0, loam_option_set_default("on_error", "ignore"));
    EXPECT_EQ("loam_option_set_default: on_error", std::string(lm_option_called("ON_ERROR").text));
    EXPECT_EQ(0, loam_option_set("on_error", "abort"));
    EXPECT_EQ("loam_option_set: on_error", std::string(lm_option_called("ON_ERROR").text));
}

/* ---- Shares of the memory; of control groups: cgroup_test.cc ---- */

TEST_F(OptionSources, SizesMayBeShares) {
    size_t bytes = lm_os_memory_bytes();
    ASSERT_GT(bytes, size_t{100} << 16);
    for (const Row &row : all_rows()) {
        if (!row.bytes) continue;
        SCOPED_TRACE(row.name);
        for (unsigned percent : {1u, 7u, 33u, 50u, 80u, 99u, 100u}) {
            size_t right = bytes / 100 * percent + bytes % 100 * percent / 100, now = 0;
            right -= right % LM_SLICE_BYTES;
            if (right > row.most) continue; /* a machine of more than 1 TiB */
            std::string text = std::to_string(percent) + "%";
            EXPECT_EQ("", read({"LOAM_" + row.name + "=" + text}, "purge_thread=0"));
            EXPECT_EQ(0, loam_option_get_number(row.name.c_str(), &now));
            EXPECT_EQ(right, now) << text;
            EXPECT_EQ("", read({}, row.name + "= " + text + "RAM "));
            EXPECT_EQ(0, loam_option_get_number(row.name.c_str(), &now));
            EXPECT_EQ(right, now) << text;
        }
        read({}, "");
        for (std::string text : {"0%", "101%", "%", "1.5%", "-5%", "5 %", "50%x", "50%cgroupx",
                                 "50%%", "cgroup", "%cgroup", "4294967297%", "50%MiB"}) {
            std::string said = read({"LOAM_" + row.name + "=" + text}, "");
            EXPECT_EQ(0u, said.find("loam: LOAM_" + row.name + "=" + text + ": not a s")) << said;
            EXPECT_STREQ("default", loam_option_source(row.name.c_str()));
        }
    }
    for (const char *name : {"purge_delay", "guard_sampling"})
        EXPECT_EQ(-EINVAL, loam_option_set(name, "50%"));
    EXPECT_EQ(0, loam_option_set("limit_hard", "50%"));
    std::string now = get("limit_hard");
    EXPECT_EQ(0, loam_option_set("limit_hard", now.c_str()));
    EXPECT_EQ(now, get("limit_hard"));
    EXPECT_EQ(-EINVAL, loam_option_set("limit_soft", "60%"));
    loam_worker_allow(0); /* the program may have shut itself in */
    EXPECT_EQ(-ENODATA, loam_option_set("limit_hard", "40%"));
    EXPECT_EQ(-ENODATA, loam_option_set_default("limit_hard", "40%cgroup"));
    loam_worker_allow(1);
    EXPECT_EQ(now, get("limit_hard"));
    EXPECT_EQ(0, loam_option_set("limit_soft", "50%"));
}

} // namespace
