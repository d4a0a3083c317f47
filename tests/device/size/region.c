/* region.c: what a region over a buffer costs a program that allocates and resets. */
#include "loam/region.h"

static _Alignas(16) char memory[1024];
static loam_buffer buffer;
static loam_region region;
int main(void);

int main(void) {
    loam_region_options options = {.first_bytes = sizeof(memory)};
    loam_buffer_init(&buffer, memory, sizeof(memory));
    if (loam_region_init(&region, &buffer.source, &options) != 0) return 1;
    void *object = loam_region_alloc(&region, 24);
    loam_region_reset(&region);
    return object == NULL;
}
