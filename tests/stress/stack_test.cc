/* stack_test.cc: the stacks of many threads over one source, which end with their threads; and
 * rings that are passed on.
 */
#include "stress.h"

#include "loam/ring.h"
#include "loam/stack.h"

#include <deque>
#include <mutex>

extern "C" {
#include "hosted/quarantine.h"
#include "os/os.h"
}

namespace {

using namespace stress;

class Stacks : public Stress {};

/* A sum over a tree of calls, each with objects of its own, that must be as it was left after the
 * calls below. */
size_t wander(Random &random, unsigned depth) {
    LOAM_SCOPE;
    size_t count = 1 + random.below(30), salt = random.next() >> 8, sum = count;
    auto *numbers = LOAM_SCOPE_ARRAY(size_t, count);
    if (numbers == nullptr) abort();
    for (size_t i = 0; i < count; i++) numbers[i] = salt + i;
    for (size_t calls = random.below(4); calls > 0 && depth < 12; calls--)
        sum += wander(random, depth + 1);
    char *text = loam_scope_sprintf("%zu", salt);
    if (random.below(50) == 0) memset(loam_scope_alloc(200000), 1, 200000);
    if (text == nullptr || strtoull(text, nullptr, 10) != salt) abort();
    for (size_t i = 0; i < count; i++)
        if (numbers[i] != salt + i) abort();
    return sum;
}

TEST_F(Stacks, EachThreadHasItsOwn) {
    Clock clock;
    run_threads(4, [&](unsigned thread) {
        Random random(thread + 1);
        while (clock.running()) {
            for (int i = 0; i < 50; i++) (void)wander(random, 0);
            if (!loam_stack_check(loam_thread_stack())) abort();
        }
    });
}

TEST_F(Stacks, NothingIsLeftOfThreadsThatHaveEnded) {
    size_t resident[2] = {0, 0};
    for (size_t &bytes : resident) {
        for (int i = 0; i < 300; i++) {
            run_threads(2, [](unsigned thread) {
                Random random(thread + 1);
                (void)wander(random, 0);
                LOAM_SCOPE; /* ends before its thread does */
                memset(loam_scope_alloc(100000), 1, 100000);
            });
            (void)lm_chunks_release(); // where a tool watches
        }
        bytes = lm_os_resident_bytes();
    }
    EXPECT_LT(resident[1], resident[0] + (size_t{8} << 20)) << "600 threads later";
}

/* One thread fills frames, another reads and releases them; the ring is handed to and fro by a lock
 * of theirs. */
TEST_F(Stacks, ARingIsPassedOn) {
    struct Message {
        loam_ring_frame *frame;
        char *text;
        size_t bytes;
    };
    loam_ring ring;
    ASSERT_EQ(loam_ring_init(&ring, nullptr, nullptr), 0);
    std::mutex lock;
    std::deque<Message> waiting;
    std::atomic<bool> done{false};
    run_threads(2, [&](unsigned thread) {
        Random random(thread + 1);
        Clock clock;
        while (thread == 0 ? clock.running() : !done.load()) {
            std::lock_guard<std::mutex> held(lock);
            if (thread == 0 && waiting.size() < 100) {
                Message message = {loam_ring_open(&ring), nullptr, 1 + random.below(3000)};
                message.text = static_cast<char *>(loam_ring_alloc(&ring, message.bytes));
                if (message.text == nullptr) abort();
                memset(message.text, static_cast<int>(message.bytes & 127), message.bytes);
                waiting.push_back(message);
            } else if (thread == 1 && !waiting.empty()) {
                size_t index = random.below(waiting.size() < 3 ? waiting.size() : 3);
                Message message = waiting[index];
                for (size_t i = 0; i < message.bytes; i++)
                    if (message.text[i] != static_cast<char>(message.bytes & 127)) abort();
                loam_ring_release(&ring, message.frame);
                waiting.erase(waiting.begin() + static_cast<long>(index));
            }
        }
        if (thread == 0) done.store(true);
    });
    EXPECT_TRUE(loam_ring_check(&ring));
    loam_ring_deinit(&ring);
}

} // namespace
