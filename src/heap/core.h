/* core.h: what the files of the heap and of its wings share. No other layer includes it.
 *
 * Order of locks: registry, common heap, heap, first-class heap, transfer cache, objects at an
 * offset, sampled objects, orphans, freed large objects (secure builds), call sites (debug builds),
 * arena. A thread that holds one of these locks may take only locks that come later in the list.
 */
#ifndef LM_HEAP_CORE_H
#define LM_HEAP_CORE_H

#include "heap/count.h"
#include "heap/heap.h"
#include "heap/page.h"
#include "heap/remote.h"
#include "heap/resize.h"
#include "heap/thread.h"

#endif
