/* freestanding.c: a pool in a buffer, by the library that needs no operating system. */
#include <loam/pool.h>
#include <loam/source.h>

#include <stddef.h>

int main(void) {
    static max_align_t memory[256];
    loam_buffer buffer;
    loam_pool pool;
    loam_buffer_init(&buffer, memory, sizeof memory);
    if (loam_pool_init(&pool, &buffer.source, 24, NULL) != 0) return 1;
    void *p = loam_pool_alloc(&pool);
    if (p == NULL) return 1;
    loam_pool_free(&pool, p);
    loam_pool_deinit(&pool);
    return 0;
}
