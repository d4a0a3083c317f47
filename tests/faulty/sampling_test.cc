/* sampling_test.cc: the system protects no pages, or has no memory for slots: allocations go
 * unsampled, and nothing else. */
#include "child.h"

#include <loam/loam.h>

extern "C" {
#include "os/faulty.h"
#include "survey/survey.h"
}

#include <cerrno>
#include <cstring>

namespace {

using faulty::Found;

loam_sampling_numbers numbers() {
    loam_sampling_numbers now;
    loam_sampling_get(&now);
    return now;
}

void use_some(size_t count) {
    for (size_t i = 0; i < count; i++) {
        auto *p = static_cast<char *>(loam_malloc(40));
        ASSERT_NE(p, nullptr);
        memset(p, 1, 40);
        loam_free(p);
    }
}

TEST(SamplingRefused, NoGuards) {
    faulty::in_child([](Found &) {
        lm_faulty_fail(LM_FAULT_PROTECT, 1, LM_FAULT_ALWAYS);
        EXPECT_EQ(loam_sampling_set(1), -ENOMEM);
        EXPECT_EQ(loam_option_set("guard_sampling", "1"), 0) << "which says nothing of memory";
        use_some(1000);
        EXPECT_EQ(numbers().taken, 0u);
        EXPECT_EQ(numbers().slots, 0u);
        lm_faulty_clear();
        use_some(1000);
        EXPECT_GT(numbers().taken, 900u);
        lm_span_check();
    });
}

TEST(SamplingRefused, NoMemoryForSlots) {
    faulty::in_child([](Found &) {
        use_some(1);
        lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
        EXPECT_EQ(loam_sampling_set(1), -ENOMEM);
        lm_faulty_clear();
        EXPECT_EQ(loam_sampling_set(1), 0);
        lm_span_check();
    });
}

TEST(SamplingRefused, ASlotDoesNotOpen) {
    faulty::in_child([](Found &) {
        ASSERT_EQ(loam_sampling_set(1), 0);
        use_some(10);
        size_t taken = numbers().taken, missed = numbers().missed;
        lm_faulty_fail(LM_FAULT_PROTECT, 1, LM_FAULT_ALWAYS);
        use_some(300);
        EXPECT_EQ(numbers().taken, taken);
        EXPECT_EQ(numbers().missed, missed + 300);
        lm_faulty_clear();
        use_some(300);
        EXPECT_EQ(numbers().taken, taken + 300);
        lm_heap_check();
    });
}

/* Each second call fails: an object that cannot be closed is freed all the same, and its slot is
 * used again. */
TEST(SamplingRefused, ASlotDoesNotClose) {
    faulty::in_child([](Found &) {
        ASSERT_EQ(loam_sampling_set(1), 0);
        for (int i = 0; i < 1000; i++) {
            auto *p = static_cast<char *>(loam_malloc(9000));
            ASSERT_NE(p, nullptr);
            memset(p, 1, 9000);
            lm_faulty_fail(i % 2 == 0 ? LM_FAULT_PROTECT : LM_FAULT_PURGE, 1, 1);
            loam_free(p);
            lm_faulty_clear();
        }
        EXPECT_EQ(numbers().live, 0u);
        lm_heap_check();
    });
}

} // namespace
