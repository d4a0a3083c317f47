/* blocks_fit.c: counts requests by size, and finds the classes that waste least memory on them
 * (loam/blocks.h).
 *
 * A class covers the sizes between the next smaller class and itself. Sizes that occur are sorted
 * into groups, one for each multiple of the granule. For group j:
 *
 *   C[j]  requests in groups 1..j     S[j]  bytes requested in groups 1..j     s[j]  its class size
 *   waste(i, j) = s[j] * (C[j] - C[i]) - (S[j] - S[i])     of one class s[j] over groups i+1..j
 *
 * The least waste of k classes over groups 1..j is W[k][j] = min over i of W[k-1][i] + waste(i, j).
 * waste satisfies waste(a, c) + waste(b, d) <= waste(a, d) + waste(b, c) for a <= b <= c <= d. So
 * the best i never decreases as j increases: the middle j of a range is solved first, and bounds
 * both halves.
 */
#include "family/blocks_internal.h"

void loam_histogram_init(loam_histogram *histogram, size_t *counts, size_t largest_bytes) {
    memset(counts, 0, (largest_bytes + 1) * sizeof *counts);
    *histogram = (loam_histogram){.counts = counts, .largest_bytes = largest_bytes};
}

void loam_histogram_add(loam_histogram *histogram, size_t bytes, size_t times) {
    size_t *count =
        bytes <= histogram->largest_bytes ? &histogram->counts[bytes] : &histogram->beyond;
    /* Relaxed: a count, read after recording has ended. */
    (void)lm_add_relaxed(count, times);
}

/* ---- Fit ---- */

typedef struct group {
    /* Of this group and all groups before it. */
    uint64_t requests, bytes;
    /* Least waste up to this group: with one class fewer, and with the present number of
     * classes. */
    uint64_t before, now;
    uint32_t class_bytes;
} blocks_fit_group_t;

typedef struct fit {
    blocks_fit_group_t *groups; /* groups[0] is before the first group */
    uint32_t *from;             /* [class][group]: where the next smaller class ends */
} fit_t;

static size_t blocks_fit_class_for(size_t bytes, unsigned granule) {
    size_t units = bytes == 0 ? 1 : (bytes + granule - 1) / granule;
    return units * granule;
}

static size_t count_groups(const loam_histogram *histogram, unsigned granule) {
    size_t count = 0, last = 0;
    for (size_t bytes = 0; bytes <= histogram->largest_bytes; bytes++) {
        if (histogram->counts[bytes] == 0 || blocks_fit_class_for(bytes, granule) == last) continue;
        last = blocks_fit_class_for(bytes, granule);
        count++;
    }
    return count;
}

static size_t work_bytes_of(size_t count, unsigned class_count) {
    return (count + 1) * (sizeof(blocks_fit_group_t) + class_count * sizeof(uint32_t));
}

size_t loam_blocks_fit_bytes(const loam_histogram *histogram, unsigned class_count,
                             unsigned granule) {
    return granule != 0 ? work_bytes_of(count_groups(histogram, granule), class_count) : 0;
}

static void set_groups(blocks_fit_group_t *groups, const loam_histogram *histogram,
                       unsigned granule) {
    blocks_fit_group_t *group = groups;
    *group = (blocks_fit_group_t){0};
    for (size_t bytes = 0; bytes <= histogram->largest_bytes; bytes++) {
        size_t requests = histogram->counts[bytes];
        if (requests == 0) continue;
        uint32_t class_bytes = (uint32_t)blocks_fit_class_for(bytes, granule);
        if (group->class_bytes != class_bytes) {
            group[1] = (blocks_fit_group_t){
                .requests = group->requests, .bytes = group->bytes, .class_bytes = class_bytes};
            group++;
        }
        group->requests += requests;
        group->bytes += (uint64_t)requests * bytes;
    }
}

static uint64_t waste(const blocks_fit_group_t *from, const blocks_fit_group_t *to) {
    LM_ASSERT(from < to);
    return to->class_bytes * (to->requests - from->requests) - (to->bytes - from->bytes);
}

/* Computes one row of W for groups first..last, whose best i lie in low..high. The recursion is
 * log2 deep. */
static void solve(const fit_t *fit, uint32_t *from, size_t first, size_t last, size_t low,
                  size_t high) {
    while (first <= last) {
        size_t middle = first + (last - first) / 2, best = low;
        LM_ASSERT(low < first && low <= high);
        uint64_t least = UINT64_MAX;
        for (size_t i = low; i <= high && i < middle; i++) {
            uint64_t sum = fit->groups[i].before + waste(&fit->groups[i], &fit->groups[middle]);
            if (sum >= least) continue;
            least = sum;
            best = i;
        }
        fit->groups[middle].now = least;
        from[middle] = (uint32_t)best;
        if (middle > first) solve(fit, from, first, middle - 1, low, best);
        first = middle + 1;
        low = best;
    }
}

int loam_blocks_fit(const loam_histogram *histogram, unsigned class_count, unsigned granule,
                    void *work, size_t work_bytes, uint32_t *classes, uint64_t *slack_bytes) {
    if (class_count == 0 || granule == 0) return LM_EINVAL;
    size_t count = count_groups(histogram, granule);
    if (count == 0) return LM_EINVAL;
    if (work_bytes < work_bytes_of(count, class_count)) return LM_ENOMEM;
    if (class_count > count) class_count = (unsigned)count;
    fit_t fit = {.groups = (blocks_fit_group_t *)work};
    fit.from = (uint32_t *)(fit.groups + count + 1);
    set_groups(fit.groups, histogram, granule);
    for (size_t j = 1; j <= count; j++) {
        fit.groups[j].before = waste(&fit.groups[0], &fit.groups[j]);
        fit.from[j] = 0;
    }
    for (unsigned k = 1; k < class_count; k++) {
        /* With k smaller classes, a class begins at group k + 1 at the earliest. */
        solve(&fit, fit.from + k * (count + 1), k + 1, count, k, count - 1);
        for (size_t j = k + 1; j <= count; j++) fit.groups[j].before = fit.groups[j].now;
    }
    if (slack_bytes != NULL) *slack_bytes = fit.groups[count].before;
    for (size_t j = count, k = class_count; k-- > 0; j = fit.from[k * (count + 1) + j]) {
        LM_ASSERT(k < j && j <= count); /* each smaller class has a group at least */
        classes[k] = fit.groups[j].class_bytes;
    }
    return (int)class_count;
}

uint64_t loam_blocks_slack(const loam_histogram *histogram, const uint32_t *classes,
                           unsigned class_count) {
    uint64_t slack = 0;
    unsigned i = 0;
    for (size_t bytes = 0; bytes <= histogram->largest_bytes; bytes++) {
        if (histogram->counts[bytes] == 0) continue;
        while (i < class_count && classes[i] < bytes) i++;
        if (i == class_count) return UINT64_MAX;
        slack += (uint64_t)histogram->counts[bytes] * (classes[i] - bytes);
    }
    return slack;
}

/* ---- Output as C text ---- */

void loam_blocks_fit_print(const uint32_t *classes, unsigned class_count, const char *name,
                           loam_print *print, void *context) {
    lm_line_t line = {0};
    lm_line_add(&line, "static const uint32_t %s[] = {", name);
    for (unsigned i = 0; i < class_count; i++) {
        if (i % 8 == 0) {
            lm_line_add(&line, "\n");
            print(line.text, context);
            line = (lm_line_t){0};
            lm_line_add(&line, "   ");
        }
        lm_line_add(&line, " %u,", (unsigned)classes[i]);
    }
    lm_line_add(&line, "\n");
    print(line.text, context);
    print("};\n", context);
}

void loam_histogram_print(const loam_histogram *histogram, const char *name, loam_print *print,
                          void *context) {
    lm_line_t line = {0};
    lm_line_add(&line, "static const size_t %s[][2] = { /* bytes, requests */\n", name);
    print(line.text, context);
    for (size_t bytes = 0; bytes <= histogram->largest_bytes; bytes++) {
        if (histogram->counts[bytes] == 0) continue;
        line = (lm_line_t){0};
        lm_line_add(&line, "    {%zu, %zu},\n", bytes, histogram->counts[bytes]);
        print(line.text, context);
    }
    print("};\n", context);
}
