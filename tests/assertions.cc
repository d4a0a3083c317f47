// assertions.cc: the comparisons that assertions.h declares.
#include "assertions.h"

LOAM_ASSERTIONS(LOAM_COMPARED, LOAM_PRINTED)
