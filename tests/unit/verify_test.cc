/* verify_test.cc: loam_heaps_check finds the traces of a program's mistakes, says where they are,
 * and reports nothing else; loam_collect_bytes gives back about the requested number of bytes.
 *
 * Each mistake is made in a child process, with an object of some size among others, of this thread
 * or of a thread that has ended. The report must name the object, or, if the damage lies between
 * two objects, either of them.
 */
#include "effort.h"
#include "loam/heap.h"
#include "loam/malloc.h"
#include "stderr_of.h"

#include <gtest/gtest.h>

extern "C" {
#include "survey/survey.h"
}

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr bool kGuarded = LM_GUARD_LINKS != 0;

struct Found {
    size_t mistakes;
    std::string said;
};

Found check() {
    Found found;
    found.said = unit::stderr_of([&] { found.mistakes = loam_heaps_check(); });
    return found;
}

std::string address(const void *p) {
    char text[32];
    (void)snprintf(text, sizeof text, "%p", p);
    return text;
}

/* Runs the body in a child, with mistakes ignored. Returns "" or what the body returns. */
std::string in_child(const std::function<std::string()> &body) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    pid_t child = fork();
    if (child == 0) {
        lm_misuse_policy.ignore = true;
        std::string said = body();
        (void)!write(ends[1], said.data(), said.size());
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char part[512];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, size_t(n));
    close(ends[0]);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) text += " (the child has crashed)";
    return text;
}

/* Objects of one size in a row, which a thread allocates; the middle ones are what mistakes are
 * made with. */
std::vector<char *> objects_of(size_t size, bool of_ended_thread) {
    std::vector<char *> objects(24);
    auto allocate = [&] {
        for (auto &p : objects) {
            p = static_cast<char *>(loam_malloc(size));
            memset(p, 1, size);
        }
    };
    if (of_ended_thread)
        std::thread(allocate).join();
    else
        allocate();
    return objects;
}

enum Mistake { OVERFLOW, UNDERFLOW, WRITE_AFTER_FREE, KINDS };

/* The block before p: an underflow of the one may be an overflow of the other. */
char *block_before(char *p) { return p - lm_page_of(p)->block_bytes; }

/* One of the objects that has another one of them before it. */
char *middle_of(const std::vector<char *> &objects, std::mt19937 &random) {
    for (;;) {
        char *p = objects[5 + random() % 16];
        if (p == lm_span_start(lm_page_of(p))) continue;
        if (std::find(objects.begin() + 5, objects.end(), block_before(p)) != objects.end())
            return p;
    }
}

/* Makes the mistake. Returns the object that it is about. */
char *make(Mistake mistake, std::vector<char *> &objects, size_t size, std::mt19937 &random) {
    char *p = middle_of(objects, random);
    switch (mistake) {
    case OVERFLOW: memset(p + size, 0x41, 1 + random() % 8); break;
    /* Whatever is there; the secure build keeps a length in the last two bytes, which may be
     * less. */
    case UNDERFLOW: p[-3 - int(random() % 4)] ^= 0x41; break;
    case WRITE_AFTER_FREE:
        /* Its link must lead to another block: who takes a list over writes its last link anew. */
        loam_free(objects[4]);
        loam_free(p);
        memset(p, 0x41, kGuarded && size > 24 ? 24 : 8);
        break;
    case KINDS: break;
    }
    return p;
}

TEST(HeapsCheck, FindsOneMistakeAmongManyObjects) {
    /* The release build keeps nothing around objects. */
    static const size_t sizes[] = {16, 24, 40, 100, 500, 1000, 3000, 20000};
    std::mt19937 random(7);
    for (int kind = kGuarded ? OVERFLOW : WRITE_AFTER_FREE; kind < KINDS; kind++) {
        for (size_t size : sizes) {
            for (bool ended : {false, true}) {
                unsigned seed = random();
                std::string wrong = in_child([&]() -> std::string {
                    std::mt19937 own(seed);
                    std::vector<char *> objects = objects_of(size, ended);
                    Found before = check();
                    if (before.mistakes != 0) return "before: " + before.said;
                    char *p = make(Mistake(kind), objects, size, own);
                    Found found = check();
                    if (found.mistakes == 0) return "not found";
                    bool named = found.said.find(address(p)) != std::string::npos ||
                                 (kind == UNDERFLOW &&
                                  found.said.find(address(block_before(p))) != std::string::npos);
                    if (!named) return address(p) + " is not named: " + found.said;
                    return "";
                });
                EXPECT_EQ("", wrong)
                    << "mistake " << kind << ", size " << size << ", ended " << ended;
            }
        }
    }
}

TEST(HeapsCheck, FindsMistakesWithLargeObjects) {
    if (!kGuarded) GTEST_SKIP() << "the release build keeps nothing around large objects";
    for (size_t size : {size_t(70000), size_t(200001), (size_t(1) << 20) + 5}) {
        std::string wrong = in_child([&]() -> std::string {
            char *p = static_cast<char *>(loam_malloc(size));
            memset(p, 1, size);
            if (check().mistakes != 0) return "before";
            p[size] = 0x41;
            Found found = check();
            if (found.mistakes != 1) return std::to_string(found.mistakes) + " " + found.said;
            return found.said.find(address(p)) != std::string::npos ? "" : found.said;
        });
        EXPECT_EQ("", wrong) << size;
    }
}

TEST(HeapsCheck, FindsWhatIsFreeTwiceInReleaseBuilds) {
    if (kGuarded) GTEST_SKIP() << "debug and secure builds report the second free itself";
    for (size_t size : {16, 200, 5000}) {
        std::string wrong = in_child([&]() -> std::string {
            std::vector<char *> objects = objects_of(size, false);
            loam_free(objects[10]);
            loam_free(objects[11]);
            loam_free(objects[10]);
            Found found = check();
            if (found.mistakes != 1) return std::to_string(found.mistakes) + " " + found.said;
            bool named =
                found.said.find("double free of " + address(objects[10])) != std::string::npos;
            return named ? "" : found.said;
        });
        EXPECT_EQ("", wrong) << size;
    }
}

TEST(HeapsCheck, FindsWritesAroundSampledObjects) {
    std::string wrong = in_child([]() -> std::string {
        lm_sampling.rate = 1;
        lm_quiet_end();
        char *p = static_cast<char *>(loam_malloc(40));
        lm_sampling.rate = 0;
        if (!lm_sampling_holds(p)) return "not sampled";
        if (check().mistakes != 0) return "before";
        /* Inside of its page on either side, at one of which the object ends. */
        bool left = reinterpret_cast<uintptr_t>(p) % 4096 == 0;
        char *at = left ? p + 41 : p - 1, was = *at;
        *at = 0x41;
        Found found = check();
        *at = was;
        return found.mistakes == 1 ? "" : std::to_string(found.mistakes) + " " + found.said;
    });
    EXPECT_EQ("", wrong);
}

/* Random objects of threads and heaps, some freed, at offsets, of no bytes: there is no mistake
 * among them. */
TEST(HeapsCheck, SaysNothingOfProgramsWithoutMistakes) {
    auto work = [](unsigned seed) {
        std::mt19937 random(seed);
        std::vector<void *> objects;
        loam_heap *heap = loam_heap_create();
        for (unsigned i = 0; i < effort::fewer(3000); i++) {
            size_t size = random() % 4 == 0 ? random() % 200000 : random() % 900;
            void *p = nullptr;
            switch (random() % 6) {
            case 0: p = loam_calloc(1, size); break;
            case 1: p = loam_malloc_aligned(size, size_t(16) << random() % 8); break;
            case 2: p = loam_malloc_aligned_offset(size, 64, 8); break;
            case 3: p = loam_heap_malloc(heap, size); break;
            default: p = loam_malloc(size); break;
            }
            memset(p, 0x41, size);
            objects.push_back(p);
            if (random() % 2 == 0) {
                std::swap(objects[random() % objects.size()], objects.back());
                loam_free(objects.back());
                objects.pop_back();
            }
        }
        return objects;
    };
    std::vector<void *> all, here = work(1);
    std::thread([&] { all = work(2); }).join();
    errno = 7;
    Found found = check();
    EXPECT_EQ(0u, found.mistakes);
    EXPECT_EQ("", found.said);
    EXPECT_EQ(7, errno);
    for (void *p : all) loam_free(p);
    for (void *p : here) loam_free(p);
    found = check();
    EXPECT_EQ(0u, found.mistakes);
    EXPECT_EQ("", found.said);
}

/* ---- loam_collect_bytes ---- */

size_t dirty_bytes() {
    lm_span_stats_t stats;
    lm_span_stats(&stats);
    return stats.dirty_bytes;
}

class CollectBytes : public testing::Test {
  protected:
    void SetUp() override {
        lm_purge_allow(false);
        (void)loam_collect();
        lm_purge_never = true; /* or frees purge at once where there is no worker */
    }
    void TearDown() override {
        lm_purge_never = false;
        lm_purge_allow(true);
    }

    /* Frees `spans` objects of that many bytes that have none free beside them. */
    static void free_some(size_t spans, size_t bytes) {
        std::vector<void *> freed, kept;
        for (size_t i = 0; i < spans; i++) {
            freed.push_back(loam_malloc(bytes));
            memset(freed.back(), 1, bytes);
            kept.push_back(loam_malloc(65537));
        }
        for (void *p : freed) loam_free(p);
        for (void *p : kept) loam_free(p);
        (void)lm_reuse_unkeep();
        (void)lm_large_let_go(true);
    }
};

TEST_F(CollectBytes, GivesTheNextMultipleOfASlice) {
    std::mt19937 random(3);
    for (int i = 0; i < 60; i++) {
        free_some(1 + random() % 8, 100000 + random() % 3000000);
        size_t dirty = dirty_bytes(), wanted = 1 + random() % dirty;
        size_t slices = (wanted + LM_SLICE_BYTES - 1) & ~(LM_SLICE_BYTES - 1);
        size_t expected = slices < dirty ? slices : dirty;
        EXPECT_EQ(expected, loam_collect_bytes(wanted)) << wanted << " of " << dirty;
        EXPECT_EQ(dirty - expected, dirty_bytes());
        lm_span_check();
    }
}

TEST_F(CollectBytes, GivesAllThereIsWhereThatIsLess) {
    free_some(4, 500000);
    size_t dirty = dirty_bytes(), given = loam_collect_bytes(SIZE_MAX);
    EXPECT_GE(given, dirty);
    EXPECT_EQ(0u, dirty_bytes());
    EXPECT_EQ(0u, loam_collect_bytes(1)) << "nothing is left";
    EXPECT_EQ(0u, loam_collect_bytes(0));
}

TEST_F(CollectBytes, TakesWhatTheThreadHoldsReadyOnlyIfSpansAreTooFew) {
    std::vector<void *> objects;
    for (int i = 0; i < 4000; i++) objects.push_back(loam_malloc(500));
    for (void *p : objects) memset(p, 1, 500);
    free_some(1, 1000000);
    size_t dirty = dirty_bytes();
    for (void *p : objects) loam_free(p);
    EXPECT_EQ(LM_SLICE_BYTES, loam_collect_bytes(1));
    EXPECT_GT(loam_collect_bytes(SIZE_MAX) + LM_SLICE_BYTES, dirty);
    EXPECT_EQ(0u, dirty_bytes());
}

} // namespace
