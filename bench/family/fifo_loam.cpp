// fifo_loam.cpp: loam's rows in the table `fifo`: loam/fifo.h over its pages, zeroed as the pools
// it stands beside, `loam-raw` not zeroed, `loam-one-spare` with a single spare page, as the
// original has.
#include "fifo_work.hpp"

#include <loam/fifo.h>

namespace {

// A source that tells what it has out, for the columns of memory.
class Told {
  public:
    Told() : base_{{get, put, "told", loam_pages()->flags}, nullptr, 0} {}
    loam_source *source() { return &base_.source; }
    void watch(Record *record) {
        base_.record = record;
        if (record) record->held(base_.held);
    }

  private:
    struct Base {
        loam_source source;
        Record *record;
        std::size_t held;
    };
    static void tell(Base *base) {
        if (base->record) base->record->held(base->held);
    }
    static void *get(loam_source *source, std::size_t bytes, std::size_t align, std::size_t *got) {
        Base *base = reinterpret_cast<Base *>(source);
        void *chunk = loam_source_get(loam_pages(), bytes, align, got);
        if (chunk) {
            base->held += *got;
            tell(base);
        }
        return chunk;
    }
    static void put(loam_source *source, void *chunk, std::size_t got) {
        Base *base = reinterpret_cast<Base *>(source);
        loam_source_put(loam_pages(), chunk, got);
        base->held -= got;
        tell(base);
    }
    Base base_;
};

template <unsigned flags, std::size_t spares = 0> class Fifo {
  public:
    explicit Fifo(const FamilyRequest &) {
        loam_fifo_options options{};
        options.flags = flags;
        options.spare_pages = spares;
        if (loam_fifo_init(&fifo_, told_.source(), &options) != 0) family_fail("no fifo");
    }
    ~Fifo() { loam_fifo_deinit(&fifo_); }
    Fifo(const Fifo &) = delete;
    Fifo &operator=(const Fifo &) = delete;

    void *alloc(std::size_t size) { return loam_fifo_alloc_aligned(&fifo_, size, 8); }
    void free(void *block, std::size_t) { loam_fifo_free(&fifo_, block); }
    void *realloc(void *block, std::size_t old_size, std::size_t size) {
        return loam_fifo_realloc_aligned(&fifo_, block, old_size, size, 8);
    }
    void watch(Record &record) { told_.watch(&record); }
    void watch_no_more() { told_.watch(nullptr); }

  private:
    Told told_;
    loam_fifo fifo_;
};

using Zeroed = Fifo<0>;
using One_spare = Fifo<0, 1>;
using Raw = Fifo<LOAM_FIFO_RAW>;

} // namespace

FAMILY_ROW(loam_row, "loam", LOAM_VERSION_TEXT, "loam_fifo: zeroed, four spare pages", FAMILY_LOAM,
           fifo_work::recorded_cells<Zeroed>)
FAMILY_ROW(loam_one_row, "loam-one-spare", LOAM_VERSION_TEXT, "loam_fifo with one spare page",
           FAMILY_LOAM, fifo_work::recorded_cells<One_spare>)
FAMILY_ROW(loam_raw_row, "loam-raw", LOAM_VERSION_TEXT, "loam_fifo, not zeroed", FAMILY_LOAM,
           fifo_work::recorded_cells<Raw>)
