/* core.h: what the files of the heap and of its wings share. No other layer includes it.
 *
 * The order in which threads take the heap's locks is in locks.c.
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
