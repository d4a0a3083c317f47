/* unload.c: removes allocators in the memory of a module that is unloaded from the library's lists
 * (loam/unload.h).
 *
 *   add   a node joins its module's list; the first node of all registers a handler of exit
 *   run   if the module is being unloaded, its nodes run, the newest first;
 *         if the process ends, nothing happens, because other threads may be using the allocators
 *
 * At exit the C library runs handlers before modules' destructors, so the handler tells the two
 * cases apart. It cannot recognise a module that is closed by a handler which runs even later.
 * Nothing is done in that case, and the process ends with the allocators in its lists.
 */
#include "base/base.h"

#include "loam/unload.h"

#include <stdlib.h>

static bool watched; /* atomic: the handler is registered */
static bool ending;  /* atomic: the process ends */

static void process_ends(void) { lm_store_relaxed(&ending, true); }

void loam_unload_add(loam_unload **list, loam_unload *node) {
    if (!__atomic_exchange_n(&watched, true, __ATOMIC_RELAXED)) (void)atexit(process_ends);
    node->next = lm_load_relaxed(list);
    /* Release: the thread that takes the list sees the node's words. */
    while (!lm_cas_weak_release(list, &node->next, node)) continue;
}

void loam_unload_run(loam_unload **list) {
    if (lm_load_relaxed(&ending)) return;
    /* Acquire: see the nodes' words. */
    loam_unload *node = __atomic_exchange_n(list, NULL, __ATOMIC_ACQUIRE);
    for (loam_unload *next; node != NULL; node = next) {
        next = node->next;
        node->run(node->what);
    }
}
