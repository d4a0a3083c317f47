// checked_file.cc: every C++ face of the family, set up by a file with LOAM_CHECKED=1 and by one
// without.
//
// checked_file.py compiles this file twice: with -DWITH=1 -DLOAM_CHECKED=1 and with -DWITH=0. It
// links both into one program, in both orders. The program takes 0 or 1, the file that sets the
// allocator up, and a letter, the allocator. Each case writes a byte behind an object and frees the
// object: a checked allocator reports that and aborts.
#include <loam/blocks.hpp>
#include <loam/fifo.hpp>
#include <loam/pool.hpp>
#include <loam/region.hpp>
#include <loam/stack.hpp>
#include <loam/xallocator.h>

#include <cstdio>
#include <cstring>
#include <list>
#include <memory_resource>

namespace {

constexpr std::size_t kBytes = 64;

struct thing {
    char text[kBytes];
};

// Through a pointer of which the compiler knows nothing.
void *overflow(void *p) {
    void *volatile hidden = p;
    std::memset(hidden, 1, kBytes + 1);
    return hidden;
}

void of_resource(std::pmr::memory_resource &resource) {
    resource.deallocate(overflow(resource.allocate(kBytes)), kBytes);
}

void of_allocator(loam::Allocator &allocator) {
    allocator.Deallocate(overflow(allocator.Allocate(kBytes)));
}

int run(char which) {
    alignas(16) static char memory[4096];
    if (which == 'b') {
        loam::blocks blocks;
        blocks.free(overflow(blocks.alloc(kBytes)));
    } else if (which == 'B') {
        loam::blocks_resource resource;
        of_resource(resource);
    } else if (which == 'f') {
        loam::fifo fifo;
        fifo.free(overflow(fifo.alloc(kBytes)));
    } else if (which == 'r') {
        loam::region region;
        region.free(overflow(region.alloc(kBytes)), kBytes);
    } else if (which == 'R') {
        loam::region region;
        loam::region child = region.child();
        child.free(overflow(child.alloc(kBytes)), kBytes);
    } else if (which == 's') {
        loam::stack stack;
        loam::scope scope(stack.get());
        loam_stack_free(stack.get(), overflow(scope.alloc(kBytes)), kBytes);
    } else if (which == 'p') {
        loam::pool pool(kBytes);
        pool.free(overflow(pool.alloc()));
    } else if (which == 'P') {
        loam::pool pool(memory, sizeof(memory), kBytes);
        pool.free(overflow(pool.alloc()));
    } else if (which == 'o') {
        loam::pool_of<thing> pool;
        thing *made = pool.make();
        overflow(made);
        pool.destroy(made);
    } else if (which == 'm') {
        loam::pool_resource resource(kBytes);
        of_resource(resource);
    } else if (
        which ==
        'a') { // an allocator that the C++ library constructs; a node has two pointers in front
        struct item {
            char text[kBytes - 2 * sizeof(void *)];
        };
        std::list<item, loam::pool_allocator<item>> list;
        list.emplace_back();
        // All of it but the pointers, and the byte behind.
        char *volatile text = list.back().text;
        std::memset(text, 1, sizeof(item) + 1);
        list.clear();
    } else if (which == 'x') {
        loam::Allocator allocator(kBytes);
        of_allocator(allocator);
    } else if (which == 'X') {
        static loam::AllocatorPool<thing, 3> allocator;
        of_allocator(allocator);
    }
    return 0;
}

} // namespace

#if WITH
int run_checked(char which) { return run(which); }
#else
int run_checked(char which);

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int status = argv[1][0] == '1' ? run_checked(argv[2][0]) : run(argv[2][0]);
    std::puts("not reported");
    return status;
}
#endif
