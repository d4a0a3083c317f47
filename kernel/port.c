/* port.c: what the freestanding core asks of its surroundings (loam/port.h), by the kernel.
 *
 * Mistakes that a checked allocator finds are a line of the log, and the mistaken call does nothing; with the
 * module's parameter fatal=1 they are a BUG, as is a broken assertion.
 */
#include "module.h"

#include "loam/port.h"

#include <linux/bug.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

static DEFINE_RAW_SPINLOCK(registry_lock);
static unsigned long registry_flags; /* of who holds it */

void loam_port_write(const char *text, size_t bytes) { pr_err("%.*s", (int)bytes, text); }

void loam_port_abort(void) { BUG(); }

/* Regions are set up in any context, so that interrupts must not come in between. */
void loam_port_lock(void) {
    unsigned long flags;
    raw_spin_lock_irqsave(&registry_lock, flags);
    registry_flags = flags;
}

void loam_port_unlock(void) {
    unsigned long flags = registry_flags;
    raw_spin_unlock_irqrestore(&registry_lock, flags);
}

unsigned loam_port_thread(void) { return (unsigned)current->pid; }
