/* reserve_test.cc: the system has no addresses, or no memory behind them, for a loam_reserve.
 *
 * A get that is refused leaves everything as it was, and a later one finds memory where it is there
 * again.
 */
#include <gtest/gtest.h>
#include <loam/source.h>

extern "C" {
#include "os/faulty.h"
}

#include <cerrno>
#include <cstring>

namespace {

constexpr size_t kMib = size_t{1} << 20;

class ReserveRefused : public testing::Test {
  protected:
    void TearDown() override { lm_faulty_clear(); }
    loam_reserve reserve_;
    size_t got_ = 0;
    char *take(size_t bytes) {
        return static_cast<char *>(loam_source_get(&reserve_.source, bytes, 1, &got_));
    }
};

TEST_F(ReserveRefused, NoAddresses) {
    lm_faulty_fail(LM_FAULT_RESERVE, 1, 1);
    EXPECT_EQ(loam_reserve_init(&reserve_, kMib), -ENOMEM);
    EXPECT_EQ(take(1), nullptr);
    loam_reserve_deinit(&reserve_);
    EXPECT_EQ(loam_reserve_init(&reserve_, kMib), 0);
    loam_reserve_deinit(&reserve_);
}

TEST_F(ReserveRefused, NoMemoryNow) {
    ASSERT_EQ(loam_reserve_init(&reserve_, 64 * kMib), 0);
    char *first = take(1000);
    ASSERT_NE(first, nullptr);
    memset(first, 1, 1000);
    lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
    EXPECT_EQ(take(kMib), nullptr);
    EXPECT_EQ(take(60000), first + 1000) << "what is committed already still serves";
    lm_faulty_clear();
    char *next = take(kMib);
    EXPECT_EQ(next, first + 61000);
    memset(next, 2, kMib);
    EXPECT_EQ(first[999], 1);
    loam_reserve_deinit(&reserve_);
}

TEST_F(ReserveRefused, LessThanWished) {
    ASSERT_EQ(loam_reserve_init(&reserve_, 64 * kMib), 0);
    ASSERT_NE(take(16 * kMib), nullptr);
    lm_faulty_fail(LM_FAULT_COMMIT, 1, 1); /* the step of a quarter */
    char *chunk = take(1);
    ASSERT_NE(chunk, nullptr);
    *chunk = 1;
    EXPECT_EQ(lm_faulty_calls(LM_FAULT_COMMIT), 2u);
    EXPECT_EQ(reserve_.committed - reserve_.start, static_cast<ptrdiff_t>(16 * kMib + 65536));
    loam_reserve_deinit(&reserve_);
}

} // namespace
