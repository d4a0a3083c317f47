/* unload.c: allocators in the memory of a module that is unloaded leave the library's lists
 * (loam/unload.h).
 *
 *   add   a node joins its module's list; the first of all has this file's handler run at exit
 *   run   the module is being unloaded: its nodes run, newest first
 *         the process ends: nothing, because other threads may be using the allocators
 *
 * At exit the C library runs handlers first and modules' destructors after that, so the handler
 * tells the two apart. It cannot tell a module that is closed by a handler which runs even later:
 * then nothing is done, and the process ends with the allocators in its lists.
 */
#include "base/base.h"

#include "loam/unload.h"

#include <stdlib.h>

static bool watched; /* atomic: the handler is registered */
static bool ending;  /* atomic */

static void process_ends(void) { lm_store_relaxed(&ending, true); }

void loam_unload_add(loam_unload **list, loam_unload *node) {
    if (!__atomic_exchange_n(&watched, true, __ATOMIC_RELAXED)) (void)atexit(process_ends);
    node->next = lm_load_relaxed(list);
    /* Release: the node's words are there for the thread that takes the list. */
    while (!lm_cas_weak_release(list, &node->next, node)) continue;
}

void loam_unload_run(loam_unload **list) {
    if (lm_load_relaxed(&ending)) return;
    loam_unload *node = __atomic_exchange_n(list, NULL, __ATOMIC_ACQUIRE); /* acquire: as above */
    for (loam_unload *next; node != NULL; node = next) {
        next = node->next;
        node->run(node->what);
    }
}
