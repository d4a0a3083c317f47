// smoke.cc: what every allocator must manage before it is measured.
//
// Four threads allocate, fill, check, resize, hand on to the next thread and free there; before
// that, one thread asks for everything the interfaces promise: alignment, zeroed memory, contents
// kept by realloc, room for what was asked. verify.py runs it with a library preloaded, and once
// more to see where the dynamic linker bound the functions used here.
//
// Exit 0: all well; 1: one line on stderr says what was not. Cannot: find a rare race.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const char *what, size_t size) {
    std::fprintf(stderr, "smoke: %s (size %zu)\n", what, size);
    std::_Exit(1);
}

void *usable(void *block, size_t size, size_t alignment) {
    if (!block) fail("an allocation gave nothing", size);
    if (reinterpret_cast<uintptr_t>(block) % alignment) fail("a block is not aligned", size);
    if (malloc_usable_size(block) < size) fail("malloc_usable_size is too small", size);
    return block;
}

// A block knows its size and a pattern that depends on it.
struct Block {
    unsigned char *bytes;
    size_t size;

    void fill() const { std::memset(bytes, static_cast<int>(size % 251), size); }
    void check() const {
        for (size_t i = 0; i < size; i++) {
            if (bytes[i] != size % 251) fail("a block's contents changed", size);
        }
    }
};

void interfaces() {
    for (size_t size = 1; size <= 1 << 20; size += size / 2 + 1) {
        size_t natural = size < 16 ? 8 : 16;
        Block block{static_cast<unsigned char *>(usable(std::malloc(size), size, natural)), size};
        block.fill();
        auto *longer = static_cast<unsigned char *>(std::realloc(block.bytes, size * 2));
        usable(longer, size * 2, natural);
        Block{longer, size}.check();
        std::free(longer);

        auto *zeroed = static_cast<unsigned char *>(usable(std::calloc(size, 1), size, natural));
        for (size_t i = 0; i < size; i++) {
            if (zeroed[i]) fail("calloc gave memory that is not zero", size);
        }
        std::free(zeroed);

        for (size_t alignment = 16; alignment <= 1 << 14; alignment *= 4) {
            void *aligned = nullptr;
            if (posix_memalign(&aligned, alignment, size)) fail("posix_memalign failed", size);
            std::free(usable(aligned, size, alignment));
            size_t multiple = (size + alignment - 1) / alignment * alignment;
            std::free(usable(aligned_alloc(alignment, multiple), multiple, alignment));
        }
        std::free(usable(memalign(32, size), size, 32));
        std::free(usable(reallocarray(nullptr, size, 3), size * 3, natural));
        ::operator delete(usable(::operator new(size), size, natural));
        ::operator delete[](usable(::operator new[](size, std::nothrow), size, natural));
        auto wide = std::align_val_t{64};
        ::operator delete(usable(::operator new(size, wide), size, 64), wide);
    }
    std::free(nullptr);
}

constexpr unsigned kThreads = 4;

struct Mailbox {
    std::mutex lock;
    std::vector<Block> blocks;
};
Mailbox mailboxes[kThreads];

void empty(Mailbox &mailbox) {
    std::vector<Block> received;
    {
        std::lock_guard<std::mutex> hold(mailbox.lock);
        received.swap(mailbox.blocks);
    }
    for (const Block &block : received) {
        block.check();
        std::free(block.bytes);
    }
}

void work(unsigned self) {
    uint32_t random = 12345 + self;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 100; i++) {
            random = random * 1664525 + 1013904223;
            size_t size = 1 + (random >> 16) % (i % 20 ? 512 : 65536);
            Block block{static_cast<unsigned char *>(usable(std::malloc(size), size, 8)), size};
            block.fill();
            Mailbox &next = mailboxes[(self + 1) % kThreads];
            std::lock_guard<std::mutex> hold(next.lock);
            next.blocks.push_back(block);
        }
        empty(mailboxes[self]);
    }
}

} // namespace

int main() {
    interfaces();
    for (int generation = 0; generation < 3; generation++) {
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < kThreads; i++) threads.emplace_back(work, i);
        for (std::thread &thread : threads) thread.join();
    }
    for (Mailbox &mailbox : mailboxes) empty(mailbox);
    return 0;
}
