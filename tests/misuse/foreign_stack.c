/* foreign_stack.c: a variable of the stack is freed. */
#include "misuse.h"

int main(void) {
    char buffer[256] = {0};
    char *p = buffer + 64 - (uintptr_t)buffer % 16;
    expect(p);
    free(hide(p));
    return still_works();
}
