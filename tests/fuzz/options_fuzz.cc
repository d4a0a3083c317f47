/* options_fuzz.cc: bytes as an environment, read by lm_options_read.
 *
 *   entry \0 entry \0 ...     run.py gives libFuzzer the options' names and words, from src/api/options.def
 *
 * The oracle: it comes back; each line that it says is at most 255 bytes long, printable and loam's; what is complained
 * of has the default, as if neither it nor what stood before it under the same name were there; and the same entries
 * read twice say and set the same. What is set is seen in the policies that options.c fills: others are only said.
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

/* What is set, as far as anybody can see. */
struct Settings {
    lm_misuse_policy_t misuse;
    lm_purge_policy_t purge;
};

bool same(const Settings &a, const Settings &b) {
    return a.misuse.quiet == b.misuse.quiet && a.misuse.ignore == b.misuse.ignore &&
           a.purge.delay_ms == b.purge.delay_ms && a.purge.worker == b.purge.worker;
}

Settings read(std::vector<std::string> entries, std::string *said) {
    std::vector<char *> environment;
    for (std::string &entry : entries) environment.push_back(&entry[0]);
    environment.push_back(nullptr);
    *said = unit::stderr_of([&] { lm_options_read(nullptr, environment.data()); });
    return {lm_misuse_policy, lm_purge_policy};
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
    return said.find("default") != std::string::npos || said.find("unknown") != std::string::npos;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    std::vector<std::string> entries = entries_of(bytes, count);
    std::string said, again, good_said;
    Settings settings = read(entries, &said);
    expect_lines(said);
    if (!same(settings, read(entries, &again)) || said != again) fuzz::expect("not the same twice");

    /* The first of a name counts, good or bad: what is said of the others is not about their values. */
    bool twice = said.find("more than once") != std::string::npos ||
                 said.find("is given as well") != std::string::npos;
    std::vector<std::string> good;
    for (const std::string &entry : entries) {
        if (!is_bad(entry)) good.push_back(entry);
    }
    Settings without = read(good, &good_said);
    if (!twice && !same(settings, without))
        fuzz::expect("a bad value is not as if it were not there: " + said);

    Settings bare = read({}, &said);
    lm_options_read(nullptr, nullptr);
    if (!same(bare, {lm_misuse_policy, lm_purge_policy}))
        fuzz::expect("an empty environment is none");
    return 0;
}
