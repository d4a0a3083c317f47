// pool_hpp_test.cc: the pool for C++: owners, objects, memory resource, allocator, operators new
// and delete of classes.
#include "loam/heap.hpp"
#include "loam/pool.hpp"

#include "family/pool_sources.h"

#include <gtest/gtest.h>

#include <cstring>
#include <forward_list>
#include <list>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

extern "C" {
#include "family/family.h"
}

namespace {

#ifdef LOAM_DEBUG
constexpr bool checked = true;
#else
constexpr bool checked = false;
#endif

TEST(PoolHpp, OwnsItsMemory) {
    Counted counted;
    {
        loam::pool pool(100, {}, &counted.source);
        void *p = pool.alloc(), *q = pool.alloc();
        EXPECT_NE(p, q);
        EXPECT_TRUE(pool.owns(p));
        EXPECT_FALSE(pool.owns(&pool));
        EXPECT_EQ(pool.usage().objects, 2u);
        pool.free(p);
        pool.free(nullptr);
        EXPECT_EQ(pool.usage().objects, 1u);
        EXPECT_TRUE(pool.check());
        pool.reset();
        EXPECT_EQ(pool.usage().objects, 0u);
        EXPECT_GT(pool.trim(), 0u);
        EXPECT_NE(pool.alloc(), nullptr);
    }
    EXPECT_EQ(counted.used_bytes, 0u);
}

TEST(PoolHpp, OutOfMemoryIsBadAlloc) {
    EXPECT_THROW(loam::pool(0), std::bad_alloc);
    EXPECT_THROW(loam::pool(SIZE_MAX), std::bad_alloc);
    char memory[4096];
    EXPECT_THROW(loam::pool(memory, 10, 64), std::bad_alloc);
    loam::pool pool(memory, sizeof memory, 64);
    size_t blocks = 0;
    while (pool.try_alloc() != nullptr) blocks++;
    EXPECT_GT(blocks, 10u);
    EXPECT_THROW((void)pool.alloc(), std::bad_alloc);
}

struct Counter {
    static int alive;
    int value;
    explicit Counter(int value) : value(value) {
        if (value < 0) throw value;
        alive++;
    }
    Counter(const Counter &) = delete;
    ~Counter() { alive--; }
};
int Counter::alive;

TEST(PoolHpp, MakesAndDestroysObjects) {
    loam::pool_of<Counter> pool;
    Counter *a = pool.make(1), *b = pool.make(2);
    EXPECT_EQ(a->value + b->value, 3);
    EXPECT_EQ(Counter::alive, 2);
    pool.destroy(a);
    pool.destroy(nullptr);
    EXPECT_EQ(Counter::alive, 1);
    EXPECT_THROW((void)pool.make(-1), int);
    EXPECT_EQ(pool.usage().objects, 1u) << "the block of what threw is free";
    {
        auto owner = pool.make_unique(7);
        EXPECT_EQ(owner->value, 7);
        EXPECT_TRUE(pool.owns(owner.get()));
        EXPECT_EQ(Counter::alive, 2);
    }
    EXPECT_EQ(Counter::alive, 1);
    pool.destroy(b);
    EXPECT_EQ(pool.usage().objects, 0u);
    EXPECT_TRUE(pool.check());
}

struct alignas(128) Wide {
    char bytes[130];
};

TEST(PoolHpp, ObjectsAreAlignedAsTheirType) {
    loam::pool_of<Wide> pool;
    for (int i = 0; i < 100; i++) EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.make()) % 128, 0u);
    loam_pool_options options = {};
    options.align = 4096;
    loam::pool_of<int> pages(options);
    for (int i = 0; i < 10; i++) EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.make(i)) % 4096, 0u);
}

TEST(PoolHpp, AResourceServesNodesAndSendsTheRestUpstream) {
    struct Upstream final : std::pmr::memory_resource {
        size_t gets = 0, out = 0;
        void *do_allocate(size_t bytes, size_t align) override {
            gets++, out++;
            return std::pmr::new_delete_resource()->allocate(bytes, align);
        }
        void do_deallocate(void *p, size_t bytes, size_t align) override {
            out--;
            std::pmr::new_delete_resource()->deallocate(p, bytes, align);
        }
        bool do_is_equal(const memory_resource &other) const noexcept override {
            return this == &other;
        }
    } upstream;
    {
        loam::pool_resource resource(64, {}, nullptr, &upstream);
        EXPECT_EQ(resource.upstream_resource(), &upstream);
        EXPECT_TRUE(resource.is_equal(resource));
        EXPECT_FALSE(resource.is_equal(upstream));
        {
            std::pmr::map<int, int> map(&resource);
            for (int i = 0; i < 1000; i++) map[i * 7 % 1000] = i;
            EXPECT_EQ(upstream.gets, 0u);
            EXPECT_EQ(resource.blocks().usage().objects, 1000u);
            std::pmr::vector<int> vector(1000, 1, &resource);
            EXPECT_EQ(upstream.gets, 1u);
            void *aligned = resource.allocate(64, 256);
            EXPECT_EQ(upstream.gets, 2u) << "aligned to more than its blocks";
            resource.deallocate(aligned, 64, 256);
            std::pmr::map<int, int> moved(std::move(map));
            EXPECT_EQ(moved.size(), 1000u);
        }
        EXPECT_EQ(resource.blocks().usage().objects, 0u);
    }
    EXPECT_EQ(upstream.out, 0u);
}

TEST(PoolHpp, ManyThreadsShareAResource) {
    EXPECT_THROW(loam::shared_pool(0), std::bad_alloc);
    EXPECT_THROW(loam::shared_pool_resource(SIZE_MAX), std::bad_alloc);
    loam_count count;
    loam_count_init(&count, loam_pages());
    {
        loam::shared_pool_resource resource(64, {}, &count.source);
        EXPECT_EQ(resource.upstream_resource(), std::pmr::get_default_resource());
        EXPECT_TRUE(resource.is_equal(resource));
        std::pmr::list<int> lists[4] = {
            std::pmr::list<int>(&resource), std::pmr::list<int>(&resource),
            std::pmr::list<int>(&resource), std::pmr::list<int>(&resource)};
        for (int round = 0; round < 3; round++) {
            std::vector<std::thread> threads;
            for (int t = 0; t < 4; t++)
                threads.emplace_back([&, t] {
                    std::pmr::list<int> &list = lists[(t + round) % 4]; // another thread's
                    for (int i = 0; i < 5000; i++) list.push_back(i);
                    for (int i = 0; i < 4000; i++) list.pop_front();
                    std::pmr::vector<int> larger(1000, t, &resource); // upstream
                    EXPECT_EQ(larger[999], t);
                });
            for (auto &each : threads) each.join();
        }
        EXPECT_EQ(resource.blocks().usage().objects, 12000u);
        EXPECT_TRUE(resource.blocks().check());
        EXPECT_TRUE(resource.blocks().owns(&lists[0].front() - 4));
        for (auto &each : lists) {
            EXPECT_EQ(each.size(), 3000u);
            each.clear();
        }
        EXPECT_EQ(resource.blocks().usage().objects, 0u);
        EXPECT_GT(resource.blocks().trim(), 0u);
    }
    EXPECT_EQ(count.used_bytes, 0u);
}

TEST(PoolHpp, SmallContainersHoldLittle) {
    using Map = std::map<int, int, std::less<>, loam::pool_allocator<std::pair<const int, int>>>;
    loam::heap heap; // what the pools of the scope are from
    {
        std::vector<Map> maps(100);
        loam::heap_scope scope(heap);
        for (Map &each : maps) each[1] = each[2] = each[3] = 1;
        if (!checked && !lm_tool_watches()) {
            EXPECT_LT(heap.usage().object_bytes / maps.size(), 1100u);
        }
        for (int i = 0; i < 1000; i++) maps[0][i] = i; // and more come in fewer steps
        EXPECT_LT(heap.usage().objects, 220u);
    }
    EXPECT_EQ(heap.usage().objects, 0u);
}

TEST(PoolHpp, ContainersOfNodesUseTheAllocator) {
    using Pair = std::pair<const int, std::string>;
    std::list<int, loam::pool_allocator<int>> list;
    std::map<int, std::string, std::less<int>, loam::pool_allocator<Pair>> map;
    std::set<double, std::less<double>, loam::pool_allocator<double>> set;
    std::forward_list<char, loam::pool_allocator<char>> forward;
    std::unordered_map<int, std::string, std::hash<int>, std::equal_to<int>,
                       loam::pool_allocator<Pair>>
        hash;
    for (int i = 0; i < 2000; i++) {
        list.push_back(i);
        map[i] = std::to_string(i);
        set.insert(i * .5);
        forward.push_front(static_cast<char>(i));
        hash[i] = std::to_string(i);
        if (i % 3 == 0) {
            list.pop_front();
            map.erase(i / 2);
            hash.erase(i / 2);
            forward.pop_front();
        }
    }
    for (auto &each : map) EXPECT_EQ(each.second, std::to_string(each.first));
    for (auto &each : hash) EXPECT_EQ(map.count(each.first), 1u);
    auto copy = map;
    EXPECT_EQ(copy, map);
    auto moved = std::move(list);
    list.push_back(1); // what was moved from can be used again
    EXPECT_EQ(list.size(), 1u);
    EXPECT_EQ(moved.size(), 2000u - 667);
    std::list<int, loam::pool_allocator<int>> other;
    other.push_back(5);
    other = std::move(moved); // nodes of its own pools
    EXPECT_EQ(other.size(), 2000u - 667);
    std::list<int, loam::pool_allocator<int>> sibling(other.get_allocator());
    sibling.swap(other); // allocators are equal
    EXPECT_EQ(sibling.size(), 2000u - 667);
    std::vector<int, loam::pool_allocator<int>> vector(1000,
                                                       3); // arrays are not for pools, and work
    EXPECT_EQ(vector[999], 3);
}

TEST(PoolHpp, AllocatorsAreEqualIffTheyShareTheirPools) {
    loam::pool_allocator<int> a, b;
    loam::pool_allocator<int> copy(a);
    loam::pool_allocator<long> other(a);
    EXPECT_TRUE(a == copy && a == other && a != b);
    loam::pool_allocator<int> moved(std::move(copy));
    EXPECT_TRUE(moved == a && copy == a) << "what was moved from is what it was";
    long *p = other.allocate(1);
    loam::pool_allocator<long>(a).deallocate(p, 1);
    EXPECT_THROW((void)a.allocate(SIZE_MAX / 2), std::bad_alloc);
    EXPECT_THROW((void)a.allocate(SIZE_MAX), std::bad_alloc);
    loam::pool_allocator<Wide> wide;
    Wide *w = wide.allocate(1), *many = wide.allocate(3);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(w) % 128, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(many) % 128, 0u);
    wide.deallocate(w, 1);
    wide.deallocate(many, 3);
}

/* ---- Classes ---- */

class Shape {
    LOAM_POOLED(Shape)
    virtual ~Shape() = default;
    long corners[3] = {};
};
class Square : public Shape {}; // as large
class Star : public Shape {
  public:
    long rays[100] = {}; // larger
};
using ShapePool = loam::detail::class_pool<Shape, sizeof(Shape), 0, 0>;

size_t objects_of(loam_shared_pool *pool) {
    loam_usage usage;
    loam_shared_pool_usage(pool, &usage);
    return usage.objects;
}

// Each destroys exactly what is there, whatever was freed and made again, in one chunk or many.
TEST(PoolHpp, AnEndRunsDestructors) {
    static std::set<int> alive;
    struct Listed {
        explicit Listed(int n) : number(n) { EXPECT_TRUE(alive.insert(n).second); }
        ~Listed() { EXPECT_EQ(alive.erase(number), 1u); }
        int number;
        char rest[60] = {};
    };
    for (unsigned flags : {0u, unsigned{LOAM_CHECK}, unsigned{LOAM_POOL_HANDLES}}) {
        for (int many : {0, 1, 7, 100, 5000}) {
            loam_pool_options options = {};
            options.flags = flags;
            loam::object_pool<Listed> pool(options);
            int next = 0;
            for (int turn = 0; turn < 3; turn++) {
                std::vector<Listed *> made;
                for (int i = 0; i < many; i++) made.push_back(pool.make(next++));
                for (int i = turn; i < many; i += 2 + turn) pool.destroy(made[i]);
                size_t left = alive.size();
                if (turn == 0) {
                    EXPECT_EQ(pool.destroy_all(), left);
                }
                if (turn == 1) pool.reset();
                EXPECT_EQ(alive.size(), turn < 2 ? 0 : left);
                EXPECT_EQ(pool.usage().objects, alive.size());
                EXPECT_TRUE(pool.check());
            }
        }
        EXPECT_TRUE(alive.empty());
    }
}

TEST(PoolHpp, ClassesUseAPoolOfTheirOwn) {
    EXPECT_EQ(objects_of(ShapePool::get()), 0u);
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < 300; i++) {
        if (i % 3 == 0) shapes.emplace_back(new Shape);
        if (i % 3 == 1) shapes.emplace_back(new Square);
        if (i % 3 == 2) shapes.emplace_back(new Star);
    }
    EXPECT_EQ(objects_of(ShapePool::get()), 200u) << "but what is larger";
    EXPECT_TRUE(loam_shared_pool_owns(ShapePool::get(), shapes[0].get()));
    EXPECT_FALSE(loam_shared_pool_owns(ShapePool::get(), shapes[2].get()));
    auto *array = new Shape[10];
    EXPECT_EQ(objects_of(ShapePool::get()), 200u) << "and arrays";
    delete[] array;
    std::thread([&] { shapes.clear(); }).join(); // another thread frees
    EXPECT_EQ(objects_of(ShapePool::get()), 0u);
    delete static_cast<Shape *>(nullptr);
    alignas(Shape) char memory[sizeof(Shape)];
    auto *placed = new (memory) Shape;
    placed->~Shape();
}

/* A hierarchy: blocks as large as its largest, for whatever needs at least half of one, 20 of
 * them. */
class Message {
    LOAM_POOLED_BLOCKS(Message, 96, 100, 20)
    virtual ~Message() = default;
};
class Small : public Message { // a third of a block: not worth one
  public:
    char body[24] = {};
};
class Medium : public Message {
  public:
    char body[56] = {};
};
class Large : public Message {
  public:
    char body[88] = {};
};
using MessagePool = loam::detail::class_pool<Message, 96, 100, 20>;

TEST(PoolHpp, AHierarchySharesBlocksWithinItsToleranceUpToItsLimit) {
    std::vector<std::unique_ptr<Message>> messages;
    messages.emplace_back(new Small);
    EXPECT_EQ(objects_of(MessagePool::get()), 0u);
    for (int i = 0; i < 10; i++) {
        messages.emplace_back(new Medium);
        messages.emplace_back(new Large);
    }
    EXPECT_EQ(objects_of(MessagePool::get()), 20u);
    for (int i = 0; i < 10; i++) messages.emplace_back(new Large);
    EXPECT_EQ(objects_of(MessagePool::get()), 20u) << "the rest is operator new's";
    EXPECT_FALSE(loam_shared_pool_owns(MessagePool::get(), messages.back().get()));
    messages.erase(messages.begin(), messages.begin() + 5);
    messages.clear(); // and each finds its way back
    EXPECT_EQ(objects_of(MessagePool::get()), 0u);
    EXPECT_TRUE(loam_shared_pool_check(MessagePool::get()));
}

class alignas(64) Line {
    LOAM_POOLED(Line)
    char bytes[64];
};
class alignas(256) WideLine : public Line {
    LOAM_POOLED_BLOCKS(Line, sizeof(WideLine), 0, 0)
};

TEST(PoolHpp, ClassesAreAlignedAsTheyAsk) {
    std::vector<std::unique_ptr<Line>> lines;
    for (int i = 0; i < 50; i++) {
        lines.emplace_back(new Line);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(lines.back().get()) % 64, 0u);
    }
    using Pool = loam::detail::class_pool<Line, sizeof(Line), 0, 0>;
    EXPECT_EQ(objects_of(Pool::get()), 50u);
    for (int i = 0; i < 10; i++) { // more than the pool of Line promises: from the system
        std::unique_ptr<WideLine> wide(new WideLine);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.get()) % 256, 0u);
    }
}

} // namespace
