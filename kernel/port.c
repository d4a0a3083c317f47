/* port.c: functions that the freestanding core calls (loam/port.h), by means of the kernel.
 *
 * A mistake that a checked allocator finds is a line of the log, and the mistaken call does
 * nothing. With the module's parameter fatal=1 it is a BUG. A broken assertion is a BUG as well. */
#include "module.h"

#include "loam/port.h"

#include <linux/bug.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

static raw_spinlock_t registry_locks[LOAM_PORT_LOCKS] = {
    [0 ... LOAM_PORT_LOCKS - 1] = __RAW_SPIN_LOCK_UNLOCKED(registry_locks),
};
/* Interrupt flags of the thread that holds the lock. */
static unsigned long registry_flags[LOAM_PORT_LOCKS];

void loam_port_write(const char *text, size_t bytes) { pr_err("%.*s", (int)bytes, text); }

void loam_port_abort(void) { BUG(); }

/* Takes the lock without interrupts, because regions are set up in any context. */
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
