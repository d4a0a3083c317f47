// record.hpp: the record of memory held and memory used against operations, as seed 002's figures
// need it.
//
// An entry for every 300 simple operations and for every long one (memory came from or went to the
// system), with the memory in use and the memory held at that moment. Use it in columns of their
// own, never in a column that is timed. The entries go as CSV to the file that the environment
// variable FAMILY_RECORD names; without it only the totals are kept, and printed with the phase:
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
        std::fputs("entry,operation,used,held,held_in_all\n", file_);
    }
    ~Record() {
        if (file_ && std::fclose(file_)) family_fail("the record could not be written");
    }
    Record(const Record &) = delete;
    Record &operator=(const Record &) = delete;

    // After each simple operation.
    void took(std::size_t size) {
        used_ += size;
        operation();
    }
    void gave(std::size_t size) {
        used_ -= size;
        operation();
    }
    // After each long one: the bytes held then.
    void held(std::size_t held) {
        if (held > held_) held_in_all_ += held - held_;
        if (held > held_most_) held_most_ = held;
        held_ = held;
        entry();
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
        if (++operations_ % every == 0) entry();
    }
    void entry() {
        entries_++;
        if (entries_ == figure_end) in_figure_ = held_in_all_;
        if (file_) {
            std::fprintf(file_, "%llu,%llu,%zu,%zu,%zu\n",
                         static_cast<unsigned long long>(entries_),
                         static_cast<unsigned long long>(operations_), used_, held_, held_in_all_);
        }
    }

    std::FILE *file_ = nullptr;
    std::uint64_t operations_ = 0, entries_ = 0;
    std::size_t used_ = 0, held_ = 0, held_most_ = 0, held_in_all_ = 0, in_figure_ = 0;
};

#endif
