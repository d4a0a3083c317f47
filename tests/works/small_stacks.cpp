/*
 * small_stacks.cpp - every call of the interface from threads whose stack is 16 KiB.
 *
 * Catches: a call that puts a large buffer on the stack (a path, a line of statistics, a bitmap),
 * in its first use in a thread (which makes the thread's heap), in its usual use, or at the end of
 * the thread. The C library takes some 4 KiB of the 16 for itself.
 *
 * Each call has a thread of its own and a page that may not be touched under its stack; the
 * handler of the fault runs on a stack of its own and names the call.
 */
#include "works.h"

#include <new>
#include <pthread.h>

namespace {

constexpr size_t stack_bytes = 16384, guard_bytes = 65536;
const char *current = "nothing";
alignas(16) char fault_stack[65536];

void *volatile sink; // results pass through it, so that no pair of calls is optimised away

void *kept(void *block) {
    CHECK(block != nullptr, "%s returned NULL", current);
    sink = block;
    return sink;
}

template <class Function> Function *lookup(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

struct Call {
    const char *name;
    void (*run)();
};

FILE *nowhere;

const Call calls[] = {
    {"malloc of 24 bytes", [] { free(kept(malloc(24))); }},
    {"malloc of 3000 bytes", [] { free(kept(malloc(3000))); }},
    {"malloc of 60000 bytes", [] { free(kept(malloc(60000))); }},
    {"malloc of 1 MiB", [] { free(kept(malloc(WORKS_MIB))); }},
    {"malloc of 80 MiB", [] { free(kept(malloc(80 * WORKS_MIB))); }},
    {"malloc of too much",
     [] {
         sink = malloc(PTRDIFF_MAX);
         CHECK(sink == nullptr, "malloc(PTRDIFF_MAX)");
     }},
    {"calloc", [] { free(kept(calloc(100, 300))); }},
    {"realloc of every kind",
     [] {
         void *block = kept(realloc(nullptr, 10));
         for (size_t bytes = 10; bytes < 40 * WORKS_MIB; bytes = bytes * 3 + 1)
             block = kept(realloc(block, bytes));
         block = kept(realloc(block, 5000));
         free(block);
     }},
    {"reallocarray", [] { free(kept(reallocarray(nullptr, 100, 100))); }},
    {"aligned_alloc", [] { free(kept(aligned_alloc(64, 640))); }},
    {"memalign of 1 MiB", [] { free(kept(memalign(WORKS_MIB, 100))); }},
    {"posix_memalign",
     [] {
         void *block;
         CHECK(posix_memalign(&block, 4096, 10000) == 0, "posix_memalign");
         free(kept(block));
     }},
    {"valloc", [] { free(kept(valloc(100))); }},
    {"pvalloc", [] { free(kept(pvalloc(100))); }},
    {"malloc_usable_size",
     [] {
         void *block = kept(malloc(100));
         CHECK(malloc_usable_size(block) >= 100, "malloc_usable_size");
         free(block);
     }},
    {"mallinfo2", [] { sink = reinterpret_cast<void *>(mallinfo2().uordblks); }},
    {"malloc_trim", [] { malloc_trim(0); }},
    {"mallopt", [] { mallopt(M_MMAP_THRESHOLD, 1 << 20); }},
    {"malloc_info", [] { malloc_info(0, nowhere); }},
    {"cfree",
     [] {
         auto *call = lookup<void(void *)>("cfree");
         if (call) call(kept(malloc(100)));
     }},
    {"free_sized",
     [] {
         auto *call = lookup<void(void *, size_t)>("free_sized");
         if (call) call(kept(malloc(100)), 100);
     }},
    {"free_aligned_sized",
     [] {
         auto *call = lookup<void(void *, size_t, size_t)>("free_aligned_sized");
         if (call) call(kept(aligned_alloc(128, 256)), 128, 256);
     }},
    {"operator new", [] { ::operator delete(kept(::operator new(100))); }},
    {"operator new[]", [] { ::operator delete[](kept(::operator new[](3000))); }},
    {"operator new, nothrow",
     [] { ::operator delete(kept(::operator new(100, std::nothrow)), std::nothrow); }},
    {"operator new, nothrow, too much",
     [] {
         sink = ::operator new(PTRDIFF_MAX, std::nothrow);
         CHECK(sink == nullptr, "operator new(PTRDIFF_MAX, nothrow)");
     }},
    {"operator new, aligned",
     [] {
         ::operator delete(kept(::operator new(100, std::align_val_t(256))), std::align_val_t(256));
     }},
    {"operator delete, sized",
     [] { // by name: compilers differ in whether they declare it
         auto *call = lookup<void(void *, size_t)>("_ZdlPvm");
         if (call) call(kept(::operator new(100)), 100);
     }},
    {"thousands of blocks of all sizes",
     [] {
         void *blocks[32] = {};
         uint64_t seed = 3;
         for (int i = 0; i < 5000; i++) {
             size_t at = works_random(&seed) % 32;
             free(blocks[at]);
             blocks[at] = kept(malloc(works_random_size(&seed)));
         }
         for (void *block : blocks) free(block);
     }},
};

void overflow(int) {
    works_say("FAIL %s does not do with a stack of %zu bytes (or wrote elsewhere)", current,
              stack_bytes);
    _exit(1);
}

void *run_twice(void *argument) {
    stack_t alternative = {};
    alternative.ss_sp = fault_stack;
    alternative.ss_size = sizeof fault_stack;
    sigaltstack(&alternative, nullptr);
    const Call *call = static_cast<const Call *>(argument);
    call->run(); // the first call in this thread
    call->run();
    return nullptr;
}

void in_small_stack(const Call &call) {
    current = call.name;
    char *area =
        static_cast<char *>(mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(area != MAP_FAILED, "mmap of a stack");
    CHECK(mprotect(area, guard_bytes, PROT_NONE) == 0, "mprotect of the page under the stack");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, area + guard_bytes, stack_bytes) == 0,
          "pthread_attr_setstack");
    pthread_t id;
    int error = pthread_create(&id, &attributes, run_twice, const_cast<Call *>(&call));
    if (error == EINVAL) SKIP("this C library needs more than %zu bytes for a thread", stack_bytes);
    CHECK(error == 0, "pthread_create: %s", strerror(error));
    pthread_join(id, nullptr);
    munmap(area, guard_bytes + stack_bytes);
}

} // namespace

int main() {
    works_require_loam();
    works_limit(30);
    nowhere = fopen("/dev/null", "w");
    CHECK(nowhere != nullptr, "fopen /dev/null");
    char buffer[4096];
    setvbuf(nowhere, buffer, _IOFBF, sizeof buffer);
    struct sigaction action = {};
    action.sa_handler = overflow;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    for (const Call &call : calls) in_small_stack(call);

    // malloc_stats prints on standard error, which is not to be filled by a test that passes
    int error_stream = dup(2), null = open("/dev/null", O_WRONLY);
    works_report_fd = error_stream;
    dup2(null, 2);
    in_small_stack(Call{"malloc_stats", [] { malloc_stats(); }});
    return 0;
}
