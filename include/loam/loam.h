/* loam/loam.h: all of loam for C, in one include.
 *
 *     #include <loam/loam.h>
 *     void *p = loam_malloc(100);
 *     loam_free(p);
 *
 *   malloc.h        the general-purpose heap: loam_malloc ...    C++: malloc.hpp, new_delete.hpp
 *   malloc_more.h   its less common forms
 *   heap.h          heaps that are destroyed, limited, walked    C++: heap.hpp
 *   arena.h         memory for heaps: yours, huge pages, NUMA
 *   pool.h          blocks of one size                           C++: pool.hpp
 *   blocks.h        malloc for programs with few sizes           C++: blocks.hpp
 *   region.h        objects of any size, freed together          C++: region.hpp
 *   fifo.h          objects freed in about their order           C++: fifo.hpp
 *   stack.h         objects that end with a function's frame     C++: stack.hpp
 *   ring.h          likewise, but frames end in any order
 *   alloc.h         a handle to any of these allocators          C++: alloc.hpp
 *   source.h        where allocators get their memory
 *   registry.h      a list of all allocators, their leaks and checks
 *   options.h       options by environment, string or call
 *   handlers.h      your functions for lines, reports, deferred frees, and the end of memory
 *   limits.h        how much memory loam may hold for the process
 *   sampling.h      guard pages around one in N allocations
 *   stats.h         statistics of the process or of a heap
 *   meter.h         what allocators are asked for, what it costs, and what they hold
 *
 * Headers that change a program that includes them, or that need a device or the C library's
 * <malloc.h>, are left out: xallocator.h, override.h, port.h, libc.h. So are the C++ headers.
 */
#ifndef LOAM_LOAM_H
#define LOAM_LOAM_H

#include "loam/names_begin.h"

#include "loam/alloc.h"
#include "loam/arena.h"
#include "loam/blocks.h"
#include "loam/fifo.h"
#include "loam/handlers.h"
#include "loam/heap.h"
#include "loam/limits.h"
#include "loam/malloc.h"
#include "loam/malloc_more.h"
#include "loam/meter.h"
#include "loam/options.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/registry.h"
#include "loam/ring.h"
#include "loam/sampling.h"
#include "loam/source.h"
#include "loam/stack.h"
#include "loam/stats.h"

#include "loam/names_end.h"

#endif
