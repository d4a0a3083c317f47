/* board.h: the three things that the programs here need of the machine they run on.
 *
 * mps2.c is the machine without an operating system, host.c the one at which the program is
 * written.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Shows text to whoever watches. */
void board_write(const char *text, size_t bytes);

/* Ends the run with this exit status. */
void board_exit(int status) __attribute__((noreturn));

/* The most bytes that the stack has held since the start; 0 where that is not known. */
size_t board_stack_used(void);

#endif
