/* doors.h: declarations shared by the files that define doors (doors.c, syscall.c). */
#ifndef LOAM_OVERRIDE_DOORS_H
#define LOAM_OVERRIDE_DOORS_H

#include "api/api.h"

/* Ends the worker for good if prctl(option, a, b) sets a filter of system calls, or the promise
 * that precedes one. A filter without a program does not count: the kernel refuses it, and programs
 * use it to find out whether the kernel has filters. */
LM_HIDDEN void lm_prctl_shuts_in(int option, intptr_t a, intptr_t b);

/* Returns dlsym(RTLD_NEXT, name) for this library, which defines a dlsym of its own (binding.c). */
LM_HIDDEN void *lm_next_definition(const char *name);

#endif
