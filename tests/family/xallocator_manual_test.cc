// xallocator_manual_test.cc: loam/xallocator.h where the program has all in hand: no start by
// itself, options, classes and locks of its own, and a class that is called Allocator.
#define XALLOCATOR_MANUAL
#define XALLOCATOR_OWN_OPTIONS
#define XALLOCATOR_IN_NAMESPACE
#include <loam/xallocator.h>

#include <gtest/gtest.h>

#include <cstring>

namespace {

struct Allocator {}; // the program's

struct Port {
    int inits, gets, releases, destroys;
} port;

Port *port_of(void *context) { return static_cast<Port *>(context); }

} // namespace

const loam_blocks_options *loam_xalloc_options() noexcept {
    static const uint32_t classes[] = {48, 96};
    static const loam_blocks_locks locks = {
        [](void *p) { port_of(p)->inits++; }, [](void *p) { port_of(p)->gets++; },
        [](void *p) { port_of(p)->releases++; }, [](void *p) { port_of(p)->destroys++; }, &port};
    static loam_blocks_options options;
    options.classes = classes;
    options.class_count = 2;
    options.flags = LOAM_THREADS;
    options.locks = &locks;
    return &options;
}

TEST(XallocatorManual, NothingStartsByItselfAndThePortsLocksAreUsed) {
    EXPECT_EQ(port.inits, 0) << "before its first use";
    EXPECT_EQ(sizeof(Allocator), 1u);
    void *p = xmalloc(40);
    ASSERT_NE(p, nullptr);
    memset(p, 1, 40);
    EXPECT_EQ(port.inits, 1);
    EXPECT_EQ(port.gets, 1);
    loam_blocks_class_info of_48;
    ASSERT_EQ(loam_blocks_class_usage(loam_xalloc_blocks(), 0, &of_48), 0);
    EXPECT_EQ(of_48.block_bytes, 48u);
    loam_blocks_class_info none;
    EXPECT_LT(loam_blocks_class_usage(loam_xalloc_blocks(), 2, &none), 0);
    int gets = port.gets;
    xfree(p);
    EXPECT_EQ(port.gets, gets + 1);
    EXPECT_EQ(port.releases, port.gets);
    EXPECT_EQ(port.destroys, 0);
    xalloc_destroy();
    EXPECT_EQ(port.destroys, 1);
    xalloc_init();
    EXPECT_EQ(port.inits, 2);
    xalloc_destroy();
    EXPECT_EQ(port.destroys, 2);
}
