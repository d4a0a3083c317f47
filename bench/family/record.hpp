// record.hpp: the record of memory held and memory used against operations, as seed 002's figures
// need it.
//
// An entry for every 300 simple operations and for every long one (memory came from or went to the
// system), with the memory in use and the memory held at that moment. Use it in columns of their
// own, never in a column that is timed. The entries go as CSV to the file that the environment
// variable FAMILY_RECORD names, in the format of loam's own meter (loam/meter.h; no times, which
// are 0), so that meter_figures.py draws them as well; without it only the totals are kept, and
// printed with the phase:
//
//     {"phase":"memory",...,"entries":N,"held_most":B,"held_in_all":B,"held_in_all_at_2500":B}
//
// The work says what it takes and gives, so that "used" means the bytes asked for, whatever the
// allocator. It cannot look into a general malloc: a row calls held() when it got or gave memory.
#ifndef LOAM_BENCH_FAMILY_RECORD_HPP
#define LOAM_BENCH_FAMILY_RECORD_HPP

#include "family.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

class Record {
  public:
    static constexpr unsigned every = 300;       // simple operations an entry
    static constexpr unsigned figure_end = 2500; // the seed's figures stop there

    Record() {
        const char *name = std::getenv("FAMILY_RECORD");
        if (!name) return;
        file_ = std::fopen(name, "w");
        if (!file_) family_fail("%s cannot be written", name);
        std::fputs("entry,ns,allocator,name,meter,operation,function,slow,call_ns,used,held,"
                   "held_in_all,requested,requests,allocs,frees,reallocs,slow_calls,alloc_ns,"
                   "free_ns,realloc_ns\n",
                   file_);
    }
    ~Record() {
        if (file_ && std::fclose(file_)) family_fail("the record could not be written");
    }
    Record(const Record &) = delete;
    Record &operator=(const Record &) = delete;

    // After each simple operation.
    void took(std::size_t size) {
        used_ += size;
        requested_ += size;
        allocs_++;
        last_ = "alloc";
        operation();
    }
    void gave(std::size_t size) {
        used_ -= size;
        frees_++;
        last_ = "free";
        operation();
    }
    // In each long one: the bytes held then.
    void held(std::size_t held) {
        if (held > held_) {
            held_in_all_ += held - held_;
            requests_++;
            last_ = "alloc";
        } else {
            last_ = "free";
        }
        if (held > held_most_) held_most_ = held;
        held_ = held;
        slow_calls_++;
        entry(true);
    }
    // For the line of the next family_stop.
    void also() const {
        family_also("entries", static_cast<double>(entries_));
        family_also("held_most", static_cast<double>(held_most_));
        family_also("held_in_all", static_cast<double>(held_in_all_));
        family_also("held_in_all_at_2500",
                    static_cast<double>(entries_ > figure_end ? in_figure_ : held_in_all_));
    }

  private:
    void operation() {
        if (++operations_ % every == 0) entry(false);
    }
    void entry(bool slow) {
        entries_++;
        if (entries_ == figure_end) in_figure_ = held_in_all_;
        if (file_) {
            using Number = unsigned long long;
            std::fprintf(
                file_,
                "%llu,0,recorded,,0,%llu,%s,%d,0,%zu,%zu,%zu,%zu,%llu,%llu,%llu,0,%llu,0,0,0\n",
                Number{entries_}, Number{operations_}, last_, slow, used_, held_, held_in_all_,
                requested_, Number{requests_}, Number{allocs_}, Number{frees_},
                Number{slow_calls_});
        }
    }

    std::FILE *file_ = nullptr;
    const char *last_ = "alloc";
    std::uint64_t operations_ = 0, entries_ = 0;
    std::uint64_t requests_ = 0, allocs_ = 0, frees_ = 0, slow_calls_ = 0;
    std::size_t requested_ = 0;
    std::size_t used_ = 0, held_ = 0, held_most_ = 0, held_in_all_ = 0, in_figure_ = 0;
};

#endif
