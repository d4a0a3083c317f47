// matrix_test.cc: misuses by the thousand: {mistake x allocator x size x distance x time}, each in
// an allocator of its own, and how many of them a checked allocator reports. The words are
// mistakes_test.cc's business.
//
// A write is one byte, at so many bytes before an object, behind its end, or in it after it has
// ended. It must be reported by the time that the row names (when the object is freed, when check
// looks, when others were allocated, when all objects ended together), or at the latest when the
// allocator ends: not all of them use memory again at once. tests/contract/rows.h has the
// allocators; docs/misuse.md has the rates, which rates.py beside this file computes.
#include "rows.h"

#include "unit/stderr_of.h"

#include <cmath>
#include <functional>

namespace {

using namespace contract;
using unit::stderr_of;

enum class Time { Free, Check, Alloc, Reset, End };
const char *name_of(Time time) {
    static const char *const names[] = {"free", "check", "alloc", "reset", "end"};
    return names[static_cast<int>(time)];
}

void poke(void *p, ptrdiff_t offset) {
    char *at = static_cast<char *>(p) + offset;
    lm_tool_show(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(at) & ~uintptr_t{7}), 8);
    *static_cast<volatile char *>(at) = 0x41;
}

/* When a mistake was reported: by the time that the row names, or later, by the allocator's end. */
enum class Said { Never, Later, InTime };

struct Count {
    size_t made = 0, in_time = 0, reported = 0;
    std::string missed; /* the first few */
    void add(Said said, const std::string &what) {
        made++;
        in_time += said == Said::InTime;
        reported += said != Said::Never;
        if (said == Said::Never && missed.size() < 40000) missed += "  " + what + "\n";
    }
};

/* Whether a report is more than a list of the objects that were alive at the end. */
bool tells(const std::string &text) {
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
        end = text.find('\n', at);
        if (end == std::string::npos) end = text.size();
        if (text.substr(at, end - at).find(": leak of ") == std::string::npos) return true;
    }
    return false;
}

std::string text_of(const char *mistake, size_t bytes, ptrdiff_t distance, Time time) {
    return std::string(mistake) + " of " + std::to_string(bytes) + " bytes at " +
           std::to_string(distance) + ", told by " + name_of(time);
}

/* Lets time pass. The object at p may be alive or not. */
void pass(Set &set, Time time, void *p, size_t bytes, bool alive) {
    switch (time) {
    case Time::Free:
        if (alive) set.a->free(p, bytes);
        break;
    case Time::Check: (void)set.a->check(); break;
    case Time::Alloc:
        for (int i = 0; i < 8; i++) (void)set.a->alloc(bytes);
        break;
    case Time::Reset: set.a->reset(); break;
    case Time::End: set.a.reset(); break;
    }
}

class Matrix : public PerRow {
  protected:
    static std::vector<size_t> sizes() {
        if (!can(kAnySize)) return {kind().bytes};
        return {1, 8, 16, 20, 40, 100, 500, 1000, 2000, 4000};
    }
    /* A new allocator with an object between two others; code makes the mistake, and is watched. */
    template <typename Code> static Said said(size_t bytes, Code code) {
        Set set(GetParam(), "box");
        if (set.a == nullptr) return Said::Never;
        void *before = set.a->alloc(bytes), *p = set.a->alloc(bytes), *after = set.a->alloc(bytes);
        EXPECT_TRUE(before && p && after) << bytes;
        if (!before || !p || !after) return Said::Never;
        lm_misuse_policy.ignore = true;
        std::string text = stderr_of([&] { code(set, p, after); });
        std::string at_end = stderr_of([&] { set.a.reset(); });
        lm_misuse_policy.ignore = false;
        return tells(text) ? Said::InTime : tells(at_end) ? Said::Later : Said::Never;
    }
    static bool has(Time time) { return time != Time::Reset || can(kReset); }
};
INSTANTIATE(Matrix, [](const Row &row) {
    return row.mode == Mode::Check &&
           (row.source == SourceKind::Pages || row.source == SourceKind::Heap ||
            row.source == SourceKind::Buffer);
});

/* 95% of the whole matrix is the promise; here, 95% of the misuses of each allocator. */
TEST_P(Matrix, IsReported) {
    if (lm_tool_watches()) GTEST_SKIP() << "the tool reports it first";
    Count count;
    for (size_t bytes : sizes()) {
        auto end = static_cast<ptrdiff_t>(bytes);
        for (Time time : {Time::Free, Time::Check, Time::Reset, Time::End}) {
            if (!has(time)) continue;
            for (ptrdiff_t distance : {0, 1, 3, 7, 8, 11})
                count.add(said(bytes,
                               [&](Set &set, void *p, void *) {
                                   poke(p, end + distance);
                                   pass(set, time, p, bytes, true);
                               }),
                          text_of("overflow", bytes, distance, time));
            for (ptrdiff_t distance : {1, 2, 4, 8, 16})
                count.add(said(bytes,
                               [&](Set &set, void *p, void *) {
                                   poke(p, -distance);
                                   pass(set, time, p, bytes, true);
                               }),
                          text_of("underflow", bytes, -distance, time));
        }
        for (Time time : {Time::Check, Time::Alloc, Time::Reset, Time::End}) {
            if (!has(time)) continue;
            for (ptrdiff_t at : {ptrdiff_t{0}, ptrdiff_t{7}, end / 2, end - 1}) {
                if (at < 0 || at >= end) continue;
                count.add(said(bytes,
                               [&](Set &set, void *p, void *) {
                                   set.a->free(p, bytes);
                                   poke(p, at);
                                   pass(set, time, p, bytes, false);
                               }),
                          text_of("write after free", bytes, at, time));
                count.add(said(bytes,
                               [&](Set &set, void *, void *last) {
                                   set.a->free(last, bytes);
                                   poke(last, at);
                                   pass(set, time, last, bytes, false);
                               }),
                          text_of("write after the last one's free", bytes, at, time));
                if (!can(kReset)) continue;
                count.add(said(bytes,
                               [&](Set &set, void *p, void *) {
                                   set.a->reset();
                                   poke(p, at);
                                   pass(set, time, p, bytes, false);
                               }),
                          text_of("write after reset", bytes, at, time));
            }
        }
        count.add(said(bytes,
                       [&](Set &set, void *p, void *) {
                           set.a->free(p, bytes);
                           set.a->free(p, bytes);
                       }),
                  text_of("double free", bytes, 0, Time::Free));
        for (ptrdiff_t inside : {1, 8, 16}) {
            if (inside >= end) continue;
            count.add(
                said(bytes, [&](Set &set, void *p,
                                void *) { set.a->free(static_cast<char *>(p) + inside, bytes); }),
                text_of("free of the inside", bytes, inside, Time::Free));
        }
        if (can(kReset))
            count.add(said(bytes,
                           [&](Set &set, void *p, void *) {
                               set.a->reset();
                               set.a->free(p, bytes);
                           }),
                      text_of("free after reset", bytes, 0, Time::Free));
        if (can(kSized))
            count.add(said(bytes, [&](Set &set, void *p, void *) { set.a->free(p, bytes + 1); }),
                      text_of("free with a wrong size", bytes, 1, Time::Free));
        if (can(kRealloc))
            count.add(said(bytes,
                           [&](Set &set, void *p, void *) {
                               set.a->free(p, bytes);
                               (void)set.a->realloc(p, bytes, bytes + 1);
                           }),
                      text_of("realloc after free", bytes, 0, Time::Free));
    }
    printf("[  MATRIX  ] %s: %zu of %zu misuses reported, %zu of them in time\n",
           row_name(GetParam()).c_str(), count.reported, count.made, count.in_time);
    RecordProperty("made", static_cast<int>(count.made));
    RecordProperty("reported", static_cast<int>(count.reported));
    EXPECT_GE(static_cast<double>(count.reported), .95 * static_cast<double>(count.made))
        << "missed:\n"
        << count.missed;
}

/* Whether what is said above is said because of the mistake: the same programs without one say
 * nothing. */
TEST_P(Matrix, SaysNothingWithoutAMistake) {
    for (size_t bytes : sizes()) {
        for (Time time : {Time::Free, Time::Check, Time::Alloc, Time::Reset, Time::End}) {
            if (!has(time)) continue;
            EXPECT_EQ(Said::Never, said(bytes,
                                        [&](Set &set, void *p, void *last) {
                                            memset(p, 0x41, bytes);
                                            memset(last, 0x42, bytes);
                                            pass(set, time, p, bytes, true);
                                        }))
                << text_of("nothing", bytes, 0, time);
            EXPECT_EQ(Said::Never, said(bytes,
                                        [&](Set &set, void *p, void *last) {
                                            set.a->free(last, bytes);
                                            set.a->free(p, bytes);
                                            set.a->reset();
                                            for (int i = 0; i < 5; i++) {
                                                void *q = set.a->alloc(bytes);
                                                if (q != nullptr) memset(q, i, bytes);
                                            }
                                            pass(set, time, nullptr, bytes, false);
                                        }))
                << text_of("nothing", bytes, 0, time);
        }
    }
}

} // namespace
