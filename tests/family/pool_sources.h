/* pool_sources.h: a source for the pools' tests: counts what another one gives, and ends where it
 * is told to. */
#ifndef LOAM_TESTS_POOL_SOURCES_H
#define LOAM_TESTS_POOL_SOURCES_H

#include "loam/source.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

struct Counted {
    loam_source source;
    loam_source *inner;
    size_t gets = 0, puts = 0, used_bytes = 0, most_bytes;

    explicit Counted(loam_source *inner = loam_pages(), size_t most_bytes = SIZE_MAX)
        : source{get, put, "counted", inner->flags}, inner(inner), most_bytes(most_bytes) {}
    ~Counted() {
        EXPECT_EQ(gets, puts) << "every chunk went back";
        EXPECT_EQ(used_bytes, 0u);
    }
    Counted(const Counted &) = delete;

  private:
    static void *get(loam_source *source, size_t bytes, size_t align, size_t *got) {
        auto *self = reinterpret_cast<Counted *>(source);
        if (bytes > self->most_bytes - self->used_bytes) return nullptr;
        void *chunk = loam_source_get(self->inner, bytes, align, got);
        if (chunk == nullptr) return nullptr;
        if (self->most_bytes != SIZE_MAX && *got > bytes) *got = bytes;
        self->gets++;
        self->used_bytes += *got;
        return chunk;
    }
    static void put(loam_source *source, void *chunk, size_t got) {
        auto *self = reinterpret_cast<Counted *>(source);
        self->puts++;
        self->used_bytes -= got;
        loam_source_put(self->inner, chunk, got);
    }
};

#endif
