/* linux_site.h: what linux_trace.c and linux_site.c share; no other file includes it. */
#ifndef LM_OS_LINUX_SITE_H
#define LM_OS_LINUX_SITE_H

#include "os/os.h"

#include <dlfcn.h>
#include <link.h>

#ifdef DLFO_EH_SEGMENT_TYPE

/* Finds the module that an address lies in. Returns false iff there is none, or before
 * lm_os_trace_prepare. Takes no lock. */
bool lm_linux_find_object(uintptr_t address, struct dl_find_object *object);

#endif

enum { LM_MODULES_MOST = 1024, LM_MODULE_OURS = LM_MODULES_MOST };

/* Where a module lies in memory, and its number; number 0: unknown. */
typedef struct lm_range {
    uintptr_t from, to, base;
    uint32_t number;
} lm_range_t;

/* The module of code that is on the calling thread's stack, so that the module stays loaded
 * meanwhile. It is noted if it is new. Takes no lock, allocates nothing. */
lm_range_t lm_linux_module(uintptr_t address);

/* The site of a return address in that module. */
lm_site_t lm_linux_site(const lm_range_t *range, uintptr_t address);

#endif
