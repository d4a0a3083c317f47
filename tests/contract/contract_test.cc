// contract_test.cc: what holds for every allocator of the family, over every source, checked or
// not; contract.h says what that is.
#include "effort.h"
#include "program.h"

#include <algorithm>

namespace {

using namespace contract;

#if defined(LOAM_EMULATED)
constexpr uint64_t kSeeds = 1; /* the same C as the build for this processor */
#else
constexpr uint64_t kSeeds = effort::kSlowness == 1 ? 8 : 3;
#endif

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
extern "C" int __asan_address_is_poisoned(const volatile void *p);
#else
#define UNDER_ASAN 0
#endif

class Contract : public PerRow {
  protected:
    static void expect_books(Set &set, const Model &model) {
        contract::expect_books(GetParam(), set, model);
    }
};
INSTANTIATE(Contract, [](const Row &) { return true; });

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
    for (uint64_t seed = 1; seed <= kSeeds; seed++) {
        SCOPED_TRACE(seed);
        Set set(GetParam(), nullptr);
        ASSERT_NE(set.a, nullptr);
        Random random(seed);
        ASSERT_NO_FATAL_FAILURE(run_program(GetParam(), set, random, 2000));
    }
}

class Ends : public Contract {};
INSTANTIATE(Ends, has_end);

TEST_P(Ends, ExhaustedIsNullAndNothingIsLost) {
    Set set(GetParam(), nullptr, size_t{512} << 10);
    ASSERT_NE(set.a, nullptr);
    Model model(kind().align);
    size_t bytes = can(kAnySize) ? 1000 : kind().bytes;
    for (int round = 0; round < 3; round++) {
        size_t before = model.objects.size();
        while (void *p = set.a->alloc(bytes)) ASSERT_NO_FATAL_FAILURE(model.add(p, bytes));
        EXPECT_GT(model.objects.size(), before) << "what was freed is there again";
        if (bytes >= 16 && !can(kFixed)) {
            EXPECT_GT(model.bytes(), checked() ? size_t{30} << 10 : size_t{120} << 10);
        }
        EXPECT_TRUE(set.a->check());
        expect_books(set, model);
        EXPECT_EQ(set.a->alloc(bytes), nullptr);
        model.expect_all_whole();
        /* The last ones: what every allocator can use again; but for those whose pages have to be
         * empty. */
        for (size_t i = can(kPages) ? model.objects.size() : 20; i > 0; i--) {
            Object object = model.take(model.objects.size() - 1);
            set.a->free(object.at, object.bytes);
        }
    }
}

class Refusals : public Contract {};
INSTANTIATE(Refusals, [](const Row &row) { return row.source == SourceKind::Strict; });

TEST_P(Refusals, EveryOneIsSurvived) {
    for (size_t n = 1; n < 100; n++) {
        SCOPED_TRACE(n);
        CountedSource source(SourceKind::Strict, 0);
        source.strict.refuse(n);
        std::unique_ptr<Allocator> a =
            kind().make(source.get(), kSourceBytes, flags_of(GetParam().mode), nullptr);
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
                if (kind().bytes != 0) more = std::min(more, kind().bytes);
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

class AnySize : public Contract {};
INSTANTIATE(AnySize, [](const Row &row) { return (row.kind->can & kAnySize) != 0; });

TEST_P(AnySize, NoBytesAreAnObject) {
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

/* Those that have no bytes may share an address, with each other and with the next that has
 * some. */
TEST_P(AnySize, NoBytesStayOutOfTheWayOfOthers) {
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    Model model(kind().align);
    Random random(5);
    for (int i = 0; i < 600; i++) {
        size_t what = random.below(8), bytes = random.below(2) * random.below(300);
        if (what < 4 || model.objects.empty()) {
            void *p = set.a->alloc(bytes);
            ASSERT_NE(p, nullptr);
            ASSERT_NO_FATAL_FAILURE(model.add(p, bytes)) << "step " << i;
            continue;
        }
        Object object = model.take(random.below(model.objects.size()));
        if (what < 6) {
            set.a->free(object.at, object.bytes);
            continue;
        }
        bytes++;
        void *p = set.a->realloc(object.at, object.bytes, bytes);
        ASSERT_NE(p, nullptr);
        object.at = static_cast<unsigned char *>(p);
        Model::expect_whole(object, std::min(object.bytes, bytes));
        ASSERT_NO_FATAL_FAILURE(model.add(p, bytes)) << "step " << i;
    }
    model.expect_all_whole();
    EXPECT_TRUE(set.a->check());
}

TEST_P(AnySize, ImpossibleSizesChangeNothing) {
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
        ASSERT_EQ(set.a->alloc_aligned(hidden, 64), nullptr) << bytes;
        ASSERT_EQ(set.a->alloc_array(hidden, 1), nullptr) << bytes;
        ASSERT_TRUE(set.a->check()) << bytes;
    }
    /* Products that overflow: to 0, to little, by one. */
    const size_t half = SIZE_MAX / 2 + 1, root = size_t{1} << (sizeof(size_t) * 4);
    const size_t products[][2] = {{half, 2},
                                  {2, half},
                                  {half + 8, 2},
                                  {root, root},
                                  {root + 1, root},
                                  {SIZE_MAX, SIZE_MAX},
                                  {SIZE_MAX / 16 + 1, 16},
                                  {SIZE_MAX / 24 + 2, 24},
                                  {3, SIZE_MAX / 3 + 1}};
    for (const auto &product : products) {
        volatile size_t count = product[0], each = product[1];
        ASSERT_EQ(set.a->alloc_array(count, each), nullptr) << product[0] << " * " << product[1];
    }
    /* No powers of two, and too large ones. */
    for (size_t align : {size_t{0}, size_t{3}, size_t{12}, size_t{24}, size_t{48}, size_t{65},
                         size_t{4095}, SIZE_MAX, SIZE_MAX / 2, half, half / 2}) {
        volatile size_t hidden = align;
        ASSERT_EQ(set.a->alloc_aligned(64, hidden), nullptr) << align;
    }
    ASSERT_TRUE(set.a->check());
    model.expect_all_whole();
    void *p = set.a->alloc(100);
    ASSERT_NE(p, nullptr);
    model.add(p, 100);
    expect_books(set, model);
}

TEST_P(AnySize, ArraysAreZeroAndAlignmentsKept) {
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    for (int round = 0; round < 3; round++) {
        for (size_t bytes : {size_t{8}, size_t{40}, size_t{1000}}) {
            auto *p = static_cast<unsigned char *>(set.a->alloc_array(3, bytes));
            ASSERT_NE(p, nullptr);
            ASSERT_EQ(std::count(p, p + 3 * bytes, 0), static_cast<ptrdiff_t>(3 * bytes));
            memset(p, 0xee, 3 * bytes);
            set.a->free(p, 3 * bytes);
        }
    }
    for (size_t align = 1; align <= 16; align *= 2) {
        void *p = set.a->alloc_aligned(100, align);
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
    }
    if (!can(kFixed)) {
        for (size_t align = 32; align <= 65536; align *= 4) {
            void *p = set.a->alloc_aligned(100, align);
            ASSERT_NE(p, nullptr) << align;
            EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
            memset(p, 1, 100);
        }
    }
    EXPECT_TRUE(set.a->check());
}

/* Whatever the memory held before. */
class Zeroed : public Contract {};
INSTANTIATE(Zeroed, [](const Row &row) { return (row.kind->can & kZeroed) != 0; });

TEST_P(Zeroed, NewBytesAreZero) {
    for (uint64_t seed = 1; seed <= effort::fewer(3); seed++) {
        Set set(GetParam(), nullptr);
        ASSERT_NE(set.a, nullptr);
        Model model(kind().align);
        Random random(seed);
        auto expect_zero = [](const unsigned char *from, const unsigned char *to) {
            ASSERT_EQ(std::count(from, to, 0), to - from);
        };
        for (int i = 0; i < 3000; i++) {
            size_t what = random.below(100);
            if (what < 45 || model.objects.empty()) {
                size_t bytes = size(random);
                auto *p = static_cast<unsigned char *>(set.a->alloc(bytes));
                if (p == nullptr) continue;
                ASSERT_NO_FATAL_FAILURE(expect_zero(p, p + bytes)) << "step " << i;
                ASSERT_NO_FATAL_FAILURE(model.add(p, bytes));
            } else if (what < 70 || !can(kRealloc)) {
                /* In about the order they came, so that pages are used again. */
                Object object = model.take(random.below(1 + model.objects.size() / 8));
                set.a->free(object.at, object.bytes);
            } else {
                /* The newest most often: it may grow and shrink where it is. */
                size_t last = model.objects.size() - 1;
                Object object =
                    model.take(random.below(3) != 0 ? last : random.below(model.objects.size()));
                size_t bytes = random.below(2 * object.bytes + 20);
                void *p = set.a->realloc(object.at, object.bytes, bytes);
                if (p == nullptr) {
                    ASSERT_NO_FATAL_FAILURE(model.add(object.at, object.bytes));
                    continue;
                }
                object.at = static_cast<unsigned char *>(p);
                size_t kept = std::min(object.bytes, bytes);
                Model::expect_whole(object, kept);
                ASSERT_NO_FATAL_FAILURE(expect_zero(object.at + kept, object.at + bytes))
                    << "step " << i << ": " << object.bytes << " to " << bytes;
                ASSERT_NO_FATAL_FAILURE(model.add(p, bytes));
            }
        }
        EXPECT_TRUE(set.a->check());
    }
}

class Resets : public Contract {};
INSTANTIATE(Resets, [](const Row &row) { return (row.kind->can & kReset) != 0; });

TEST_P(Resets, KeepMemoryForTheSameAgain) {
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
        size_t boxes = 0, unnamed = 0;
        for (const Listed &one : listed()) {
            EXPECT_EQ(one.kind, kind().noun);
            boxes += one.name == "box";
            unnamed += one.name.empty();
        }
        EXPECT_EQ(boxes, 1u);
        EXPECT_EQ(unnamed != 0, checked());
        EXPECT_STREQ(named.a->usage().name, "box");
        EXPECT_STREQ(plain.a->usage().name, "");
        EXPECT_EQ(loam_registry_check(), 0u);
    }
    EXPECT_EQ(listed().size(), 0u);
}

/* ---- Tools ---- */

#if UNDER_ASAN

TEST_P(Contract, AToolSeesObjects) {
    Set set(GetParam(), nullptr);
    ASSERT_NE(set.a, nullptr);
    size_t bytes = some_size();
    auto *first = static_cast<volatile char *>(set.a->alloc(bytes));
    auto *p = static_cast<volatile char *>(set.a->alloc(bytes));
    auto *next = static_cast<volatile char *>(set.a->alloc(bytes));
    first[0] = p[0] = p[bytes - 1] = next[0] = 1; /* or this test ends here */
    /* A redzone, but where that would cost blocks of a capacity that somebody counted on. */
    bool exact = !checked() && (GetParam().source == SourceKind::Buffer ||
                                GetParam().source == SourceKind::Reserve || can(kFixed));
    if (!exact) {
        EXPECT_TRUE(__asan_address_is_poisoned(p + bytes)) << "redzone";
    }
    set.a->free(const_cast<char *>(p), bytes);
    EXPECT_TRUE(__asan_address_is_poisoned(p)) << "freed";
    EXPECT_TRUE(__asan_address_is_poisoned(p + bytes - 1)) << "freed";
    first[0] = next[0] = 1;
    if (can(kReset)) {
        set.a->reset();
        EXPECT_TRUE(__asan_address_is_poisoned(next)) << "gone with the reset";
        EXPECT_TRUE(__asan_address_is_poisoned(first)) << "gone with the reset";
    }
}

#endif

} // namespace
