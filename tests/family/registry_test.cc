// registry_test.cc: the list of named and checked allocators, with allocators made up for it.
#include "loam/registry.h"

#include "unit/stderr_of.h"

#include <gtest/gtest.h>

extern "C" {
#include "family/family.h"
}

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace {

using unit::stderr_of;

void usage_of(const loam_entry *, loam_usage *usage) {
    usage->held_bytes = 4096;
    usage->used_bytes = 100;
    usage->peak_bytes = 8192;
    usage->chunks = 1;
    usage->requests = 3;
    usage->objects = 7;
}
void usage_unknown(const loam_entry *, loam_usage *usage) { usage->objects = LOAM_UNKNOWN; }
bool sound(const loam_entry *) { return true; }
bool broken(const loam_entry *entry) {
    lm_family_misuse(entry, nullptr, 0, "free list damaged");
    return false;
}

const loam_kind kSound = {"thing", usage_of, sound, nullptr};
const loam_kind kUnknown = {"stuff", usage_unknown, sound, nullptr};
const loam_kind kBroken = {"wreck", usage_of, broken, nullptr};

std::vector<std::string> names() {
    std::vector<std::string> found;
    loam_registry_visit(
        [](const loam_usage *usage, void *context) {
            static_cast<std::vector<std::string> *>(context)->push_back(usage->name);
        },
        &found);
    return found;
}

using Names = std::vector<std::string>;

bool is_listed(const loam_entry *entry) {
    auto is = [](const loam_entry *other, const void *one) { return other == one; };
    return lm_entry_tell(is, entry, nullptr, nullptr);
}

TEST(Registry, NamedAndCheckedOnesAreInIt) {
    loam_entry named, checked, neither;
    lm_entry_init(&named, &kSound, "a", false);
    lm_entry_init(&checked, &kSound, nullptr, true);
    lm_entry_init(&neither, &kSound, nullptr, false);
    EXPECT_EQ(names(), (Names{"", "a"})) << "the newest first";
    EXPECT_TRUE(is_listed(&named) && is_listed(&checked));
    EXPECT_FALSE(is_listed(&neither));
    lm_entry_deinit(&neither);
    lm_entry_deinit(&named);
    lm_entry_deinit(&named); /* harmless */
    EXPECT_EQ(names(), Names{""});
    lm_entry_deinit(&checked);
    EXPECT_EQ(names(), Names{});
}

TEST(Registry, LeavingFromAnyPlaceKeepsTheOthers) {
    for (int first = 0; first < 4; first++) {
        for (int second = 0; second < 4; second++) {
            if (first == second) continue;
            loam_entry entries[4];
            const char *name[] = {"0", "1", "2", "3"};
            for (int i = 0; i < 4; i++) lm_entry_init(&entries[i], &kSound, name[i], false);
            lm_entry_deinit(&entries[first]);
            lm_entry_deinit(&entries[second]);
            Names left;
            for (int i = 3; i >= 0; i--) {
                if (i != first && i != second) left.push_back(name[i]);
            }
            EXPECT_EQ(names(), left);
            for (loam_entry &entry : entries) lm_entry_deinit(&entry);
            EXPECT_EQ(names(), Names{});
        }
    }
}

TEST(Registry, PrintsALineForEach) {
    loam_entry a, b;
    lm_entry_init(&a, &kSound, "a", false);
    lm_entry_init(&b, &kUnknown, nullptr, true);
    EXPECT_EQ(
        stderr_of([] { loam_registry_print(); }),
        "loam: stuff -: 0 of 0 bytes used, 0 at most, 0 chunks, 0 requests\n"
        "loam: thing a: 7 objects, 100 of 4096 bytes used, 8192 at most, 1 chunks, 3 requests\n");
    lm_entry_deinit(&a);
    lm_entry_deinit(&b);
}

TEST(Registry, CheckCountsWhatIsBroken) {
    loam_entry good, bad;
    lm_entry_init(&good, &kSound, "good", false);
    EXPECT_EQ(loam_registry_check(), 0u);
    lm_entry_init(&bad, &kBroken, "bad", false);
    lm_misuse_policy.ignore = true;
    size_t found = 0;
    std::string text = stderr_of([&] { found = loam_registry_check(); });
    lm_misuse_policy.ignore = false;
    EXPECT_EQ(found, 1u);
    EXPECT_EQ(text,
              "loam: wreck bad: free list damaged (thread " + std::to_string(gettid()) + ")\n");
    lm_entry_deinit(&good);
    lm_entry_deinit(&bad);
}

TEST(Registry, ThreadsComeAndGoWhileItIsVisited) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++) {
        threads.emplace_back([&] {
            loam_entry entries[4];
            while (!stop) {
                for (loam_entry &entry : entries) lm_entry_init(&entry, &kSound, "t", true);
                for (loam_entry &entry : entries) lm_entry_deinit(&entry);
            }
        });
    }
    size_t visits = 0;
    for (int i = 0; i < 2000; i++) visits += names().size();
    stop = true;
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(names(), Names{});
    EXPECT_LE(visits, 2000u * 12);
}

/* A child must find the list free, whoever was in it at the fork: the other thread hardly ever
 * leaves it. */
TEST(Registry, LivesThroughFork) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
#endif
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) {
            loam_entry entry;
            lm_entry_init(&entry, &kSound, "busy", false);
            names();
            lm_entry_deinit(&entry);
        }
    });
    int hung = 0;
    for (int i = 0; i < 200 && hung == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60); /* ends it if it waits for a thread that is not here */
            loam_entry entry;
            lm_entry_init(&entry, &kSound, "child", false);
            bool good = names().size() <= 2 && names()[0] == "child";
            lm_entry_deinit(&entry);
            _exit(good ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        hung = status;
    }
    stop = true;
    busy.join();
    EXPECT_EQ(hung, 0);
    EXPECT_EQ(names(), Names{}) << "and so must the parent";
}

/* A fork handler of the program uses the registry while the forking thread holds its lock. */
TEST(Registry, ForkHandlersMayUseIt) {
    static loam_entry of_handler;
    static bool armed = false;
    /* Registered first, so that it runs after loam's before a fork; loam registers with the first
     * use. */
    pthread_atfork(
        [] {
            if (armed) lm_entry_init(&of_handler, &kSound, "handler", false);
        },
        [] {
            if (armed) lm_entry_deinit(&of_handler);
        },
        [] {
            if (armed) lm_entry_deinit(&of_handler);
        });
    armed = true;
    names();
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(names().empty() ? 0 : 1);
    }
    armed = false;
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(names(), Names{});
}

} // namespace
