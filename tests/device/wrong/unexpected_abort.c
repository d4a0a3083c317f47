/* unexpected_abort.c: must fail: loam aborts where no test expects it. */
#include "harness.h"

#include "base/base.h"

TEST(nobody_expects_it) { lm_misuse("this ("); }
