/* own_mapping.h: a mapping that a test makes, for arenas over it. */
#ifndef LOAM_TESTS_UNIT_OWN_MAPPING_H
#define LOAM_TESTS_UNIT_OWN_MAPPING_H

extern "C" {
#include "span/internal.h"
#include "survey/survey.h"
}

#include <sys/mman.h>

#include <cstdint>

namespace unit {

/* Not where the arena may grow: where its addresses cannot be reserved, as in an emulator, the
 * system may give those. */
inline char *own_mapping(size_t bytes) {
    lm_free(lm_malloc(1)); /* the arena has its place */
    for (uintptr_t hint = 0; hint < uintptr_t{1} << 46; hint += uintptr_t{1} << 39) {
        void *at = mmap(reinterpret_cast<void *>(hint), bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) continue;
        uintptr_t start = reinterpret_cast<uintptr_t>(at),
                  first = reinterpret_cast<uintptr_t>(lm_arena.map),
                  end = lm_arena.base + (lm_space.slices_most << LM_SLICE_SHIFT);
        if (start + bytes <= first || start >= end) return static_cast<char *>(at);
        munmap(at, bytes);
    }
    return nullptr;
}

} // namespace unit

#endif
