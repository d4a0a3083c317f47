/* stdint.h: the kernel's types have these names already; it lacks a few limits, and one type in
 * older ones. */
#ifndef LOAM_KERNEL_STDINT_H
#define LOAM_KERNEL_STDINT_H

#include <linux/limits.h>
#include <linux/types.h>

typedef long intptr_t; /* the same again in newer kernels, which C allows */

#ifndef SIZE_MAX
#define SIZE_MAX (~(size_t)0)
#endif
#ifndef UINTPTR_MAX
#define UINTPTR_MAX (~(uintptr_t)0)
#endif
#ifndef PTRDIFF_MAX
#define PTRDIFF_MAX ((ptrdiff_t)(SIZE_MAX >> 1))
#endif

#endif
