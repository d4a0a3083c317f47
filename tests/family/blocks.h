// blocks.h: what the tests of blocks share: an instance with its end, sources that are scarce,
// static pools.
#ifndef LOAM_TESTS_FAMILY_BLOCKS_H
#define LOAM_TESTS_FAMILY_BLOCKS_H

#include "loam/blocks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace blocks_tests {

#ifdef LOAM_DEBUG
inline constexpr bool checked = true;
#else
inline constexpr bool checked = false;
#endif

struct Blocks {
    explicit Blocks(loam_blocks_options options = {}) {
        EXPECT_EQ(loam_blocks_init(&blocks, &options), 0);
    }
    ~Blocks() {
        EXPECT_TRUE(loam_blocks_check(&blocks));
        loam_blocks_deinit(&blocks);
    }
    operator loam_blocks *() { return &blocks; }
    loam_usage usage() {
        loam_usage usage;
        loam_blocks_usage(&blocks, &usage);
        return usage;
    }
    loam_blocks blocks;
};

inline loam_blocks_options with_flags(unsigned flags) {
    loam_blocks_options options{};
    options.flags = flags;
    return options;
}

// Pages, up to so many bytes, and counted; the n-th request from now on may be refused.
struct Scarce {
    explicit Scarce(size_t most) {
        loam_limit_init(&limit, loam_pages(), most);
        loam_count_init(&count, &limit.source);
    }
    static void *get(loam_source *source, size_t bytes, size_t align, size_t *got) {
        auto scarce = reinterpret_cast<Scarce *>(source);
        if (scarce->refuse != 0 && --scarce->refuse == 0) return nullptr;
        return loam_source_get(&scarce->count.source, bytes, align, got);
    }
    static void put(loam_source *source, void *chunk, size_t got) {
        loam_source_put(&reinterpret_cast<Scarce *>(source)->count.source, chunk, got);
    }
    loam_source source{get, put, "scarce", 0};
    size_t refuse = 0;
    loam_limit limit;
    loam_count count;
};

inline bool aligned(const void *p, size_t align) {
    return reinterpret_cast<uintptr_t>(p) % align == 0;
}

inline void keep(const char *line, void *context) { *static_cast<std::string *>(context) += line; }

// A heap pool and a static pool with the same blocks.
inline loam_blocks_options fixed(std::vector<char> &memory, const uint32_t *classes,
                                 unsigned class_count, uint32_t each) {
    loam_blocks_options options{};
    options.classes = classes;
    options.class_count = class_count;
    options.blocks_each = each;
    memory.resize(loam_blocks_pool_bytes(&options));
    options.memory = memory.data();
    options.memory_bytes = memory.size();
    return options;
}

} // namespace blocks_tests
#endif
