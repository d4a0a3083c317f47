/* stddef.h: what loam asks of the compiler's header, as the kernel has it. */
#ifndef LOAM_KERNEL_STDDEF_H
#define LOAM_KERNEL_STDDEF_H

#include <linux/stddef.h>
#include <linux/types.h>

#endif
