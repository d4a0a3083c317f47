/* other_report.c: must fail: a mistake is reported, but not in the words expected. */
#include "harness.h"

#include "base/base.h"

TEST(something_else_is_wrong) { CHECK_ABORTS(lm_misuse("this ("), "that"); }
