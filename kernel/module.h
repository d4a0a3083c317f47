/* module.h: what the files of the module share, and nobody else includes.
 *
 *   pages.c       the source of pages             port.c      what the core asks for
 *   selftest.c    properties, one by one          model.c     random programs against a record
 *   interrupts.c  the source under interrupts     bench.c     times
 *   module.c      parameters, start and end       exports.c   names for other modules
 */
#ifndef LOAM_KERNEL_MODULE_H
#define LOAM_KERNEL_MODULE_H

#include "loam/kernel_pages.h"
#include "loam/region.h"

#include <linux/export.h>
#include <linux/printk.h>
#include <linux/types.h>

/* ---- pages.c ---- */

int lm_pages_begin(void);
/* Gives all cached pages back. Returns how many are lost. */
unsigned long lm_pages_end(void);

/* ---- Tests ---- */

/* Faults for the tests of the test (parameter break): a page that is not put back; an object
 * overwritten. */
enum { LM_BREAK_NOTHING, LM_BREAK_LEAK, LM_BREAK_OBJECT };

/* A failed one is a line of the log, and counted. */
#define LM_EXPECT(condition) lm_expect((condition), #condition, __FILE__, __LINE__)
void lm_expect(bool condition, const char *text, const char *file, int line);

/* What was wrong, 0 at best. */
unsigned lm_selftest(int broken);

/* A random program of that seed on regions over the source, with these options. `broken`: see
 * above. */
void lm_model_run(loam_source *source, const loam_region_options *options, u32 seed, bool broken);

/* Processes, softirqs and hard interrupts in each other's way, on all processors. */
void lm_interrupts_run(void);

u32 lm_random(u32 *state);

void lm_bench(void);

#endif
