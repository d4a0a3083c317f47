/* options_fuzz.cc: bytes as an environment, read by lm_options_read.
 *
 *   entry \0 entry \0 ...     run.py gives libFuzzer the options' names and words, from src/api/options.def
 *
 * The oracle: it comes back; each line that it says is at most 255 bytes long, printable and loam's; what is complained
 * of has the default, as if neither it nor what stood before it under the same name were there; and the same entries
 * read twice say and set the same. What is set is what loam_option_get says of each option, and the policies that
 * options.c fills have to be that and nothing else.
 */
#include "fuzz.h"

#include "unit/stderr_of.h"

extern "C" {
#include "api/api.h"
}

#include <algorithm>
#include <vector>

namespace {

std::vector<std::string> entries_of(const uint8_t *bytes, size_t count) {
    std::vector<std::string> entries;
    for (size_t at = 0; at < count && entries.size() < 16; at++) {
        std::string entry;
        while (at < count && bytes[at] != 0) entry += static_cast<char>(bytes[at++]);
        /* A file of the fuzzer's choice is not to be written. */
        if (entry.rfind("LOAM_METER=", 0) == 0) continue;
        entries.push_back(entry);
    }
    return entries;
}

/* The value of each option, in the table's order. */
using Settings = std::vector<std::string>;

std::string value_of(const char *name) {
    char value[1100];
    if (loam_option_get(name, value, sizeof value) < 0)
        fuzz::expect(std::string("no value: ") + name);
    return value;
}

Settings all_settings() {
    Settings all;
    for (size_t i = 0; const char *name = loam_option_name(i); i++) all.push_back(value_of(name));
    return all;
}

/* In the option's least unit; 0: none, as in a policy SIZE_MAX. */
size_t number_of(const char *name) {
    std::string value = value_of(name);
    size_t digits = value.find_first_not_of("0123456789"), number = std::stoull(value);
    std::string unit = digits == std::string::npos ? "" : value.substr(digits);
    for (const char *larger : {"KiB", "MiB", "GiB", "TiB"}) {
        if (unit.empty() || unit == "ms") break;
        number <<= 10;
        if (unit == larger) break;
    }
    return number;
}

void expect_policy(const char *name, size_t policy) {
    size_t number = number_of(name);
    if (policy != number) {
        fuzz::expect(std::string(name) + " is " + std::to_string(number) + ", and its policy " +
                     std::to_string(policy));
    }
}

void expect_policies() {
    auto limit = [](size_t bytes) { return bytes == SIZE_MAX ? 0 : bytes; };
    expect_policy("SHOW_ERRORS", !lm_misuse_policy.quiet);
    expect_policy("PAGE_RESET", !lm_purge_never);
    expect_policy("PURGE_DELAY", lm_purge_policy.delay_ms);
    expect_policy("PURGE_THREAD", lm_purge_policy.worker);
    expect_policy("LARGE_OS_PAGES_AFTER", lm_huge_policy.least_bytes);
    expect_policy("LIMIT_SOFT", limit(lm_limit_policy.soft));
    expect_policy("LIMIT_HARD", limit(lm_limit_policy.hard));
    expect_policy("USE_NUMA_NODES", lm_nodes_most);
    expect_policy("GUARD_SAMPLING", lm_sampling.rate);
    expect_policy("GUARD_SAMPLING_EXACT", lm_sampling.exact);
    expect_policy("GUARD_SAMPLING_SLOTS", lm_sampling.slots);
    if (value_of("ON_ERROR") != (lm_misuse_policy.ignore ? "ignore" : "abort"))
        fuzz::expect("another policy than ON_ERROR");
}

Settings read(std::vector<std::string> entries, std::string *said) {
    std::vector<char *> environment;
    for (std::string &entry : entries) environment.push_back(&entry[0]);
    environment.push_back(nullptr);
    *said = unit::stderr_of([&] { lm_options_read(nullptr, environment.data()); });
    expect_policies();
    return all_settings();
}

void expect_lines(const std::string &said) {
    size_t start = 0;
    for (size_t i = 0; i < said.size(); i++) {
        if (said[i] == '\n') {
            if (i - start + 1 > 255) fuzz::expect("a line of more than 255 bytes: " + said);
            if (said.compare(start, 6, "loam: ") != 0) fuzz::expect("whose line? " + said);
            start = i + 1;
        } else if (said[i] < ' ' || said[i] > '~') {
            fuzz::expect("not printable: byte " +
                         std::to_string(static_cast<unsigned char>(said[i])));
        }
    }
    if (start != said.size()) fuzz::expect("a line without end: " + said);
}

/* Whether an entry alone is complained of. */
bool is_bad(const std::string &entry) {
    std::string said;
    (void)read({entry}, &said);
    return said.find(" used\n") != std::string::npos ||
           said.find("unknown option") != std::string::npos;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    std::vector<std::string> entries = entries_of(bytes, count);
    std::string said, again, good_said;
    Settings settings = read(entries, &said);
    expect_lines(said);
    if (settings != read(entries, &again) || said != again) fuzz::expect("not the same twice");

    /* The first of a name counts, good or bad: what is said of the others is not about their values. */
    bool twice = said.find("more than once") != std::string::npos ||
                 said.find("is given as well") != std::string::npos;
    std::vector<std::string> good;
    for (const std::string &entry : entries) {
        if (!is_bad(entry)) good.push_back(entry);
    }
    Settings without = read(good, &good_said);
    if (!twice && settings != without)
        fuzz::expect("a bad value is not as if it were not there: " + said);

    Settings bare = read({}, &said);
    lm_options_read(nullptr, nullptr);
    if (bare != all_settings()) fuzz::expect("an empty environment is none");
    return 0;
}
