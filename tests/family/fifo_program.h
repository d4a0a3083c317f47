/* fifo_program.h: a program of calls to a FIFO, against an obvious twin: every object's contents,
 * what is zero, what is counted; with frees from elsewhere, sources that refuse, and the end at any
 * time. */
#ifndef LOAM_TESTS_FAMILY_FIFO_PROGRAM_H
#define LOAM_TESTS_FAMILY_FIFO_PROGRAM_H

#include "loam/fifo.h"

#include "family/pool_sources.h"
#include "model/choices.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

namespace fifo_model {

using model::Choices;

struct Object {
    unsigned char *at;
    std::vector<unsigned char> bytes; /* what is in it */
    size_t align;
};

class Program {
  public:
    Program(const Choices &random, const loam_fifo_options &options, size_t most_bytes)
        : random_(random), source_(loam_heap_source(), most_bytes),
          raw_((options.flags & LOAM_FIFO_RAW) != 0),
          remote_((options.flags & LOAM_FIFO_REMOTE) != 0), page_(options.page_bytes) {
        fifo_ = loam_fifo_create(&source_.source, &options);
    }
    void run(size_t steps) {
        ASSERT_NE(fifo_, nullptr);
        size_t mood = 55;
        for (size_t i = 0; i < steps && !random_.over() && !testing::Test::HasFatalFailure(); i++) {
            if (i % 200 == 0) mood = 35 + random_.below(35);
            SCOPED_TRACE(i);
            step(mood);
            if (i % 64 == 0) look();
        }
        end();
    }

  private:
    size_t size() {
        size_t of = random_.below(100);
        if (of < 5) return 0;
        if (of < 75) return random_.below(page_ / 16);
        if (of < 97) return random_.below(page_);
        return random_.below(5 * page_);
    }
    void fill(Object &object, size_t from) {
        for (size_t i = from; i < object.bytes.size(); i++)
            object.at[i] = object.bytes[i] = static_cast<unsigned char>(random_.below(255) + 1);
    }
    void step(size_t mood) {
        size_t what = random_.below(100);
        if (what < mood || objects_.empty()) {
            alloc();
        } else if (what < 85) {
            /* Mostly the oldest. */
            size_t which = random_.below(4) != 0 ? 0 : random_.below(objects_.size());
            free(which);
        } else if (what < 97) {
            size_t which =
                random_.below(3) != 0 ? objects_.size() - 1 : random_.below(objects_.size());
            realloc(which);
        } else if (what < 98) {
            (void)loam_fifo_trim(fifo_);
        } else {
            loam_fifo_collect(fifo_);
        }
    }
    void alloc() {
        size_t bytes = size(), align = size_t{1} << random_.below(random_.below(20) == 0 ? 14 : 6);
        auto *p = static_cast<unsigned char *>(random_.below(2) != 0
                                                   ? loam_fifo_alloc_aligned(fifo_, bytes, align)
                                                   : loam_fifo_alloc(fifo_, bytes));
        if (p == nullptr) {
            ASSERT_LT(source_.most_bytes, SIZE_MAX);
            return;
        }
        Object object = {p, std::vector<unsigned char>(bytes), 1};
        if (reinterpret_cast<uintptr_t>(p) % 16 == 0) object.align = 16;
        if (!raw_) expect_same(object);
        fill(object, 0);
        objects_.push_back(object);
    }
    void free(size_t which) {
        Object object = objects_[which];
        expect_same(object);
        objects_.erase(objects_.begin() + static_cast<ptrdiff_t>(which));
        if (remote_ && random_.below(2) != 0) {
            loam_fifo_free_remote(fifo_, object.at);
        } else {
            loam_fifo_free(fifo_, object.at);
        }
    }
    void realloc(size_t which) {
        Object &object = objects_[which];
        expect_same(object);
        size_t old_bytes = object.bytes.size();
        size_t bytes = random_.below(2) != 0 ? random_.below(2 * old_bytes + 10) : size();
        void *p = loam_fifo_realloc_aligned(fifo_, object.at, old_bytes, bytes, object.align);
        if (p == nullptr) {
            expect_same(object);
            return;
        }
        ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % object.align, 0u);
        ASSERT_TRUE(bytes > old_bytes || p == object.at) << "smaller ones stay";
        object.at = static_cast<unsigned char *>(p);
        object.bytes.resize(bytes);
        if (raw_ && bytes > old_bytes) fill(object, old_bytes);
        expect_same(object);
        fill(object, 0);
    }
    static void expect_same(const Object &object) {
        if (object.bytes.empty()) return;
        ASSERT_EQ(memcmp(object.at, object.bytes.data(), object.bytes.size()), 0);
    }
    void look() {
        for (const Object &object : objects_) expect_same(object);
        ASSERT_TRUE(loam_fifo_check(fifo_));
        loam_fifo_collect(fifo_);
        loam_usage usage;
        loam_fifo_usage(fifo_, &usage);
        ASSERT_EQ(usage.objects, objects_.size());
        ASSERT_EQ(usage.held_bytes, source_.used_bytes);
        ASSERT_EQ(usage.chunks, source_.gets - source_.puts);
        ASSERT_EQ(usage.requests, source_.gets);
    }
    /* Destroyed with what is alive. */
    void end() {
        loam_fifo_destroy(fifo_);
        while (!objects_.empty()) {
            ASSERT_GT(source_.used_bytes, 0u);
            free(random_.below(objects_.size()));
        }
        ASSERT_EQ(source_.used_bytes, 0u);
    }

    Choices random_;
    Counted source_;
    bool raw_, remote_;
    size_t page_;
    loam_fifo *fifo_;
    std::deque<Object> objects_;
};

} // namespace fifo_model

#endif
