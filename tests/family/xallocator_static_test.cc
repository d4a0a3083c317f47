// xallocator_static_test.cc: loam/xallocator.h with STATIC_POOLS: an array, MAX_BLOCKS of each of
// MAX_ALLOCATORS classes, and no heap.
#define STATIC_POOLS
#define MAX_BLOCKS 9
#define MAX_ALLOCATORS 8
#include <loam/xallocator.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <malloc.h>

namespace {

const size_t classes[] = {16, 32, 64, 128, 256, 400, 512, 768};

// Before main.
struct Early {
    void *memory = memset(xmalloc(100), 5, 100);
    ~Early() { xfree(memory); }
} early;

struct Node {
    XALLOCATOR
    char bytes[200];
};

size_t heap_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    return mallinfo2().uordblks;
#endif
}

} // namespace

TEST(StaticPools, HaveTheirBlocksAndNoHeap) {
    loam_blocks *blocks = loam_xalloc_blocks();
    void *held[MAX_BLOCKS];
    size_t before = heap_bytes();
    const char *low = nullptr, *high = nullptr;
    for (int round = 0; round < 3; round++) {
        for (size_t bytes : classes) {
            size_t most = bytes == 128 ? MAX_BLOCKS - 1 : MAX_BLOCKS; // one is early's
            for (size_t i = 0; i < most; i++) {
                held[i] = xmalloc(bytes);
                if (held[i] == nullptr) abort();
                memset(held[i], 1, bytes);
                auto at = static_cast<const char *>(held[i]);
                if (low == nullptr || at < low) low = at;
                if (high == nullptr || at > high) high = at;
            }
            if (xmalloc(bytes) != nullptr)
                abort(); // empty: NULL, and nothing is written through it
            for (size_t i = most; i-- > 0;) xfree(held[i]);
        }
        if (xmalloc(769) != nullptr) abort();
    }
    EXPECT_EQ(heap_bytes(), before);
    size_t guards = 0;
#ifdef LOAM_DEBUG
    guards = 16 * MAX_BLOCKS * (sizeof classes / sizeof *classes);
#endif
    EXPECT_LT(static_cast<size_t>(high - low), 2176 * MAX_BLOCKS + guards);
    loam_usage usage;
    loam_blocks_usage(blocks, &usage);
    EXPECT_EQ(usage.objects, 1u);
    EXPECT_EQ(usage.requests, 0u); // of a source
    EXPECT_TRUE(loam_blocks_check(blocks));
}

TEST(StaticPools, StatsCountTheirBlocks) {
    void *p = xmalloc(390);
    std::string text;
    loam_xalloc_stats([](const char *line, void *to) { *static_cast<std::string *>(to) += line; },
                      &text);
    /* How many are made at a time depends on checks. */
    const char *line = strstr(text.c_str(), "xallocator Block Size: 400 Block Count: ");
    ASSERT_NE(line, nullptr) << text;
    unsigned count = 0, in_use = 0;
    EXPECT_EQ(sscanf(line, "xallocator Block Size: 400 Block Count: %u Blocks In Use: %u\n", &count,
                     &in_use),
              2)
        << text;
    EXPECT_GE(count, 1u);
    EXPECT_EQ(in_use, 1u);
    xfree(p);
}

TEST(StaticPools, ClassesAndContainersOfThem) {
    std::unique_ptr<Node> nodes[MAX_BLOCKS];
    for (auto &node : nodes) node.reset(new Node);
    EXPECT_THROW(new Node, std::bad_alloc);
    EXPECT_EQ(new (std::nothrow) Node, nullptr);
    loam::xlist<int> list;
    auto fill = [&] {
        for (;;) list.push_back(1);
    };
    EXPECT_THROW(fill(), std::bad_alloc);
    EXPECT_EQ(list.size(), size_t{MAX_BLOCKS});
}

TEST(StaticPools, ReallocWithinTheArray) {
    auto p = static_cast<char *>(xrealloc(nullptr, 20));
    strcpy(p, "kept");
    p = static_cast<char *>(xrealloc(p, 700));
    EXPECT_EQ(xrealloc(p, 5000), nullptr);
    EXPECT_STREQ(p, "kept");
    EXPECT_EQ(xrealloc(p, 0), nullptr);
}
