/* foreign_static.c: a static array is freed. */
#include "misuse.h"

int main(void) {
    static char buffer[4096];
    char *p = buffer + 64 - (uintptr_t)buffer % 16;
    expect(p);
    free(hide(p));
    return still_works();
}
