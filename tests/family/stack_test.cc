// stack_test.cc: frame stacks: frames, objects and their alignment, the last object, seals, marks,
// a thread's own.
#include "stack_sources.h"

#include "loam/blocks.h"
#include "loam/malloc.h"
#include "loam/pool.h"
#include "loam/region.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <thread>
#include <vector>

namespace {

TEST(Stack, RefusesWhatItCannotBe) {
    loam_stack stack;
    loam_stack_options options = with_block(255);
    EXPECT_EQ(loam_stack_init(&stack, nullptr, &options), -EINVAL);
    options = with_block(SIZE_MAX);
    EXPECT_EQ(loam_stack_init(&stack, nullptr, &options), -EINVAL);
    options = with_block(256);
    ASSERT_EQ(loam_stack_init(&stack, nullptr, &options), 0);
    loam_stack_deinit(&stack);
    if (!LOAM_DEBUG) loam_stack_deinit(&stack); /* a checked one says so: tombstone_test.cc */
}

TEST(Stack, TakesMemoryWithItsFirstFrame) {
    Counted counted;
    Stack s(&counted.source);
    EXPECT_EQ(counted.gets, 0u);
    loam_stack_frame frame = s.push();
    EXPECT_EQ(counted.gets, 1u);
    s.pop(frame);
    EXPECT_EQ(counted.used_bytes, size_t{64} << 10);
}

TEST(Stack, APopGoesBackToTheExactPlace) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    loam_stack_frame outer = s.push();
    char *text = s.alloc(5);
    loam_stack_frame inner = s.push();
    char *first = s.alloc(100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 16, 0u) << "a frame takes two words";
    EXPECT_LE(first, text + 5 + 15 + 16);
    memset(first, 1, 100);
    s.pop(inner);
    EXPECT_EQ(s.alloc(1), text + 5) << "not a byte is lost";
    inner = s.push();
    EXPECT_EQ(s.alloc(100), first);
    s.pop(inner);
    s.pop(outer);
}

TEST(Stack, AlignsTheAddressAlone) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    loam_stack_frame frame = s.push();
    char *a = s.alloc(3), *b = s.alloc(3), *c = s.alloc(6, 4), *d = s.alloc(1);
    EXPECT_EQ(b, a + 3);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(c) % 4, 0u);
    EXPECT_LT(c, b + 3 + 4);
    EXPECT_EQ(d, c + 6) << "a size is not rounded";
    for (size_t align = 1; align <= 65536; align *= 2) {
        for (size_t bytes : {size_t{1}, size_t{24}, size_t{5000}}) {
            char *p = s.alloc(bytes, align);
            ASSERT_NE(p, nullptr);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
            memset(p, 1, bytes);
        }
    }
    s.pop(frame);
}

/* Constant sizes have a path of their own. */
TEST(Stack, ConstantSizesFillABlockToItsEndAndGoOn) {
    Counted counted;
    Stack s(&counted.source, with_block(4096));
    loam_stack_frame frame = s.push();
    std::vector<char *> made;
    for (int i = 0; i < 2000; i++) {
        auto *three = static_cast<char *>(loam_stack_alloc_aligned(&s, 3, 1));
        auto *seven = static_cast<char *>(loam_stack_alloc_aligned(&s, 7, 4));
        auto *eight = static_cast<char *>(loam_stack_alloc_aligned(&s, 8, 8));
        auto *many = static_cast<char *>(loam_stack_alloc(&s, 48));
        ASSERT_TRUE(three && seven && eight && many);
        memset(three, i, 3), memset(seven, i, 7), memset(eight, i, 8), memset(many, i, 48);
        made.insert(made.end(), {three, seven, eight, many});
    }
    const size_t sizes[] = {3, 7, 8, 48};
    for (size_t i = 0; i < made.size(); i++)
        for (size_t k = 0; k < sizes[i % 4]; k++) ASSERT_EQ(made[i][k], static_cast<char>(i / 4));
    EXPECT_GT(counted.gets, 10u);
    s.pop(frame);
}

TEST(Stack, ProductsAndSizesThatOverflowAreNull) {
    Stack s;
    loam_stack_frame frame = s.push();
    volatile size_t many = SIZE_MAX / 8 + 2, most = PTRDIFF_MAX, odd = 24, none = 0;
    EXPECT_EQ(loam_stack_calloc(&s, many, 8), nullptr);
    EXPECT_EQ(LOAM_STACK_ARRAY(&s, long, many), nullptr);
    EXPECT_EQ(loam_stack_alloc(&s, most), nullptr);
    EXPECT_EQ(loam_stack_alloc_aligned(&s, 8, odd), nullptr);
    EXPECT_EQ(loam_stack_alloc_aligned(&s, 8, none), nullptr);
    void *p = loam_stack_alloc(&s, 10);
    EXPECT_EQ(loam_stack_realloc(&s, p, 10, most), nullptr);
    EXPECT_NE(loam_stack_alloc(&s, 0), nullptr);
    s.pop(frame);
}

TEST(Stack, TheLastObjectGrowsAndShrinksInPlace) {
    Stack s;
    loam_stack_frame frame = s.push();
    char *p = s.alloc(10, 16);
    memset(p, 7, 10);
    EXPECT_EQ(loam_stack_realloc(&s, p, 10, 20000), p);
    EXPECT_EQ(loam_stack_realloc(&s, p, 20000, 100), p);
    char *after = s.alloc(16, 16);
    EXPECT_LT(after, p + 400) << "what it gave up is used again";
    memset(after, 1, 16);
    auto *moved = static_cast<char *>(loam_stack_realloc(&s, p, 100, 200));
    EXPECT_NE(moved, p) << "it is not the last any more";
    for (int i = 0; i < 10; i++) ASSERT_EQ(moved[i], 7);
    EXPECT_EQ(loam_stack_realloc(&s, moved, 200, 50), moved);
    s.pop(frame);
    frame = s.push();
    EXPECT_EQ(s.alloc(10, 16), p);
    s.pop(frame);
}

TEST(Stack, TheLastObjectIsTheLastAgainAfterAFrame) {
    Stack s;
    loam_stack_frame outer = s.push();
    char *p = s.alloc(13, 16);
    loam_stack_frame inner = s.push();
    (void)s.alloc(1000);
    s.pop(inner);
    EXPECT_EQ(loam_stack_realloc(&s, p, 13, 500), p);
    s.pop(outer);
}

TEST(Stack, AnArrayGrowsBeyondItsBlock) {
    Stack s(nullptr, with_block(4096));
    loam_stack_frame frame = s.push();
    size_t bytes = 8;
    auto *p = static_cast<unsigned char *>(loam_stack_alloc(&s, bytes));
    memset(p, 3, bytes);
    while (bytes < 3000000) {
        p = static_cast<unsigned char *>(loam_stack_realloc(&s, p, bytes, bytes * 2));
        ASSERT_NE(p, nullptr);
        for (size_t i = 0; i < bytes; i++) ASSERT_EQ(p[i], 3);
        memset(p, 3, bytes *= 2);
    }
    s.pop(frame);
}

TEST(Stack, FreeingTheLastMakesRoom) {
    Stack s;
    loam_stack_frame frame = s.push();
    char *a = s.alloc(100, 16), *b = s.alloc(100, 16);
    loam_stack_free(&s, b, 100);
    EXPECT_EQ(s.alloc(50, 16), b);
    loam_stack_free(&s, a, 100);
    EXPECT_NE(s.alloc(50, 16), a) << "lost until the frame ends";
    loam_stack_free(&s, nullptr, 0);
    s.pop(frame);
}

TEST(Stack, CopiesAndFormats) {
    Stack s;
    loam_stack_frame frame = s.push();
    EXPECT_STREQ(loam_stack_strdup(&s, "whole"), "whole");
    EXPECT_STREQ(loam_stack_strndup(&s, "whole", 3), "who");
    int numbers[] = {1, 2, 3};
    EXPECT_EQ(static_cast<int *>(loam_stack_memdup(&s, numbers, sizeof numbers))[2], 3);
    std::string longer(500, 'x');
    EXPECT_EQ(loam_stack_sprintf(&s, "%s!%d", longer.c_str(), 5), longer + "!5");
    /* No character of the C locale: a format that fails. */
    const wchar_t none[] = {static_cast<wchar_t>(0x7fffffff), 0};
    EXPECT_EQ(loam_stack_sprintf(&s, "%ls", none), nullptr);
    auto *zero = static_cast<char *>(loam_stack_calloc(&s, 100, 3));
    for (int i = 0; i < 300; i++) ASSERT_EQ(zero[i], 0);
    s.pop(frame);
}

TEST(Stack, IsFromKnowsWhatIsAlive) {
    Stack s(nullptr, with_block(4096));
    loam_stack_frame outer = s.push();
    char *a = s.alloc(100);
    loam_stack_frame inner = s.push();
    char *b = s.alloc(20000);
    EXPECT_TRUE(loam_stack_contains(&s, a) && loam_stack_contains(&s, b));
    s.pop(inner);
    EXPECT_TRUE(loam_stack_contains(&s, a));
    EXPECT_FALSE(loam_stack_contains(&s, b));
    EXPECT_FALSE(loam_stack_contains(&s, &outer));
    s.pop(outer);
}

jmp_buf far_away;
volatile bool jumps = true;

__attribute__((noinline)) void descend(Stack &s, int depth) {
    loam_stack_frame frame = s.push();
    memset(s.alloc(500), 1, 500);
    if (depth == 0) {
        if (jumps) longjmp(far_away, 1);
    } else {
        descend(s, depth - 1);
    }
    s.pop(frame);
}

TEST(Stack, UnwindsWhereLongjmpLeads) {
    Stack s(nullptr, with_block(4096));
    loam_stack_frame outer = s.push();
    char *text = loam_stack_strdup(&s, "kept");
    size_t used = s.usage().used_bytes;
    for (volatile int round = 0; round < 3; round++) {
        if (setjmp(far_away) == 0) {
            descend(s, 50);
        } else {
            loam_stack_unwind(&s, &outer);
            EXPECT_LE(s.usage().used_bytes, used + 16);
            EXPECT_TRUE(loam_stack_check(&s));
        }
    }
    EXPECT_STREQ(text, "kept");
    s.pop(outer);
}

TEST(Stack, UnwindsToAFrameThatThereWasNoMemoryFor) {
    Counted counted(loam_pages(), 4096);
    Stack s(&counted.source, with_block(4096));
    loam_stack_frame outer = s.push(), below = outer, none = s.push();
    while (loam_stack_pushed_it(&none)) below = none, none = s.push();
    counted.most_bytes = SIZE_MAX;
    for (int i = 0; i < 3; i++) (void)s.push();
    loam_stack_unwind(&s, &none);
    s.pop(none);
    EXPECT_EQ(all_said([&] { s.pop(below); }), "") << "the inner ones have ended";
    loam_stack_unwind(&s, &outer);
    s.pop(outer);
}

/* ---- Seals ---- */

TEST(Stack, FramesOnASealedOneWork) {
    Stack s;
    loam_stack_frame outer = s.push();
    char *a = s.alloc(16, 16);
    loam_stack_seal(&s);
    for (int i = 0; i < 3; i++) {
        loam_stack_frame inner = s.push();
        ASSERT_NE(s.alloc(100), nullptr);
        loam_stack_frame innermost = s.push();
        ASSERT_NE(s.alloc(100), nullptr);
        s.pop(innermost);
        s.pop(inner);
        EXPECT_TRUE(loam_stack_check(&s));
        char *p = a;
        EXPECT_NE(all_said([&] { p = s.alloc(8); }).find("allocation in a sealed frame"),
                  std::string::npos);
        EXPECT_EQ(p, nullptr) << "sealed again after the pop";
    }
    loam_stack_unseal(&s);
    EXPECT_NE(s.alloc(8), nullptr);
    loam_stack_seal(&s);
    s.pop(outer);
    EXPECT_NE(s.alloc(8), nullptr) << "a seal ends with its frame";
}

/* ---- Marks ---- */

TEST(Stack, RewindDropsWhatCameSinceInThisFrame) {
    for (size_t block : {size_t{4096}, size_t{1} << 20}) {
        Stack s(nullptr, with_block(block));
        loam_stack_frame frame = s.push();
        char *kept = s.alloc(10);
        memset(kept, 5, 10);
        loam_stack_mark mark = loam_stack_mark_here(&s);
        char *first = nullptr;
        for (int round = 0; round < 3; round++) {
            char *p = s.alloc(50, 16);
            if (round == 0) first = p;
            EXPECT_EQ(p, first);
            for (int i = 0; i < 300; i++) memset(s.alloc(100), 1, 100);
            loam_stack_frame inner = s.push();
            (void)s.alloc(10000);
            s.pop(inner);
            loam_stack_rewind(&s, &mark);
            EXPECT_TRUE(loam_stack_check(&s));
        }
        for (int i = 0; i < 10; i++) ASSERT_EQ(kept[i], 5);
        s.pop(frame);
    }
}

TEST(Stack, MarksAtTheBase) {
    Stack s;
    loam_stack_mark mark = loam_stack_mark_here(&s);
    loam_stack_rewind(&s, &mark);
    char *p = s.alloc(100);
    loam_stack_rewind(&s, &mark);
    EXPECT_EQ(s.alloc(100), p);
}

TEST(Stack, AMarkAtTheEmptyBaseOutlivesATrim) {
    std::vector<char> memory(20000);
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory.data(), memory.size());
    buffer.source.flags = 0;
    Stack s(&buffer.source, with_block(4096));
    s.pop(s.push());
    loam_stack_mark mark = loam_stack_mark_here(&s);
    (void)s.alloc(100);
    loam_stack_rewind(&s, &mark);
    loam_stack_trim(&s);
    size_t got;
    void *between = loam_source_get(&buffer.source, 5000, 16, &got);
    (void)s.alloc(100);
    EXPECT_EQ(all_said([&] { loam_stack_rewind(&s, &mark); }), "");
    EXPECT_EQ(s.usage().used_bytes, 0u);
    loam_source_put(&buffer.source, between, got);
}

/* ---- Threads, and forks ---- */

TEST(ThreadStack, ScopesNestAndEndHoweverTheyAreLeft) {
    auto used = [] {
        loam_usage usage;
        loam_stack_usage(loam_thread_stack(), &usage);
        return usage.used_bytes;
    };
    size_t before = used();
    auto leaves = [](int how) {
        LOAM_SCOPE;
        char *text = loam_scope_sprintf("%d %s", how, "ways");
        for (int i = 0; i < 10; i++) {
            LOAM_SCOPE;
            int *p = LOAM_SCOPE_NEW(int);
            *p = how;
            if (how == 1 && i == 5) break;
            if (how == 2 && i == 6) return text[0] == '2';
            if (how == 3 && i == 7) throw 3;
        }
        return text[0] != 0;
    };
    EXPECT_TRUE(leaves(0));
    EXPECT_TRUE(leaves(1));
    EXPECT_TRUE(leaves(2));
    EXPECT_THROW(leaves(3), int);
    EXPECT_EQ(used(), before);
    EXPECT_TRUE(loam_stack_check(loam_thread_stack()));
}

extern "C" int stack_in_c(int depth);

TEST(ThreadStack, InC) {
    EXPECT_EQ(stack_in_c(10), 55);
    EXPECT_TRUE(loam_stack_check(loam_thread_stack()));
}

TEST(ThreadStack, EndsWithItsThread) {
    Counted counted;
    std::thread([&] {
        ASSERT_EQ(loam_thread_stack_init(&counted.source, nullptr), 0);
        EXPECT_EQ(loam_thread_stack_init(&counted.source, nullptr), -EBUSY);
        LOAM_SCOPE;
        memset(loam_scope_alloc(100000), 1, 100000);
        EXPECT_GT(counted.used_bytes, 100000u);
    }).join();
    EXPECT_EQ(counted.used_bytes, 0u);
}

/* Each of these asks to be told of the thread's end. */
TEST(ThreadStack, EndsAmongAllThatEndWithTheThread) {
    Counted counted;
    loam_shared_pool pool;
    ASSERT_EQ(loam_shared_pool_init(&pool, nullptr, 40, nullptr), 0);
    loam_blocks blocks;
    loam_blocks_options options = {};
    options.flags = LOAM_THREADS;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    std::thread([&] {
        loam_free(loam_malloc(100));
        loam_shared_pool_free(&pool, loam_shared_pool_alloc(&pool));
        loam_blocks_free(&blocks, loam_blocks_alloc(&blocks, 100));
        loam_scratch scratch = loam_scratch_begin(nullptr);
        loam_scratch_end(&scratch);
        ASSERT_EQ(loam_thread_stack_init(&counted.source, nullptr), 0);
        LOAM_SCOPE;
        memset(loam_scope_alloc(100000), 1, 100000);
    }).join();
    EXPECT_EQ(counted.used_bytes, 0u);
    loam_shared_pool_deinit(&pool);
    loam_blocks_deinit(&blocks);
}

TEST(ThreadStack, AForksChildGoesOn) {
    LOAM_SCOPE;
    char *text = loam_scope_strdup("before");
    pid_t child = fork();
    if (child == 0) {
        bool good = strcmp(text, "before") == 0;
        {
            LOAM_SCOPE;
            for (int i = 0; i < 1000; i++) memset(loam_scope_alloc(1000), i, 1000);
        }
        text = loam_scope_sprintf("%s and after", text);
        good =
            good && strcmp(text, "before and after") == 0 && loam_stack_check(loam_thread_stack());
        _exit(good ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_STREQ(text, "before");
}

} // namespace
