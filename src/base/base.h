/* base.h: the ground that every layer stands on; the one header that outsiders include.
 *
 * Glossary (the nouns of the whole project)
 *   slice       64 KiB of address space, the unit in which memory is handed around
 *   span        one or more slices in a row, free or in use
 *   page        a span cut into blocks of one size class, with its descriptor
 *   descriptor  128 bytes about a span: the slot of its first slice
 *   block       what malloc returns
 *   size class  one of 112 block sizes from 16 bytes to 64 KiB
 *   large       an object of more than 64 KiB: a span of its own
 *   heap        the free lists and pages of one thread
 *   owner       the thread that may touch a page's local free list without atomics
 *   remote free a free by a thread that is not the owner
 *   orphan      a page whose owner ended
 *   vacant      of a page: no block of it is in use, and it stays with its heap all the same
 *   arena       all slices, in one growing range of addresses
 *   dirty       free memory that still occupies RAM
 *   purge       giving dirty memory back to the system
 *   worker      the transient background thread that purges
 *   module      the program or a shared library, as it is loaded
 *   site        a return address as a place in a module
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
