/* handlers_test.cc: the handlers that a program registers for loam's lines, reports and refusals:
 * what they receive, under which rules they are called, and what happens without them. The tests of
 * the end of memory are in tests/faulty and tests/libc. */
#include "stderr_of.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "api/api.h"
#include "os/os.h"
}

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using unit::stderr_of;

struct Told {
    int code;
    std::string message;
    void *argument;
};
std::vector<Told> told;
std::string printed;

void note(int code, const char *message, void *argument) {
    told.push_back({code, message, argument});
    errno = EDOM; /* nobody may see it */
}

void print(const char *text, size_t bytes, void *argument) {
    EXPECT_EQ(bytes, strlen(text));
    EXPECT_EQ('\n', text[bytes - 1]);
    EXPECT_EQ(&printed, argument);
    printed += text;
    errno = EDOM;
}

class Handlers : public testing::Test {
  protected:
    void SetUp() override {
        told.clear();
        printed.clear();
        lm_misuse_policy.ignore = true;
    }
    void TearDown() override {
        loam_error_register(nullptr, nullptr);
        loam_output_register(nullptr, nullptr);
        loam_oom_register(nullptr, nullptr);
        lm_misuse_policy = {false, false, 0};
    }
};

alignas(64) char foreign[4096];
void mistake() { loam_free(foreign + 64); }

TEST_F(Handlers, AReportGoesToTheHandlerAlone) {
    int argument;
    loam_error_register(note, &argument);
    errno = 0;
    EXPECT_EQ("", stderr_of(mistake));
    EXPECT_EQ(0, errno);
    ASSERT_EQ(1u, told.size());
    EXPECT_EQ(EINVAL, told[0].code);
    EXPECT_EQ(&argument, told[0].argument);
    EXPECT_EQ(0u, told[0].message.find("loam: free of a pointer that loam did not allocate: 0x"));
    EXPECT_EQ(")", told[0].message.substr(told[0].message.size() - 1)) << "without the line's end";
    loam_error_register(nullptr, nullptr);
    EXPECT_NE("", stderr_of(mistake));
    EXPECT_EQ(1u, told.size());
}

TEST_F(Handlers, QuietConcernsStandardErrorOnly) {
    lm_misuse_policy.quiet = true;
    loam_error_register(note, nullptr);
    mistake();
    EXPECT_EQ(1u, told.size());
}

TEST_F(Handlers, DamageHasACodeOfItsOwn) {
    loam_error_register(note, nullptr);
    lm_wrong(LM_WRONG_DAMAGE, "overwritten (");
    ASSERT_EQ(1u, told.size());
    EXPECT_EQ(EFAULT, told[0].code);
}

TEST_F(Handlers, InTheMiddleOfLoamsWorkNobodyIsCalled) {
    loam_error_register(note, nullptr);
    EXPECT_NE("", stderr_of([] { lm_wrong(LM_WRONG_INSIDE, "list damaged ("); }));
    EXPECT_EQ(0u, told.size());
}

TEST(HandlersDeath, ThePolicyHoldsAfterTheHandler) {
    EXPECT_EXIT(
        {
            loam_error_register(
                [](int, const char *message, void *) { fprintf(stderr, "<%s>\n", message); },
                nullptr);
            mistake();
            _exit(0);
        },
        testing::KilledBySignal(SIGABRT),
        "^<loam: free of a pointer .*\\); LOAM_IGNORE=foreign goes on>\n(qemu: .*)?$");
}

/* Each call of the handler makes the same mistake again: it goes to standard error. */
TEST_F(Handlers, NoHandlerIsCalledInsideItself) {
    loam_error_register(
        [](int code, const char *message, void *) {
            told.push_back({code, message, nullptr});
            mistake();
        },
        nullptr);
    std::string said = stderr_of(mistake);
    EXPECT_EQ(1u, told.size());
    EXPECT_EQ(0u, said.find("loam: free of a pointer that loam did not allocate"));
    EXPECT_EQ(said.size(), said.find('\n') + 1) << "one line";
    mistake();
    EXPECT_EQ(2u, told.size()) << "and the next one is told again";
    loam_error_register(nullptr, nullptr);
}

TEST_F(Handlers, MayAllocateAndRegister) {
    loam_error_register(
        [](int, const char *, void *) {
            std::vector<void *> all;
            for (size_t i = 1; i < 2000; i++) all.push_back(loam_malloc(i * 37));
            for (void *p : all) loam_free(p);
            loam_error_register(note, nullptr);
        },
        nullptr);
    mistake();
    EXPECT_EQ(0u, told.size());
    mistake();
    EXPECT_EQ(1u, told.size());
}

TEST_F(Handlers, WhatWasAskedForGoesToTheOutput) {
    loam_output_register(print, &printed);
    errno = 0;
    EXPECT_EQ("", stderr_of([] {
                  loam_stats_print();
                  loam_options_print();
              }));
    EXPECT_EQ(0, errno);
    EXPECT_EQ(0u, printed.find("loam " LOAM_VERSION_TEXT));
    EXPECT_NE(std::string::npos, printed.find("\nLOAM_PURGE_DELAY=300ms (default): "));
    std::string before = printed;
    EXPECT_NE("", stderr_of(mistake)) << "a report is not output";
    EXPECT_EQ(before, printed);
    loam_output_register(nullptr, nullptr);
    EXPECT_EQ(before.substr(before.find("LOAM_")), stderr_of(loam_options_print));
}

TEST_F(Handlers, LongLinesAreWholeStrings) {
    loam_output_register(print, &printed);
    std::string text(5000, 'x');
    lm_print("%s", text.c_str());
    EXPECT_EQ(text.substr(0, LM_LINE_BYTES - 2) + "\n", printed);
    printed.clear();
    lm_print("%s", text.substr(0, LM_LINE_BYTES - 2).c_str());
    EXPECT_EQ(text.substr(0, LM_LINE_BYTES - 2) + "\n", printed);
    loam_error_register(note, nullptr);
    lm_misuse("%s", text.c_str());
    EXPECT_EQ(size_t{LM_LINE_BYTES} - 1, told.at(0).message.size());
}

TEST_F(Handlers, OutputMayAskForOutput) {
    loam_output_register(
        [](const char *text, size_t, void *) {
            printed += text;
            lm_print("inner");
        },
        nullptr);
    EXPECT_EQ("inner\n", stderr_of([] { lm_print("outer"); }));
    EXPECT_EQ("outer\n", printed);
}

TEST_F(Handlers, AreCalledWhenTheLastLockIsGiven) {
    loam_error_register(note, nullptr);
    loam_output_register(print, &printed);
    lm_told_hold();
    lm_told_hold();
    lm_misuse("one (");
    EXPECT_EQ(0u, told.size());
    EXPECT_NE("", stderr_of([] { lm_misuse("two ("); })) << "one a thread may wait";
    EXPECT_EQ("three\n", stderr_of([] { lm_print("three"); }));
    lm_refused(5, false);
    lm_told_let();
    EXPECT_EQ(0u, told.size());
    errno = 0;
    lm_told_let();
    EXPECT_EQ(0, errno);
    ASSERT_EQ(1u, told.size());
    EXPECT_EQ(0u, told[0].message.find("loam: one (thread "));
    lm_told_hold();
    lm_told_let();
    EXPECT_EQ(1u, told.size());
}

TEST_F(Handlers, TakenAwayWhileItsReportWaits) {
    loam_error_register(note, nullptr);
    std::string said = stderr_of([] {
        lm_told_hold();
        lm_misuse("one (");
        loam_error_register(nullptr, nullptr);
        lm_told_let();
    });
    EXPECT_EQ(0u, said.find("loam: one (thread "));
    EXPECT_EQ(0u, told.size());
}

TEST(HandlersDeath, ThePolicyHoldsWhenTheReportHasWaited) {
    EXPECT_EXIT(
        {
            loam_error_register([](int, const char *, void *) { fprintf(stderr, "told "); },
                                nullptr);
            lm_told_hold();
            lm_misuse("one (");
            fprintf(stderr, "later ");
            lm_told_let();
            _exit(0);
        },
        testing::KilledBySignal(SIGABRT), "^later told (qemu: .*)?$");
}

/* The mistake is found under the lock of the blocks; the handler uses the heap, and the same
 * blocks. */
TEST_F(Handlers, AMistakeUnderALockOfTheFamilys) {
    static loam_blocks blocks;
    loam_blocks_options options = {};
    options.flags = LOAM_THREADS | LOAM_CHECK;
    options.name = "shared";
    ASSERT_EQ(0, loam_blocks_init(&blocks, &options));
    loam_error_register(
        [](int code, const char *message, void *) {
            told.push_back({code, message, nullptr});
            void *p = loam_blocks_alloc(&blocks, 64);
            loam_blocks_free(&blocks, p);
            EXPECT_EQ(0u, loam_registry_check()) << "which takes the walk's lock";
        },
        nullptr);
    loam_blocks_free(&blocks, foreign + 128);
    ASSERT_EQ(1u, told.size());
    EXPECT_EQ(EINVAL, told[0].code);
    EXPECT_EQ(0u, told[0].message.find("loam: blocks shared: free of 0x"));
    loam_error_register(nullptr, nullptr);
    loam_blocks_deinit(&blocks);
}

/* What a walk over all allocators finds is told when the walk has ended. */
TEST_F(Handlers, AMistakeFoundByAWalk) {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "AddressSanitizer finds the write itself";
#endif
    static loam_pool pool;
    loam_pool_options options = {};
    options.name = "walked";
    ASSERT_EQ(0, loam_pool_init(&pool, nullptr, 64, &options));
    auto p = static_cast<void **>(loam_pool_alloc(&pool));
    loam_pool_free(&pool, p);
    void *link = *p;
    *p = foreign + 8; /* written after its free */
    loam_error_register(
        [](int code, const char *message, void *) {
            told.push_back({code, message, nullptr});
            lm_port_lock(LM_PORT_WALK); /* as another call of the registry's would */
            lm_port_unlock(LM_PORT_WALK);
        },
        nullptr);
    EXPECT_EQ(1u, loam_registry_check());
    ASSERT_EQ(1u, told.size());
    EXPECT_EQ(0u, told[0].message.find("loam: pool walked: "));
    *p = link;
    loam_error_register(nullptr, nullptr);
    loam_pool_deinit(&pool);
}

TEST_F(Handlers, SizesThatNoMemoryCouldServe) {
    loam_error_register(note, nullptr);
    loam_oom_register([](size_t, void *) { return (printed += "asked "), true; }, nullptr);
    errno = 0;
    volatile size_t most = SIZE_MAX, half = SIZE_MAX / 2 + 2;
    EXPECT_EQ(nullptr, loam_malloc(most));
    EXPECT_EQ(ENOMEM, errno);
    EXPECT_EQ(nullptr, loam_calloc(half, 2));
    EXPECT_EQ(nullptr, loam_calloc(1, half));
    EXPECT_EQ(nullptr, loam_malloc_aligned(half, 64));
    void *p = loam_malloc(10);
    EXPECT_EQ(nullptr, loam_realloc(p, half));
    EXPECT_EQ(nullptr, loam_reallocarray(p, half, 4));
    loam_free(p);
    ASSERT_EQ(6u, told.size());
    for (const Told &one : told) EXPECT_EQ(EOVERFLOW, one.code) << one.message;
    EXPECT_EQ("", printed);
}

TEST_F(Handlers, AForksChildHasThem) {
    loam_error_register(note, nullptr);
    lm_told_hold();
    pid_t child = fork();
    if (child == 0) {
        mistake(); /* the lock that was held was reset */
        _exit(told.size() == 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    lm_told_let();
}

TEST_F(Handlers, OtherThreadsAreToldThere) {
    static std::thread::id seen;
    loam_error_register([](int, const char *, void *) { seen = std::this_thread::get_id(); },
                        nullptr);
    std::thread::id other;
    std::thread thread([&] {
        other = std::this_thread::get_id();
        mistake();
    });
    thread.join();
    EXPECT_EQ(other, seen);
}

} // namespace
