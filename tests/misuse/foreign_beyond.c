/* foreign_beyond.c: an address is freed 64 GiB after a block, where the heap could grow to. */
#include "misuse.h"

int main(void) {
    char *block = malloc(100);
    char *p = (char *)hide(block) + ((size_t)64 << 30);
    expect(p);
    free(hide(p));
    free(block);
    return still_works();
}
