/* oom_test.cc: the program's out-of-memory handler, on a system that refuses memory by script: the
 * handler makes room, or gives up, or says that it has made room and has not. Each case is a
 * process of its own. */
#include "child.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "os/faulty.h"
#include "span/internal.h"
#include "survey/survey.h"
}

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using faulty::Found;
using faulty::in_child;

struct Calls {
    unsigned count = 0;
    size_t bytes = 0;
    bool answer = true;
    void *cache = nullptr; /* given back by the first call */
};

bool make_room(size_t bytes, void *argument) {
    auto calls = static_cast<Calls *>(argument);
    calls->count++;
    calls->bytes = bytes;
    loam_free(calls->cache);
    calls->cache = nullptr;
    errno = EDOM;
    return calls->answer;
}

bool system_recovers(size_t, void *argument) {
    static_cast<Calls *>(argument)->count++;
    lm_faulty_clear();
    return true;
}

/* No memory comes from the system any more, and none is left in the arena: what is free is used
 * up. */
void refuse_all(std::vector<void *> &all, size_t bytes) {
    lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
    while (void *p = loam_malloc(bytes)) all.push_back(p);
}

std::vector<std::string> messages;
std::vector<int> codes;
void note(int code, const char *message, void *) {
    codes.push_back(code);
    messages.push_back(message);
}

/* A cache of the program's is dropped, and malloc succeeds: for sizes of each kind. */
TEST(Oom, AHandlerThatMakesRoom) {
    if (LM_TSAN)
        GTEST_SKIP()
            << "no worker under ThreadSanitizer: what the handler frees is purged at once, "
               "and the system refuses to commit it again";
    for (size_t bytes : {size_t{100}, size_t{5000}, size_t{100000}, size_t{3} << 20}) {
        in_child([bytes](Found &) {
            Calls calls;
            calls.cache = loam_malloc(size_t{8} << 20);
            ASSERT_NE(nullptr, calls.cache);
            std::vector<void *> all;
            all.reserve(1 << 20);
            refuse_all(all, bytes);
            errno = 0;
            EXPECT_EQ(nullptr, loam_malloc(bytes));
            EXPECT_EQ(ENOMEM, errno);
            loam_oom_register(make_room, &calls);
            loam_error_register(note, nullptr);
            errno = 0;
            void *p = loam_malloc(bytes);
            ASSERT_NE(nullptr, p);
            EXPECT_EQ(0, errno) << "a call that succeeds keeps it";
            memset(p, 1, bytes);
            EXPECT_EQ(1u, calls.count);
            EXPECT_GE(calls.bytes, bytes);
            EXPECT_LE(calls.bytes, bytes + bytes / 4 + 4096);
            EXPECT_EQ(0u, codes.size());
            loam_free(p);
            lm_heap_check();
            lm_span_check();
        });
    }
}

TEST(Oom, EveryWayToAsk) {
    in_child([](Found &) {
        Calls calls;
        std::vector<void *> all;
        all.reserve(1 << 20);
        size_t large = size_t{4} << 20;
        loam_oom_register(system_recovers, &calls);
        const struct {
            const char *name;
            void *(*ask)(size_t);
        } ways[] = {
            {"malloc", [](size_t n) { return loam_malloc(n); }},
            {"calloc", [](size_t n) { return loam_calloc(n / 8, 8); }},
            {"realloc", [](size_t n) { return loam_realloc(loam_malloc(10), n); }},
            {"aligned", [](size_t n) { return loam_malloc_aligned(n, size_t{1} << 20); }},
        };
        for (auto &way : ways) {
            calls.count = 0;
            lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
            void *p = way.ask(large *= 2);
            EXPECT_NE(nullptr, p) << way.name;
            EXPECT_EQ(1u, calls.count) << way.name;
            loam_free(p);
            lm_faulty_clear();
        }
    });
}

/* What shrinks needs no memory, and is as large as was asked for afterwards, wherever it is. */
TEST(Oom, WhatShrinks) {
    for (size_t from :
         {size_t{2000}, size_t{33000}, size_t{65535}, size_t{700000}, size_t{3} << 20}) {
        in_child([from](Found &) {
            std::vector<size_t> sizes = {1, 40, 500, 1100, 5000, 32760, 32768, 65536, 300000};
            sizes.insert(sizes.end(), {from / 2 + 1, from - 1});
            std::vector<void *> objects, all;
            for (size_t i = 0; i < sizes.size(); i++)
                objects.push_back(memset(loam_malloc(from), 7, from));
            all.reserve(1 << 20);
            refuse_all(all, from);
            for (size_t to : sizes) refuse_all(all, to);
            for (size_t i = 0; i < sizes.size(); i++) {
                size_t to = sizes[i];
                if (to >= from) continue;
                errno = EDOM;
                auto *p = static_cast<char *>(loam_realloc(objects[i], to));
                ASSERT_NE(nullptr, p) << from << " to " << to;
                EXPECT_EQ(EDOM, errno) << from << " to " << to;
                for (size_t at : {size_t{0}, to / 2, to - 1}) ASSERT_EQ(7, p[at]) << to;
                EXPECT_GE(loam_usable_size(p), to);
                if (LM_SECURE) {
                    EXPECT_EQ(to, loam_usable_size(p)) << from;
                }
                loam_free_sized(p, to);
            }
            lm_heap_check();
            lm_span_check();
        });
    }
}

TEST(Oom, AHandlerThatGivesUp) {
    in_child([](Found &) {
        Calls calls;
        calls.answer = false;
        std::vector<void *> all;
        all.reserve(1 << 20);
        refuse_all(all, 40000);
        loam_oom_register(make_room, &calls);
        loam_error_register(note, nullptr);
        errno = 0;
        EXPECT_EQ(nullptr, loam_malloc(40000));
        EXPECT_EQ(ENOMEM, errno);
        EXPECT_EQ(1u, calls.count);
        ASSERT_EQ(1u, codes.size()) << "and the refusal is told once";
        EXPECT_EQ(ENOMEM, codes[0]);
        EXPECT_EQ(0u, messages[0].find("loam: out of memory: ")) << messages[0];
        EXPECT_NE(std::string::npos, messages[0].find(" bytes refused (thread "));
        EXPECT_EQ(nullptr, loam_malloc(size_t{1} << 30));
        EXPECT_EQ(2u, calls.count);
        EXPECT_EQ(2u, codes.size());
        EXPECT_EQ(nullptr, loam_malloc_aligned_offset(40000, 64, 8));
        EXPECT_EQ(3u, calls.count);
        EXPECT_EQ(3u, codes.size());
    });
}

TEST(Oom, AHandlerThatLies) {
    in_child([](Found &) {
        Calls calls;
        std::vector<void *> all;
        all.reserve(1 << 20);
        refuse_all(all, 40000);
        loam_oom_register(make_room, &calls);
        EXPECT_EQ(nullptr, loam_malloc(40000));
        EXPECT_EQ(32u, calls.count) << "not for ever";
        EXPECT_EQ(nullptr, loam_malloc(size_t{1} << 30));
        EXPECT_EQ(64u, calls.count) << "each request has its own";
    });
}

/* It asks for memory itself, which is refused: without being called again. */
TEST(Oom, AHandlerThatAllocates) {
    in_child([](Found &) {
        static unsigned count, refused;
        std::vector<void *> all;
        all.reserve(1 << 20);
        refuse_all(all, 40000);
        loam_oom_register(
            [](size_t bytes, void *) {
                count++;
                void *p = loam_malloc(bytes);
                refused += p == nullptr;
                loam_free(p);
                return count < 3;
            },
            nullptr);
        EXPECT_EQ(nullptr, loam_malloc(40000));
        EXPECT_EQ(3u, count);
        EXPECT_EQ(3u, refused);
    });
}

/* Many threads, one of which makes room for all. */
TEST(Oom, FromManyThreads) {
    in_child([](Found &) {
        static unsigned count;
        loam_oom_register(
            [](size_t, void *) {
                __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
                lm_faulty_clear();
                return true;
            },
            nullptr);
        lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++) {
            threads.emplace_back([] {
                for (int i = 0; i < 50; i++) {
                    void *p = loam_malloc(size_t{1} << 20);
                    EXPECT_NE(nullptr, p);
                    loam_free(p);
                }
            });
        }
        for (std::thread &thread : threads) thread.join();
        EXPECT_GE(count, 1u);
    });
}

} // namespace
