/* linux_site.h: declarations shared by linux_trace.c and linux_site.c; no other file includes
 * it. */
#ifndef LM_OS_LINUX_SITE_H
#define LM_OS_LINUX_SITE_H

#include "os/os.h"

#include <dlfcn.h>
#include <link.h>

#ifdef DLFO_EH_SEGMENT_TYPE

/* Finds the module that contains an address. Returns false iff there is none, or before
 * lm_os_trace_prepare. Takes no lock. */
bool lm_linux_find_object(uintptr_t address, struct dl_find_object *object);

#endif

enum { LM_MODULES_MOST = 1024, LM_MODULE_OURS = LM_MODULES_MOST };

/* Address range, load address and number of a module. Number 0: unknown module. */
typedef struct lm_range {
    uintptr_t from, to, base;
    uint32_t number;
} lm_range_t;

/* Returns the module that contains a code address, and records the module if it is new. The code
 * must be on the calling thread's stack, so that the module stays loaded meanwhile. Takes no lock,
 * allocates nothing. */
lm_range_t lm_linux_module(uintptr_t address);

/* Returns the site of a return address in that module. */
lm_site_t lm_linux_site(const lm_range_t *range, uintptr_t address);

#endif
