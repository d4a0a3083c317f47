// tombstone_test.cc: checked allocators that are ended twice or used after their end: one line for
// each call, and no harm.
#include "loam/loam.h"

#include "unit/stderr_of.h"

#include <gtest/gtest.h>

extern "C" {
#include "family/family.h"
}

#include <cstring>
#include <string>

namespace {

/* What is said of code that goes on after its mistakes. */
template <typename Code> std::string said(Code code) {
    lm_misuse_policy.ignore = true;
    std::string text = unit::stderr_of(code);
    lm_misuse_policy.ignore = false;
    return text;
}

/* Whether it is one line, on that allocator, of that call. */
testing::AssertionResult is_line(const std::string &text, const std::string &noun,
                                 const std::string &doing) {
    std::string expected = "loam: " + noun + ": " + doing + " after its end (";
    if (text.rfind(expected, 0) == 0 && text.find('\n') == text.size() - 1)
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << "[" << text << "] is not: " << expected;
}

#define EXPECT_ENDED(noun, doing, ...) EXPECT_TRUE(is_line(said([&] { __VA_ARGS__; }), noun, doing))

void nothing(void *) {}

/* A name that is gone when the allocator's end is over. */
struct Name {
    Name() { strcpy(text, "box"); }
    ~Name() { memset(text, 'x', sizeof text); }
    char text[8];
};

void use_region(loam_region *r, void *object, loam_region_cleanup *cleanup,
                const loam_region_mark *mark) {
    const char *noun = "region box";
    EXPECT_ENDED(noun, "allocation", EXPECT_EQ(loam_region_alloc(r, 10), nullptr));
    EXPECT_ENDED(noun, "allocation", EXPECT_EQ(loam_region_alloc_aligned(r, 10, 64), nullptr));
    EXPECT_ENDED(noun, "allocation", EXPECT_EQ(loam_region_strdup(r, "abc"), nullptr));
    EXPECT_ENDED(noun, "free", loam_region_free(r, object, 10));
    EXPECT_ENDED(noun, "realloc", EXPECT_EQ(loam_region_realloc(r, object, 10, 20), nullptr));
    EXPECT_ENDED(noun, "extend", EXPECT_FALSE(loam_region_extend(r, object, 10, 20)));
    EXPECT_ENDED(noun, "mark", (void)loam_region_mark_here(r));
    EXPECT_ENDED(noun, "rewind", loam_region_rewind(r, mark));
    EXPECT_ENDED(noun, "keep", loam_region_keep(r, mark));
    EXPECT_ENDED(noun, "reset", loam_region_reset(r));
    EXPECT_ENDED(noun, "trim", EXPECT_EQ(loam_region_trim(r), 0u));
    EXPECT_ENDED(noun, "add_cleanup",
                 EXPECT_EQ(loam_region_add_cleanup(r, nothing, nullptr), nullptr));
    EXPECT_ENDED(noun, "remove_cleanup", loam_region_remove_cleanup(r, cleanup, true));
    EXPECT_ENDED(noun, "create_child", EXPECT_EQ(loam_region_create_child(r, nullptr), nullptr));
    EXPECT_ENDED(noun, "check", EXPECT_FALSE(loam_region_check(r)));
    EXPECT_ENDED(noun, "contains", EXPECT_FALSE(loam_region_contains(r, object)));
    loam_usage usage;
    EXPECT_ENDED(noun, "usage", loam_region_usage(r, &usage));
}

TEST(Tombstone, Regions) {
    for (int created = 0; created < 2; created++) {
        Name *name = new Name;
        loam_region_options options = {};
        options.flags = LOAM_CHECK;
        options.name = name->text;
        loam_region own, *r = &own;
        if (created != 0) {
            r = loam_region_create(nullptr, &options);
        } else {
            ASSERT_EQ(loam_region_init(r, nullptr, &options), 0);
        }
        void *object = loam_region_alloc(r, 10);
        loam_region_cleanup *cleanup = loam_region_add_cleanup(r, nothing, nullptr);
        loam_region_mark mark = loam_region_mark_here(r);
        if (created != 0) {
            loam_region_destroy(r);
        } else {
            loam_region_deinit(r);
        }
        delete name;
        use_region(r, object, cleanup, &mark);
        if (created != 0) {
            EXPECT_ENDED("region box", "destroy", loam_region_destroy(r));
        } else {
            EXPECT_ENDED("region box", "deinit", loam_region_deinit(r));
            ASSERT_EQ(loam_region_init(r, nullptr, nullptr), 0) << "it may be set up again";
            EXPECT_NE(loam_region_alloc(r, 10), nullptr);
            loam_region_deinit(r);
        }
    }
}

TEST(Tombstone, ChildrenAfterTheirParents) {
    for (int how = 0; how < 3; how++) {
        loam_region_options options = {};
        options.flags = LOAM_CHECK;
        options.name = "box";
        loam_region *parent = loam_region_create(nullptr, &options);
        loam_region_mark mark = loam_region_mark_here(parent);
        loam_region *child = loam_region_create_child(parent, &options);
        loam_region *grand = loam_region_create_child(child, &options);
        ASSERT_NE(grand, nullptr);
        void *object = loam_region_alloc(grand, 10);
        if (how == 0) loam_region_destroy(parent);
        if (how == 1) loam_region_reset(parent);
        if (how == 2) loam_region_rewind(parent, &mark);
        for (loam_region *r : {child, grand}) {
            EXPECT_ENDED("region box", "free", loam_region_free(r, object, 10));
            EXPECT_ENDED("region box", "allocation", (void)!loam_region_alloc(r, 10));
            EXPECT_ENDED("region box", "destroy", loam_region_destroy(r));
        }
        if (how != 0) loam_region_destroy(parent);
        EXPECT_ENDED("region box", "destroy", loam_region_destroy(parent));
    }
}

TEST(Tombstone, Pools) {
    for (unsigned more : {0u, unsigned(LOAM_POOL_HANDLES), unsigned(LOAM_HARDEN)}) {
        for (int created = 0; created < 2; created++) {
            Name *name = new Name;
            loam_pool_options options = {};
            options.flags = LOAM_CHECK | more;
            options.name = name->text;
            loam_pool own, *p = &own;
            if (created != 0) {
                p = loam_pool_create(nullptr, 64, &options);
            } else {
                ASSERT_EQ(loam_pool_init(p, nullptr, 64, &options), 0);
            }
            void *object = loam_pool_alloc(p);
            loam_handle handle = loam_pool_handle(p, object);
            loam_pool_free(p, object);
            loam_pool_destroy(p);
            delete name;
            EXPECT_ENDED("pool box", "allocation", EXPECT_EQ(loam_pool_alloc(p), nullptr));
            EXPECT_ENDED("pool box", "free", loam_pool_free(p, object));
            EXPECT_ENDED("pool box", "reset", loam_pool_reset(p));
            EXPECT_ENDED("pool box", "trim", (void)loam_pool_trim(p));
            EXPECT_ENDED("pool box", "shrink", (void)loam_pool_shrink(p));
            EXPECT_ENDED("pool box", "extend", EXPECT_NE(loam_pool_extend(p, 100), 0));
            EXPECT_ENDED("pool box", "check", EXPECT_FALSE(loam_pool_check(p)));
            loam_usage usage;
            EXPECT_ENDED("pool box", "usage", loam_pool_usage(p, &usage));
            EXPECT_FALSE(loam_pool_owns(p, object));
            EXPECT_EQ(loam_pool_get(p, handle), nullptr);
            EXPECT_EQ(loam_pool_handle(p, object), 0u);
            EXPECT_ENDED("pool box", "deinit", loam_pool_destroy(p));
        }
    }
}

TEST(Tombstone, Fifos) {
    for (unsigned more : {0u, unsigned(LOAM_FIFO_REMOTE), unsigned(LOAM_FIFO_RAW)}) {
        for (int how = 0; how < 3; how++) { /* deinit; destroy; destroy, then the last object */
            Name *name = new Name;
            loam_fifo_options options = {};
            options.flags = LOAM_CHECK | more;
            options.name = name->text;
            loam_fifo own, *f = &own;
            if (how != 0) {
                f = loam_fifo_create(nullptr, &options);
            } else {
                ASSERT_EQ(loam_fifo_init(f, nullptr, &options), 0);
            }
            void *object = loam_fifo_alloc(f, 10);
            if (how < 2) loam_fifo_free(f, object);
            if (how == 0) {
                loam_fifo_deinit(f);
            } else {
                loam_fifo_destroy(f);
            }
            if (how == 2) {
                EXPECT_ENDED("fifo box", "destroy", loam_fifo_destroy(f));
                loam_fifo_free(f, object);
            }
            delete name;
            EXPECT_ENDED("fifo box", "allocation", EXPECT_EQ(loam_fifo_alloc(f, 10), nullptr));
            EXPECT_ENDED("fifo box", "free", loam_fifo_free(f, object));
            EXPECT_ENDED("fifo box", "free", loam_fifo_free_remote(f, object));
            EXPECT_ENDED("fifo box", "realloc", (void)!loam_fifo_realloc(f, object, 10, 20));
            EXPECT_ENDED("fifo box", "trim", (void)loam_fifo_trim(f));
            EXPECT_ENDED("fifo box", "check", EXPECT_FALSE(loam_fifo_check(f)));
            EXPECT_ENDED("fifo box", "destroy", loam_fifo_destroy(f));
            EXPECT_ENDED("fifo box", "deinit", loam_fifo_deinit(f));
        }
    }
}

TEST(Tombstone, Stacks) {
    Name *name = new Name;
    loam_stack_options options = {};
    options.flags = LOAM_CHECK;
    options.name = name->text;
    loam_stack stack, *s = &stack;
    ASSERT_EQ(loam_stack_init(s, nullptr, &options), 0);
    loam_stack_frame frame = loam_stack_push(s);
    loam_stack_mark mark = loam_stack_mark_here(s);
    void *object = loam_stack_alloc(s, 10);
    loam_stack_deinit(s);
    delete name;
    EXPECT_ENDED("stack box", "allocation", EXPECT_EQ(loam_stack_alloc(s, 10), nullptr));
    EXPECT_ENDED("stack box", "free", loam_stack_free(s, object, 10));
    EXPECT_ENDED("stack box", "realloc", (void)!loam_stack_realloc(s, object, 10, 20));
    EXPECT_ENDED("stack box", "push", (void)loam_stack_push(s));
    EXPECT_ENDED("stack box", "pop", loam_stack_pop(s, frame));
    EXPECT_ENDED("stack box", "unwind", loam_stack_unwind(s, &frame));
    EXPECT_ENDED("stack box", "mark", (void)loam_stack_mark_here(s));
    EXPECT_ENDED("stack box", "rewind", loam_stack_rewind(s, &mark));
    EXPECT_ENDED("stack box", "seal", loam_stack_seal(s));
    EXPECT_ENDED("stack box", "unseal", loam_stack_unseal(s));
    EXPECT_ENDED("stack box", "reset", loam_stack_reset(s));
    EXPECT_ENDED("stack box", "trim", (void)loam_stack_trim(s));
    EXPECT_ENDED("stack box", "check", EXPECT_FALSE(loam_stack_check(s)));
    EXPECT_ENDED("stack box", "deinit", loam_stack_deinit(s));
}

TEST(Tombstone, AThreadsOwnStackBeginsAnew) {
    loam_stack *s = loam_thread_stack();
    for (int i = 0; i < 2; i++) {
        loam_stack_frame frame = loam_stack_push(s);
        EXPECT_NE(loam_stack_alloc(s, 10), nullptr);
        loam_stack_pop(s, frame);
        loam_stack_deinit(s);
    }
}

TEST(Tombstone, Rings) {
    Name *name = new Name;
    loam_ring_options options = {};
    options.flags = LOAM_CHECK;
    options.name = name->text;
    loam_ring ring, *r = &ring;
    ASSERT_EQ(loam_ring_init(r, nullptr, &options), 0);
    loam_ring_frame *frame = loam_ring_open(r);
    void *object = loam_ring_alloc(r, 10);
    loam_ring_deinit(r);
    delete name;
    EXPECT_ENDED("ring box", "open", EXPECT_EQ(loam_ring_open(r), nullptr));
    EXPECT_ENDED("ring box", "release", loam_ring_release(r, frame));
    EXPECT_ENDED("ring box", "allocation", EXPECT_EQ(loam_ring_alloc(r, 10), nullptr));
    EXPECT_ENDED("ring box", "free", loam_ring_free(r, object, 10));
    EXPECT_ENDED("ring box", "realloc", (void)!loam_ring_realloc(r, object, 10, 20));
    EXPECT_ENDED("ring box", "trim", (void)loam_ring_trim(r));
    EXPECT_ENDED("ring box", "check", EXPECT_FALSE(loam_ring_check(r)));
    EXPECT_ENDED("ring box", "deinit", loam_ring_deinit(r));
}

TEST(Tombstone, Blocks) {
    static char memory[64 * 1024];
    for (int kind = 0; kind < 4; kind++) { /* heap, threads, fixed, static */
        Name *name = new Name;
        loam_blocks_options options = {};
        options.flags = LOAM_CHECK | (kind == 1   ? unsigned{LOAM_THREADS}
                                      : kind == 2 ? unsigned{LOAM_FIXED}
                                                  : 0u);
        options.name = name->text;
        if (kind == 2) options.blocks_each = 3;
        if (kind == 3) options.memory = memory, options.memory_bytes = sizeof memory;
        loam_blocks blocks, *b = &blocks;
        ASSERT_EQ(loam_blocks_init(b, &options), 0);
        void *object = loam_blocks_alloc(b, 10);
        loam_blocks_free(b, object);
        loam_blocks_deinit(b);
        delete name;
        const char *noun = "blocks box";
        EXPECT_ENDED(noun, "allocation", EXPECT_EQ(loam_blocks_alloc(b, 10), nullptr));
        EXPECT_ENDED(noun, "allocation", (void)!loam_blocks_alloc_aligned(b, 10, 64));
        EXPECT_ENDED(noun, "free", loam_blocks_free(b, object));
        EXPECT_ENDED(noun, "realloc", (void)!loam_blocks_realloc(b, object, 10));
        EXPECT_ENDED(noun, "usable_size", (void)loam_blocks_usable_size(b, object));
        EXPECT_ENDED(noun, "reset", loam_blocks_reset(b));
        EXPECT_ENDED(noun, "trim", (void)loam_blocks_trim(b));
        EXPECT_ENDED(noun, "check", EXPECT_FALSE(loam_blocks_check(b)));
        EXPECT_ENDED(noun, "deinit", loam_blocks_deinit(b));
    }
}

/* The memory of many that have ended is not kept for ever. */
TEST(Tombstone, TombstonesAreFew) {
    loam_region_options options = {};
    options.flags = LOAM_CHECK;
    for (int i = 0; i < 1000; i++) {
        loam_region *r = loam_region_create(nullptr, &options);
        ASSERT_NE(r, nullptr);
        (void)!loam_region_alloc(r, 100);
        loam_region_destroy(r);
        EXPECT_ENDED("region (unnamed)", "destroy", loam_region_destroy(r));
    }
}

/* ---- Mistakes about a part of an allocator ---- */

TEST(TombstoneParts, ACleanupThatIsRemovedTwice) {
    for (unsigned flags : {0u, unsigned(LOAM_CHECK)}) {
        loam_region_options options = {};
        options.flags = flags;
        loam_region r;
        ASSERT_EQ(loam_region_init(&r, nullptr, &options), 0);
        int runs = 0;
        auto run = [](void *argument) { ++*static_cast<int *>(argument); };
        loam_region_cleanup *a = loam_region_add_cleanup(&r, run, &runs);
        loam_region_cleanup *b = loam_region_add_cleanup(&r, run, &runs);
        loam_region_remove_cleanup(&r, a, true);
        std::string text = said([&] { loam_region_remove_cleanup(&r, a, true); });
        EXPECT_NE(text.find("which has run, was removed, or is none of it"), std::string::npos);
        EXPECT_EQ(runs, 1);
        if (flags != 0) { /* another takes its place nowhere */
            loam_region_cleanup *c = loam_region_add_cleanup(&r, run, &runs);
            EXPECT_NE(said([&] { loam_region_remove_cleanup(&r, a, true); }), "");
            loam_region_remove_cleanup(&r, c, false);
            EXPECT_NE(said([&] { loam_region_remove_cleanup(&r, c, true); }), "");
            loam_region other;
            ASSERT_EQ(loam_region_init(&other, nullptr, &options), 0);
            EXPECT_NE(said([&] { loam_region_remove_cleanup(&other, b, true); }), "");
            loam_region_deinit(&other);
            EXPECT_EQ(runs, 1);
        }
        loam_region_reset(&r);
        EXPECT_EQ(runs, 2);
        if (flags != 0) {
            EXPECT_NE(said([&] { loam_region_remove_cleanup(&r, b, true); }), "");
        }
        EXPECT_EQ(runs, 2);
        loam_region_deinit(&r);
    }
}

TEST(TombstoneParts, AnotherRingsFrame) {
    for (unsigned flags : {0u, unsigned(LOAM_CHECK)}) {
        for (int frames = 1; frames < 4; frames++) {
            loam_ring_options options = {};
            options.flags = flags;
            options.block_bytes = 512;
            loam_ring a, b;
            ASSERT_EQ(loam_ring_init(&a, nullptr, &options), 0);
            ASSERT_EQ(loam_ring_init(&b, nullptr, &options), 0);
            loam_ring_frame *mine = nullptr, *theirs[4] = {};
            for (int i = 0; i < frames; i++) {
                mine = loam_ring_open(&a);
                memset(loam_ring_alloc(&a, 300), 1, 300);
                theirs[i] = loam_ring_open(&b);
                memset(loam_ring_alloc(&b, 300), 2, 300);
            }
            for (int i = 0; i < frames; i++) {
                std::string text = said([&] { loam_ring_release(&a, theirs[i]); });
                EXPECT_NE(text.find("which is no frame of it"), std::string::npos) << text;
            }
            EXPECT_TRUE(loam_ring_check(&a) && loam_ring_check(&b));
            loam_ring_release(&a, mine);
            for (int i = 0; i < frames; i++) loam_ring_release(&b, theirs[i]);
            EXPECT_TRUE(loam_ring_check(&a) && loam_ring_check(&b));
            loam_ring_deinit(&a);
            loam_ring_deinit(&b);
        }
    }
}

TEST(TombstoneParts, AFreeWithAnotherAlignment) {
    loam_region_options options = {};
    options.flags = LOAM_CHECK;
    loam_region r;
    ASSERT_EQ(loam_region_init(&r, nullptr, &options), 0);
    for (size_t made = 1; made <= 4096; made *= 2) {
        for (size_t freed = 1; freed <= 4096; freed *= 2) {
            for (size_t bytes : {size_t{1}, size_t{16}, size_t{100}, size_t{4096}}) {
                void *p = loam_region_alloc_aligned(&r, bytes, made);
                ASSERT_NE(p, nullptr);
                std::string text = said([&] { loam_region_free_aligned(&r, p, bytes, freed); });
                if (made == freed) {
                    EXPECT_EQ(text, "");
                    continue;
                }
                std::string words = "with alignment " + std::to_string(freed) +
                                    ", allocated with " + std::to_string(made) + " at ";
                EXPECT_NE(text.find(words), std::string::npos) << text;
                EXPECT_NE(said([&] {
                              EXPECT_EQ(loam_region_realloc_aligned(&r, p, bytes, 200, freed),
                                        nullptr);
                          }),
                          "");
                loam_region_free_aligned(&r, p, bytes, made);
            }
        }
    }
    char *text = loam_region_strdup(&r, "abc"); /* packed: of alignment 1 */
    EXPECT_NE(said([&] { loam_region_free(&r, text, 4); }), "");
    loam_region_free_aligned(&r, text, 4, 1);
    EXPECT_TRUE(loam_region_check(&r));
    loam_region_deinit(&r);
}

TEST(TombstoneParts, APoolSetsFallbackHasGuards) {
    loam_pool_options options = {};
    options.flags = LOAM_CHECK;
    options.name = "box";
    static const size_t sizes[] = {32};
    loam_pool pools[1];
    loam_pool_set set;
    ASSERT_EQ(loam_pool_set_init(&set, pools, sizes, 1, nullptr, &options, 0, nullptr), 0);
    for (size_t bytes : {size_t{33}, size_t{100}, size_t{5000}, size_t{100000}}) {
        char *p = static_cast<char *>(loam_pool_set_alloc(&set, bytes));
        ASSERT_NE(p, nullptr);
        lm_tool_show(p + bytes - 8, 16);
        char was = p[bytes];
        p[bytes] = 1;
        std::string text = said([&] { loam_pool_set_free(&set, p); });
        EXPECT_EQ(text.rfind("loam: pool set box: overflow of ", 0), 0u) << text;
        EXPECT_NE(said([] { (void)loam_registry_check(); }), "");
        lm_tool_show(p + bytes - 8, 16);
        p[bytes] = was;
        lm_tool_show(p - 16, 16);
        was = p[-1];
        p[-1] = 1;
        text = said([&] { loam_pool_set_free(&set, p); });
        EXPECT_EQ(text.rfind("loam: pool set box: underflow of ", 0), 0u) << text;
        lm_tool_show(p - 16, 16);
        p[-1] = was;
        EXPECT_NE(said([&] { loam_pool_set_free(&set, p + 16); }), "");
        loam_pool_set_free(&set, p);
        EXPECT_EQ(loam_registry_check(), 0u);
    }
    (void)!loam_pool_set_alloc(&set, 40);
    std::string text = said([&] { loam_pool_set_deinit(&set); });
    EXPECT_EQ(text.rfind("loam: pool set box: leak of 40 bytes at ", 0), 0u) << text;
    EXPECT_ENDED("pool set (unnamed)", "allocation", (void)!loam_pool_set_alloc(&set, 40));
    EXPECT_ENDED("pool set (unnamed)", "deinit", loam_pool_set_deinit(&set));
}

TEST(TombstoneParts, LeaksAreListedAtTheEndOfWhatMustBeFreed) {
    auto count = [](const std::string &text) {
        size_t lines = 0;
        for (size_t at = 0; (at = text.find(": leak of ", at)) != std::string::npos; at++) lines++;
        return lines;
    };
    loam_pool_options pool_options = {};
    pool_options.flags = LOAM_CHECK;
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 24, &pool_options), 0);
    for (int i = 0; i < 3; i++) (void)loam_pool_alloc(&pool);
    EXPECT_EQ(count(said([&] { loam_pool_deinit(&pool); })), 3u);
    loam_blocks_options blocks_options = {};
    blocks_options.flags = LOAM_CHECK;
    loam_blocks blocks;
    ASSERT_EQ(loam_blocks_init(&blocks, &blocks_options), 0);
    for (int i = 0; i < 4; i++) (void)!loam_blocks_alloc(&blocks, 100);
    EXPECT_EQ(count(said([&] { loam_blocks_deinit(&blocks); })), 4u);
    loam_fifo_options fifo_options = {};
    fifo_options.flags = LOAM_CHECK;
    loam_fifo fifo;
    ASSERT_EQ(loam_fifo_init(&fifo, nullptr, &fifo_options), 0);
    for (int i = 0; i < 250; i++) (void)loam_fifo_alloc(&fifo, 10);
    std::string text = said([&] { loam_fifo_deinit(&fifo); });
    EXPECT_EQ(count(text), 100u);
    EXPECT_NE(text.find("loam: fifo (unnamed): 150 leaks more\n"), std::string::npos);
    /* What a region, stack or ring has at its end is no leak: it is meant to be dropped. */
    loam_region_options region_options = {};
    region_options.flags = LOAM_CHECK;
    loam_region *region = loam_region_create(nullptr, &region_options);
    (void)!loam_region_alloc(region, 10);
    EXPECT_EQ(said([&] { loam_region_destroy(region); }), "");
}

} // namespace
