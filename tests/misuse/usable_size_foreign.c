/* usable_size_foreign.c: malloc_usable_size is asked about memory from mmap. */
#include "misuse.h"

int main(void) {
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 2;
    expect(p);
    if (malloc_usable_size(hide(p)) != 0) return 6;
    return still_works();
}
