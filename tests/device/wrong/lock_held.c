/* lock_held.c: must fail: a test ends, and the port's lock is taken. */
#include "harness.h"

#include "base/base.h"

TEST(lock_is_forgotten) { lm_port_lock(LM_PORT_LIST); }
