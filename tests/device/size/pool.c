/* pool.c: what a pool costs a program that allocates and frees. */
#include "loam/pool.h"

static _Alignas(8) char memory[1024];
static loam_pool pool;
int main(void);

int main(void) {
    if (loam_pool_init_buffer(&pool, memory, sizeof(memory), 24, NULL) != 0) return 1;
    void *block = loam_pool_alloc(&pool);
    loam_pool_free(&pool, block);
    return block == NULL;
}
