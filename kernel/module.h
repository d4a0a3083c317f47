/* module.h: declarations that the files of the module share. No other file includes it.
 *
 *   pages.c       the source of pages             port.c      functions that the core calls
 *   selftest.c    properties, one by one          model.c     random programs against a record
 *   interrupts.c  the source under interrupts     bench.c     times
 *   module.c      parameters, start and end       exports.c   names for other modules */
#ifndef LOAM_KERNEL_MODULE_H
#define LOAM_KERNEL_MODULE_H

#include "loam/kernel_pages.h"
#include "loam/region.h"

#include <linux/export.h>
#include <linux/printk.h>
#include <linux/types.h>

/* ---- pages.c ---- */

/* Sets the caches up. Returns 0 or a negative errno. In a task, once, before any source is used. */
int lm_pages_begin(void);
/* Ends the caches: gives all cached pages back. Returns the number of pages that are lost. */
unsigned long lm_pages_end(void);

/* ---- Tests ---- */

/* Faults that the self-test must find (parameter break): a page that is not put back; an object
 * that is overwritten. */
enum { LM_BREAK_NOTHING, LM_BREAK_LEAK, LM_BREAK_OBJECT };

/* Expects that condition holds. A failure is counted, and a line of the log. */
#define LM_EXPECT(condition) lm_expect((condition), #condition, __FILE__, __LINE__)
/* Does what LM_EXPECT does. Not from interrupts. */
void lm_expect(bool condition, const char *text, const char *file, int line);

/* Runs all tests, with the fault `broken` (LM_BREAK_...). Returns the number of failed
 * expectations. */
unsigned lm_selftest(int broken);

/* Runs a random program of that seed on regions over the source, with these options. broken: it
 * overwrites an object at the end. In a task. */
void lm_model_run(loam_source *source, const loam_region_options *options, u32 seed, bool broken);

/* Tests the source in tasks, softirqs and hard interrupts that interrupt each other, on all
 * processors. */
void lm_interrupts_run(void);

/* Returns a random number and changes *state, which must not be 0. */
u32 lm_random(u32 *state);

/* Measures and writes the times to the log. */
void lm_bench(void);

#endif
