/* page_fault_test.cc: new memory costs one page fault for each page. A thread that reads a page
 * before it writes to it pays for two faults: one for a page of zeros, one for a page of its own.
 * The secure build looks at blocks before it hands them out, and must not pay twice. */
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "effort.h"

extern "C" {
#include "survey/survey.h"
}

namespace {

#if defined(EFFORT_ASAN) || defined(EFFORT_TSAN) || defined(LOAM_EMULATED)
constexpr bool kOthers = true;
#else
constexpr bool kOthers = false;
#endif

long faults() {
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
}

/* Sizes that end with a page and sizes that do not, blocks by the dozen in a page and one in
 * several. */
class PageFault : public testing::TestWithParam<size_t> {};

TEST_P(PageFault, ComesOnceForEachPage) {
    if (kOthers) GTEST_SKIP() << "a sanitizer's or an emulator's own memory has faults, too";
    if (LOAM_DEBUG) GTEST_SKIP() << "the debug build fills blocks, to their middle";
    const size_t bytes = GetParam(), page = static_cast<size_t>(sysconf(_SC_PAGESIZE)),
                 count = (6u << 20) / bytes; /* huge pages would come above 16 MiB */
    std::vector<void *> objects(count);
    std::set<uintptr_t> pages; /* those that the blocks' ends lie in */
    long before = faults();
    for (void *&p : objects) p = lm_malloc(bytes);
    long paid = faults() - before;
    for (void *p : objects) {
        pages.insert(reinterpret_cast<uintptr_t>(p) / page);
        pages.insert((reinterpret_cast<uintptr_t>(p) + lm_usable_size(p) + 7) / page);
    }
    EXPECT_LE(paid, static_cast<long>(pages.size() + pages.size() / 8 + 64)) << bytes;
    for (void *p : objects) lm_free(p);
}

INSTANTIATE_TEST_SUITE_P(Sizes, PageFault,
                         testing::Values(24, 40, 100, 600, 1000, 1016, 1500, 4000, 4088, 4096, 8184,
                                         9000, 12280, 20000, 65000));

} // namespace
