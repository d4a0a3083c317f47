/* at_exit.c: prints statistics, and what is in use, when all other code of the process has ended.
 *
 *   exit ─> handlers ─> destructors of the program and of libraries ─> handlers ─> streams ─> _exit
 *           of main       └─ ends (below), somewhere among them          └─ last (below)
 *
 * The dynamic linker runs destructors of modules in its own order. Those of a preloaded library
 * come before those of most libraries, whose static objects are in use then and freed later. In
 * glibc all destructors run inside one handler of exit, which is older than main. So a handler
 * prints. It is one of three:
 *
 *   1. the oldest handler of all, registered before any constructor runs (override/early.c), if
 *      the environment requests something;
 *   2. otherwise a handler that loam's constructor registers, which is older than those of main if
 *      libloam.so is loaded with the program;
 *   3. if that one has run before the destructors, because loam is linked into the program: a
 *      handler that loam's own destructor registers. exit runs it next, when all destructors have
 *      ended.
 *
 * The handler belongs to no module (its handle is NULL); otherwise exit would run it with the
 * module's destructors.
 *
 * glibc keeps handlers in blocks of 32, the first of them static, and frees a block once its
 * handlers have run. So 2 and 3 find blocks in use that are freed later, if libraries have
 * registered more than 32 handlers; and they find objects that on_exit handlers of libraries'
 * constructors free later.
 *
 * Without glibc, loam's destructor prints. quick_exit runs no destructors: there the oldest of its
 * own handlers prints. _exit and signals print nothing.
 */
#include "api/api.h"
#include "api/option_table.h"

#include <features.h>
#include <stdlib.h>

#ifdef __GLIBC__
/* The C++ ABI specifies it, and <stdlib.h> does not declare it. */
lm_at_exit_t __cxa_atexit;
#endif

/* One thread at a time writes these, because exit runs handlers one by one. Atomic, because any
 * thread may set options. */
static bool at_exit_wanted; /* handlers are registered */
static bool waits;          /* the handler of exit has not run */
static bool at_exit_ended;  /* loam's destructor has run */
static bool printed;

static void at_exit_print(void) {
    if (lm_exchange_relaxed(&printed, true)) return;
    if (lm_option_get(OPTION_SHOW_STATS) == 1) loam_stats_print();
    if (lm_option_get(OPTION_SHOW_STATS) == 2) lm_stats_print_json();
#if LOAM_DEBUG
    if (lm_option_get(OPTION_SHOW_LEAKS) == 0) return;
    if (lm_heap_is_inside())
        lm_report("loam: what is still in use is not listed: a signal handler that has interrupted "
                  "malloc or free ends the program");
    else
        lm_leaks_print();
#endif
}

#ifdef __GLIBC__

/* Relaxed, all: one thread at a time writes the words. */
static void at_exit_last(void *argument) {
    (void)argument;
    lm_store_relaxed(&waits, false);
    if (lm_load_relaxed(&at_exit_ended)) at_exit_print();
}

void lm_at_exit_first(lm_at_exit_t *at_exit) {
    lm_store_relaxed(&waits, at_exit(at_exit_last, NULL, NULL) == 0);
}

static bool wait_for_last(void) {
    if (!lm_load_relaxed(&waits)) lm_at_exit_first(__cxa_atexit);
    return lm_load_relaxed(&waits);
}

#else

static bool wait_for_last(void) { return false; }

#endif

void lm_at_exit_wanted(void) {
    lm_os_message_keep();
    if (lm_exchange_relaxed(&at_exit_wanted, true)) return;
    (void)wait_for_last();
    (void)at_quick_exit(at_exit_print);
}

/* Runs after the other destructors of the module that contains loam. */
static void ends(void) {
    lm_store_relaxed(&at_exit_ended, true);
    if (lm_option_get(OPTION_SHOW_STATS) == 0 && lm_option_get(OPTION_SHOW_LEAKS) == 0) return;
    if (!wait_for_last()) at_exit_print();
}

__attribute__((used, section(".fini_array.00001"))) static void (*const last_of_ours)(void) = ends;
