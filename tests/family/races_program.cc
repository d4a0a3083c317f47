// races_program.cc: memory goes from thread to thread through one allocator; ended_test.cc runs it
// under ThreadSanitizer, with a library that was not compiled with it.
//
//     races_program KIND right|wrong      right: no thread uses another's object. wrong: two
//                                         threads write to one.
//
// Prints "done". ThreadSanitizer must report a race for wrong, and none for right.
#include <loam/blocks.h>
#include <loam/fifo.h>
#include <loam/pool.hpp>
#include <loam/region.h>
#include <loam/stack.h>
#include <loam/xallocator.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

enum { BYTES = 48, ROUNDS = 6, MANY = 400 };

struct Pooled {
    LOAM_POOLED(Pooled)
    char bytes[BYTES];
};

struct Ways {
    std::function<void *()> alloc;
    std::function<void(void *)> free;
};

void fill(void *p, int with) { std::memset(p, with, BYTES); }

// Three threads with many objects each, round after round.
void run(const Ways &ways) {
    auto work = [&](int with) {
        std::vector<void *> objects;
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < MANY; i++) {
                objects.push_back(ways.alloc());
                fill(objects.back(), with);
            }
            for (void *p : objects) ways.free(p);
            objects.clear();
        }
    };
    std::thread a(work, 1), b(work, 2), c(work, 3);
    a.join(), b.join(), c.join();
}

// Each frees what another has allocated: handed over under a lock, as programs do.
void pass(const Ways &ways) {
    std::mutex lock;
    std::vector<void *> passed;
    auto work = [&](int with) {
        for (int i = 0; i < ROUNDS * MANY; i++) {
            void *mine = ways.alloc(), *other = nullptr;
            fill(mine, with);
            std::lock_guard<std::mutex> held(lock);
            if (!passed.empty()) other = passed.back(), passed.pop_back();
            passed.push_back(mine);
            if (other == nullptr) continue;
            fill(other, with);
            ways.free(other);
        }
    };
    std::thread a(work, 1), b(work, 2);
    a.join(), b.join();
    for (void *p : passed) ways.free(p);
}

// Allocators of each thread, over chunks that were another thread's.
void lives(const std::function<void(int)> &life) {
    auto work = [&](int with) {
        for (int round = 0; round < 30; round++) life(with);
    };
    for (int i = 0; i < 3; i++) {
        std::thread a(work, 1), b(work, 2);
        a.join(), b.join();
    }
}

void wrong(const Ways &ways) {
    char *p = static_cast<char *>(ways.alloc());
    std::atomic<int> ready{0};
    auto work = [&](char with) {
        ready.fetch_add(1, std::memory_order_relaxed);
        while (ready.load(std::memory_order_relaxed) < 2) {}
        // ThreadSanitizer misses a race if both threads write a byte for the first time in the same
        // moment, and it does not look at later writes of the byte. So there are several, each in a
        // word of its own: of eight in one word it forgets half.
        for (int i = 0; i < 1000; i++) static_cast<volatile char *>(p)[i % (BYTES / 8) * 8] = with;
    };
    std::thread a(work, 1), b(work, 2);
    a.join(), b.join();
    ways.free(p);
}

loam_shared_pool pool;
loam_blocks blocks;

Ways ways_of(const std::string &kind) {
    bool checked = kind.find("checked") != std::string::npos;
    loam_pool_options of_pool = {};
    loam_blocks_options of_blocks = {};
    of_pool.flags = checked ? unsigned(LOAM_CHECK) : 0u;
    of_blocks.flags = of_pool.flags | unsigned(LOAM_THREADS);
    of_blocks.source = kind == "blocks_heap" ? loam_heap_source() : nullptr;
    loam_source *source = kind == "pool_heap" ? loam_heap_source() : nullptr;
    if (kind.compare(0, 4, "pool") == 0 && kind != "pooled") {
        if (loam_shared_pool_init(&pool, source, BYTES, &of_pool) != 0) std::abort();
        return {[] { return loam_shared_pool_alloc(&pool); },
                [](void *p) { loam_shared_pool_free(&pool, p); }};
    }
    if (kind.compare(0, 6, "blocks") == 0) {
        if (loam_blocks_init(&blocks, &of_blocks) != 0) std::abort();
        return {[] { return loam_blocks_alloc(&blocks, BYTES); },
                [](void *p) { loam_blocks_free(&blocks, p); }};
    }
    if (kind == "pooled")
        return {[] { return new Pooled; }, [](void *p) { delete static_cast<Pooled *>(p); }};
    return {[] { return xmalloc(BYTES); }, [](void *p) { xfree(p); }};
}

void region_life(int with) {
    loam_region *region = loam_region_create(nullptr, nullptr);
    for (int i = 0; i < 20; i++) fill(loam_region_alloc(region, 5000), with);
    loam_region_destroy(region);
}
void scratch_life(int with) {
    loam_scratch scratch = loam_scratch_begin(nullptr);
    fill(loam_region_alloc(scratch.region, 5000), with);
    loam_scratch_end(&scratch);
}
void stack_life(int with) {
    loam_stack_frame frame = loam_stack_push(loam_thread_stack());
    fill(loam_stack_alloc(loam_thread_stack(), BYTES), with);
    loam_stack_pop(loam_thread_stack(), frame);
}

// One thread allocates, another frees from afar.
void remote() {
    loam_fifo fifo;
    loam_fifo_options options = {};
    options.flags = LOAM_FIFO_REMOTE | LOAM_FIFO_RAW;
    if (loam_fifo_init(&fifo, nullptr, &options) != 0) std::abort();
    std::mutex lock;
    std::vector<void *> passed;
    std::atomic<bool> over{false};
    std::thread other([&] {
        for (bool last = false; !last;) {
            last = over.load(std::memory_order_relaxed);
            std::vector<void *> objects;
            {
                std::lock_guard<std::mutex> held(lock);
                objects.swap(passed);
            }
            for (void *p : objects) fill(p, 2), loam_fifo_free_remote(&fifo, p);
        }
    });
    for (int i = 0; i < ROUNDS * MANY * 10; i++) {
        void *p = loam_fifo_alloc(&fifo, BYTES);
        fill(p, 1);
        std::lock_guard<std::mutex> held(lock);
        passed.push_back(p);
    }
    over.store(true, std::memory_order_relaxed);
    other.join();
    for (void *p : passed) loam_fifo_free(&fifo, p);
    loam_fifo_deinit(&fifo);
}

} // namespace

int main(int argc, char **argv) {
    std::string kind = argc > 2 ? argv[1] : "pool", what = argc > 2 ? argv[2] : "right";
    if (kind == "region") {
        lives(region_life);
    } else if (kind == "scratch") {
        lives(scratch_life);
    } else if (kind == "stack") {
        lives(stack_life);
    } else if (kind == "fifo") {
        remote();
    } else {
        Ways ways = ways_of(kind);
        if (what == "wrong") {
            wrong(ways);
        } else {
            run(ways);
            pass(ways);
        }
    }
    std::puts("done");
}
