/* loam/loam.h: everything that C knows of loam, in one include.
 *
 *   malloc.h     loam_malloc and its kin: the general-purpose heap  for C++: malloc.hpp, new_delete.hpp
 *   malloc_more.h  less common forms: with the size that was got, whose a pointer is
 *   heap.h       heaps like it, ended as a whole, limited, walked  for C++: heap.hpp
 *   arena.h      memory of your own for these, huge pages, NUMA nodes
 *   pool.h       blocks of one size                                 for C++: pool.hpp
 *   blocks.h     malloc for programs with few sizes                 for C++: blocks.hpp
 *   region.h     objects of any size that are dropped together      for C++: region.hpp
 *   fifo.h       objects freed in about the order they came         for C++: fifo.hpp
 *   stack.h      objects that end with a function's frame           for C++: stack.hpp
 *   ring.h       the same, where frames end in any order
 *   alloc.h      a handle to any of these                           for C++: alloc.hpp
 *   source.h     where these get their memory from
 *   registry.h   the list of those alive, their leaks and checks
 *   options.h    what can be chosen by environment, a string in the program, or calls
 *   handlers.h   functions of the program's for lines, reports, deferred frees and the end of memory
 *   limits.h     how much memory loam may hold for the process
 *   meter.h      what they are asked, what it costs, and what they hold meanwhile
 *
 * Not in here: what changes a program that includes it, or needs a device, or the C library's
 * <malloc.h>: xallocator.h, override.h, port.h, libc.h; and the C++ headers.
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
