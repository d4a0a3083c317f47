/* static_pools.c: a program of four files, two in C and two in C++, all with STATIC_POOLS: it has
 * one array (with clang one for each language), and each file's xmalloc takes from it. */
#include <loam/xallocator.h>

#include <stdio.h>

extern char __bss_start[], _end[];

void *static_pools_c(void);
void *static_pools_cxx(void);
void *static_pools_cxx_2(void);

int main(void) {
    const size_t array = LOAM_BLOCKS_DEFAULT_BYTES(MAX_BLOCKS);
    const size_t all = (size_t)(_end - __bss_start);
#if defined(__clang__)
    const size_t most = 2 * array + array / 2;
#else
    const size_t most = array + array / 2;
#endif
    void *blocks[] = {xmalloc(100), static_pools_c(), static_pools_cxx(), static_pools_cxx_2()};
    if (all > most) {
        printf("%zu bytes of variables; one array has %zu\n", all, array);
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        const char *at = (const char *)blocks[i];
        if (at < __bss_start || at >= _end) {
            printf("block %d of file %d is in no array\n", i, i);
            return 2;
        }
        for (int j = 0; j < i; j++) {
            if (blocks[j] == blocks[i]) return 3;
        }
    }
    for (int i = 0; i < 4; i++) xfree(blocks[i]);
    loam_usage usage;
    loam_blocks_usage(loam_xalloc_blocks(), &usage);
    return usage.objects == 0 ? 0 : 4;
}
