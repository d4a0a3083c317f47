/* stdarg.h: arguments without names. */
#ifndef LOAM_KERNEL_STDARG_H
#define LOAM_KERNEL_STDARG_H

#include <linux/stdarg.h>

#endif
