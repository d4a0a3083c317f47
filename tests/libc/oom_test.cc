/* oom_test.cc: when memory ends, as malloc and operator new see it: loam's handler first, then, for
 * operator new, the C++ one, which keeps its documented meaning. Each case is a child process under
 * a limit of address space. */
#include "libc_test.h"

#include <loam/handlers.h>
#include <loam/stats.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include <new>

namespace {

using libc_test::hide;

constexpr size_t kMiB = size_t{1} << 20;

std::string order; /* which handler was called: L loam's, C the C++ one */
void *cache;

bool give_cache(size_t, void *) {
    order += 'L';
    if (cache == nullptr) return false;
    free(cache);
    cache = nullptr;
    return true;
}

bool give_nothing(size_t, void *) {
    order += 'L';
    return false;
}

/* Under 64 MiB more than there are, of which a cache holds most; ends with 0 iff the body returns
 * true. */
template <typename Body> void under_limit(Body body) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        order.reserve(1000);
        FILE *statm = fopen("/proc/self/statm", "r");
        size_t pages = 0;
        if (statm == nullptr || fscanf(statm, "%zu", &pages) != 1) _exit(77);
        fclose(statm);
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = pages * libc_test::page_bytes() + 64 * kMiB;
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(77);
        cache = hide(malloc(40 * kMiB));
        _exit(cache != nullptr && body() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no limits here";
    EXPECT_EQ(0, status);
}

TEST(Oom, MallocAsksLoamsHandler) {
    under_limit([] {
        if (hide(malloc(40 * kMiB)) != nullptr) return false;
        loam_oom_register(give_cache, nullptr);
        void *p = hide(malloc(40 * kMiB));
        if (p == nullptr || order != "L") return false;
        memset(p, 1, 40 * kMiB);
        errno = 0;
        return hide(malloc(40 * kMiB)) == nullptr && errno == ENOMEM && order == "LL";
    });
}

TEST(Oom, BlocksAskItToo) {
    under_limit([] {
        static char *chain;
        loam_oom_register(
            [](size_t bytes, void *) {
                order += 'L';
                bool right = bytes >= 1000 && bytes < 2000;
                for (char *next; right && chain != nullptr; chain = next) {
                    memcpy(&next, chain, sizeof next);
                    free(chain);
                }
                return right;
            },
            nullptr);
        while (order.empty()) {
            char *p = static_cast<char *>(hide(malloc(1000)));
            if (p == nullptr) return false;
            memcpy(p, &chain, sizeof chain);
            chain = p;
        }
        return order == "L";
    });
}

/* glibc's tst-malloc-too-large makes a million such requests: none of them may collect or ask the
 * system. */
TEST(Oom, ImpossibleSizesAreRefusedAtOnce) {
    free(malloc(hide(size_t{100})));
    auto calls = [] {
        loam_stats_t stats;
        loam_stats_get(&stats, sizeof stats);
        return stats.system_calls;
    };
    uint64_t before = calls();
    for (unsigned shift = 45; shift < 64; shift++) {
        size_t size = size_t{1} << shift;
        for (int round = 0; round < 10; round++) {
            void *p = nullptr;
            EXPECT_EQ(malloc(hide(size)), nullptr);
            EXPECT_EQ(calloc(hide(size_t{16}), hide(size / 16)), nullptr);
            EXPECT_EQ(realloc(nullptr, hide(size)), nullptr);
            EXPECT_EQ(memalign(64, hide(size)), nullptr);
            EXPECT_EQ(posix_memalign(&p, 4096, hide(size)), ENOMEM);
            EXPECT_EQ(valloc(hide(size)), nullptr);
        }
    }
    EXPECT_LT(calls() - before, 100u);
}

TEST(Oom, LoamsHandlerMakesRoomBeforeTheNewHandler) {
    under_limit([] {
        loam_oom_register(give_cache, nullptr);
        std::set_new_handler([] { order += 'C'; });
        char *p = hide(new char[40 * kMiB]);
        return p != nullptr && order == "L";
    });
}

TEST(Oom, TheNewHandlerIsCalledUntilItThrows) {
    under_limit([] {
        loam_oom_register(give_nothing, nullptr);
        std::set_new_handler([] {
            order += 'C';
            if (order.size() == 6) throw std::bad_alloc();
        });
        try {
            (void)hide(new char[40 * kMiB]);
        } catch (const std::bad_alloc &) {
            return order == "LCLCLC";
        }
        return false;
    });
}

TEST(Oom, TheNewHandlerMakesRoom) {
    under_limit([] {
        loam_oom_register(give_nothing, nullptr);
        std::set_new_handler([] {
            order += 'C';
            free(cache);
            cache = nullptr;
        });
        return hide(new char[40 * kMiB]) != nullptr && order == "LC";
    });
}

TEST(Oom, WithoutHandlersItThrowsOrIsNull) {
    under_limit([] {
        if (hide(new (std::nothrow) char[40 * kMiB]) != nullptr) return false;
        try {
            (void)hide(new char[40 * kMiB]);
        } catch (const std::bad_alloc &) {
            return true;
        }
        return false;
    });
}

} // namespace
