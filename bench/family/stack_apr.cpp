// stack_apr.cpp: APR's pools in the table `stack`: a frame is a pool, the child of the one around
// it.
#include "stack_work.hpp"

#include <apr_general.h>
#include <apr_pools.h>

namespace {

class Apr_pools {
  public:
    class Frame {
      public:
        explicit Frame(Apr_pools &row) : row_(row), around_(row.newest_) {
            if (apr_pool_create(&row.newest_, around_) != APR_SUCCESS) {
                family_fail("out of memory");
            }
        }
        ~Frame() {
            apr_pool_destroy(row_.newest_);
            row_.newest_ = around_;
        }
        Frame(const Frame &) = delete;
        Frame &operator=(const Frame &) = delete;

      private:
        Apr_pools &row_;
        apr_pool_t *around_;
    };
    explicit Apr_pools(const FamilyRequest &) {
        if (apr_initialize() != APR_SUCCESS) family_fail("apr_initialize failed");
        if (apr_pool_create(&newest_, nullptr) != APR_SUCCESS) family_fail("out of memory");
    }
    ~Apr_pools() {
        apr_pool_destroy(newest_);
        apr_terminate();
    }
    Apr_pools(const Apr_pools &) = delete;
    Apr_pools &operator=(const Apr_pools &) = delete;
    void *alloc(std::size_t size, std::size_t) { return apr_palloc(newest_, size); }
    void release(void *) {}

  private:
    apr_pool_t *newest_ = nullptr;
};

} // namespace

FAMILY_ROW(apr_row, "apr-pool", FAMILY_VERSION, "APR: a child pool for each frame", FAMILY_RIVAL,
           stack_work::cells<Apr_pools>)
