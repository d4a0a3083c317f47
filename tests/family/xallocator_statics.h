// xallocator_statics.h: static objects of three files that use xmalloc before main and xfree after
// it, each other's memory among it.
#ifndef LOAM_TESTS_FAMILY_XALLOCATOR_STATICS_H
#define LOAM_TESTS_FAMILY_XALLOCATOR_STATICS_H

#ifdef __cplusplus
extern "C" {
#endif
/* Where every file's objects leave memory for others to free. Plain words: they need no
 * constructor. */
extern void *xallocator_left[3];

int xallocator_listed(void); /* is it started? */

/* In C: the same calls, without a static object of the header's. */
void *xallocator_c_alloc(unsigned size);
void xallocator_c_free(void *p);
#ifdef __cplusplus
}
#endif
#endif
