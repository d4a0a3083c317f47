/* no_report.c: must fail: a mistake that nobody reports. */
#include "harness.h"

TEST(nothing_is_wrong) { CHECK_ABORTS((void)0, "wrong"); }
