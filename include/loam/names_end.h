/* loam/names_end.h: the last include of each public header. It restores the macros of the program
 * (loam/names_begin.h). */
#if LOAM_NAMES_DEPTH_ == 1
#undef LOAM_NAMES_DEPTH_
#ifdef __cplusplus
#include "loam/names_back_cxx.h"
#elif __STDC_VERSION__ < 202311L
#pragma pop_macro("bool")
#pragma pop_macro("false")
#pragma pop_macro("true")
#endif
#include "loam/names_back.h"

#elif LOAM_NAMES_DEPTH_ == 2
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 1
#elif LOAM_NAMES_DEPTH_ == 3
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 2
#elif LOAM_NAMES_DEPTH_ == 4
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 3
#elif LOAM_NAMES_DEPTH_ == 5
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 4
#elif LOAM_NAMES_DEPTH_ == 6
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 5
#elif LOAM_NAMES_DEPTH_ == 7
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 6
#endif
