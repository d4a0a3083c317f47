/* loam/unload.h: what loam's C++ headers do when a module, such as a plugin, is unloaded; nothing
 * in it is for programs.
 *
 *   first use of a class's pool ──> at_unload_add ──> list of the module that the pool lies in
 *   dlclose ──> static objects' destructors ──> unload: each pool of the list leaves
 *
 * A pool that IMPLEMENT_ALLOCATOR makes lies in the module's own memory and stands in lists of the
 * library. No destructor takes it down. Priority 101 makes `unload` run after all destructors of
 * the module. Where the process ends it does nothing, because threads may still run then.
 *
 * It cannot help where the library itself is inside the module (libloam.a): such a module stays
 * loaded.
 */
#ifndef LOAM_UNLOAD_H
#define LOAM_UNLOAD_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

typedef struct loam_unload {
    struct loam_unload *next;
    void (*run)(void *what);
    void *what;
} loam_unload;

/* Puts the node, which must stay, into a module's list. Any thread. */
LOAM_API void loam_unload_add(loam_unload **list, loam_unload *node) LOAM_NOEXCEPT;
/* Empties the list and runs its nodes, unless the process ends. */
LOAM_API void loam_unload_run(loam_unload **list) LOAM_NOEXCEPT;

LOAM_END

#if defined(__cplusplus) && __cplusplus >= 201703L

namespace loam {
namespace detail {

/* One for each module, because it is hidden. */
__attribute__((__visibility__("hidden"))) inline loam_unload *at_unload = nullptr;

__attribute__((__visibility__("hidden"), __destructor__(101), __used__)) inline void unload() {
    loam_unload_run(&at_unload);
}

} // namespace detail
} // namespace loam

#endif

#include "loam/names_end.h"

#endif
