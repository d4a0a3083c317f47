/* stdbool.h: bool, true and false, which the kernel has as a type and an enum. */
#ifndef LOAM_KERNEL_STDBOOL_H
#define LOAM_KERNEL_STDBOOL_H

#include <linux/stddef.h>
#include <linux/types.h>

#endif
