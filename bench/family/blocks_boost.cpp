// blocks_boost.cpp: boost::pool in the table `blocks`: a pool for each size, with and without
// locks.
#include "blocks_work.hpp"

#include <boost/pool/pool.hpp>
#include <boost/version.hpp>
#include <mutex>
#include <string_view>

namespace {

struct No_lock {
    void lock() {}
    void unlock() {}
};

template <class Lock> class Pools {
  public:
    explicit Pools(const FamilyRequest &asked)
        : small_(std::string_view(asked.column->name) == "benchmark" ? blocks_work::small_size
                                                                     : blocks_work::pair_size) {}
    void *alloc(std::size_t size) {
        std::lock_guard<Lock> guard(lock_);
        return of(size).malloc();
    }
    void free(void *block, std::size_t size) {
        std::lock_guard<Lock> guard(lock_);
        of(size).free(block);
    }

  private:
    using Pool = boost::pool<boost::default_user_allocator_malloc_free>;
    Pool &of(std::size_t size) { return size > small_.get_requested_size() ? large_ : small_; }

    Pool small_;
    Pool large_{blocks_work::large_size};
    Lock lock_;
};

// One block size has no place for any size at all.
template <class Row>
constexpr FamilyCell cells_of_one_thread[] = {{"benchmark", blocks_work::benchmark<Row>},
                                              {"pair", blocks_work::pair<Row>},
                                              {nullptr, nullptr}};
template <class Row>
constexpr FamilyCell cells[] = {{"benchmark", blocks_work::benchmark<Row>},
                                {"pair", blocks_work::pair<Row>},
                                {"pair-threads", blocks_work::pair_threads<Row>},
                                {nullptr, nullptr}};

} // namespace

FAMILY_ROW(boost_row, "boost-pool", BOOST_LIB_VERSION, "boost::pool for each size, no lock",
           FAMILY_RIVAL, cells_of_one_thread<Pools<No_lock>>)
FAMILY_ROW(boost_locked_row, "boost-pool-locked", BOOST_LIB_VERSION,
           "boost::pool for each size, a mutex around both", FAMILY_RIVAL, cells<Pools<std::mutex>>)
