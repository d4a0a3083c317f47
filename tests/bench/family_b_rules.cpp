// family_b_rules.cpp: do the renditions of bench/family follow the rules that they claim?
//
// Intersec's FIFO pool and frame stack by the old and the new policy, and xallocator's classes and
// modes. Each check states a rule of the original; family_b_test.py builds this with the sanitizers
// and runs it.
#include "intersec_fifo.h"
#include "intersec_stack.h"
#include "xallocator_rules.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <vector>

static int failures;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            std::printf("%s:%d: not so: %s\n", __func__, __LINE__, #what); \
            failures++; \
        } \
    } while (0)

static std::uint32_t random_state = 1;
static std::uint32_t random_below(std::uint32_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(random_state) * limit) >> 32);
}

static bool all_zero(const void *memory, std::size_t size) {
    const unsigned char *bytes = static_cast<const unsigned char *>(memory);
    for (std::size_t i = 0; i < size; i++) {
        if (bytes[i]) return false;
    }
    return true;
}

// ---- the FIFO pool ---------------------------------------------------------------------------

struct Fifo_policy {
    bool (*start)(fifo *, std::size_t, fifo_source);
    void *(*alloc)(fifo *, std::size_t);
    void (*free)(fifo *, void *);
};
static const Fifo_policy fifo_policies[] = {{fifo_old_start, fifo_old_alloc, fifo_old_free},
                                            {fifo_new_start, fifo_new_alloc, fifo_new_free}};
static const Fifo_policy &fifo_old = fifo_policies[0], &fifo_new = fifo_policies[1];

static void fifo_memory(const Fifo_policy &policy, fifo_source source) {
    struct Live {
        unsigned char *at;
        std::size_t size;
        unsigned char value;
    };
    fifo pool;
    CHECK(policy.start(&pool, 5000, source));
    CHECK(pool.page_size == 8192);
    std::vector<Live> live(200, Live{nullptr, 0, 0});
    std::size_t bytes = 0;
    for (int turn = 0; turn < 20000; turn++) {
        Live &slot = live[random_below(200)];
        if (slot.at) {
            for (std::size_t i = 0; i < slot.size; i++) CHECK(slot.at[i] == slot.value);
            bytes -= (slot.size + 8 + 7) / 8 * 8;
            policy.free(&pool, slot.at);
        }
        std::size_t size = turn % 97 ? 1 + random_below(512) : 9000 + random_below(9000);
        unsigned char *at = static_cast<unsigned char *>(policy.alloc(&pool, size));
        CHECK(at && reinterpret_cast<std::uintptr_t>(at) % 8 == 0 && all_zero(at, size));
        unsigned char value = static_cast<unsigned char>(turn | 1);
        std::memset(at, value, size);
        slot = Live{at, size, value};
        bytes += (size + 8 + 7) / 8 * 8;
        CHECK(pool.occupied == bytes);
        CHECK(pool.held >= bytes);
        if (failures) return;
    }
    for (const Live &slot : live) policy.free(&pool, slot.at);
    CHECK(pool.occupied == 0);
    CHECK(pool.pages <= 2); // current and the spare
    fifo_stop(&pool);
    CHECK(pool.pages == 0 && pool.held == 0);
}

// A page stays while any block of it lives, and goes with the last.
static void fifo_page_lives_as_its_blocks(const Fifo_policy &policy) {
    fifo pool;
    CHECK(policy.start(&pool, 4096, FIFO_CALLOC));
    std::vector<void *> first;
    while (pool.pages_got < 2) first.push_back(policy.alloc(&pool, 100));
    void *second = first.back();
    first.pop_back();
    std::vector<void *> third;
    while (pool.pages_got < 3) third.push_back(policy.alloc(&pool, 100));
    CHECK(pool.pages == 3);
    for (std::size_t i = 1; i < first.size(); i++) policy.free(&pool, first[i]);
    CHECK(pool.pages == 3 && pool.spare == nullptr);
    policy.free(&pool, first[0]);
    CHECK(pool.pages == 3 && pool.spare != nullptr); // the first page that empties is kept
    policy.free(&pool, second);
    for (std::size_t i = 0; i + 1 < third.size(); i++) policy.free(&pool, third[i]);
    CHECK(pool.pages == 2); // the second is not
    policy.free(&pool, third.back());
    fifo_stop(&pool);
    CHECK(pool.pages == 0);
}

static void fifo_current_page() {
    fifo pool;
    CHECK(fifo_old.start(&pool, 65536, FIFO_CALLOC));
    CHECK(pool.current == nullptr && pool.pages == 0); // old: no page at the start
    void *a = fifo_old.alloc(&pool, 100);
    std::memset(a, 1, 100);
    CHECK(pool.current != nullptr);
    fifo_old.free(&pool, a);
    CHECK(pool.current == nullptr &&
          pool.spare != nullptr); // old: the last block takes current with it
    CHECK(fifo_old.alloc(&pool, 100) == a && all_zero(a, 100)); // wiped: the same place, zero again
    fifo_old.free(&pool, a);
    CHECK(pool.pages_got == 1);
    fifo_stop(&pool);

    CHECK(fifo_new.start(&pool, 65536, FIFO_CALLOC));
    CHECK(pool.current != nullptr && pool.pages == 1); // new: a page at the start
    fifo_page *page = pool.current;
    a = fifo_new.alloc(&pool, 100);
    std::memset(a, 1, 100);
    fifo_new.free(&pool, a);
    CHECK(pool.current == page && pool.spare == nullptr); // new: nothing happens
    void *b = fifo_new.alloc(&pool, 100);
    CHECK(b ==
          static_cast<char *>(a) + 112); // it goes on being filled: 8 bytes of header, 104 of room
    fifo_new.free(&pool, b);
    for (int i = 0; i < 5000; i++) {
        void *c = fifo_new.alloc(&pool, 100);
        CHECK(c && all_zero(c, 100));
        std::memset(c, 255, 100);
        fifo_new.free(&pool, c);
    }
    CHECK(pool.current == page && pool.pages_got == 1); // wiped and used again where it runs out
    void *large = fifo_new.alloc(&pool, 100000); // too large for the empty current page, which goes
    CHECK(large && all_zero(large, 100000) && pool.pages == 1 && pool.current != page);
    fifo_new.free(&pool, large);
    fifo_stop(&pool);
    CHECK(pool.pages == 0);
}

// With a spare in hand, an emptied page is freed by the old policy, and takes the place of an
// almost full current page
// by the new one.
static void fifo_almost_full_current() {
    for (const Fifo_policy &policy : fifo_policies) {
        fifo pool;
        CHECK(policy.start(&pool, 4096, FIFO_CALLOC));
        void *a = policy.alloc(&pool, 3000);
        void *b = policy.alloc(&pool, 3000);
        void *c = policy.alloc(&pool, 3800); // its page has less than 1/8 left
        CHECK(pool.pages == 3);
        fifo_page *full = pool.current;
        policy.free(&pool, a);
        CHECK(pool.spare != nullptr && pool.pages == 3);
        policy.free(&pool, b);
        if (&policy == &fifo_old) {
            CHECK(pool.current == full && pool.pages == 2);
        } else {
            CHECK(pool.current != full && pool.pages == 3);
        }
        policy.free(&pool, c);
        fifo_stop(&pool);
        CHECK(pool.pages == 0);
    }
}

static void fifo_larger_spare_stays() {
    fifo pool;
    CHECK(fifo_new.start(&pool, 4096, FIFO_CALLOC));
    void *anchor = fifo_new.alloc(&pool, 3000);
    void *small = fifo_new.alloc(&pool, 3000);
    void *large = fifo_new.alloc(&pool, 6000);
    void *last = fifo_new.alloc(&pool, 2200); // the rest of the large page is too little
    CHECK(pool.pages == 4);
    fifo_new.free(&pool, small);
    fifo_page *spare = pool.spare;
    CHECK(spare != nullptr);
    std::size_t held = pool.held;
    fifo_new.free(&pool, large);
    CHECK(pool.spare != spare && pool.pages == 3 && pool.held == held - 4096);
    fifo_new.free(&pool, anchor);
    CHECK(pool.pages == 2);
    fifo_new.free(&pool, last);
    fifo_stop(&pool);
}

static void fifo_outlives_its_end(const Fifo_policy &policy) {
    fifo pool;
    CHECK(policy.start(&pool, 4096, FIFO_CALLOC));
    void *a = policy.alloc(&pool, 1000);
    std::memset(a, 7, 1000);
    fifo_stop(&pool);
    CHECK(pool.pages == 1 && static_cast<char *>(a)[999] == 7);
    policy.free(&pool, a);
    CHECK(pool.pages == 0 && pool.held == 0);
}

// ---- the stack -------------------------------------------------------------------------------

struct Stack_policy {
    void *(*alloc)(stack *, std::size_t, std::size_t);
    stack_frame *(*push)(stack *);
};
static const Stack_policy stack_policies[] = {{stack_old_alloc, stack_old_push},
                                              {stack_new_alloc, stack_new_push}};
static const Stack_policy &stack_old = stack_policies[0], &stack_new = stack_policies[1];

struct Kept {
    unsigned char *at;
    std::size_t size;
    unsigned char value;
};

static void stack_tree(const Stack_policy &policy, stack *s, int depth) {
    stack_frame *frame = policy.push(s);
    CHECK(frame && reinterpret_cast<std::uintptr_t>(frame) % 16 == 0);
    std::vector<Kept> kept;
    for (int round = 0; round < 3 && !failures; round++) {
        for (int i = 0; i < 20; i++) {
            std::size_t size = random_below(200) ? 1 + random_below(700) : 1 + random_below(200000);
            std::size_t alignment = std::size_t(1) << random_below(8);
            unsigned char *at = static_cast<unsigned char *>(policy.alloc(s, size, alignment));
            CHECK(at && reinterpret_cast<std::uintptr_t>(at) % alignment == 0);
            unsigned char value = static_cast<unsigned char>(random_below(256));
            std::memset(at, value, size);
            kept.push_back(Kept{at, size, value});
        }
        if (depth > 0) stack_tree(policy, s, depth - 1);
        CHECK(s->top == frame);
    }
    for (const Kept &block : kept) {
        for (std::size_t i = 0; i < block.size; i++) CHECK(block.at[i] == block.value);
        if (failures) return;
    }
    CHECK(stack_pop(s) == frame);
}

static void stack_memory(const Stack_policy &policy) {
    stack s;
    stack_start(&s);
    for (int turn = 0; turn < 3; turn++) {
        stack_tree(policy, &s, 5);
        CHECK(s.top == &s.base);
    }
    stack_stop(&s);
    CHECK(s.held == 0);
}

static void stack_pop_restores(const Stack_policy &policy) {
    stack s;
    stack_start(&s);
    policy.push(&s);
    policy.alloc(&s, 10, 1);
    stack_frame before = *s.top;
    policy.push(&s);
    for (int i = 0; i < 100; i++) policy.alloc(&s, 100, 8);
    stack_pop(&s);
    CHECK(std::memcmp(&before, s.top, sizeof before) == 0);
    stack_stop(&s);
}

// A push at the end of a block: the old policy forgets the block that it found, the new one goes
// there for good.
static void stack_frames_and_new_blocks() {
    for (const Stack_policy &policy : stack_policies) {
        stack s;
        stack_start(&s);
        stack_frame *below = policy.push(&s);
        stack_frame *current = policy.push(&s);
        policy.alloc(&s, current->block->size - 200, 1);
        stack_block *first = current->block;
        unsigned char *end = reinterpret_cast<unsigned char *>(first + 1) + first->size;
        policy.alloc(&s, static_cast<std::size_t>(end - current->position) - 8, 1);
        unsigned char *position = current->position;
        policy.push(&s);
        CHECK(s.top->block != first && s.blocks_got == 2);
        if (&policy == &stack_old) {
            CHECK(current->block == first && current->position == position);
        } else {
            CHECK(current->block == s.top->block);
            CHECK(below->block == first); // it has a block's room left: it stays
        }
        stack_pop(&s);
        policy.push(&s);
        CHECK(s.blocks_got == 2); // found again
        stack_stop(&s);
    }
}

static void stack_lower_frames_follow() {
    stack s;
    stack_start(&s);
    stack_frame *below = stack_new.push(&s);
    stack_block *first = below->block;
    stack_new.alloc(&s, 60000, 1); // the mean is now some 20,000, and less than that is left
    stack_frame *current = stack_new.push(&s);
    CHECK(current->block == first);
    stack_new.alloc(&s, 10000, 1);
    CHECK(s.blocks_got == 2 && current->block != first && below->block == current->block);
    stack_stop(&s);
}

// Many small blocks are free, and one large request comes.
static void stack_search() {
    for (const Stack_policy &policy : stack_policies) {
        stack s;
        stack_start(&s);
        policy.push(&s);
        policy.push(&s);
        for (int i = 0; i < 20000; i++) policy.alloc(&s, 100, 1);
        stack_pop(&s);
        std::uint64_t blocks = s.blocks_got;
        CHECK(blocks >= 30);
        std::size_t held = s.held;
        policy.alloc(&s, 160000, 1);
        CHECK(s.blocks_got == blocks + 1);
        if (&policy == &stack_old) {
            CHECK(s.held < 65536 + 160000 + 8192); // all the free ones are gone
        } else {
            CHECK(s.held >= held - 3 * 65536 + 160000); // three of 64 KiB make up for the request
            CHECK(s.held < held + 8192);
        }
        stack_stop(&s);
    }
}

static void stack_means() {
    mean old_mean = {0, 1}, new_mean = {0, 1};
    for (int i = 0; i < 200000; i++) {
        mean_old_update(&old_mean, 1000);
        mean_new_update(&new_mean, 1000);
        CHECK(new_mean.count <= 65535 && new_mean.count >= 1);
    }
    CHECK(old_mean.sum == new_mean.sum && old_mean.count == new_mean.count);
    CHECK(mean_get(&new_mean) >= 999 && mean_get(&new_mean) <= 1000);
    mean_old_update(&old_mean, std::size_t(128) << 20);
    mean_new_update(&new_mean, std::size_t(128) << 20);
    CHECK(mean_get(&old_mean) <= 1000); // left out
    CHECK(mean_get(&new_mean) > 1000);  // taken in
    mean edge = {65535 * 8, 65535};
    mean_new_update(&edge, 8);
    CHECK(edge.count == 65535 / 4 + 1 && edge.sum == 65535 * 2 + 8);

    stack s;
    stack_start(&s);
    stack_new.push(&s);
    for (int i = 0; i < 500; i++) stack_new.alloc(&s, 50000, 1);
    CHECK(s.top->block->size >= 60 * mean_get(&s.mean)); // 64 means, of when it came
    stack_stop(&s);
}

// ---- xallocator ------------------------------------------------------------------------------

using namespace xallocator_rules;

static void xallocator_classes() {
    CHECK(class_of(1) == 16 && class_of(8) == 16 && class_of(9) == 32 && class_of(56) == 64);
    CHECK(class_of(57) == 128 && class_of(249) == 396 && class_of(388) == 396);
    CHECK(class_of(389) == 512 && class_of(505) == 768 && class_of(760) == 768);
    CHECK(class_of(761) == 1024 && class_of(2000) == 2048 && class_of(4000) == 4096);

    Xallocator<No_lock> heap;
    std::size_t exponent = 4;
    std::vector<void *> one_of_each;
    for (; exponent < 4 + Xallocator<No_lock>::max_allocators; exponent++) {
        one_of_each.push_back(heap.allocate((std::size_t(1) << exponent) - 8));
    }
    for (int i = 0; i < Xallocator<No_lock>::max_allocators; i++) {
        CHECK(heap.classes(i) && heap.classes(i)->block_size() == std::size_t(16) << i);
    }
    bool refused = false;
    try {
        heap.allocate((std::size_t(1) << exponent) - 8);
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    CHECK(refused); // the sixteenth class
    for (void *memory : one_of_each) heap.deallocate(memory);
}

template <class Heap> static void xallocator_recycles(Heap &heap) {
    std::vector<void *> blocks;
    for (int i = 0; i < 1000; i++) {
        blocks.push_back(heap.allocate(2000));
        std::memset(blocks.back(), i, 2000);
    }
    for (int i = 0; i < 1000; i++) CHECK(*static_cast<unsigned char *>(blocks[i]) == (i & 255));
    std::set<void *> before(blocks.begin(), blocks.end());
    CHECK(before.size() == 1000);
    for (void *block : blocks) heap.deallocate(block);
    heap.deallocate(nullptr);
    CHECK(heap.allocate(1500) ==
          blocks.back()); // the last one freed comes first, whatever the size in the class
    heap.deallocate(blocks.back());
    for (void *&block : blocks) {
        block = heap.allocate(2000);
        CHECK(before.count(block) == 1); // and nothing new while there are free ones
    }
    for (int i = 0; heap.classes(i); i++) {
        const Block_allocator &size = *heap.classes(i);
        if (size.block_size() != 2048) continue;
        CHECK(size.blocks() == 1000 && size.blocks_in_use() == 1000);
        CHECK(size.allocations() == 2001 && size.deallocations() == 1001);
        CHECK(std::strcmp(size.name(), "xallocator") == 0);
    }
    for (void *block : blocks) heap.deallocate(block);
}

static void xallocator_modes() {
    Xallocator<std::mutex> locked;
    xallocator_recycles(locked);
    Xallocator<No_lock> unlocked;
    xallocator_recycles(unlocked);
    std::unique_ptr<char[]> pool(new char[Xallocator<No_lock>::pool_bytes(1000)]);
    Xallocator<No_lock> pools(1000, pool.get());
    xallocator_recycles(pools);
    bool refused = false;
    try {
        pools.allocate(5000); // no such class among the twelve
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    CHECK(refused);

    char place[3 * 24];
    Block_allocator fixed(24, 3, place);
    CHECK(fixed.allocate(24) == place && fixed.allocate(24) == place + 24);
    CHECK(fixed.allocate(24) == place + 48 && fixed.blocks() == 3);
    refused = false;
    try {
        fixed.allocate(24);
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    CHECK(refused);
    fixed.deallocate(place + 24);
    CHECK(fixed.allocate(24) == place + 24);

    Block_allocator heap_pool(100, 5);
    char *first = static_cast<char *>(heap_pool.allocate(100));
    CHECK(heap_pool.allocate(100) == first + 100); // one array for all
    Block_allocator tiny(1);
    CHECK(tiny.block_size() == sizeof(void *)); // room for the list's link
}

// ---- realloc of both -------------------------------------------------------------------------

static void fifo_realloc_moves_the_end(bool old) {
    auto bigger = old ? fifo_old_realloc : fifo_new_realloc;
    const Fifo_policy &policy = fifo_policies[!old];
    fifo pool;
    CHECK(policy.start(&pool, 4096, FIFO_CALLOC));
    auto at = static_cast<unsigned char *>(policy.alloc(&pool, 10));
    std::memset(at, 3, 10);
    CHECK(bigger(&pool, at, 16) == at && pool.occupied == 24); // the block has the room
    CHECK(bigger(&pool, at, 1000) == at && pool.occupied == 1008 && all_zero(at + 10, 990));
    CHECK(bigger(&pool, at, 5) == at && pool.occupied == 1008); // never smaller
    void *behind = policy.alloc(&pool, 8);
    auto copy = static_cast<unsigned char *>(bigger(&pool, at, 1001));
    CHECK(copy != at && copy[9] == 3 && pool.pages == 1 && pool.occupied == 1016 + 16);
    auto far = static_cast<unsigned char *>(bigger(&pool, copy, 5000)); // no room in the page
    CHECK(far != copy && far[9] == 3 && all_zero(far + 10, 4990) && pool.pages == 2);
    policy.free(&pool, far);
    policy.free(&pool, behind);
    CHECK(pool.occupied == 0);
    fifo_stop(&pool);
}

static void stack_realloc_moves_the_position(bool old) {
    auto bigger = old ? stack_old_realloc : stack_new_realloc;
    auto alloc = old ? stack_old_alloc : stack_new_alloc;
    stack frames;
    stack_start(&frames);
    CHECK(old ? stack_old_push(&frames) : stack_new_push(&frames));
    auto at = static_cast<unsigned char *>(alloc(&frames, 16, 8));
    std::memset(at, 3, 16);
    CHECK(bigger(&frames, at, 16, 1000, 8) == at && frames.top->position == at + 1000);
    // The new rules give the end of a smaller object back where it is the last.
    CHECK(bigger(&frames, at, 1000, 512, 8) == at);
    CHECK(frames.top->position == at + (old ? 1000 : 512));
    auto behind = static_cast<unsigned char *>(alloc(&frames, 8, 8));
    CHECK(bigger(&frames, at, 512, 24, 8) == at && frames.top->last == behind);
    auto copy = static_cast<unsigned char *>(bigger(&frames, at, 512, 1024, 8));
    CHECK(copy > behind && copy[15] == 3 && frames.top->last == copy);
    auto far = static_cast<unsigned char *>(bigger(&frames, copy, 1024, 100000, 8));
    CHECK(far && far[15] == 3 && frames.blocks_got == 2);
    stack_pop(&frames);
    stack_stop(&frames);
}

int main() {
    for (bool old : {true, false}) {
        fifo_realloc_moves_the_end(old);
        stack_realloc_moves_the_position(old);
    }
    for (const Fifo_policy &policy : fifo_policies) {
        fifo_memory(policy, FIFO_CALLOC);
        fifo_memory(policy, FIFO_MMAP);
        fifo_page_lives_as_its_blocks(policy);
        fifo_outlives_its_end(policy);
    }
    fifo_current_page();
    fifo_almost_full_current();
    fifo_larger_spare_stays();
    for (const Stack_policy &policy : stack_policies) {
        stack_memory(policy);
        stack_pop_restores(policy);
    }
    stack_frames_and_new_blocks();
    stack_lower_frames_follow();
    stack_search();
    stack_means();
    xallocator_classes();
    xallocator_modes();
    if (failures) std::printf("%d rules broken\n", failures);
    return failures ? 1 : 0;
}
