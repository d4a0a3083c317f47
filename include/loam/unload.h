/* loam/unload.h: what loam's C++ headers do when a module, such as a plugin, is unloaded; programs
 * do not use it.
 *
 *   first use of a class's pool ──> loam_unload_add ──> list of the module that the pool lies in
 *   dlclose ──> static objects' destructors ──> unload: each pool of the list is taken down
 *
 * A pool that IMPLEMENT_ALLOCATOR makes lies in the module's own memory, and the library's lists
 * point to it. No destructor takes it down. `unload` has priority 101, so that it runs after all
 * destructors of the module. At the end of the process it does nothing, because threads may still
 * run.
 *
 * It cannot help if the library itself is inside the module (libloam.a): such a module stays
 * loaded. Source: src/hosted/unload.c.
 */
#ifndef LOAM_UNLOAD_H
#define LOAM_UNLOAD_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/** A node of a module's list: what to run when the module is unloaded. */
typedef struct loam_unload {
    struct loam_unload *next;
    void (*run)(void *what);
    void *what;
} loam_unload;

/** Puts the node, which must stay valid, into a module's list. Any thread may call it. */
LOAM_API void loam_unload_add(loam_unload **list, loam_unload *node) LOAM_NOEXCEPT;
/** Empties the list and runs its nodes, unless the process is ending. */
LOAM_API void loam_unload_run(loam_unload **list) LOAM_NOEXCEPT;

LOAM_END

#if defined(__cplusplus) && __cplusplus >= 201703L

namespace loam {
namespace detail {

/* The module's list; hidden, so that each module has its own. */
__attribute__((__visibility__("hidden"))) inline loam_unload *at_unload = nullptr;

__attribute__((__visibility__("hidden"), __destructor__(101), __used__)) inline void unload() {
    loam_unload_run(&at_unload);
}

} // namespace detail
} // namespace loam

#endif

#include "loam/names_end.h"

#endif
