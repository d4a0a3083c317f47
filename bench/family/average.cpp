// average.cpp: the table `average` of seed 002: running means that size an allocator's blocks.
//
// A stack allocator takes blocks of 64 times the running mean of its requests. A row is a way to
// keep that mean; the requests are the seed's: 4 million, Gaussian around 16 KiB with a standard
// deviation of 3 KiB, five bunches of 2000 requests of 256 KiB, and one request of 1 GiB.
//
//   time     what an update costs, over the whole sequence
//   figure   what the mean does: `steady` is its standard deviation while nothing happens, as a
//            part of 16 KiB; `bunch` and `peak` the most it rises by (bytes); `peak_settles` how
//            many requests later it is back to within 10%; `peak_oversize` how much larger a block
//            becomes by the peak, in bytes, the mean over where in the filter's cycle it falls.
//            FAMILY_RECORD=FILE writes the curve: request, largest request since, mean.
//
// It cannot tell how well blocks of that size serve a program: the table `stack` does.
#include "family.h"
#include "intersec_stack.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

static const FamilyColumn columns[] = {
    {"time", "an update of the mean", 4000000, 0},
    {"figure", "what the mean does in the seed's sequence", 4000000, 0},
};
const FamilyTable family_table = {"002", "Running means that size blocks", columns,
                                  sizeof columns / sizeof *columns};

namespace {

constexpr double mean_size = 16 << 10, deviation = 3 << 10;
constexpr std::uint32_t bunch_size = 256 << 10, peak_size = 1u << 30;
constexpr std::uint64_t bunches = 5, bunch_length = 2000;
constexpr double block_means = 64;

// ---- the sequence ----------------------------------------------------------------------------

// Bunch k starts at (k + 1)/8 of the sequence, the peak is at 13/16.
class Sequence {
  public:
    explicit Sequence(std::uint64_t n)
        : n(n), requests(static_cast<std::uint32_t *>(family_table_of(n, sizeof *requests))) {
        std::uint64_t state = 0x9E3779B97F4A7C15;
        for (std::uint64_t i = 0; i < n; i++) requests[i] = gaussian(state);
        for (std::uint64_t k = 0; k < bunches; k++) {
            std::uint64_t start = (k + 1) * n / 8;
            for (std::uint64_t i = start; i < start + bunch_length && i < n; i++) {
                requests[i] = bunch_size;
            }
        }
        requests[peak()] = peak_size;
    }
    std::uint64_t first_bunch() const { return n / 8; }
    std::uint64_t peak() const { return n * 13 / 16; }

    const std::uint64_t n;
    std::uint32_t *const requests;

  private:
    static double uniform(std::uint64_t &state) { // above 0, at most 1
        return static_cast<double>((family_random(&state) >> 11) + 1) * 0x1p-53;
    }
    static std::uint32_t gaussian(std::uint64_t &state) {
        double radius = std::sqrt(-2 * std::log(uniform(state)));
        double size = mean_size + deviation * radius * std::cos(2 * M_PI * uniform(state));
        return size < 1 ? 1 : static_cast<std::uint32_t>(size);
    }
};

// ---- the means -------------------------------------------------------------------------------

class Intersec_old {
  public:
    __attribute__((noinline)) void update(std::size_t request) { mean_old_update(&mean_, request); }
    double get() const { return static_cast<double>(mean_get(&mean_)); }

  private:
    mean mean_ = {0, 1};
};

class Intersec_new {
  public:
    __attribute__((noinline)) void update(std::size_t request) { mean_new_update(&mean_, request); }
    double get() const { return static_cast<double>(mean_get(&mean_)); }

  private:
    mean mean_ = {0, 1};
};

// loam's rule (src/family/stack_block.c), without the memory: nobody counts a request that finds
// room, and one that does not stands for as many of its size as would have filled the block. Blocks
// follow the mean, as they do there.
class Samples {
  public:
    __attribute__((noinline)) void update(std::size_t request) {
        if (__builtin_expect(request < room_, 1)) {
            room_ -= request;
            return;
        }
        sample(request);
        std::size_t by_mean = static_cast<std::size_t>(block_means) * (sum_ / count_);
        block_ = by_mean > block_least ? by_mean : block_least;
        if (block_ < request) block_ = request;
        room_ = block_ - request;
    }
    double get() const { return static_cast<double>(sum_) / static_cast<double>(count_); }

  private:
    static constexpr std::size_t block_least = 64 << 10;
    __attribute__((noinline, cold)) void sample(std::size_t request) {
        std::size_t many = block_ / request;
        if (many == 0) many = 1;
        if (count_ >= 65535) {
            sum_ /= 4;
            count_ /= 4;
        }
        sum_ += many * request;
        count_ += many;
    }
    std::size_t sum_ = block_least, count_ = 64, block_ = block_least, room_ = block_least;
};

// Starts as a plain mean, for as long as that moves faster.
template <int per> class Exponential {
  public:
    __attribute__((noinline)) void update(std::size_t request) {
        count_ += count_ < per;
        mean_ += (static_cast<double>(request) - mean_) / count_;
    }
    double get() const { return mean_; }

  private:
    double mean_ = 0;
    int count_ = 0;
};

// The same without a division: 2^-15, in fixed point, from the first request on.
class Exponential_shift {
  public:
    __attribute__((noinline)) void update(std::size_t request) {
        if (sum_ == 0) sum_ = request << shift;
        sum_ += request - (sum_ >> shift);
    }
    double get() const { return static_cast<double>(sum_ >> shift); }

  private:
    static constexpr int shift = 15;
    std::size_t sum_ = 0;
};

class Plain {
  public:
    __attribute__((noinline)) void update(std::size_t request) {
        sum_ += request;
        count_++;
    }
    double get() const {
        return count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0;
    }

  private:
    std::size_t sum_ = 0, count_ = 0;
};

// ---- the columns -----------------------------------------------------------------------------

template <class Mean> void time(const FamilyRequest *asked) {
    Sequence sequence(asked->n);
    Mean mean;
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < sequence.n; i++) mean.update(sequence.requests[i]);
    family_also("mean", mean.get());
    family_stop(&clock, "use", sequence.n);
}

// The curve as CSV, some 4000 points.
class Curve {
  public:
    explicit Curve(std::uint64_t n) : every_(n / 4000 + 1) {
        const char *name = std::getenv("FAMILY_RECORD");
        if (!name) return;
        file_ = std::fopen(name, "w");
        if (!file_) family_fail("%s cannot be written", name);
        std::fputs("request,largest,mean\n", file_);
    }
    ~Curve() {
        if (file_ && std::fclose(file_)) family_fail("the record could not be written");
    }
    Curve(const Curve &) = delete;
    Curve &operator=(const Curve &) = delete;
    void point(std::uint64_t i, std::uint32_t request, double mean) {
        if (!file_) return;
        if (request > largest_) largest_ = request;
        if ((i + 1) % every_ != 0) return;
        std::fprintf(file_, "%llu,%u,%.1f\n", static_cast<unsigned long long>(i + 1), largest_,
                     mean);
        largest_ = 0;
    }

  private:
    std::FILE *file_ = nullptr;
    const std::uint64_t every_;
    std::uint32_t largest_ = 0;
};

// How much larger a block becomes by one peak, the mean over 64 places in a cycle of the filter.
template <class Mean> double peak_oversize(const Sequence &sequence, std::uint64_t from) {
    constexpr std::uint64_t cycle = 65535 - 65535 / 4, places = 64;
    Mean mean;
    double sum = 0;
    for (std::uint64_t i = 0; i < from; i++) mean.update(sequence.requests[i]);
    for (std::uint64_t place = 0; place < places; place++) {
        Mean after = mean;
        after.update(peak_size);
        sum += block_means * (after.get() - mean.get());
        for (std::uint64_t i = 0; i < cycle / places; i++) {
            mean.update(sequence.requests[(from + place * (cycle / places) + i) % sequence.n]);
        }
    }
    return sum / places;
}

template <class Mean> void figure(const FamilyRequest *asked) {
    Sequence sequence(asked->n);
    Curve curve(sequence.n);
    Mean mean;
    double steady_sum = 0, steady_squares = 0, steady_count = 0;
    double bunch = 0, before_peak = 0, peak = 0;
    std::uint64_t settled = 0;
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < sequence.n; i++) {
        if (i == sequence.peak()) before_peak = mean.get();
        mean.update(sequence.requests[i]);
        double now = mean.get();
        curve.point(i, sequence.requests[i], now);
        if (i >= sequence.n / 32 && i < sequence.first_bunch()) {
            steady_sum += now - mean_size;
            steady_squares += (now - mean_size) * (now - mean_size);
            steady_count++;
        }
        if (i >= sequence.first_bunch() && i < sequence.peak()) bunch = std::fmax(bunch, now);
        if (i >= sequence.peak()) {
            peak = std::fmax(peak, now);
            if (now > 1.1 * before_peak) settled = i + 1 - sequence.peak();
        }
    }
    double steady = steady_sum / steady_count;
    family_also("steady", std::sqrt(steady_squares / steady_count - steady * steady) / mean_size);
    family_also("bunch", bunch - mean_size);
    family_also("peak", peak - before_peak);
    family_also("peak_settles", static_cast<double>(settled));
    family_also("peak_oversize", peak_oversize<Mean>(sequence, sequence.first_bunch() / 2));
    family_stop(&clock, "figure", sequence.n);
}

template <class Mean>
constexpr FamilyCell cells[] = {{"time", time<Mean>}, {"figure", figure<Mean>}, {nullptr, nullptr}};

} // namespace

FAMILY_ROW(old_row, "intersec-old", "as published",
           "sum/count, both divided by 4 at 65,535; below 128 MiB", FAMILY_RENDITION,
           cells<Intersec_old>)
FAMILY_ROW(new_row, "intersec-new", "as published", "the same for every request", FAMILY_RENDITION,
           cells<Intersec_new>)
FAMILY_ROW(loam_row, "loam", "-", "samples of sum/count, where a block is full", FAMILY_RENDITION,
           cells<Samples>)
FAMILY_ROW(exponential_row, "exponential", "1/27279", "exponential mean, in floating point",
           FAMILY_RIVAL, cells<Exponential<27279>>)
FAMILY_ROW(cycle_row, "exponential-cycle", "1/35456", "that whose weights fall as fast in a cycle",
           FAMILY_RIVAL, cells<Exponential<35456>>)
FAMILY_ROW(shift_row, "exponential-shift", "1/32768", "exponential mean by a shift", FAMILY_RIVAL,
           cells<Exponential_shift>)
FAMILY_ROW(plain_row, "plain", "-", "the mean of all requests there ever were", FAMILY_RIVAL,
           cells<Plain>)
