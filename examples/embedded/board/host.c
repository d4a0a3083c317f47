/* host.c: the board's functions on a system like Unix, so that a device's program can be tried at
 * the desk. */
#include "board.h"

#include <unistd.h>

void board_write(const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t written = write(STDOUT_FILENO, text, bytes);
        if (written <= 0) return;
        text += written;
        bytes -= (size_t)written;
    }
}

void board_exit(int status) { _exit(status); }

size_t board_stack_used(void) { return 0; }
