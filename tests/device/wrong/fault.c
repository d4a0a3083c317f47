/* fault.c: must fail: the processor finds an instruction that it does not know. */
#include "harness.h"

TEST(trap) { __builtin_trap(); }
