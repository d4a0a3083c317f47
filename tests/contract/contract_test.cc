// contract_test.cc: what holds for every allocator of the family, over every source, checked or not.
#include "kinds.h"

#include "unit/stderr_of.h"

extern "C" {
#include "family/family.h"
}

#include <unistd.h>

#include <algorithm>

namespace {

using namespace contract;
using unit::stderr_of;

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

enum class Mode { Plain, Check, Harden };

struct Row {
    const Kind *kind;
    SourceKind source;
    Mode mode;
};

std::vector<Row> rows() {
    std::vector<Row> all;
    for (const Kind &kind : kinds()) {
        for (SourceKind source : {SourceKind::Buffer, SourceKind::Heap, SourceKind::Pages,
                                  SourceKind::Reserve, SourceKind::Limit, SourceKind::Strict}) {
            bool contiguous = source == SourceKind::Buffer || source == SourceKind::Reserve;
            if ((kind.can & kContiguous) != 0 && !contiguous) continue;
            for (Mode mode : {Mode::Plain, Mode::Check, Mode::Harden}) {
                if (mode == Mode::Harden && (kind.can & kHarden) == 0) continue;
                all.push_back({&kind, source, mode});
            }
        }
    }
    return all;
}

unsigned flags_of(Mode mode) {
    return mode == Mode::Check ? LOAM_CHECK : mode == Mode::Harden ? LOAM_HARDEN : 0;
}

std::string row_name(const Row &row) {
    return std::string(row.kind->name) + "_" + name_of(row.source) +
           (row.mode == Mode::Check    ? "_check"
            : row.mode == Mode::Harden ? "_harden"
                                       : "");
}

constexpr size_t kSourceBytes = size_t{4} << 20; /* of those that have an end */

class Contract : public testing::TestWithParam<Row> {
  protected:
    const Kind &kind() const { return *GetParam().kind; }
    bool can(Capability what) const { return (kind().can & what) != 0; }
    bool checked() const { return GetParam().mode == Mode::Check || LOAM_DEBUG; }

    struct Set {
        Set(const Row &row, const char *name, size_t bytes = kSourceBytes)
            : source(row.source, bytes), a(row.kind->make(source.get(), flags_of(row.mode), name)) {
        }
        CountedSource source;
        std::unique_ptr<Allocator> a;
    };

    size_t size(Random &random) const {
        if (!can(kAnySize)) return kind().bytes;
        size_t of = random.below(100);
        if (of < 80) return random.below(300);
        if (of < 97) return random.below(5000);
        return random.below(200000);
    }

    /* What the allocator says of itself is what went through the source. */
    static void expect_books(Set &set, const Model &model) {
        loam_usage usage = set.a->usage();
        EXPECT_EQ(usage.held_bytes, set.source.count.used_bytes);
        size_t chunks = set.source.count.gets - set.source.count.puts;
        if ((set.source.get()->flags & LOAM_SOURCE_CONTIGUOUS) != 0) {
            EXPECT_LE(usage.chunks, chunks) << "those that follow each other may be one";
        } else {
            EXPECT_EQ(usage.chunks, chunks);
        }
        EXPECT_EQ(usage.requests, set.source.count.gets);
        EXPECT_GE(usage.peak_bytes, usage.held_bytes);
        EXPECT_LE(usage.peak_bytes, set.source.count.peak_bytes);
        EXPECT_LE(usage.used_bytes, usage.held_bytes);
        EXPECT_GE(usage.used_bytes, model.bytes());
        EXPECT_TRUE(usage.objects == LOAM_UNKNOWN || usage.objects == model.objects.size())
            << usage.objects << " of " << model.objects.size();
    }

    /* Runs code that makes a mistake; it must be reported with these words, in one line, and go on. */
    template <typename Code> static std::string said(Code code) {
        lm_misuse_policy.ignore = true;
        std::string text = stderr_of(code);
        lm_misuse_policy.ignore = false;
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
        return text;
    }
    std::string blame(const char *name, const char *what, const void *p) const {
        char text[200];
        snprintf(text, sizeof text, "loam: %s %s: %s %p", kind().noun, name, what, p);
        return text;
    }
};

INSTANTIATE_TEST_SUITE_P(All, Contract, testing::ValuesIn(rows()),
                         [](const auto &info) { return row_name(info.param); });

TEST_P(Contract, NothingIsLeftOfAnUnusedOne) {
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    EXPECT_TRUE(set.a->check());
    expect_books(set, Model(1));
    set.a->free(nullptr, 0);
    EXPECT_TRUE(set.a->check());
    set.a.reset();
    EXPECT_EQ(set.source.count.used_bytes, 0u);
}

TEST_P(Contract, ObjectsAreAlignedApartAndKeepWhatTheyHold) {
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    Model model(kind().align);
    Random random(1);
    for (int i = 0; i < 400; i++) {
        size_t bytes = size(random) % 3000;
        void *p = set.a->alloc(bytes);
        ASSERT_NE(p, nullptr) << i << ": " << bytes;
        ASSERT_NO_FATAL_FAILURE(model.add(p, bytes));
    }
    model.expect_all_whole();
    expect_books(set, model);
    EXPECT_TRUE(set.a->check());
    while (!model.objects.empty()) {
        Object object = model.take(random.below(model.objects.size()));
        set.a->free(object.at, object.bytes);
    }
    EXPECT_TRUE(set.a->check());
}

TEST_P(Contract, RandomPrograms) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        SCOPED_TRACE(seed);
        Set set(GetParam(), nullptr);
        ASSERT_NE(set.a, nullptr);
        Model model(kind().align);
        Random random(seed);
        size_t mood = 50; /* percent of allocations: grows and shrinks in turn */
        for (int i = 0; i < 3000; i++) {
            if (i % 250 == 0) mood = 35 + random.below(40);
            size_t what = random.below(100);
            if (what < mood || model.objects.empty()) {
                size_t bytes = size(random);
                void *p = set.a->alloc(bytes);
                if (p == nullptr) continue; /* sources have ends */
                ASSERT_NO_FATAL_FAILURE(model.add(p, bytes)) << "step " << i;
            } else if (what < 88 || !can(kRealloc)) {
                Object object = model.take(random.below(model.objects.size()));
                set.a->free(object.at, object.bytes);
            } else if (what < 99) {
                size_t bytes = size(random) + 1;
                Object object = model.take(random.below(model.objects.size()));
                void *p = set.a->realloc(object.at, object.bytes, bytes);
                size_t kept = std::min(object.bytes, bytes);
                if (p == nullptr) { /* as it was */
                    Model::expect_whole(object, object.bytes);
                    p = object.at, bytes = object.bytes;
                } else {
                    object.at = static_cast<unsigned char *>(p);
                    Model::expect_whole(object, kept);
                }
                ASSERT_NO_FATAL_FAILURE(model.add(p, bytes)) << "step " << i;
            } else if (can(kReset) && random.below(4) == 0) {
                model.clear();
                set.a->reset();
            }
            if (i % 100 == 0) {
                ASSERT_TRUE(set.a->check()) << "step " << i;
                expect_books(set, model);
            }
        }
        model.expect_all_whole();
    }
}

TEST_P(Contract, ExhaustedIsNullAndNothingIsLost) {
    SourceKind of = GetParam().source;
    if (of != SourceKind::Buffer && of != SourceKind::Limit && of != SourceKind::Reserve)
        GTEST_SKIP() << "its source has no end";
    Set set(GetParam(), nullptr, size_t{512} << 10);
    ASSERT_NE(set.a, nullptr);
    Model model(kind().align);
    size_t bytes = can(kAnySize) ? 1000 : kind().bytes;
    for (int round = 0; round < 3; round++) {
        size_t before = model.objects.size();
        while (void *p = set.a->alloc(bytes)) ASSERT_NO_FATAL_FAILURE(model.add(p, bytes));
        EXPECT_GT(model.objects.size(), before) << "what was freed is there again";
        if (bytes >= 16) {
            EXPECT_GT(model.bytes(), checked() ? size_t{30} << 10 : size_t{120} << 10);
        }
        EXPECT_TRUE(set.a->check());
        expect_books(set, model);
        EXPECT_EQ(set.a->alloc(bytes), nullptr);
        model.expect_all_whole();
        /* The last ones: what every allocator can use again. */
        for (int i = 0; i < 20; i++) {
            Object object = model.take(model.objects.size() - 1);
            set.a->free(object.at, object.bytes);
        }
    }
}

TEST_P(Contract, EveryRefusalOfTheSourceIsSurvived) {
    if (GetParam().source != SourceKind::Strict) GTEST_SKIP() << "its source refuses nothing";
    for (size_t n = 1; n < 100; n++) {
        SCOPED_TRACE(n);
        CountedSource source(SourceKind::Strict, 0);
        source.strict.refuse(n);
        std::unique_ptr<Allocator> a =
            kind().make(source.get(), flags_of(GetParam().mode), nullptr);
        if (a == nullptr) {
            EXPECT_EQ(source.strict.refused(), 1u) << "it cannot be for anything else";
            continue;
        }
        Model model(kind().align);
        Random random(7);
        size_t refused = 0;
        for (int i = 0; i < 300; i++) {
            size_t bytes = size(random);
            void *p = a->alloc(bytes);
            if (p == nullptr) {
                refused++;
                ASSERT_TRUE(a->check());
                model.expect_all_whole();
                p = a->alloc(bytes);
                ASSERT_NE(p, nullptr) << "only one get was refused";
            }
            ASSERT_NO_FATAL_FAILURE(model.add(p, bytes));
            if (can(kRealloc) && i % 3 == 0) {
                Object object = model.take(model.objects.size() - 1);
                size_t more = object.bytes * 2 + 1;
                void *there = a->realloc(object.at, object.bytes, more);
                if (there == nullptr) {
                    Model::expect_whole(object, object.bytes);
                    there = a->realloc(object.at, object.bytes, more);
                    ASSERT_NE(there, nullptr);
                }
                ASSERT_NO_FATAL_FAILURE(model.add(there, more));
            }
        }
        EXPECT_TRUE(a->check());
        EXPECT_LE(refused, 1u);
        model.expect_all_whole();
        a.reset();
        if (source.strict.refused() == 0) return; /* n is above all gets */
    }
}

TEST_P(Contract, NoBytesAreAnObject) {
    if (!can(kAnySize)) GTEST_SKIP() << "its objects have one size";
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    for (int i = 0; i < 50; i++) {
        void *p = set.a->alloc(0);
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % kind().align, 0u);
        EXPECT_TRUE(set.a->check());
        if (i % 2 == 0) set.a->free(p, 0);
    }
    EXPECT_TRUE(set.a->check());
}

TEST_P(Contract, ImpossibleSizesChangeNothing) {
    if (!can(kAnySize)) GTEST_SKIP() << "its objects have one size";
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    Model model(kind().align);
    for (int i = 0; i < 10; i++) model.add(set.a->alloc(100), 100);
    const size_t most = PTRDIFF_MAX;
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX - 16, SIZE_MAX - 127,
                         SIZE_MAX - 4096, SIZE_MAX - 65536, most + 2, most + 1, most, most - 1,
                         most - 16, most - 4096, most - 65536, most - 200000, SIZE_MAX / 4}) {
        volatile size_t hidden = bytes; /* or the compiler warns of it */
        ASSERT_EQ(set.a->alloc(hidden), nullptr) << bytes;
        if (can(kRealloc)) {
            Object object = model.objects.back();
            ASSERT_EQ(set.a->realloc(object.at, object.bytes, hidden), nullptr) << bytes;
        }
        ASSERT_TRUE(set.a->check()) << bytes;
    }
    model.expect_all_whole();
    void *p = set.a->alloc(100);
    ASSERT_NE(p, nullptr);
    model.add(p, 100);
    expect_books(set, model);
}

TEST_P(Contract, ResetKeepsMemoryForTheSameAgain) {
    if (!can(kReset)) GTEST_SKIP() << "it has no reset";
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    size_t gets = 0;
    for (int round = 0; round < 6; round++) {
        Model model(kind().align);
        for (int i = 0; i < 300; i++) {
            size_t bytes = can(kAnySize) ? static_cast<size_t>(i) : kind().bytes;
            void *p = set.a->alloc(bytes);
            ASSERT_NE(p, nullptr);
            ASSERT_NO_FATAL_FAILURE(model.add(p, bytes));
        }
        expect_books(set, model);
        if (round == 3) gets = set.source.count.gets;
        set.a->reset();
        EXPECT_TRUE(set.a->check());
        expect_books(set, Model(1));
        loam_usage usage = set.a->usage();
        EXPECT_TRUE(usage.objects == 0 || usage.objects == LOAM_UNKNOWN);
    }
    EXPECT_EQ(set.source.count.gets, gets);
}

/* ---- Names ---- */

struct Listed {
    std::string name, kind;
};
std::vector<Listed> listed() {
    std::vector<Listed> all;
    loam_registry_visit(
        [](const loam_usage *usage, void *context) {
            static_cast<std::vector<Listed> *>(context)->push_back({usage->name, usage->kind});
        },
        &all);
    return all;
}

TEST_P(Contract, TheRegistryListsNamedAndCheckedOnes) {
    EXPECT_EQ(listed().size(), 0u);
    {
        Set named(GetParam(), "box");
        Set plain(GetParam(), nullptr);
        ASSERT_TRUE(named.a != nullptr && plain.a != nullptr);
        std::vector<Listed> all = listed();
        ASSERT_EQ(all.size(), checked() ? 2u : 1u);
        EXPECT_EQ(all.back().name, "box");
        EXPECT_EQ(all.back().kind, kind().noun);
        EXPECT_EQ(all.front().name, checked() ? "" : "box");
        EXPECT_EQ(loam_registry_check(), 0u);
    }
    EXPECT_EQ(listed().size(), 0u);
}

/* ---- Mistakes, of checked ones ---- */

class Mistakes : public Contract {};

std::vector<Row> checked_rows() {
    std::vector<Row> all;
    for (const Row &row : rows()) {
        if (row.mode == Mode::Check) all.push_back(row);
    }
    return all;
}
INSTANTIATE_TEST_SUITE_P(All, Mistakes, testing::ValuesIn(checked_rows()),
                         [](const auto &info) { return row_name(info.param); });

/* Writes where no program may, past the eyes of a sanitizer. */
void poke(void *p, ptrdiff_t offset, char value) {
    char *at = static_cast<char *>(p) + offset;
    lm_tool_show(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(at) & ~uintptr_t{7}), 8);
    *static_cast<volatile char *>(at) = value;
}

#define EXPECT_STARTS(text, start) EXPECT_EQ((text).substr(0, (start).size()), (start))

TEST_P(Mistakes, DoubleFree) {
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    size_t bytes = can(kAnySize) ? 40 : kind().bytes;
    void *kept = set.a->alloc(bytes), *p = set.a->alloc(bytes), *last = set.a->alloc(bytes);
    ASSERT_TRUE(kept != nullptr && p != nullptr && last != nullptr);
    for (void *twice : {p, last}) {
        set.a->free(twice, bytes);
        std::string text = said([&] { set.a->free(twice, bytes); });
        EXPECT_STARTS(text, blame("box", "free of", twice));
        EXPECT_NE(text.find("after its free at "), std::string::npos) << text;
        EXPECT_NE(text.find("kinds.h:"), std::string::npos) << text;
    }
    EXPECT_TRUE(set.a->check());
    void *again = set.a->alloc(bytes), *other = set.a->alloc(bytes);
    EXPECT_TRUE(again != nullptr && other != nullptr && again != other && again != kept);
    set.a->free(kept, bytes);
}

TEST_P(Mistakes, AnothersObject) {
    Set mine(GetParam(), "mine"), theirs(GetParam(), "theirs");
    ASSERT_TRUE(mine.a != nullptr && theirs.a != nullptr);
    size_t bytes = can(kAnySize) ? 40 : kind().bytes;
    void *p = theirs.a->alloc(bytes);
    ASSERT_NE(p, nullptr);
    for (int with_own = 0; with_own < 2; with_own++) {
        std::string text = said([&] { mine.a->free(p, bytes); });
        EXPECT_STARTS(text, blame("mine", "free of", p));
        EXPECT_NE(text.find(std::string("which belongs to ") + kind().noun + " theirs"),
                  std::string::npos)
            << text;
        EXPECT_NE(mine.a->alloc(bytes), nullptr);
    }
    EXPECT_TRUE(mine.a->check() && theirs.a->check());
    theirs.a->free(p, bytes);
    EXPECT_TRUE(theirs.a->check());
}

TEST_P(Mistakes, ForeignPointers) {
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    size_t bytes = can(kAnySize) ? 64 : kind().bytes;
    alignas(64) static char somewhere[512];
    for (int with_own = 0; with_own < 2; with_own++) {
        for (void *p : {static_cast<void *>(somewhere + 256), static_cast<void *>(somewhere + 257),
                        reinterpret_cast<void *>(uintptr_t{4096}),
                        reinterpret_cast<void *>(UINTPTR_MAX - 4095)}) {
            std::string text = said([&] { set.a->free(p, bytes); });
            EXPECT_STARTS(text, blame("box", "free of", p));
        }
        EXPECT_NE(set.a->alloc(bytes), nullptr);
    }
    EXPECT_TRUE(set.a->check());
}

TEST_P(Mistakes, OverflowAndUnderflow) {
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    size_t bytes = can(kAnySize) ? 41 : kind().bytes;
    auto end = static_cast<ptrdiff_t>(bytes);
    for (ptrdiff_t at : {end, end + 15, ptrdiff_t{-1}, ptrdiff_t{-16}}) {
        void *p = set.a->alloc(bytes), *next = set.a->alloc(bytes);
        ASSERT_TRUE(p != nullptr && next != nullptr);
        const char *what = at < 0 ? "underflow of" : "overflow of";
        poke(p, at, 1);
        EXPECT_STARTS(said([&] { set.a->free(p, bytes); }), blame("box", what, p));
        bool sound = true;
        EXPECT_STARTS(said([&] { sound = set.a->check(); }), blame("box", what, p));
        EXPECT_FALSE(sound);
        poke(p, at, static_cast<char>(0xfb));
        EXPECT_TRUE(set.a->check());
        set.a->free(p, bytes);
        set.a->free(next, bytes);
        EXPECT_TRUE(set.a->check());
    }
}

TEST_P(Mistakes, LeaksAreListedWithTheirPlaces) {
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    size_t bytes = can(kAnySize) ? 40 : kind().bytes;
    void *a = set.a->alloc(bytes), *b = set.a->alloc(bytes), *c = set.a->alloc(bytes);
    set.a->free(b, bytes);
    size_t leaks = 0;
    std::string text = stderr_of([&] { leaks = loam_registry_leaks(); });
    EXPECT_EQ(leaks, 2u);
    char line[300];
    for (void *p : {a, c}) {
        snprintf(line, sizeof line, "loam: %s box: leak of %zu bytes at %p, allocated at ",
                 kind().noun, bytes, p);
        size_t at = text.find(line);
        ASSERT_NE(at, std::string::npos) << text << "\n" << line;
        EXPECT_NE(text.find("kinds.h:", at), std::string::npos) << text;
    }
    EXPECT_EQ(set.a->usage().objects, 2u);
    if (can(kReset)) {
        set.a->reset();
        EXPECT_EQ(loam_registry_leaks(), 0u);
    }
}

#if UNDER_ASAN

using ToolsDeathTest = Contract;
INSTANTIATE_TEST_SUITE_P(All, ToolsDeathTest, testing::ValuesIn(rows()),
                         [](const auto &info) { return row_name(info.param); });

TEST_P(ToolsDeathTest, SeeObjects) {
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    size_t bytes = can(kAnySize) ? 40 : kind().bytes;
    auto *first = static_cast<volatile char *>(set.a->alloc(bytes));
    auto *p = static_cast<volatile char *>(set.a->alloc(bytes));
    auto *next = static_cast<volatile char *>(set.a->alloc(bytes));
    first[0] = p[0] = p[bytes - 1] = next[0] = 1;
    /* Pools over a piece of a given size keep no room free for a tool: the next block may begin there. */
    bool dense =
        !can(kAnySize) && !checked() && (set.source.get()->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
    if (!dense) {
        EXPECT_DEATH(p[bytes] = 1, "AddressSanitizer: (use-after-poison|unknown-crash)")
            << "redzone";
    }
    set.a->free(const_cast<char *>(p), bytes);
    EXPECT_DEATH(p[0] = 1, "use-after-poison") << "freed";
    EXPECT_DEATH(p[bytes - 1] = 1, "use-after-poison") << "freed";
    first[0] = next[0] = 1;
    if (can(kReset)) {
        set.a->reset();
        EXPECT_DEATH(next[0] = 1, "use-after-poison") << "gone with the reset";
    }
}

#endif

} // namespace
