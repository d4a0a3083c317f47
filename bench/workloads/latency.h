// latency.h: how many cycles single calls take, as a histogram.
//
//   Clock      cycles of the processor's counter, and what reading it costs
//   Latencies  a log-linear histogram: exact below 64 cycles, within 1/32 above
//
// A reading waits for the instructions before it (lfence, isb), so that a call's own cache misses
// are counted in the call and the caller's are not. On x86 a cycle is one of the time-stamp
// counter, which runs at a constant rate whatever the processor's clock does. AArch64's counter is
// slower than its processor, so its ticks are converted to cycles of a nominal 2 GHz; quantiles
// below one tick say nothing there. An interrupt, a page fault, and a moment in which another
// process has the processor count as part of the call that they hit.
//
// A histogram belongs to one thread. It is mapped memory: recording calls no allocator.
#ifndef LOAM_BENCH_LATENCY_H
#define LOAM_BENCH_LATENCY_H

#include "workload.h"

enum {
    SLOW_CYCLES = 2000, // a call that takes more counts as slow
    LINEAR_BITS = 5,    // 32 buckets a doubling
    LINEAR = 2 << LINEAR_BITS,
    DOUBLINGS = 34, // up to 2^40 cycles; what takes longer counts in the last bucket
    BUCKETS = LINEAR + DOUBLINGS * (1 << LINEAR_BITS),
};

typedef struct {
    uint64_t calls, slow;
    uint64_t counts[BUCKETS];
} Latencies;

// ---- the clock ----------------------------------------------------------------------------------

static inline uint64_t clock_cycles(void) {
#if defined __x86_64__
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#elif defined __aarch64__
    uint64_t ticks, rate;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate));
    return (uint64_t)((double)ticks * 2e9 / (double)rate);
#else
#error "latency.h: this processor's counter is not known"
#endif
}

// What two readings with nothing between them are apart: the lowest of many, in cycles.
static inline uint64_t clock_overhead(void) {
    uint64_t lowest = UINT64_MAX;
    for (int turn = 0; turn < 10000; turn++) {
        uint64_t begin = clock_cycles(), spent = clock_cycles() - begin;
        if (spent < lowest) lowest = spent;
    }
    return lowest;
}

// ---- the histogram ------------------------------------------------------------------------------

static inline unsigned latency_bucket(uint64_t cycles) {
    if (cycles < LINEAR) return (unsigned)cycles;
    unsigned doubling = 63u - (unsigned)__builtin_clzll(cycles) - LINEAR_BITS; // at least 1
    if (doubling > DOUBLINGS) return BUCKETS - 1;
    return (doubling << LINEAR_BITS) + (unsigned)(cycles >> doubling);
}

// The most cycles that a bucket counts.
static inline uint64_t latency_most(unsigned bucket) {
    if (bucket < LINEAR) return bucket;
    unsigned doubling = (bucket >> LINEAR_BITS) - 1;
    uint64_t first = bucket - (doubling << LINEAR_BITS);
    return ((first + 1) << doubling) - 1;
}

static inline void latency_add(Latencies *latencies, uint64_t cycles) {
    latencies->calls++;
    latencies->slow += cycles > SLOW_CYCLES;
    latencies->counts[latency_bucket(cycles)]++;
}

static inline void latency_merge(Latencies *into, const Latencies *from) {
    into->calls += from->calls;
    into->slow += from->slow;
    for (unsigned at = 0; at < BUCKETS; at++) into->counts[at] += from->counts[at];
}

// Returns the cycles that at least this part of the calls stay within; 0 if there was no call.
static inline uint64_t latency_quantile(const Latencies *latencies, double part) {
    double wanted = part * (double)latencies->calls;
    uint64_t seen = 0;
    for (unsigned at = 0; at < BUCKETS; at++) {
        seen += latencies->counts[at];
        if (seen > 0 && (double)seen >= wanted) return latency_most(at);
    }
    return 0;
}
#endif
