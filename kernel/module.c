/* module.c: loam's region as a module: parameters, start and end.
 *
 *   insmod loam_region.ko [selftest=1] [bench=1] [fatal=1] [break=N]
 *   /sys/module/loam_region/parameters/pages      numbers of pages: taken, returned, cached, ...
 *
 * If a self-test fails, the module does not load. */
#include "module.h"

#include "loam/port.h"

#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

static bool selftest;
module_param(selftest, bool, 0444);
MODULE_PARM_DESC(selftest, "test the region and its source of pages as the module loads");

static bool bench;
module_param(bench, bool, 0444);
MODULE_PARM_DESC(bench, "measure them then, results in the log");

static bool fatal;
module_param(fatal, bool, 0444);
MODULE_PARM_DESC(fatal, "a mistake that a checked region finds is a BUG, not a line");

static int broken;
module_param_named(break, broken, int, 0);
MODULE_PARM_DESC(break,
                 "a fault that the self-test must find: 1 a lost page, 2 an overwritten object");

static bool running;

static int show_pages(char *text, const struct kernel_param *parameter) {
    if (!running) return 0;
    loam_kernel_pages_usage usage = loam_kernel_pages_ask();
    return sprintf(text, "taken %lu returned %lu cached %lu out %lu passed %lu\n", usage.taken,
                   usage.returned, usage.cached, usage.out, usage.passed);
}
static const struct kernel_param_ops pages_ops = {.get = show_pages};
module_param_cb(pages, &pages_ops, NULL, 0444);
MODULE_PARM_DESC(pages, "how many pages are where");

static void loam_region_end(void) {
    /* A thread that reads the parameter `pages` holds this lock. */
    kernel_param_lock(THIS_MODULE);
    running = false;
    kernel_param_unlock(THIS_MODULE);
    lm_pages_end();
}

static int __init loam_region_begin(void) {
    int wrong = lm_pages_begin();
    if (wrong != 0) return wrong;
    loam_port_ignore_mistakes(!fatal);
    running = true;
    if (selftest && lm_selftest(broken) != 0) {
        loam_region_end();
        return -EINVAL;
    }
    if (bench) lm_bench();
    return 0;
}

module_init(loam_region_begin);
module_exit(loam_region_end);

MODULE_DESCRIPTION(
    "loam's region allocator, and a source of pages with a cache for each processor");
MODULE_VERSION(LOAM_VERSION_TEXT);
MODULE_AUTHOR("the loam authors");
MODULE_LICENSE("Dual MIT/GPL");
