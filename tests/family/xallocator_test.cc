// xallocator_test.cc: loam/xallocator.h and .hpp: the six calls, classes with new and delete of
// their own, Allocator in its three modes, containers, static objects of several files.
#include "family/xallocator_statics.h"

#include <loam/xallocator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <unistd.h>

#ifdef LOAM_DEBUG
constexpr bool checked = true;
#else
constexpr bool checked = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
constexpr bool redzones = true;
#else
constexpr bool redzones = false;
#endif

namespace {

struct First {
    void *memory = xmalloc(200);
    First() { xallocator_left[0] = memset(memory, 2, 200); }
    ~First() {
        if (!xallocator_listed()) _exit(3); // ended too early
        xfree(xallocator_left[1]);
        xallocator_c_free(xallocator_left[2]);
        static const char text[] = "the first file freed\n";
        if (write(2, text, sizeof text - 1) < 0) abort();
    }
} first;

size_t objects() {
    loam_usage usage;
    loam_blocks_usage(loam_xalloc_blocks(), &usage);
    return usage.objects;
}

// What happened since, in objects of the allocator.
struct Balance {
    size_t before = objects();
    ~Balance() { EXPECT_EQ(objects(), before); }
};

bool aligned(const void *p, size_t align) { return reinterpret_cast<uintptr_t>(p) % align == 0; }

size_t usable(const void *p) { return loam_blocks_usable_size(loam_xalloc_blocks(), p); }

} // namespace

// ---- The six calls
// ---------------------------------------------------------------------------------

TEST(Xallocator, GivesEverySizeAlignedAndWhole) {
    Balance balance;
    std::vector<std::pair<unsigned char *, size_t>> held;
    for (size_t bytes = 0; bytes < 70000; bytes += 1 + bytes / 16) {
        auto p = static_cast<unsigned char *>(xmalloc(bytes));
        ASSERT_NE(p, nullptr);
        ASSERT_TRUE(aligned(p, 16)) << bytes;
        memset(p, static_cast<int>(bytes % 251), bytes);
        held.push_back({p, bytes});
    }
    for (auto [p, bytes] : held) {
        for (size_t i = 0; i < bytes; i++) ASSERT_EQ(p[i], bytes % 251);
        xfree(p);
    }
    xfree(nullptr);
}

TEST(Xallocator, ClassesArePowersOfTwoAndTwoMore) {
    if (checked || redzones) GTEST_SKIP() << "guards change which class a size belongs to";
    for (auto [bytes, block] : {std::pair<size_t, size_t>{0, 16},
                                {16, 16},
                                {17, 32},
                                {33, 64},
                                {64, 64},
                                {257, 400},
                                {396, 400},
                                {400, 400},
                                {401, 512},
                                {513, 768},
                                {768, 768},
                                {769, 1024},
                                {4096, 4096}}) {
        void *p = xmalloc(bytes);
        EXPECT_EQ(usable(p), block) << bytes;
        xfree(p);
    }
}

TEST(Xallocator, MoreThanFifteenSizesAndNoWordIsHidden) {
    // The sixteenth class was the end of the original, and 64 bytes needed a block of 128.
    Balance balance;
    std::vector<void *> held;
    for (size_t bytes = 1; bytes <= size_t{1} << 22; bytes *= 2) held.push_back(xmalloc(bytes));
    EXPECT_EQ(std::count(held.begin(), held.end(), nullptr), 0);
    if (!checked && !redzones) {
        EXPECT_EQ(usable(held[6]), 64u);
    }
    for (void *p : held) xfree(p);
}

TEST(Xallocator, ReallocAllocatesKeepsAndFrees) {
    Balance balance;
    auto p = static_cast<char *>(xrealloc(nullptr, 24));
    strcpy(p, "TEST STRING");
    for (size_t bytes : {124u, 24u, 5000u, 100000u, 12u}) {
        p = static_cast<char *>(xrealloc(p, bytes));
        ASSERT_NE(p, nullptr);
        ASSERT_STREQ(p, "TEST STRING");
    }
    EXPECT_EQ(xrealloc(p, PTRDIFF_MAX), nullptr);
    EXPECT_STREQ(p, "TEST STRING"); // unchanged
    EXPECT_EQ(xrealloc(p, 0), nullptr);
    EXPECT_EQ(xmalloc(SIZE_MAX), nullptr);
    EXPECT_EQ(xmalloc(PTRDIFF_MAX), nullptr);
}

TEST(Xallocator, StatsAreTheOriginalsLines) {
    void *p = xmalloc(100);
    testing::internal::CaptureStdout();
    xalloc_stats();
    std::string text = testing::internal::GetCapturedStdout();
    size_t lines = 0;
    for (size_t at = 0; at < text.size(); lines++) {
        size_t size, count, used;
        int end = 0;
        ASSERT_EQ(sscanf(text.c_str() + at,
                         "xallocator Block Size: %zu Block Count: %zu Blocks In Use: %zu%n", &size,
                         &count, &used, &end),
                  3)
            << text;
        ASSERT_EQ(text[at + static_cast<size_t>(end)], '\n');
        EXPECT_LE(used, count);
        at += static_cast<size_t>(end) + 1;
    }
    EXPECT_GT(lines, 0u);
    xfree(p);
}

TEST(Xallocator, FunctionsHaveAddresses) {
    void *(*alloc)(size_t) = xmalloc;
    void *(*again)(void *, size_t) = xrealloc;
    void (*give)(void *) = xfree;
    Balance balance;
    give(again(alloc(10), 1000));
}

TEST(Xallocator, FromCAndFromThreads) {
    Balance balance;
    void *p = xallocator_c_alloc(500);
    std::thread([&] {
        xfree(p);
        p = xmalloc(77);
    }).join();
    xallocator_c_free(p);
}

TEST(Xallocator, StaticObjectsOfSeveralFiles) {
    // The child leaves main at once: what its static objects say follows.
    xallocator_left[2] = xallocator_c_alloc(40);
    GTEST_FLAG_SET(death_test_style, "fast");
    EXPECT_EXIT(exit(0), testing::ExitedWithCode(0),
                "^the .* file freed\nthe .* file freed\nstill there after the last file\n$");
    EXPECT_EXIT(
        {
            xalloc_init(); // started already
            exit(0);
        },
        testing::ExitedWithCode(0), "still there after the last file");
    xallocator_c_free(xallocator_left[2]);
    xallocator_left[2] = nullptr;
}

TEST(Xallocator, ByHand) {
    // In a child, which has nothing else in it.
    EXPECT_EXIT(
        {
            xalloc_destroy();
            xfree(first.memory); // does nothing: it has gone
            void *p = xmalloc(10);
            if (p == nullptr || objects() != 1) _exit(1);
            xalloc_destroy();
            xalloc_destroy();
            xalloc_init();
            xalloc_init();
            _exit(objects() == 0 ? 0 : 2);
        },
        testing::ExitedWithCode(0), "");
}

TEST(Xallocator, RandomProgramsAgainstATwin) {
    for (unsigned seed = 1; seed <= 5; seed++) {
        Balance balance;
        std::mt19937 random(seed);
        std::vector<std::pair<char *, std::string>> twin;
        for (int step = 0; step < 4000; step++) {
            size_t bytes = random() % (random() % 10 == 0 ? 9000 : 600);
            unsigned what = random() % 4;
            if (what < 2 || twin.empty()) {
                auto p = static_cast<char *>(xmalloc(bytes));
                twin.push_back({p, std::string(bytes, static_cast<char>(step))});
                memset(p, static_cast<char>(step), bytes);
                continue;
            }
            std::swap(twin[random() % twin.size()], twin.back());
            auto &[p, wanted] = twin.back();
            ASSERT_EQ(memcmp(p, wanted.data(), wanted.size()), 0);
            if (what == 2) {
                xfree(p);
                twin.pop_back();
            } else {
                size_t had = wanted.size();
                wanted.resize(bytes + 1, 'n');
                p = static_cast<char *>(xrealloc(p, bytes + 1));
                if (had < bytes + 1) memset(p + had, 'n', bytes + 1 - had);
            }
        }
        for (auto &each : twin) xfree(each.first);
        EXPECT_TRUE(loam_blocks_check(loam_xalloc_blocks()));
    }
}

// ---- Classes
// ---------------------------------------------------------------------------------------

namespace {

struct GuiBase {
    XALLOCATOR
    explicit GuiBase(int id = 1) : id(id) {}
    virtual ~GuiBase() = default;
    int id;
};
struct Button : GuiBase {
    Button() : GuiBase(2) {}
    char text[300] = {};
};
struct alignas(64) Line {
    XALLOCATOR
    char bytes[64];
};
struct Thrower {
    XALLOCATOR
    Thrower() { throw 1; }
};

struct Heap_blocks {
    DECLARE_ALLOCATOR
  public:
    virtual ~Heap_blocks() = default;
    int id[6] = {};
};
struct Larger : Heap_blocks {
    int more[100] = {};
};
struct Pooled {
    DECLARE_ALLOCATOR
  public:
    char bytes[40];
};
struct In_static {
    DECLARE_ALLOCATOR
  public:
    char bytes[24];
};
char static_memory[5 * 24];

} // namespace

IMPLEMENT_ALLOCATOR(Heap_blocks, 0, nullptr)
IMPLEMENT_ALLOCATOR(Pooled, 10, nullptr)
IMPLEMENT_ALLOCATOR(In_static, 5, static_memory)

TEST(XallocatorClass, NewAndDeleteAreInheritedAndAligned) {
    Balance balance;
    size_t before = objects();
    GuiBase *base = new GuiBase, *button = new Button;
    EXPECT_EQ(objects(), before + 2);
    EXPECT_EQ(button->id, 2);
    delete base;
    delete button;
    auto line = new Line;
    EXPECT_TRUE(aligned(line, 64));
    delete line;
    delete[] new GuiBase[7];
    delete[] new Line[3];
    auto none = new (std::nothrow) GuiBase;
    EXPECT_NE(none, nullptr);
    delete none;
    alignas(GuiBase) char place[sizeof(GuiBase)];
    (new (place) GuiBase)->~GuiBase();
    EXPECT_THROW(new Thrower, int);
    EXPECT_EQ(objects(), before);
}

TEST(XallocatorClass, AnAllocatorOfItsOwn) {
    EXPECT_STREQ(Heap_blocks::allocator().GetName(), "Heap_blocks");
    EXPECT_EQ(Heap_blocks::allocator().GetBlockSize(), sizeof(Heap_blocks));
    std::vector<std::unique_ptr<Heap_blocks>> held;
    for (int i = 0; i < 1000; i++) held.emplace_back(new Heap_blocks);
    EXPECT_EQ(Heap_blocks::allocator().GetBlocksInUse(), 1000u);
    held.resize(400);
    held.emplace_back(new Heap_blocks);
    EXPECT_EQ(Heap_blocks::allocator().GetBlocksInUse(), 401u);
    EXPECT_EQ(Heap_blocks::allocator().GetBlockCount(), 1000u);
    EXPECT_EQ(Heap_blocks::allocator().GetAllocations(), 1001u);
    EXPECT_EQ(Heap_blocks::allocator().GetDeallocations(), 600u);
    EXPECT_THROW(new Larger, std::bad_alloc);
}

template <typename T> void exhaust(unsigned most) {
    for (int round = 0; round < 2; round++) {
        std::vector<std::unique_ptr<T>> held;
        auto fill = [&] {
            for (;;) held.emplace_back(new T);
        };
        EXPECT_THROW(fill(), std::bad_alloc);
        if (!checked || most == 10) {
            EXPECT_EQ(held.size(), most);
        }
    }
    EXPECT_EQ(T::allocator().GetBlocksInUse(), 0u);
}

TEST(XallocatorClass, PoolsHaveTheirNumberOfObjects) {
    exhaust<Pooled>(10);
    if (!checked) exhaust<In_static>(5);
}

// ---- Allocator
// -------------------------------------------------------------------------------------

TEST(XallocatorAllocator, ThreeModes) {
    alignas(16) static char memory[20 * 400];
    Allocator heap_blocks(396), heap_pool(396, 20, nullptr, "pool"), static_pool(396, 20, memory);
    EXPECT_EQ(heap_blocks.GetName(), nullptr);
    EXPECT_STREQ(heap_pool.GetName(), "pool");
    for (Allocator *each : {&heap_blocks, &heap_pool, &static_pool}) {
        EXPECT_EQ(each->GetBlockSize(), 400u);
        if (checked && each == &static_pool) continue; // checks take their room out of it
        unsigned most = each == &heap_blocks ? 500 : 20;
        for (int round = 0; round < 3; round++) {
            std::vector<void *> held;
            for (unsigned i = 0; i < most; i++) {
                void *p = each->Allocate(396);
                ASSERT_NE(p, nullptr);
                ASSERT_TRUE(aligned(p, 16)); // 396 % 8 is 4: the original's were not
                memset(p, static_cast<int>(i), 396);
                held.push_back(p);
            }
            if (each != &heap_blocks) {
                EXPECT_EQ(each->Allocate(1), nullptr); // NULL, and nothing is written through it
            }
            EXPECT_EQ(each->GetBlocksInUse(), most);
            for (unsigned i = 0; i < most; i++) {
                EXPECT_EQ(static_cast<unsigned char *>(held[i])[395], i % 256);
                if (each == &static_pool) {
                    EXPECT_TRUE(held[i] >= memory && held[i] < memory + sizeof memory);
                }
                each->Deallocate(held[i]);
            }
        }
        EXPECT_EQ(each->GetBlockCount(), most);
        EXPECT_EQ(each->GetAllocations(), 3 * most);
        EXPECT_EQ(each->GetDeallocations(), 3 * most);
        EXPECT_EQ(each->Allocate(397), nullptr);
        each->Deallocate(nullptr);
        EXPECT_EQ(each->GetDeallocations(), 3 * most);
    }
}

TEST(XallocatorAllocator, PoolsWithMemoryOfTheirOwn) {
    if (checked) GTEST_SKIP() << "checks take their room out of it";
    static AllocatorPool<std::array<char, 24>, 7> pool("seven");
    std::vector<void *> held;
    while (void *p = pool.Allocate(24)) held.push_back(p);
    EXPECT_EQ(held.size(), 7u);
    for (void *p : held) {
        EXPECT_TRUE(p >= &pool && p < &pool + 1);
        pool.Deallocate(p);
    }
}

// ---- Containers
// ------------------------------------------------------------------------------------

TEST(XallocatorContainers, AllOfThem) {
    Balance balance;
    size_t before = objects();
    {
        loam::xlist<int> list(100);
        EXPECT_GE(objects(), before + 100);
        std::iota(list.begin(), list.end(), 0);
        loam::xmap<int, loam::xstring> map;
        loam::xmultimap<int, int> multimap;
        loam::xunordered_map<loam::xstring, int, std::hash<std::string_view>, std::equal_to<>>
            hashed;
        for (int i : list) {
            map[i % 10] += "a string that is not short";
            multimap.insert({i % 10, i});
            hashed[map[i % 10]] += i;
        }
        EXPECT_EQ(map.size(), 10u);
        EXPECT_EQ(map[3].size(), 260u);
        EXPECT_EQ(multimap.count(3), 10u);
        loam::xset<long> set(list.begin(), list.end());
        loam::xmultiset<int> multiset(list.begin(), list.end());
        loam::xunordered_set<int> unordered(list.begin(), list.end());
        loam::xforward_list<int> forward(list.begin(), list.end());
        EXPECT_EQ(set.size() + multiset.size() + unordered.size(), 300u);
        loam::xqueue<int> queue;
        loam::xstack<int> stack;
        loam::xpriority_queue<int> priority;
        for (int i : list) queue.push(i), stack.push(i), priority.push(i);
        EXPECT_EQ(queue.front() + stack.top() + priority.top(), 0 + 99 + 99);
        loam::xvector<int> vector(list.begin(), list.end()), moved = std::move(vector);
        EXPECT_EQ(moved.size(), 100u);
        loam::xlist<int> spliced;
        spliced.splice(spliced.begin(), list); // allocators are equal
        EXPECT_EQ(spliced.size(), 100u);
        loam::xwstring wide(100, L'w');
        auto shared = loam::xmake_shared<loam::xstring>(100, 's');
        EXPECT_EQ(wide.size(), shared->size());
    }
    EXPECT_EQ(objects(), before);
}

TEST(XallocatorContainers, Streams) {
    Balance balance;
    loam::xostringstream out;
    for (int i = 0; i < 100; i++) out << i << ' ';
    loam::xistringstream in(out.str());
    int sum = 0;
    for (int i; in >> i;) sum += i;
    EXPECT_EQ(sum, 4950);
    loam::xstringstream both;
    both << "longer than what fits into a string itself";
    EXPECT_EQ(both.str(), "longer than what fits into a string itself");
    loam::xwostringstream wide;
    wide << L"as long, and wide characters too";
    EXPECT_EQ(wide.str().size(), 32u);
}

TEST(XallocatorContainers, TooMuchIsBadAlloc) {
    loam::xalloc_allocator<uint64_t> allocator;
    EXPECT_THROW((void)allocator.allocate(SIZE_MAX / 8), std::bad_alloc);
    EXPECT_THROW((void)allocator.allocate(SIZE_MAX / 4),
                 std::bad_alloc); // count * 8 would wrap to small
}
