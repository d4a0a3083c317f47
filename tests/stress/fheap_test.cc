/* fheap_test.cc: first-class heaps of many threads, while the worker collects, threads come and go,
 * and heaps end.
 *
 * Every block is stamped, and the stamp is checked before the block is freed. A block that two
 * heaps hand out, or that destroying one heap takes from another, shows as a changed stamp. At the
 * end a walk must find as many objects as the program holds.
 */
#include "short_delay.h"
#include "stress.h"

extern "C" {
#include "survey/survey.h"
}

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace {

using namespace stress;

class Fheap : public Stress {
  protected:
    void TearDown() override {
        loam_collect();
        lm_span_check();
        Stress::TearDown();
    }
};

constexpr size_t kHeaps = 3;
constexpr unsigned kThreads = 4;
using Heaps = std::array<loam_heap *, kHeaps>;
constexpr size_t kSlots = 3000;
using Table = Shelf<kSlots>;

size_t held_in(Table &table) {
    size_t n = 0;
    table.each([&](Block *block) {
        check_block(block);
        n++;
    });
    return n;
}

void forget_all(Table &table) {
    for (size_t i = 0; i < kSlots; i++) (void)table.swap(i, nullptr);
}

size_t some_size(Random &random) {
    static const size_t sizes[] = {32, 48, 100, 100, 700, 3000, 20000, 90000};
    return sizes[random.below(16) % 8 == 7 && random.below(8) != 0 ? 0 : random.below(8)];
}

Block *make_in(loam_heap *heap, size_t bytes, uint64_t stamp) {
    return stamp_block(loam_heap_malloc(heap, bytes), bytes, stamp);
}

/* Heap kHeaps is malloc. */
Block *make_anywhere(const Heaps &heaps, Random &random) {
    size_t bytes = some_size(random), which = random.below(kHeaps + 1);
    return which == kHeaps ? make_block(bytes, random.next())
                           : make_in(heaps[which], bytes, random.next());
}

/* Tables of their own: what is to be in a heap at the end is known. */
void traffic(const Heaps &heaps, std::array<Table, kHeaps + 1> &tables, Random random,
             unsigned steps) {
    for (unsigned i = 0; i < steps; i++) {
        size_t which = random.below(kHeaps + 1), bytes = some_size(random);
        Block *block = nullptr;
        if (random.below(3) != 0) {
            block = which == kHeaps ? make_block(bytes, random.next())
                                    : make_in(heaps[which], bytes, random.next());
        }
        Block *old = tables[which].swap(random.next(), block);
        if (old != nullptr) free_block(old);
        if (random.below(4000) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (random.below(3000) == 0) loam_heap_collect(heaps[random.below(kHeaps)]);
        if (random.below(5000) == 0) loam_collect();
    }
}

size_t objects_in(loam_heap *heap) {
    loam_heap_numbers numbers;
    loam_heap_usage(heap, &numbers);
    return numbers.objects;
}

TEST_F(Fheap, TrafficBetweenThreadsAndHeaps) {
    static std::array<Table, kHeaps + 1> tables;
    Heaps heaps;
    for (auto &heap : heaps) heap = loam_heap_create();
    Clock clock;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            for (unsigned round = 0; clock.running(); round++) {
                /* Every other round in a thread of its own, whose branches are left behind. */
                auto body = [&] { traffic(heaps, tables, Random(t * 1000 + round), 2000); };
                if (round % 2 == 0) {
                    body();
                } else {
                    std::thread guest(body);
                    guest.join();
                }
            }
        });
    }
    for (auto &thread : threads) thread.join();
    for (size_t i = 0; i < kHeaps; i++) {
        lm_fheap_check(heaps[i]);
        EXPECT_EQ(held_in(tables[i]), objects_in(heaps[i]));
    }
    /* One ends with its objects, one hands them over, one is emptied. */
    forget_all(tables[0]);
    loam_heap_destroy(heaps[0]);
    loam_heap_delete(heaps[1]);
    for (size_t i = 1; i <= kHeaps; i++) tables[i].clear();
    EXPECT_EQ(0u, objects_in(heaps[2]));
    loam_heap_destroy(heaps[2]);
}

/* Heaps that several threads use and one thread ends, again and again at the same address. */
TEST_F(Fheap, GenerationsOfHeaps) {
    std::atomic<loam_heap *> shared{nullptr};
    std::atomic<unsigned> round{0}, done{0};
    std::atomic<bool> ending{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            Random random(t + 7);
            std::vector<Block *> own;
            for (unsigned seen = 0;;) {
                unsigned now = round.load(std::memory_order_acquire);
                if (ending) break;
                if (now == seen) {
                    /* Between two heaps: malloc goes on. */
                    own.push_back(make_block(some_size(random), random.next()));
                    if (own.size() > 50) {
                        for (Block *block : own) free_block(block);
                        own.clear();
                    }
                    continue;
                }
                seen = now;
                loam_heap *heap = shared.load(std::memory_order_relaxed);
                bool as_default = random.below(3) == 0;
                if (as_default && loam_heap_set_default(heap, nullptr) != 0) fail("default", heap);
                std::vector<Block *> taken;
                for (int i = 0; i < 300; i++) {
                    size_t bytes = some_size(random);
                    taken.push_back(as_default ? make_block(bytes, random.next())
                                               : make_in(heap, bytes, random.next()));
                    if (random.below(3) == 0) {
                        std::swap(taken[random.below(taken.size())], taken.back());
                        free_block(taken.back());
                        taken.pop_back();
                    }
                }
                for (Block *block : taken) check_block(block);
                if (as_default) (void)loam_heap_set_default(nullptr, nullptr);
                done.fetch_add(1, std::memory_order_release);
            }
            for (Block *block : own) free_block(block);
        });
    }
    Clock clock;
    while (clock.running(round, 6)) {
        loam_heap *heap = loam_heap_create();
        if (heap == nullptr) abort();
        (void)loam_heap_malloc(heap, 100);
        shared = heap;
        done = 0;
        round.fetch_add(1, std::memory_order_release);
        while (done.load(std::memory_order_acquire) != kThreads) std::this_thread::yield();
        lm_fheap_check(heap);
        loam_heap_destroy(heap);
    }
    ending = true;
    for (auto &thread : threads) thread.join();
}

/* Objects are freed by all while their heap is deleted. */
TEST_F(Fheap, DeletedWhileOthersFree) {
    Clock clock;
    for (unsigned rounds = 0; clock.running(rounds, 3); rounds++) {
        static Table table;
        loam_heap *heap = loam_heap_create();
        std::atomic<unsigned> ready{0};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < kThreads; t++) {
            threads.emplace_back([&, t] {
                Random random(rounds * 10 + t);
                for (int i = 0; i < 500; i++) {
                    Block *old =
                        table.swap(random.next(), make_in(heap, some_size(random), random.next()));
                    if (old != nullptr) free_block(old);
                }
                ready++;
                /* From here on nobody allocates from it. */
                for (int i = 0; i < 2000; i++) {
                    Block *block = random.below(2) ? make_block(some_size(random), i) : nullptr;
                    if (ready != kThreads + 1 && block != nullptr) {
                        free_block(block);
                        block = nullptr;
                    }
                    Block *old = table.swap(random.next(), block);
                    if (old != nullptr) free_block(old);
                }
            });
        }
        while (ready != kThreads) std::this_thread::yield();
        loam_heap_delete(heap);
        ready++;
        for (auto &thread : threads) thread.join();
        table.clear();
    }
}

/* At no moment, whatever the threads ask for at a time: neither is the peak higher. */
TEST_F(Fheap, AHardLimitHoldsAmongThreads) {
    constexpr size_t kLimit = 4 << 20;
    loam_heap *heap = loam_heap_create();
    if (loam_heap_set_limits(heap, 0, kLimit, nullptr, nullptr) != 0) fail("limit", heap);
    std::vector<std::thread> threads;
    Clock clock;
    for (unsigned t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            Random random(t + 3);
            while (clock.running()) {
                void *p = loam_heap_malloc(heap, 1 << 20),
                     *q = loam_heap_malloc(heap, random.below(3 << 20));
                void *more = p != nullptr ? loam_heap_realloc(heap, p, 2 << 20) : nullptr;
                loam_free(more != nullptr ? more : p);
                loam_free(q);
            }
        });
    }
    for (auto &thread : threads) thread.join();
    loam_heap_numbers numbers;
    loam_heap_usage(heap, &numbers);
    EXPECT_EQ(0u, numbers.objects);
    EXPECT_LE(numbers.committed_bytes_most, kLimit);
    lm_fheap_check(heap);
    loam_heap_destroy(heap);
}

/* Each thread goes round many heaps of its own, and hands some over to be ended by others: branches
 * leave its index while it looks for others there, and come into that of the next. */
TEST_F(Fheap, ManyHeapsEndBehindTheirThreads) {
    constexpr size_t kOwn = 60;
    static std::array<std::atomic<loam_heap *>, 64> ending;
    std::vector<std::thread> threads;
    Clock clock;
    for (unsigned t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            Random random(t + 11);
            std::array<loam_heap *, kOwn> heaps;
            std::array<Block *, kOwn> held{};
            for (auto &heap : heaps) heap = loam_heap_create();
            while (clock.running()) {
                for (int i = 0; i < 500; i++) {
                    size_t at = random.below(kOwn);
                    Block *block = make_in(heaps[at], 32 + random.below(100), random.next());
                    if (lm_page_of(block)->heap->fheap.fheap != heaps[at]) fail("heap", block);
                    if (held[at] != nullptr) free_block(held[at]);
                    held[at] = block;
                }
                for (int i = 0; i < 10; i++) {
                    size_t at = random.below(kOwn);
                    if (held[at] != nullptr) free_block(held[at]);
                    held[at] = nullptr;
                    loam_heap *other = ending[random.below(ending.size())].exchange(
                        heaps[at], std::memory_order_acq_rel);
                    heaps[at] = loam_heap_create();
                    if (other != nullptr && random.below(3) == 0)
                        loam_heap_delete(other);
                    else if (other != nullptr)
                        loam_heap_destroy(other);
                }
            }
            for (Block *block : held) {
                if (block != nullptr) free_block(block);
            }
            for (loam_heap *heap : heaps) {
                lm_fheap_check(heap);
                loam_heap_destroy(heap);
            }
        });
    }
    for (auto &thread : threads) thread.join();
    for (auto &heap : ending) loam_heap_destroy(heap.exchange(nullptr));
}

TEST_F(Fheap, ForksInTheMidst) {
    if (LM_TSAN) GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
    static std::array<Table, kHeaps + 1> tables;
    Heaps heaps;
    for (auto &heap : heaps) heap = loam_heap_create();
    std::atomic<bool> ending{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; t++) {
        threads.emplace_back([&, t] {
            for (unsigned round = 0; !ending; round++)
                traffic(heaps, tables, Random(t * 1000 + round), 500);
        });
    }
    Clock clock;
    while (clock.running()) {
        pid_t child = fork();
        if (child == 0) {
            failures = 0;
            Random random(1);
            for (auto &table : tables) (void)held_in(table);
            for (int i = 0; i < 2000; i++) free_block(make_anywhere(heaps, random));
            for (auto &table : tables) (void)held_in(table);
            for (auto *heap : heaps) loam_heap_destroy(heap);
            loam_heap *next = loam_heap_create();
            for (int i = 0; i < 2000; i++) (void)make_in(next, some_size(random), i);
            lm_fheap_check(next);
            (void)held_in(tables[kHeaps]);
            _exit(failures == 0 ? 0 : 1);
        }
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("child", nullptr);
    }
    ending = true;
    for (auto &thread : threads) thread.join();
    for (auto &table : tables) table.clear();
    for (auto *heap : heaps) loam_heap_destroy(heap);
}

} // namespace
