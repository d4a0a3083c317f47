/* base.h: the foundation of every layer, and the only header that files outside base/ include.
 *
 * Glossary (the nouns of the whole project)
 *   slice       64 KiB of address space, the unit in which memory is allocated and freed
 *   span        one or more contiguous slices, either free or in use
 *   page        a span cut into blocks of one size class, with its descriptor
 *   descriptor  128 bytes that describe a span, stored in the slot of its first slice
 *   block       what malloc returns
 *   size class  one of 112 block sizes from 16 bytes to 64 KiB
 *   large       an object of more than 64 KiB, which has a span of its own
 *   heap        the free lists and pages of one thread
 *   owner       the thread that may access a page's local free list without atomics
 *   remote free a free by a thread that is not the owner
 *   orphan      a page whose owner thread has ended
 *   vacant      describes a page that has no block in use, but stays with its heap
 *   arena       all slices, in one growing range of addresses
 *   dirty       describes free memory that still occupies RAM
 *   purge       to return dirty memory to the system
 *   worker      the transient background thread that purges
 *   module      the program or a shared library, as loaded in memory
 *   site        a return address, expressed as an offset in a module
 */
#ifndef LM_BASE_H
#define LM_BASE_H

#include "base/compiler.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/meter.h"

#endif
