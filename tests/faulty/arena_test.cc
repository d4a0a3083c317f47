/* arena_test.cc: arenas on a machine with several nodes and a pool of huge pages, and on one that
 * refuses everything.
 *
 * The machine is faulty.c's: threads run on the node that the test names, binding to a node is
 * counted and does nothing, pages of the pool are ordinary memory, and each takes the time that the
 * test says.
 */
#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "api/api.h"
#include "os/faulty.h"
#include "survey/survey.h"
}

#include "unit/own_mapping.h"
#include "unit/stderr_of.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t k2M = size_t{2} << 20, k1G = size_t{1} << 30;

class Machine : public testing::Test {
  protected:
    void SetUp() override {
        lm_purge_pause(); /* without the worker, but not as a program that has shut itself in */
        lm_faulty_clear();
        loam_free(loam_malloc(1)); /* the arena is there */
    }
    void TearDown() override {
        lm_faulty_clear();
        lm_heap_collect();
        lm_span_check();
        for (loam_arena *arena : arenas()) EXPECT_EQ(0, loam_arena_destroy(arena));
        lm_nodes_most = 0;
        is({});
        lm_span_check();
        lm_purge_resume();
    }
    void is(lm_faulty_machine_t machine) {
        lm_faulty_machine(&machine);
        lm_nodes_forget();
    }
    static std::vector<loam_arena *> arenas() {
        std::vector<loam_arena *> found;
        for (loam_arena &arena : lm_ranges) {
            if (arena.bounds != 0) found.push_back(&arena);
        }
        return found;
    }
    static size_t bytes(loam_arena *arena) {
        loam_arena_numbers numbers;
        loam_arena_usage(arena, &numbers);
        return numbers.bytes;
    }
    static int node_of(const void *p) {
        for (loam_arena *arena : arenas()) {
            if (loam_arena_contains(arena, p)) return arena->node;
        }
        return -2; /* in no arena */
    }
    template <typename Code> static std::string said_by(Code code) {
        std::string text = unit::stderr_of(code);
        EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 1) << text;
        return text;
    }
};

template <typename Body> void in_thread(Body body) {
    std::thread thread(body);
    thread.join();
}

/* ---- Nodes ---- */

TEST_F(Machine, DealsPagesOutToItsNodes) {
    is({.nodes = 0xf, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    EXPECT_EQ(4u, loam_numa_nodes());
    EXPECT_EQ("", said_by([] { EXPECT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 10, 0, 0)); }));
    ASSERT_EQ(4u, arenas().size());
    for (unsigned node = 0; node < 4; node++) {
        size_t pages = node < 2 ? 3 : 2, bound;
        EXPECT_EQ(int(node), arenas()[node]->node);
        EXPECT_EQ(pages * k2M, bytes(arenas()[node]));
        EXPECT_EQ(pages, lm_faulty_binds(node, &bound)) << "one call a page";
        EXPECT_EQ(pages * k2M, bound);
    }
    EXPECT_EQ(0u, lm_faulty_binds(4, nullptr));
}

TEST_F(Machine, DealsToTheFirstOfThem) {
    is({.nodes = 0x35, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    EXPECT_EQ(4u, loam_numa_nodes());
    EXPECT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 4, 2, 0));
    ASSERT_EQ(2u, arenas().size());
    EXPECT_EQ(0, arenas()[0]->node);
    EXPECT_EQ(2, arenas()[1]->node) << "there is no node 1";
    loam_arena *none = nullptr;
    for (int node : {1, 3, 6, 63, 64, -2})
        EXPECT_EQ(-EINVAL, loam_reserve_huge_pages(k2M, 1, 0, node, 0, &none)) << node;
    ASSERT_EQ(0, loam_reserve_huge_pages(k2M, 1, 0, 5, 0, &none));
    EXPECT_EQ(1u, lm_faulty_binds(5, nullptr));
}

TEST_F(Machine, ServesThreadsFromTheirNode) {
    is({.nodes = 0xf, .node = 2, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    ASSERT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 8, 0, 0));
    EXPECT_EQ(2, loam_numa_node());
    in_thread([&] {
        std::vector<void *> taken;
        for (size_t size : {16, 1000, 40000, 200000}) {
            taken.push_back(loam_malloc(size));
            EXPECT_EQ(2, node_of(taken.back())) << size;
        }
        /* All of that node, then what is nobody's; and not the others'. */
        std::vector<void *> large;
        for (int i = 0; i < 30; i++) large.push_back(loam_malloc(200000));
        EXPECT_EQ(2, node_of(large.front()));
        EXPECT_EQ(-2, node_of(large.back()));
        for (void *p : large) EXPECT_TRUE(node_of(p) == 2 || node_of(p) == -2);
        for (void *p : large) loam_free(p);
        for (void *p : taken) loam_free(p);
    });
    is({.nodes = 0xf, .node = 3, .has_pool = true, .pages_2m = 0, .pages_1g = 0, .ms = 0});
    in_thread([&] {
        void *p = loam_malloc(200000);
        EXPECT_EQ(3, node_of(p)) << "the thread runs elsewhere now";
        loam_free(p);
    });
}

TEST_F(Machine, TakesAnothersNodesMemoryAtLast) {
    is({.nodes = 3, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    loam_arena *far = nullptr;
    ASSERT_EQ(0, loam_reserve_huge_pages(k2M, 16, 0, 1, 0, &far));
    in_thread([&] {
        std::vector<void *> taken;
        for (int i = 0; i < 10; i++) taken.push_back(loam_malloc(k2M));
        for (void *p : taken) EXPECT_EQ(-2, node_of(p));
        lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
        size_t there = 0;
        for (int i = 0; i < 20; i++) {
            taken.push_back(loam_malloc(k2M / 2));
            there += taken.back() != nullptr && node_of(taken.back()) == 1;
        }
        EXPECT_GE(there, 10u) << "there may be holes elsewhere";
        lm_faulty_clear();
        for (void *p : taken) loam_free(p);
    });
}

TEST_F(Machine, CountsNodesAsItIsTold) {
    lm_nodes_most = 2;
    is({.nodes = 0xff, .node = 5, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    EXPECT_EQ(2u, loam_numa_nodes());
    EXPECT_EQ(1, loam_numa_node()) << "5 is 1 by 2";
    ASSERT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 2, 0, 0));
    EXPECT_EQ(2u, arenas().size());
    in_thread([&] {
        void *p = loam_malloc(200000);
        EXPECT_EQ(1, node_of(p));
        loam_free(p);
    });
}

/* Of nodes 0, 3, 4 and 5 that are told apart by 2: those that are there count, and memory is of one
 * that is. */
TEST_F(Machine, CountsNodesThatAreNotInARow) {
    lm_nodes_most = 2;
    is({.nodes = 0x39, .node = 5, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    EXPECT_EQ(2u, loam_numa_nodes());
    EXPECT_EQ(1, loam_numa_node());
    ASSERT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 2, 0, 0));
    ASSERT_EQ(2u, arenas().size());
    EXPECT_EQ(1u, lm_faulty_binds(0, nullptr));
    EXPECT_EQ(0u, lm_faulty_binds(1, nullptr)) << "there is none";
    EXPECT_EQ(1u, lm_faulty_binds(3, nullptr));
    loam_arena *none = nullptr;
    EXPECT_EQ(-EINVAL, loam_reserve_memory(k2M, 0, 3, &none)) << "it counts as 1";
    in_thread([&] {
        void *p = loam_malloc(200000);
        EXPECT_EQ(1, node_of(p));
        loam_free(p);
    });
}

TEST_F(Machine, IsNotAskedWhereThereIsOneNode) {
    lm_nodes_most = 1;
    is({.nodes = 0xff, .node = 5, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    EXPECT_EQ(1u, loam_numa_nodes());
    ASSERT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 2, 0, 0));
    ASSERT_EQ(1u, arenas().size());
    in_thread([&] {
        std::vector<void *> taken;
        for (int i = 0; i < 20; i++) taken.push_back(loam_malloc(100000));
        for (void *p : taken) loam_free(p);
    });
    EXPECT_EQ(0u, lm_faulty_asked());
    for (unsigned node = 0; node < 8; node++) EXPECT_EQ(0u, lm_faulty_binds(node, nullptr));

    lm_nodes_most = 0;
    is({.nodes = 1, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    ASSERT_EQ(0, loam_reserve_huge_pages(k2M, 2, 0, 0, 0, nullptr));
    in_thread([&] {
        for (int i = 0; i < 20; i++) loam_free(loam_malloc(100000));
    });
    EXPECT_EQ(1u, lm_faulty_asked()) << "which nodes there are, once";
}

/* ---- The pool ---- */

TEST_F(Machine, SaysOnceWhatItHasNot) {
    is({.nodes = 0, .node = 0, .has_pool = true, .pages_2m = 5, .pages_1g = 0, .ms = 0});
    loam_arena *arena = nullptr;
    std::string said = said_by(
        [&] { EXPECT_EQ(0, loam_reserve_huge_pages(k2M, 8, 0, LOAM_NODE_ANY, 0, &arena)); });
    EXPECT_NE(std::string::npos, said.find("of 16 MiB wanted in huge pages of 2 MiB, 10 MiB are"))
        << said;
    EXPECT_EQ(8 * k2M, bytes(arena));
    EXPECT_EQ(0, loam_arena_destroy(arena));

    is({.nodes = 3, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 1, .ms = 0});
    said = said_by([&] { EXPECT_EQ(0, loam_reserve_huge_pages_interleave(k1G, 2, 0, 0)); });
    EXPECT_NE(
        std::string::npos,
        said.find("of 2048 MiB wanted in huge pages of 1024 MiB, 1024 MiB are; 200 MiB are in "
                  "pages of 2 MiB, 824 MiB in the system's own"))
        << said;
    ASSERT_EQ(2u, arenas().size());
    for (loam_arena *one : arenas()) {
        EXPECT_EQ(k1G, bytes(one));
        EXPECT_EQ(0u, lm_range_start(one) % k1G);
    }
    size_t bound;
    EXPECT_EQ(1u, lm_faulty_binds(0, &bound));
    EXPECT_EQ(k1G, bound);
    EXPECT_EQ(101u, lm_faulty_binds(1, &bound)) << "of 2 MiB, and the rest";
    EXPECT_EQ(k1G, bound);
}

TEST_F(Machine, StopsWhenTimeIsUp) {
    is({.nodes = 0, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 100000});
    loam_arena *arena = nullptr;
    std::string said = said_by([&] {
        EXPECT_EQ(-ETIMEDOUT, loam_reserve_huge_pages(k2M, 8, 0, LOAM_NODE_ANY, 250000, &arena));
    });
    EXPECT_NE(std::string::npos, said.find("for 10 MiB there was no time")) << said;
    ASSERT_NE(nullptr, arena);
    EXPECT_EQ(3 * k2M, bytes(arena));
    lm_span_check();
    void *p = loam_malloc(k2M);
    EXPECT_TRUE(loam_arena_contains(arena, p));
    loam_free(p);

    is({.nodes = 0, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 100000});
    said = said_by([&] {
        EXPECT_EQ(-ETIMEDOUT, loam_reserve_huge_pages(k1G, 1, 0, LOAM_NODE_ANY, 250000, &arena));
    });
    ASSERT_NE(nullptr, arena);
    EXPECT_EQ(3 * k2M, bytes(arena)) << "what there is of a page of 1 GiB";
    EXPECT_NE(std::string::npos, said.find("of 1024 MiB wanted in huge pages of 1024 MiB, 0 MiB "
                                           "are; 6 MiB are in pages of 2 MiB"))
        << said;
    EXPECT_NE(std::string::npos, said.find("for 1018 MiB there was no time")) << said;
    lm_span_check();
}

/* A page of each in turn. */
TEST_F(Machine, StopsForAllNodesAtOnce) {
    is({.nodes = 3, .node = 0, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 100000});
    std::string said = said_by(
        [&] { EXPECT_EQ(-ETIMEDOUT, loam_reserve_huge_pages_interleave(k2M, 40, 0, 550000)); });
    EXPECT_NE(std::string::npos, said.find("of 80 MiB wanted")) << said;
    EXPECT_NE(std::string::npos, said.find("for 68 MiB there was no time")) << said;
    ASSERT_EQ(2u, arenas().size());
    for (loam_arena *one : arenas()) EXPECT_EQ(3 * k2M, bytes(one));
    lm_span_check();
}

/* As options at the start ask: what the pool has not stays malloc's, and goes back when it is
 * free. */
TEST_F(Machine, ReservesAtTheStartWhatThePoolHas) {
    lm_span_stats_t before, after;
    lm_heap_collect();
    lm_purge_all();
    lm_span_stats(&before);
    is({.nodes = 0, .node = 0, .has_pool = true, .pages_2m = 0, .pages_1g = 0, .ms = 0});
    lm_at_start_t want = {
        .pages_1g = 1, .pages_2m = 0, .node = LM_NODE_ANY, .timeout_ms = 0, .bytes = 0};
    std::string said = said_by([&] { lm_arenas_at_start(&want); });
    EXPECT_NE(std::string::npos, said.find("of 1024 MiB wanted in huge pages of 1024 MiB, 0 MiB "
                                           "are; 0 MiB are in pages of 2 MiB, 1024 MiB not "
                                           "reserved, and for 0 MiB there was no time"))
        << said;
    EXPECT_EQ(0u, arenas().size());
    lm_span_stats(&after);
    EXPECT_EQ(before.used_bytes, after.used_bytes);
    EXPECT_EQ(before.dirty_bytes, after.dirty_bytes);
    lm_span_check();

    is({.nodes = 0, .node = 0, .has_pool = true, .pages_2m = 5, .pages_1g = 0, .ms = 0});
    want.pages_1g = 0;
    want.pages_2m = 8;
    said = said_by([&] { lm_arenas_at_start(&want); });
    EXPECT_NE(std::string::npos, said.find("10 MiB are; 0 MiB are in pages of 2 MiB, 6 MiB not"))
        << said;
    ASSERT_EQ(1u, arenas().size());
    EXPECT_EQ(5 * k2M, bytes(arenas()[0]));
    EXPECT_FALSE(arenas()[0]->purges);

    /* What the pool gave stays resident though nothing is in use and all is collected. */
    loam_arena_numbers numbers;
    loam_arena_usage(arenas()[0], &numbers);
    auto *p = static_cast<char *>(loam_malloc(4 * k2M));
    ASSERT_TRUE(p >= numbers.start && p < static_cast<char *>(numbers.start) + numbers.bytes);
    memset(p, 1, 4 * k2M);
    loam_free(p);
    loam_collect();
    std::vector<unsigned char> resident(4 * k2M / 4096);
    auto *from = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{4095});
    ASSERT_EQ(0, mincore(from, 4 * k2M, resident.data()));
    EXPECT_EQ(resident.size(), size_t(std::count(resident.begin(), resident.end(), 1)));
}

/* By a call, the size is as wanted; without any page of the pool it may go back. */
TEST_F(Machine, PurgesWhatIsNoneOfThePools) {
    is({.nodes = 0, .node = 0, .has_pool = true, .pages_2m = 1, .pages_1g = 0, .ms = 0});
    loam_arena *some = nullptr, *none = nullptr;
    (void)said_by([&] {
        EXPECT_EQ(0,
                  loam_reserve_huge_pages(k2M, 2, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, 0, &some));
    });
    (void)said_by([&] {
        EXPECT_EQ(0,
                  loam_reserve_huge_pages(k2M, 2, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, 0, &none));
    });
    EXPECT_FALSE(some->purges);
    EXPECT_TRUE(none->purges);
}

TEST_F(Machine, SaysItToWhoListens) {
    is({.nodes = 0, .node = 0, .has_pool = true, .pages_2m = 0, .pages_1g = 0, .ms = 0});
    std::string heard;
    loam_output_register(
        [](const char *text, size_t, void *to) { *static_cast<std::string *>(to) += text; },
        &heard);
    EXPECT_EQ("", said_by([] { EXPECT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 2, 0, 0)); }));
    EXPECT_EQ(0u, heard.find("loam: of 4 MiB wanted")) << heard;
    loam_output_register(nullptr, nullptr);
    ASSERT_EQ(0, loam_option_set("show_errors", "0"));
    EXPECT_EQ("", said_by([] { EXPECT_EQ(0, loam_reserve_huge_pages_interleave(k2M, 2, 0, 0)); }));
    ASSERT_EQ(0, loam_option_set("show_errors", "1"));
}

/* ---- Refusals ---- */

TEST_F(Machine, LosesNothingWhereItRefuses) {
    void *at = unit::own_mapping(1 << 22);
    ASSERT_NE(nullptr, at);
    lm_span_stats_t before, after;
    lm_span_stats(&before);
    loam_arena *arena = nullptr;
    lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
    EXPECT_EQ(-ENOMEM, loam_reserve_memory(size_t{64} << 30, 0, LOAM_NODE_ANY, &arena));
    EXPECT_EQ(-ENOMEM, loam_reserve_huge_pages(k1G, 64, 0, LOAM_NODE_ANY, 0, &arena));
    EXPECT_EQ(nullptr, arena);
    /* Many objects, so that no slice is free for the map. */
    std::vector<void *> taken;
    for (size_t size : {60000, 1000}) {
        for (void *p; (p = loam_malloc(size)) != nullptr;) taken.push_back(p);
    }
    EXPECT_EQ(-ENOMEM, loam_manage_memory(at, 1 << 22, 0, LOAM_NODE_ANY, &arena));
    EXPECT_EQ(nullptr, arena);
    lm_faulty_clear();
    lm_span_check();
    for (void *p : taken) loam_free(p);
    EXPECT_EQ(0, loam_manage_memory(at, 1 << 22, 0, LOAM_NODE_ANY, &arena));
    EXPECT_EQ(0, loam_arena_destroy(arena));
    lm_span_stats(&after);
    EXPECT_EQ(before.meta_bytes, after.meta_bytes);

    /* An end that is refused can be asked for again. */
    ASSERT_EQ(0, loam_reserve_memory(1 << 22, 0, LOAM_NODE_ANY, &arena));
    lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
    EXPECT_EQ(-ENOMEM, loam_arena_destroy(arena));
    lm_faulty_clear();
    lm_span_check();
    EXPECT_EQ(0, loam_arena_destroy(arena));
    munmap(at, 1 << 22);
}

TEST_F(Machine, DoesWithoutBindingAndPool) {
    is({.nodes = 3, .node = 1, .has_pool = true, .pages_2m = 100, .pages_1g = 0, .ms = 0});
    loam_arena *arena = nullptr;
    lm_faulty_fail(LM_FAULT_BIND, 1, LM_FAULT_ALWAYS);
    EXPECT_EQ(0, loam_reserve_memory(1 << 22, 0, 1, &arena));
    EXPECT_EQ(1u, lm_faulty_failures(LM_FAULT_BIND));
    in_thread([&] {
        void *p = loam_malloc(100000);
        EXPECT_EQ(1, node_of(p));
        loam_free(p);
    });
    lm_faulty_fail(LM_FAULT_POOL, 2, LM_FAULT_ALWAYS);
    std::string said =
        said_by([&] { EXPECT_EQ(0, loam_reserve_huge_pages(k2M, 4, 0, 1, 0, &arena)); });
    EXPECT_NE(std::string::npos, said.find("of 8 MiB wanted in huge pages of 2 MiB, 2 MiB are"))
        << said;
}

} // namespace
