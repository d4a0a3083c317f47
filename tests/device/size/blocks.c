/* blocks.c: what a static pool of size classes costs a program that allocates and frees. */
#include "loam/blocks.h"

static const uint32_t sizes[] = {16, 48};
static _Alignas(16) char memory[1024];
static loam_blocks blocks;
int main(void);

int main(void) {
    loam_blocks_options options = {.memory = memory,
                                   .memory_bytes = sizeof(memory),
                                   .classes = sizes,
                                   .class_count = 2,
                                   .blocks_each = 4};
    if (loam_blocks_init(&blocks, &options) != 0) return 1;
    void *object = loam_blocks_alloc(&blocks, 24);
    loam_blocks_free(&blocks, object);
    return object == NULL;
}
