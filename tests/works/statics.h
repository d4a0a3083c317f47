/*
 * statics.h - what statics.cpp (the program) and statics_lib.cpp (its shared library) show each
 * other.
 */
#ifndef LOAM_TESTS_WORKS_STATICS_H
#define LOAM_TESTS_WORKS_STATICS_H
#include "works.h"

/* Allocated by the library's constructors; the program frees half of it in main, the library the
   rest at its end. */
extern works_block *statics_lib_blocks[64];
/* Allocated by the program in main and in its destructors; the library frees them when the
   program's part is over. */
extern works_block *statics_program_blocks[64];
/* Where the last thing to run writes that it came that far. */
extern int statics_report_fd;

#endif
