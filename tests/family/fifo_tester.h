/* fifo_tester.h: a FIFO for the tests that ends whole, and what several of them do with one. */
#ifndef LOAM_TESTS_FIFO_TESTER_H
#define LOAM_TESTS_FIFO_TESTER_H

#include "loam/fifo.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif
#if LOAM_DEBUG
constexpr bool kDebug = true;
#else
constexpr bool kDebug = false;
#endif

/* Where addresses are told exactly: FIFOs that are neither checked (a debug build) nor watched by a
 * tool. */
#define SKIP_UNLESS_PLAIN() \
    if (kDebug || kWatched) GTEST_SKIP() << "objects have guards here"

constexpr size_t kPage = 65536;

struct Fifo {
    loam_fifo fifo;
    explicit Fifo(loam_source *source = nullptr, loam_fifo_options options = {}) {
        EXPECT_EQ(loam_fifo_init(&fifo, source, &options), 0);
    }
    ~Fifo() {
        EXPECT_TRUE(loam_fifo_check(&fifo));
        loam_fifo_deinit(&fifo);
    }
    Fifo(const Fifo &) = delete;
    char *alloc(size_t bytes) { return static_cast<char *>(loam_fifo_alloc(&fifo, bytes)); }
    char *realloc(void *p, size_t old_bytes, size_t bytes) {
        return static_cast<char *>(loam_fifo_realloc(&fifo, p, old_bytes, bytes));
    }
    void free(void *p) { loam_fifo_free(&fifo, p); }
    loam_usage usage() {
        loam_usage usage;
        loam_fifo_usage(&fifo, &usage);
        return usage;
    }
};

inline loam_fifo_options with(unsigned flags, size_t spares = 0, size_t page_bytes = 0) {
    loam_fifo_options options = {};
    options.flags = flags;
    options.spare_pages = spares;
    options.page_bytes = page_bytes;
    return options;
}

inline bool is_zero(const char *p, size_t bytes) {
    return std::count(p, p + bytes, 0) == static_cast<ptrdiff_t>(bytes);
}

/* Fills page after page; objects of 1000 bytes. */
inline std::vector<std::vector<char *>> fill(Fifo &fifo, size_t pages) {
    std::vector<std::vector<char *>> all;
    while (true) {
        char *p = fifo.alloc(1000);
        auto page = reinterpret_cast<uintptr_t>(p) / kPage;
        if (all.empty() || reinterpret_cast<uintptr_t>(all.back()[0]) / kPage != page) {
            if (all.size() == pages) {
                fifo.free(p);
                return all;
            }
            all.emplace_back();
        }
        all.back().push_back(p);
    }
}

inline void free_all(Fifo &fifo, const std::vector<char *> &objects) {
    for (char *p : objects) fifo.free(p);
}

#endif
