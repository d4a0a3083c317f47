/* loam/loam.h: everything that C knows of loam, in one include.
 *
 *   malloc.h     loam_malloc and its kin: the general-purpose heap
 *   pool.h       blocks of one size                               pool.hpp     for C++
 *   blocks.h     malloc for programs with few sizes               blocks.hpp   for C++
 *   region.h     objects of any size that are dropped together
 *   stack.h      objects that end with a function's frame            stack.hpp    for C++
 *   ring.h       the same, where frames end in any order
 *   source.h     where these get their memory from
 *   registry.h   the list of those alive, their leaks and checks
 *
 * Not in here: what changes a program that includes it, or needs a device: xallocator.h, port.h; and the C++ headers.
 */
#ifndef LOAM_LOAM_H
#define LOAM_LOAM_H

#include "loam/blocks.h"
#include "loam/malloc.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/registry.h"
#include "loam/ring.h"
#include "loam/source.h"
#include "loam/stack.h"

#endif
