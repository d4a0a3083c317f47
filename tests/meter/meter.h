/* meter.h: what the tests of level 2 have in common: what was counted, sources to hold it
 * against. */
#ifndef LOAM_TESTS_METER_METER_H
#define LOAM_TESTS_METER_METER_H

#undef LOAM_METER
#define LOAM_METER 2
#include "loam/blocks.hpp"
#include "loam/loam.h"
#include "loam/pool.hpp"
#include "loam/region.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace metered {

constexpr unsigned kAlloc = LOAM_METER_ALLOC, kFree = LOAM_METER_FREE,
                   kRealloc = LOAM_METER_REALLOC;

inline loam_meter_stats stats_of(const char *kind, const char *name) {
    loam_meter_stats stats;
    loam_meter_read(kind, name, &stats);
    return stats;
}

/* A source that counts, so that what meters say can be held against it. */
struct Counted {
    Counted() { loam_count_init(&count, loam_heap_source()); }
    loam_source *source() { return &count.source; }
    loam_count count;
};

/* A name of the test's own, which no other test's allocators share. */
inline const char *own_name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
}

inline loam_region *named_region(loam_source *source) {
    loam_region_options options = {};
    options.name = own_name();
    return loam_region_create(source, &options);
}

} // namespace metered

#endif
