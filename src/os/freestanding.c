/* freestanding.c: the port for targets without an operating system: loam/port.h, with a default for
 * each function.
 *
 * Hosted builds leave it out; there linux.c provides the lm_port functions. It has no state of its
 * own, and needs nothing of a C library.
 */
#include "loam/port.h"

#include "base/base.h"

#define WEAK __attribute__((weak))

WEAK void loam_port_write(const char *text, size_t bytes) { (void)text, (void)bytes; }
WEAK void loam_port_abort(void) { __builtin_trap(); }
WEAK void loam_port_lock(unsigned lock) { (void)lock; }
WEAK void loam_port_unlock(unsigned lock) { (void)lock; }
WEAK unsigned loam_port_thread(void) { return 0; }

void loam_port_ignore_mistakes(bool ignore) { lm_misuse_policy.ignore = ignore; }

void lm_port_write_error(const char *text, size_t bytes) { loam_port_write(text, bytes); }
void lm_port_abort(void) { loam_port_abort(); }
void lm_port_lock(lm_port_lock_t lock) { loam_port_lock((unsigned)lock); }
void lm_port_unlock(lm_port_lock_t lock) { loam_port_unlock((unsigned)lock); }
unsigned lm_port_thread_id(void) { return loam_port_thread(); }
