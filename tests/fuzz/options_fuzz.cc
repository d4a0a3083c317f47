/* options_fuzz.cc: bytes as an environment and a program's string, read by lm_options_read, and as
 * calls after that.
 *
 *   entry \0 entry \0 ...     run.py gives libFuzzer the options' names and words, from
 *                             src/api/options.def
 *   @name=value, ...          the program's string, the first that there is
 *   !name=value               loam_option_set
 *
 * The oracle: it comes back; each line that it says is at most 383 bytes long, printable and
 * loam's; what is complained of has the default, as if neither it nor what stood before it under
 * the same name were there; and the same entries read twice say and set the same. What is set is
 * what loam_option_get says of each option, and the policies that options.c fills have to be that
 * and nothing else.
 *
 * With a program's string, what the environment sets is as if there were none, and all else as if
 * there were no environment; with environment=0 in it, all is as if there were none. Of the two
 * limits either may give way to the other. A call says nothing, but of a limit that gives way;
 * refused, it changes nothing; taken, it changes that option alone, or a limit and the other one,
 * to what the environment would have made of the same text, and takes what loam_option_get then
 * gives by the same name, which changes nothing. What it refuses, the environment complains of.
 *
 * It cannot see whether a value means what it says, but for these two ways being of one opinion:
 * unit/options_test.cc.
 */
#include "fuzz.h"

#include "unit/stderr_of.h"

extern "C" {
#include "api/api.h"
}

#include <algorithm>
#include <cerrno>
#include <vector>

namespace {

struct Input {
    std::vector<std::string> entries, calls;
    std::string config;
};

std::string upper(std::string text) {
    for (char &c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return text;
}

Input input_of(const uint8_t *bytes, size_t count) {
    Input input;
    for (size_t at = 0; at < count && input.entries.size() + input.calls.size() < 16; at++) {
        std::string entry;
        while (at < count && bytes[at] != 0) entry += static_cast<char>(bytes[at++]);
        /* A file of the fuzzer's choice is not to be written. */
        if (upper(entry).find("METER") != std::string::npos) continue;
        if (entry[0] == '@' && input.config.empty())
            input.config = entry.substr(1);
        else if (entry[0] == '!')
            input.calls.push_back(entry.substr(1));
        else
            input.entries.push_back(entry);
    }
    return input;
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
    if ((value_of("IGNORE") == "none") != (lm_misuse_policy.tolerated == 0))
        fuzz::expect("another policy than IGNORE");
}

Settings read(std::vector<std::string> entries, std::string *said, const char *config = nullptr) {
    std::vector<char *> environment;
    for (std::string &entry : entries) environment.push_back(&entry[0]);
    environment.push_back(nullptr);
    *said = unit::stderr_of([&] { lm_options_read(config, environment.data()); });
    expect_policies();
    return all_settings();
}

void expect_lines(const std::string &said) {
    size_t start = 0;
    for (size_t i = 0; i < said.size(); i++) {
        if (said[i] == '\n') {
            if (i - start + 1 > 383) fuzz::expect("a line of more than 383 bytes: " + said);
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

bool is_limit(const std::string &name) { return name == "LIMIT_SOFT" || name == "LIMIT_HARD"; }

void try_program(const Input &input) {
    const char *config = input.config.c_str();
    std::string said, again;
    Settings bare = read({}, &said), environment = read(input.entries, &said);
    Settings program = read({}, &said, config), both = read(input.entries, &said, config);
    expect_lines(said);
    if (both != read(input.entries, &again, config) || said != again)
        fuzz::expect("not the same twice, with a program's string");
    if (value_of("ENVIRONMENT") == "0") {
        if (both != program) fuzz::expect("the environment counts, which the program forbids");
        return;
    }
    for (size_t i = 0; i < bare.size(); i++) {
        std::string name = loam_option_name(i);
        if (is_limit(name)) continue; /* gives way to the other limit */
        bool set = environment[i] != bare[i];
        if (both[i] != environment[i] && (set || both[i] != program[i]))
            fuzz::expect(name + " is " + both[i] + ": by the environment " + environment[i] +
                         ", by the program's string " + program[i]);
    }
}

struct Call {
    std::string name, value, now; /* now: by its name, iff it was taken */
    int result;
};

int set(const Call &call) {
    int result = 0;
    std::string said =
        unit::stderr_of([&] { result = loam_option_set(call.name.c_str(), call.value.c_str()); });
    bool gives_way = is_limit(upper(call.name)) && said.find(" ignored: it is ") != said.npos;
    if (!said.empty() && !gives_way) fuzz::expect("a call has said " + said);
    expect_policies();
    return result;
}

void make_call(Call *call) {
    Settings before = all_settings();
    call->result = set(*call);
    Settings after = all_settings();
    if (call->result != 0) {
        if (before != after) fuzz::expect("refused, and set: " + call->name + "=" + call->value);
        return;
    }
    call->now = value_of(call->name.c_str());
    size_t changed = 0;
    for (size_t i = 0; i < before.size(); i++) changed += before[i] != after[i];
    if (changed > (is_limit(upper(call->name)) ? 2 : 1))
        fuzz::expect(call->name + "=" + call->value + " has set others");
    if (set({call->name, call->now, "", 0}) != 0 || all_settings() != after)
        fuzz::expect(call->name + "=" + call->now + " is got, and is not what it sets");
}

/* What the environment makes of the same. */
void compare(const Call &call) {
    std::string name = upper(call.name);
    if (name == "ENVIRONMENT") return; /* not of the environment */
    std::string entry = "LOAM_" + name + "=" + call.value;
    bool bad = is_bad(entry);
    if (call.result == 0) {
        if (bad || value_of(call.name.c_str()) != call.now)
            fuzz::expect(call.name + "=" + call.value + " is " + call.now + " by a call only");
    } else if (call.result == -EINVAL) {
        bool limit = name.rfind("LIMIT_", 0) == 0; /* by the other's value, perhaps */
        if (!bad && !limit) fuzz::expect(call.name + "=" + call.value + " is nothing by a call");
    } else if (call.result == -ENOTSUP || call.result == -EBUSY) {
        if (bad) fuzz::expect(call.name + "=" + call.value + " is no value, and not that is said");
    } else {
        fuzz::expect(call.name + "=" + call.value + " gives " + std::to_string(call.result));
    }
}

void try_calls(const Input &input) {
    std::string said;
    (void)read(input.entries, &said, input.config.c_str());
    std::vector<Call> calls;
    for (const std::string &text : input.calls) {
        size_t equals = text.find('=');
        if (equals == std::string::npos) continue;
        calls.push_back({text.substr(0, equals), text.substr(equals + 1), "", 0});
        make_call(&calls.back());
    }
    for (const Call &call : calls) compare(call);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    Input input = input_of(bytes, count);
    const std::vector<std::string> &entries = input.entries;
    std::string said, again, good_said;
    Settings settings = read(entries, &said);
    expect_lines(said);
    if (settings != read(entries, &again) || said != again) fuzz::expect("not the same twice");

    /* The first of a name counts, good or bad: what is said of the others is not about their
     * values. */
    bool twice = said.find("more than once") != std::string::npos ||
                 said.find("is given as well") != std::string::npos;
    std::vector<std::string> good;
    for (const std::string &entry : entries) {
        if (!is_bad(entry)) good.push_back(entry);
    }
    Settings without = read(good, &good_said);
    if (!twice && settings != without)
        fuzz::expect("a bad value is not as if it were not there: " + said);
    if (!input.config.empty()) try_program(input);
    if (!input.calls.empty()) try_calls(input);

    Settings bare = read({}, &said);
    lm_options_read(nullptr, nullptr);
    if (bare != all_settings()) fuzz::expect("an empty environment is none");
    return 0;
}
