/* copies_text.c: strcpy and its kin, for bytes and for wide characters, which check the bounds of
 * loam's objects first.
 *
 *   from   [ t e x t ... | end of the object          no 0 in the object: a report of an overread
 *            └ strnlen ──┘
 *
 * A text is measured no further than its object reaches. So a text without an end is reported, and
 * causes no bad access here, even if an inaccessible page follows. strlcpy, strlcat, wcslcpy and
 * wcslcat are here although older C libraries lack them. For a text far behind the start of a large
 * object it cannot see where the object ends, unless it is part of the secure library
 * (docs/guide/copies.md). Invariant: a copy that is reported has written nothing, as in copies.c.
 */
#define _GNU_SOURCE 1 /* stpcpy, wcpcpy and the like */
#include "copies.h"

enum { PAGE = 4096 }; /* bytes; larger system pages are multiples of it */

#define SAID_OF(name) #name
#define SAID(name) SAID_OF(name)
#define CHK_OF(name) __##name##_chk
#define CHK(name) CHK_OF(name)

#define CHAR char
#define BYTES(n) (n)
#define TEXT(x) str##x
#define END(x) stp##x
#define OWN(x) text_##x
#include "copies_text.inc"
#undef CHAR
#undef BYTES
#undef TEXT
#undef END
#undef OWN

#define CHAR wchar_t
#define BYTES(n) lm_copies_wide(n)
#define TEXT(x) wcs##x
#define END(x) wcp##x
#define OWN(x) wide_##x
#include "copies_text.inc"
