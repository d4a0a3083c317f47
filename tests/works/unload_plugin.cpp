/*
 * unload_plugin.cpp - the library that unload.c loads and closes, with hidden visibility: its
 * objects come from the pool of a class, of one kind or another (UNLOAD_KIND), or from xmalloc.
 */
#include <loam/pool.hpp>
#include <loam/xallocator.h>

#include <cstring>

namespace {

enum { kObjects = 100 };

#if UNLOAD_KIND == 1
struct unload_node {
    LOAM_POOLED(unload_node)
    char text[40];
};
extern "C" {
__attribute__((visibility("default"))) int is_pooled = 1;
}
#elif UNLOAD_KIND == 2
struct unload_node {
    DECLARE_ALLOCATOR
  public:
    char text[40];
};
IMPLEMENT_ALLOCATOR(unload_node, 0, 0)
#elif UNLOAD_KIND == 3
struct unload_node {
    XALLOCATOR
    char text[40];
};
#endif

/* Deleted by a destructor that runs after most others: of an object that was there before the pool.
 * */
struct Holder {
    unload_node *node = nullptr;
    ~Holder() { delete node; }
};
__attribute__((init_priority(200))) Holder holder;

} // namespace

/* DECLARE_ALLOCATOR is for one thread at a time. */
#if UNLOAD_KIND == 2
#include <mutex>
static std::mutex one_at_a_time;
#define ONE_AT_A_TIME std::lock_guard<std::mutex> held(one_at_a_time)
#else
#define ONE_AT_A_TIME
#endif

extern "C" __attribute__((visibility("default"))) int work(int keep) {
    ONE_AT_A_TIME;
    unload_node *nodes[kObjects];
    int made = 0;
    (void)keep;
    if (holder.node == nullptr) holder.node = new unload_node;
    for (auto &node : nodes) {
        node = new unload_node;
        std::memset(node->text, 1, sizeof node->text);
        made++;
    }
    for (auto node : nodes) delete node;
    return made;
}

/* An object that nobody frees. */
extern "C" __attribute__((visibility("default"))) char *leave() {
    ONE_AT_A_TIME;
    auto node = new unload_node;
    std::strcpy(node->text, "left by the plugin");
    return node->text;
}
