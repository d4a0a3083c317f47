/* region_test.cc: regions of many threads over one source: a region for each thread, pairs of
 * scratch regions, and regions that end with their thread.
 *
 * A region is for one thread at a time. Regions share the source, and the pages that wait for the
 * next region. Another thread may read and end a region that one thread has filled.
 */
#include "stress.h"

#include "loam/region.h"

extern "C" {
#include "hosted/quarantine.h"
#include "os/os.h"
}

namespace {

using namespace stress;

/* A list in a region, so that every node must be as its maker left it. */
struct Node {
    Node *next;
    size_t value, check;
};

Node *fill(loam_region *region, size_t count, size_t salt) {
    Node *list = nullptr;
    for (size_t i = 0; i < count; i++) {
        auto *node = static_cast<Node *>(loam_region_alloc(region, sizeof(Node) + i % 100));
        if (node == nullptr) abort();
        *node = {list, salt + i, ~(salt + i)};
        list = node;
    }
    return list;
}

void expect_list(const Node *list, size_t count, size_t salt) {
    for (; list != nullptr; list = list->next) {
        count--;
        if (list->value != salt + count || list->check != ~list->value) abort();
    }
    if (count != 0) abort();
}

class Regions : public Stress {};

TEST_F(Regions, ArePassedOnAndEndedByOthers) {
    struct Made {
        loam_region *region;
        Node *list;
        size_t count, salt;
    };
    std::atomic<Made *> shelf[16] = {};
    Clock clock;
    run_threads(4, [&](unsigned thread) {
        Random random(thread + 1);
        while (clock.running()) {
            loam_region *region = loam_region_create(nullptr, nullptr);
            if (region == nullptr) abort();
            size_t count = random.below(400), salt = random.next() >> 8;
            void *at = loam_region_alloc(region, sizeof(Made));
            Node *list = fill(region, count, salt);
            auto *made = new (at) Made{region, list, count, salt};
            Made *old = shelf[random.below(16)].exchange(made, std::memory_order_acq_rel);
            if (old == nullptr) continue;
            expect_list(old->list, old->count, old->salt);
            if (!loam_region_check(old->region)) abort();
            loam_region_destroy(old->region);
        }
    });
    for (auto &slot : shelf) {
        if (Made *old = slot.load()) loam_region_destroy(old->region);
    }
}

TEST_F(Regions, EachThreadHasScratchOfItsOwn) {
    Clock clock;
    run_threads(4, [&](unsigned thread) {
        Random random(thread + 1);
        while (clock.running()) {
            loam_scratch outer = loam_scratch_begin(nullptr);
            size_t salt = random.next() >> 8, count = random.below(200);
            Node *result = fill(outer.region, count, salt);
            loam_scratch inner = loam_scratch_begin(outer.region);
            if (inner.region == outer.region) abort();
            Node *temporary = fill(inner.region, 3 * count, salt + 1);
            Node *more = fill(outer.region, count, salt + 2);
            expect_list(temporary, 3 * count, salt + 1);
            loam_scratch_end(&inner);
            expect_list(result, count, salt);
            expect_list(more, count, salt + 2);
            loam_scratch_end(&outer);
        }
    });
}

/* The first pool of this kind never emptied its cache of pages. */
TEST_F(Regions, NothingIsLeftOfThreadsThatHaveEnded) {
    size_t resident[2] = {0, 0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 300; i++) {
            run_threads(2, [](unsigned thread) {
                loam_region *region = loam_region_create(nullptr, nullptr);
                expect_list(fill(region, 3000, thread), 3000, thread);
                loam_scratch scratch = loam_scratch_begin(region);
                expect_list(fill(scratch.region, 3000, thread), 3000, thread);
                loam_scratch_end(&scratch);
                loam_region_destroy(region);
            });
            (void)lm_chunks_release(); // where a tool watches
        }
        resident[round] = lm_os_resident_bytes();
    }
    EXPECT_LT(resident[1], resident[0] + (size_t{8} << 20)) << "600 threads later";
}

} // namespace
