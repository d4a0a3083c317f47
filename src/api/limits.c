/* limits.c: the public functions of limits. loam/limits.h specifies them; options.c has the
 * options. */
#include "loam/limits.h"
#include "api/api.h"

#include <errno.h>

LM_STATIC_ASSERT((int)LOAM_PRESSURE_NONE == 0 && (int)LOAM_PRESSURE_SOME == 1 &&
                     (int)LOAM_PRESSURE_HIGH == 2,
                 "as lm_pressure_t");

int loam_limit_set(size_t soft, size_t hard) {
    if (!lm_options_limit(soft, hard)) return -EINVAL;
    lm_limit_changed();
    return 0;
}

/* Returns a limit of the policy as the public header defines it: 0 for none. */
static size_t limit(const size_t *bytes) {
    size_t value = lm_load_relaxed(bytes); /* relaxed: an independent word */
    return value != SIZE_MAX ? value : 0;
}

void loam_limit_get(loam_limits *limits) {
    if (limits == NULL) return;
    lm_limit_stats_t stats;
    lm_limit_stats(&stats);
    *limits = (loam_limits){
        .soft = limit(&lm_limit_policy.soft),
        .hard = limit(&lm_limit_policy.hard),
        .held = stats.held_bytes,
        .held_most = stats.held_bytes_most,
        .crossings = stats.crossings,
        .refusals = stats.refusals,
        .cgroup_limit = stats.cgroup_limit,
        .cgroup_used = stats.cgroup_used,
        .pressure = (int)stats.pressure,
    };
}
