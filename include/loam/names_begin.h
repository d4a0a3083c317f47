/* loam/names_begin.h: the first include of each public header. Until loam/names_end.h, a macro of
 * the program changes no word of loam's headers; then the program has all its macros back.
 *
 *     #define unused __attribute__((unused))       // the program's, as its free(p), new, min, bool
 *     #include <loam/blocks.h>                     // its words are what loam wrote
 *     unused static int x;                         // the program's macro, as before
 *
 * Every word that a header of loam uses is in three lists, which scripts/safe_names.py makes:
 * names_save.h saves the macro, names_hide.h undefines it, and names_back.h restores it. The lists
 * do not have the words that only headers of the C++ library use.
 *
 * It cannot protect what the program writes itself: behind `#define free(p) ...`, a call of a
 * member free is (pool.free)(block).
 *
 * Headers of loam include each other: LOAM_NAMES_DEPTH_ counts them, and the outermost one does the
 * work. That costs a compiler 5 milliseconds (docs/decisions/0045).
 */
#ifndef LOAM_NAMES_DEPTH_

/* Here, because they define words of the lists. */
#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

#define LOAM_NAMES_DEPTH_ 1
#include "loam/names_save.h"

#include "loam/names_hide.h"
#ifdef __cplusplus
#include "loam/names_save_cxx.h"

#include "loam/names_hide_cxx.h"
#elif __STDC_VERSION__ < 202311L
#pragma push_macro("bool")
#pragma push_macro("false")
#pragma push_macro("true")
#undef bool
#undef false
#undef true
#define bool _Bool
#define false 0
#define true 1
#endif

#elif LOAM_NAMES_DEPTH_ == 1
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 2
#elif LOAM_NAMES_DEPTH_ == 2
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 3
#elif LOAM_NAMES_DEPTH_ == 3
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 4
#elif LOAM_NAMES_DEPTH_ == 4
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 5
#elif LOAM_NAMES_DEPTH_ == 5
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 6
#elif LOAM_NAMES_DEPTH_ == 6
#undef LOAM_NAMES_DEPTH_
#define LOAM_NAMES_DEPTH_ 7
#else
#error "loam: more than seven headers inside each other"
#endif
