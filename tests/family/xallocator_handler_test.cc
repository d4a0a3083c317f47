// xallocator_handler_test.cc: the new handler of classes over xallocator that find no memory, in a
// program that defines AUTOMATIC_XALLOCATOR_INIT_DESTROY, as programs for the original do: it
// compiles, and nothing else is needed.
#define AUTOMATIC_XALLOCATOR_INIT_DESTROY
#define STATIC_POOLS
#define MAX_BLOCKS 8
#include <loam/xallocator.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <unistd.h>
#include <vector>

namespace {

/* Before main and behind it. */
struct Early {
    void *memory = xmalloc(1000);
    Early() {
        if (memory != nullptr) memset(memory, 7, 1000);
    }
    ~Early() {
        if (static_cast<char *>(memory)[999] != 7) _exit(3);
        xfree(memory);
        void *another = xmalloc(1000);
        if (another == nullptr) _exit(4);
        xfree(another);
    }
} early;

struct Shared {
    XALLOCATOR
    char bytes[200];
};
struct alignas(64) Wide {
    XALLOCATOR
    char bytes[192];
};
struct Own {
    DECLARE_ALLOCATOR
  public:
    char bytes[40];
};
struct OwnLarger : Own {
    char more[100];
};
struct OwnStatic {
    DECLARE_ALLOCATOR
  public:
    char bytes[64];
};
alignas(16) char own_memory[4096];

struct Enough {};

int asked;
std::vector<void *> hoard;
void (*give_back)(void *);

/* The handler for as long as a test runs. */
struct Handler {
    explicit Handler(std::new_handler handler) {
        asked = 0;
        std::set_new_handler(handler);
    }
    ~Handler() { std::set_new_handler(nullptr); }
};

void three_times() {
    if (++asked == 3) std::set_new_handler(nullptr);
}
void throwing() {
    asked++;
    throw Enough();
}
void making_room() {
    asked++;
    give_back(hoard.back());
    hoard.pop_back();
}

template <typename T> void fill() {
    while (T *one = new (std::nothrow) T) {
        memset(one->bytes, 1, sizeof one->bytes);
        hoard.push_back(one);
    }
}

template <typename T> void test_class(size_t least = 1) {
    ASSERT_TRUE(hoard.empty());
    fill<T>();
    ASSERT_GE(hoard.size(), least);
    const size_t most = hoard.size();
    {
        Handler handler(three_times);
        EXPECT_THROW(delete new T, std::bad_alloc);
        EXPECT_EQ(asked, 3);
    }
    {
        Handler handler(three_times);
        EXPECT_EQ(new (std::nothrow) T, nullptr);
        EXPECT_EQ(asked, 3) << "operator new (std::nothrow) asks as well";
    }
    {
        Handler handler(throwing);
        EXPECT_THROW(delete new T, Enough);
        EXPECT_EQ(new (std::nothrow) T, nullptr) << "what the handler throws ends there";
        EXPECT_EQ(asked, 2);
    }
    give_back = [](void *p) { delete static_cast<T *>(p); };
    if (most > 0) {
        Handler handler(making_room);
        hoard.push_back(new T);
        EXPECT_EQ(asked, 1);
        EXPECT_EQ(hoard.size(), most);
        hoard.push_back(new (std::nothrow) T);
        EXPECT_EQ(asked, 2);
    }
    EXPECT_EQ(hoard.size(), most);
    EXPECT_THROW(delete new T, std::bad_alloc) << "without a handler";
    for (void *each : hoard) {
        EXPECT_NE(each, nullptr);
        give_back(each);
    }
    hoard.clear();
    if (most > 0) delete new T;
}

} // namespace

IMPLEMENT_ALLOCATOR(Own, 5, nullptr)
IMPLEMENT_ALLOCATOR(OwnStatic, 5, own_memory)

TEST(XallocatorHandler, IsAskedByClassesOfTheSharedBlocks) { test_class<Shared>(); }
/* Blocks of static pools lie at multiples of 16: chance decides how many lie at multiples of 64. */
TEST(XallocatorHandler, IsAskedByOverAlignedClasses) { test_class<Wide>(0); }
TEST(XallocatorHandler, IsAskedByClassesWithAPoolOfTheirOwn) {
    test_class<Own>();
    test_class<OwnStatic>();
}

TEST(XallocatorHandler, IsAskedByArrays) {
    fill<Shared>();
    Handler handler(three_times);
    EXPECT_THROW(delete[] new Shared[1], std::bad_alloc);
    EXPECT_EQ(asked, 3);
    std::set_new_handler(three_times);
    asked = 0;
    EXPECT_EQ(new (std::nothrow) Shared[1], nullptr);
    EXPECT_EQ(asked, 3);
    for (void *each : hoard) delete static_cast<Shared *>(each);
    hoard.clear();
}

TEST(XallocatorHandler, IsNotAskedForAClassThatIsTooLarge) {
    Handler handler(throwing);
    EXPECT_THROW(delete new OwnLarger, std::bad_alloc);
    EXPECT_EQ(new (std::nothrow) OwnLarger, nullptr);
    EXPECT_EQ(asked, 0);
}

TEST(XallocatorAutomatic, WorksBeforeMainAndNeedsNoInit) {
    ASSERT_NE(early.memory, nullptr);
    EXPECT_EQ(static_cast<char *>(early.memory)[0], 7);
}
