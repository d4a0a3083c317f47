/* sampling.c: loam/sampling.h, based on the heap's sampler. The rate is an option, which the
 * function and LOAM_GUARD_SAMPLING both set. */
#include "loam/sampling.h"
#include "api/api.h"
#include "loam/options.h"

#include <errno.h>

int loam_sampling_set(size_t rate) {
    if (rate > 1000000000) return -EINVAL;
    if (rate > 0 && !lm_sampling_start()) return -ENOMEM;
    lm_line_t text = {0};
    lm_line_add(&text, "%zu", rate);
    return loam_option_set("guard_sampling", text.text);
}

void loam_sampling_get(loam_sampling_numbers *numbers) {
    lm_sampling_numbers_t now;
    lm_sampling_numbers(&now);
    *numbers =
        (loam_sampling_numbers){now.rate, now.slots, now.live, now.taken, now.missed, now.found};
}

int loam_sampling_holds(const void *p) { return lm_sampling_holds(p); }

LM_STATIC_ASSERT(sizeof(void *) == sizeof(uintptr_t), "frames are written as they are");

size_t loam_sampling_trace(const void *p, int of_free, void **frames, size_t most) {
    return lm_sampling_trace(p, of_free != 0, (uintptr_t *)(void *)frames, most);
}
