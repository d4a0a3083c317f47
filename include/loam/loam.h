/* loam/loam.h: everything, in one include. */
#ifndef LOAM_LOAM_H
#define LOAM_LOAM_H

#include "loam/malloc.h"

#endif
