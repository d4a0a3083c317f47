/* transfer_test.cc: full lists of blocks travel through the transfer cache, while the worker
 * returns lists that no thread takes to their pages, threads that hold lists fall asleep or end,
 * and the process forks.
 *
 * Every block is stamped, and the stamp is checked before the block is freed. In each child, the
 * blocks that the program holds are checked as well, after the child has allocated: a block that is
 * on two lists shows as a changed stamp. Under ThreadSanitizer there is no worker, and a thread of
 * the test returns the lists in its place.
 */
#include "short_delay.h"
#include "stress.h"

extern "C" {
#include "survey/survey.h"
}

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace stress;

class Transfer : public testing::Test {
  protected:
    void SetUp() override {
        failures = 0;
        if (!LM_TSAN) return;
        lm_purge_pause(); /* none is started, so nobody finds out that none can be */
        ending_ = false;
        sender_ = std::thread([this] {
            while (!ending_.load(std::memory_order_relaxed)) {
                (void)lm_transfer_empty(false);
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
        });
    }
    void TearDown() override {
        if (LM_TSAN) {
            ending_ = true;
            sender_.join();
            lm_purge_resume();
        }
        loam_collect();
        EXPECT_EQ(failures.load(), 0u);
    }

  private:
    std::atomic<bool> ending_{false};
    std::thread sender_;
};

/* Few classes, so that lists fill; some large ones, of which a list is two blocks. */
size_t some_size(Random &random) {
    static const size_t sizes[] = {32, 48, 128, 128, 128, 700, 3000, 20000};
    return sizes[random.below(8)];
}

/* What the program holds, so that a child of a fork finds it too. */
using Table = Shelf<2000>;

/* Some allocate and never free, some free and never allocate; each rests now and then, so that it
 * is parked, and a third kind comes and goes. */
void produce(Table &table, Random &random, unsigned blocks) {
    for (unsigned i = 0; i < blocks; i++) {
        Block *old = table.swap(random.next(), make_block(some_size(random), random.next()));
        if (old != nullptr) free_block(old);
    }
}

void consume(Table &table, Random &random, unsigned blocks) {
    for (unsigned i = 0; i < blocks; i++) {
        Block *old = table.swap(random.next(), nullptr);
        if (old != nullptr) free_block(old);
    }
}

void clear_blocks(Random &random) {
    for (int i = 0; i < 20; i++) {
        size_t bytes = some_size(random);
        auto *p = static_cast<unsigned char *>(loam_calloc(1, bytes));
        if (p == nullptr) {
            fail("calloc not zero", p);
            return;
        }
        check_zero(p, bytes);
        memset(p, 0xee, bytes);
        loam_free(p);
    }
}

TEST_F(Transfer, ProducersConsumersSleepersAndEnds) {
    Table table;
    Clock clock;
    std::atomic<uint64_t> rounds{0};
    run_threads(5, [&](unsigned me) {
        Random random(me + 1);
        while (clock.running(rounds.load(std::memory_order_relaxed), 21)) {
            if (me < 2) {
                produce(table, random, 300);
                if (random.below(4) == 0) clear_blocks(random);
            } else if (me < 4) {
                consume(table, random, 300);
            } else {
                uint64_t seed = random.next();
                std::thread([&table, seed] {
                    Random inner(seed);
                    consume(table, inner, 400);
                    produce(table, inner, 200);
                    consume(table, inner, 100);
                }).join();
            }
            if (random.below(40) == 0) pause_ms(25);
            rounds.fetch_add(1, std::memory_order_relaxed);
        }
    });
    table.clear();
}

/* One way only: what the consumer frees is all that the producer gets. */
TEST_F(Transfer, OneWayThroughTheCache) {
    Lanes lanes(2);
    Clock clock;
    std::atomic<uint64_t> passed{0};
    std::atomic<bool> done{false};
    run_threads(2, [&](unsigned me) {
        if (me == 0) {
            Random random(7);
            while (clock.running()) {
                Block *block = make_block(some_size(random), random.next());
                while (!lanes.lane(0, 1).give(block)) std::this_thread::yield();
            }
            done.store(true, std::memory_order_release);
            return;
        }
        uint64_t mine = 0;
        for (bool last = false; !last;) {
            last = done.load(std::memory_order_acquire);
            while (Block *block = lanes.lane(0, 1).take()) {
                free_block(block);
                mine++;
            }
        }
        passed = mine;
    });
    lanes.drain();
    EXPECT_GT(passed.load(), 1000u);
}

[[noreturn]] void child(Table &table, uint64_t seed) {
    alarm(60);
    Random random(seed);
    std::vector<Block *> mine;
    for (unsigned i = 0; i < 6000 / kSlowness; i++) {
        mine.push_back(make_block(some_size(random), random.next()));
    }
    table.each([](Block *block) { check_block(block); });
    for (size_t i = 0; i < mine.size(); i += 2) free_block(mine[i]);
    table.clear();
    for (size_t i = 1; i < mine.size(); i += 2) free_block(mine[i]);
    lm_heap_check();
    lm_span_check();
    _exit(failures.load() == 0 ? 0 : 1);
}

TEST_F(Transfer, ForksInBetween) {
    Table table;
    Clock clock;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (unsigned me = 0; me < 4; me++) {
        threads.emplace_back([&, me] {
            Random random(me + 11);
            while (!stop.load(std::memory_order_relaxed)) {
                if (me % 2 == 0) {
                    produce(table, random, 200);
                } else {
                    consume(table, random, 200);
                }
                if (random.below(50) == 0) pause_ms(15);
            }
        });
    }
    Random random(5);
    unsigned forks = 0;
    while (clock.running(forks, 4)) {
        pause_ms(static_cast<unsigned>(random.below(5)));
        consume(table, random, 100);
        uint64_t seed = random.next();
        pid_t pid = fork();
        if (pid < 0) break;
        if (pid == 0) child(table, seed);
        int status = 0;
        if (waitpid(pid, &status, 0) != pid || status != 0) fail("a child failed", &table);
        forks++;
    }
    stop = true;
    for (std::thread &thread : threads) thread.join();
    table.clear();
}

/* All sleep for a while, again and again: lists are taken from their hands, and they go on. */
TEST_F(Transfer, NapsTogether) {
    Table table;
    Clock clock;
    while (clock.running()) {
        run_threads(4, [&](unsigned me) {
            Random random(me + 21);
            for (int nap = 0; nap < 4; nap++) {
                produce(table, random, 300);
                consume(table, random, 900);
                pause_ms(30);
                clear_blocks(random);
            }
        });
    }
    table.clear();
}

} // namespace
