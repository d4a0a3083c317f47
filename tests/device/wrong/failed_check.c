/* failed_check.c: must fail: a CHECK that does not hold. */
#include "harness.h"

TEST(two_is_three) { CHECK_EQUAL(1 + 1, 3); }
