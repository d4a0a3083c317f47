/* arena_test.cc: threads in one arena over memory of the program: they have heaps of their own,
 * free one another's objects, and resize objects. Beside it, arenas come and go while other threads
 * ask which arena a pointer belongs to.
 *
 * Every block is stamped, and the stamp is checked before the block is freed. So it shows if a
 * block is handed out twice, or lies in another arena's map.
 */
#include "short_delay.h"
#include "stress.h"

#include "loam/arena.h"

extern "C" {
#include "survey/survey.h"
}

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace {

using namespace stress;

constexpr unsigned kThreads = 4;
constexpr size_t kSlots = 2000, kBytes = size_t{64} << 20;
using Table = Shelf<kSlots>;

class Arena : public Stress {
  protected:
    void SetUp() override {
        memory_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT_NE(MAP_FAILED, memory_);
    }
    void TearDown() override {
        loam_collect();
        lm_span_check();
        if (arena_ != nullptr) {
            /* Or the memory stays: the worker would touch it later. */
            ASSERT_EQ(0, loam_arena_destroy(arena_));
        }
        munmap(memory_, kBytes);
        Stress::TearDown();
    }
    void *memory_ = nullptr;
    loam_arena *arena_ = nullptr;
};

size_t some_size(Random &random) {
    static const size_t sizes[] = {32, 48, 100, 300, 3000, 20000, 70000, 200000};
    size_t i = random.below(8);
    return sizes[i > 4 && random.below(4) != 0 ? i - 4 : i];
}

/* Each thread runs the body again and again, as long as the test lasts; counts as rounds of it. */
template <typename Body> void crew(unsigned count, Body body) {
    Clock clock;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; t++) {
        threads.emplace_back([&, t] {
            Random random(t + 3);
            while (clock.running()) body(t, random);
        });
    }
    for (auto &thread : threads) thread.join();
}

TEST_F(Arena, SharesOneHeapOfAnExclusiveOne) {
    ASSERT_EQ(0, loam_manage_memory(memory_, kBytes, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena_));
    loam_heap *heap = loam_heap_create_in(arena_, true);
    ASSERT_NE(nullptr, heap);
    static Table table;
    crew(kThreads, [&](unsigned self, Random &random) {
        for (int i = 0; i < 1000; i++) {
            size_t slot = random.below(kSlots), bytes = some_size(random);
            Block *fresh = nullptr;
            if (random.below(3) != 0)
                fresh = stamp_block(loam_heap_malloc(heap, bytes), bytes, random.next() + self);
            Block *old = table.swap(slot, fresh);
            if (old != nullptr) free_block(old);
            if (i % 64 == 0) loam_free(loam_malloc(bytes)); /* malloc goes on beside it */
        }
    });
    lm_fheap_check(heap);
    table.clear();
    loam_heap_destroy(heap);
}

TEST_F(Arena, ServesEverybody) {
    ASSERT_EQ(0, loam_manage_memory(memory_, kBytes, 0, LOAM_NODE_ANY, &arena_));
    static Table table;
    crew(kThreads, [&](unsigned, Random &random) {
        /* In a thread that ends: what it leaves is others'. */
        std::thread guest([&] {
            for (int i = 0; i < 3000; i++) {
                size_t slot = random.below(kSlots), bytes = some_size(random);
                Block *fresh = nullptr;
                if (random.below(3) != 0) fresh = make_block(bytes, random.next());
                Block *old = table.swap(slot, fresh);
                if (old != nullptr) free_block(old);
            }
        });
        guest.join();
    });
    table.clear();
    lm_heap_collect();
}

/* Who asks about a pointer walks a table in which entries come and go. */
TEST_F(Arena, ComesAndGoesWhileOthersAsk) {
    ASSERT_EQ(
        0, loam_manage_memory(memory_, kBytes / 2, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena_));
    loam_heap *heap = loam_heap_create_in(arena_, false);
    ASSERT_NE(nullptr, heap);
    char *rest = static_cast<char *>(memory_) + kBytes / 2;
    crew(kThreads, [&](unsigned self, Random &random) {
        if (self % 2 == 0) {
            char *mine = rest + self * (kBytes / 2 / kThreads);
            for (int i = 0; i < 100; i++) {
                loam_arena *arena = nullptr;
                /* Now longer, now shorter: a start with another's length would be found out. */
                size_t bytes = (1 + random.below(100)) << 16;
                if (loam_manage_memory(mine, bytes, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena) !=
                    0)
                    abort();
                loam_heap *own = loam_heap_create_in(arena, false);
                if (own == nullptr) abort();
                loam_free(loam_heap_malloc(own, 100));
                loam_heap_destroy(own);
                if (loam_arena_destroy(arena) != 0) abort();
            }
            return;
        }
        int local = 0;
        for (int i = 0; i < 1000; i++) {
            size_t bytes = 24 + random.below(2000);
            Block *block = stamp_block(loam_heap_malloc(heap, bytes), bytes, random.next() + self);
            if (loam_usable_size(block) < bytes || !loam_arena_contains(arena_, block)) abort();
            if (loam_heap_contains(heap, &local)) abort();
            free_block(block);
        }
    });
    loam_heap_destroy(heap);
}

TEST_F(Arena, IsThereInTheChildOfAFork) {
    ASSERT_EQ(0, loam_manage_memory(memory_, kBytes, 0, LOAM_NODE_ANY, &arena_));
    static Table table;
    crew(kThreads, [&](unsigned self, Random &random) {
        for (int i = 0; i < 3000; i++) {
            Block *old = table.swap(random.next(), make_block(some_size(random), random.next()));
            if (old != nullptr) free_block(old);
            if (self != 0 || i % 300 != 0) continue;
            pid_t child = fork();
            if (child == 0) {
                for (int j = 0; j < 500; j++) loam_free(loam_malloc(some_size(random)));
                lm_span_check();
                _exit(0);
            }
            int status = 1;
            if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) abort();
        }
    });
    table.clear();
    lm_heap_collect();
}

} // namespace
