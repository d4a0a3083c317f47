/* port.c: what the freestanding core asks of its surroundings (loam/port.h), by the kernel.
 *
 * Mistakes that a checked allocator finds are a line of the log, and the mistaken call does
 * nothing; with the module's parameter fatal=1 they are a BUG, as is a broken assertion.
 */
#include "module.h"

#include "loam/port.h"

#include <linux/bug.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

static raw_spinlock_t registry_locks[LOAM_PORT_LOCKS] = {
    [0 ... LOAM_PORT_LOCKS - 1] = __RAW_SPIN_LOCK_UNLOCKED(registry_locks),
};
static unsigned long registry_flags[LOAM_PORT_LOCKS]; /* of who holds it */

void loam_port_write(const char *text, size_t bytes) { pr_err("%.*s", (int)bytes, text); }

void loam_port_abort(void) { BUG(); }

/* Regions are set up in any context, so that interrupts must not come in between. */
void loam_port_lock(unsigned lock) {
    unsigned long flags;
    raw_spin_lock_irqsave(&registry_locks[lock], flags);
    registry_flags[lock] = flags;
}

void loam_port_unlock(unsigned lock) {
    unsigned long flags = registry_flags[lock];
    raw_spin_unlock_irqrestore(&registry_locks[lock], flags);
}

unsigned loam_port_thread(void) { return (unsigned)current->pid; }
