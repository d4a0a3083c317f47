/* region_program.h: a program of everything a region can do, against a list of what must be
 * there. */
#ifndef LOAM_TESTS_FAMILY_REGION_PROGRAM_H
#define LOAM_TESTS_FAMILY_REGION_PROGRAM_H

#include "loam/region.h"

#include "model/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace region_model {

using model::Choices;

struct Object {
    unsigned char *p;
    size_t bytes, align;
    unsigned char stamp;
    size_t serial; // as made, or moved
};

class Program {
  public:
    Program(loam_source *source, const loam_region_options &options, const Choices &random)
        : random_(random), source_(source), region_(loam_region_create(source, &options)) {}
    ~Program() {
        for (const Neighbour &one : neighbours_) loam_source_put(source_, one.p, one.got);
        loam_region_destroy(region_);
        EXPECT_TRUE(cleanups_.empty()) << "the end runs them";
    }

    void run(int steps) {
        ASSERT_NE(region_, nullptr);
        for (int i = 0; i < steps && !random_.over() && !testing::Test::HasFatalFailure(); i++) {
            if (i % 200 == 0) mood_ = 30 + random_.below(40);
            step();
            if (i % 64 == 0) {
                ASSERT_TRUE(loam_region_check(region_)) << i;
            }
        }
        for (const Object &object : objects_) expect_whole(object, object.bytes);
    }

  private:
    struct Cleanup {
        Program *program;
        size_t serial;
        loam_region_cleanup *made;
    };
    struct Neighbour {
        void *p;
        size_t got;
    };

    size_t size() {
        size_t of = random_.below(100);
        return of < 4    ? 0
               : of < 75 ? random_.below(200)
               : of < 96 ? random_.below(3000)
                         : random_.below(150000);
    }
    size_t align() { return random_.below(10) < 6 ? 16 : size_t{1} << random_.below(9); }

    void step() {
        if (random_.below(16) == 0) {
            change_cleanups();
            return;
        }
        if (random_.below(64) == 0) {
            change_neighbours();
            return;
        }
        size_t what = random_.below(100);
        if (what < mood_ || objects_.empty()) {
            size_t bytes = size(), at = align();
            void *p = loam_region_alloc_aligned(region_, bytes, at);
            if (p != nullptr) add(p, bytes, at);
        } else if (what < 80) {
            Object object = take(pick());
            loam_region_free_aligned(region_, object.p, object.bytes, object.align);
        } else if (what < 90) {
            resize();
        } else if (what < 93) {
            extend();
        } else if (what < 95) {
            marks_.push_back({loam_region_mark_here(region_), serial_});
        } else if (what < 98) {
            if (!marks_.empty()) end_mark();
        } else if (what < 99) {
            loam_region_trim(region_);
        } else if (random_.below(8) == 0) {
            for (const Object &object : objects_) expect_whole(object, object.bytes);
            objects_.clear();
            spans_.clear();
            marks_.clear();
            loam_region_reset(region_);
            EXPECT_TRUE(cleanups_.empty());
        }
    }
    /* Half of the time a recent one, as a stack's user would. */
    size_t pick() {
        size_t count = objects_.size();
        return random_.below(2) == 0 ? count - 1 - random_.below(std::min<size_t>(count, 3))
                                     : random_.below(count);
    }
    void resize() {
        Object object = take(pick());
        size_t bytes = size();
        void *p = loam_region_realloc_aligned(region_, object.p, object.bytes, bytes, object.align);
        if (p == nullptr) {
            put_back(object);
            return;
        }
        bool moved = p != object.p || object.bytes == 0;
        Object there = object;
        there.p = static_cast<unsigned char *>(p);
        expect_whole(there, std::min(bytes, object.bytes));
        /* One that stayed is as old as it was. */
        add(p, bytes, object.align, moved ? ++serial_ : object.serial);
    }
    void extend() {
        size_t index = pick();
        if (objects_[index].align != 16) return;
        Object object = take(index);
        size_t bytes = size();
        if (loam_region_extend(region_, object.p, object.bytes, bytes))
            add(object.p, bytes, 16, object.serial);
        else
            put_back(object);
    }
    void end_mark() {
        auto [mark, serial] = marks_.back();
        marks_.pop_back();
        if (random_.below(3) == 0) {
            loam_region_keep(region_, &mark);
            return;
        }
        while (!marks_.empty() && random_.below(8) == 0) { /* newer marks end with an older one */
            std::tie(mark, serial) = marks_.back();
            marks_.pop_back();
        }
        for (size_t i = objects_.size(); i-- > 0;) {
            if (objects_[i].serial > serial) take(i);
        }
        loam_region_rewind(region_, &mark);
        EXPECT_TRUE(cleanups_.empty() || cleanups_.back()->serial <= serial);
        for (const Object &object : objects_) expect_whole(object, object.bytes);
    }

    /* Adds a cleanup, or removes any of them. */
    void change_cleanups() {
        if (cleanups_.empty() || random_.below(2) == 0) {
            auto cleanup = std::make_unique<Cleanup>(Cleanup{this, 0, nullptr});
            cleanup->made = loam_region_add_cleanup(region_, run_cleanup, cleanup.get());
            if (cleanup->made == nullptr) return;
            cleanup->serial = ++serial_;
            cleanups_.push_back(std::move(cleanup));
            return;
        }
        auto removed = cleanups_.begin() + static_cast<ptrdiff_t>(random_.below(cleanups_.size()));
        std::rotate(removed, removed + 1, cleanups_.end());
        size_t others = cleanups_.size() - 1;
        bool run_it = random_.below(2) == 0;
        loam_region_remove_cleanup(region_, cleanups_.back()->made, run_it);
        if (!run_it) cleanups_.pop_back();
        ASSERT_EQ(cleanups_.size(), others);
    }
    static void run_cleanup(void *argument) {
        auto &cleanups = static_cast<Cleanup *>(argument)->program->cleanups_;
        ASSERT_FALSE(cleanups.empty());
        ASSERT_EQ(cleanups.back().get(), argument) << "not the newest first";
        cleanups.pop_back();
    }

    /* Others use the source as well: takes a chunk of it, or puts one back. */
    void change_neighbours() {
        if (neighbours_.size() < 2 && random_.below(2) == 0) {
            size_t got, bytes = 16 + random_.below(500);
            void *p = loam_source_get(source_, bytes, 16, &got);
            if (p != nullptr) neighbours_.push_back({p, got});
        } else if (!neighbours_.empty()) {
            loam_source_put(source_, neighbours_.back().p, neighbours_.back().got);
            neighbours_.pop_back();
        }
    }

    void add(void *p, size_t bytes, size_t align) { add(p, bytes, align, ++serial_); }
    void add(void *p, size_t bytes, size_t align, size_t serial) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
        put_back({static_cast<unsigned char *>(p), bytes, align, ++stamp_, serial});
        memset(p, stamp_, bytes);
    }
    void put_back(const Object &object) {
        if (object.bytes != 0) {
            auto next = spans_.lower_bound(object.p);
            ASSERT_TRUE(next == spans_.end() || object.p + object.bytes <= next->first)
                << "overlap";
            if (next != spans_.begin()) {
                auto before = std::prev(next);
                ASSERT_LE(before->first + before->second, object.p) << "overlap";
            }
            spans_[object.p] = object.bytes;
        }
        objects_.push_back(object);
    }
    Object take(size_t index) {
        Object object = objects_[index];
        expect_whole(object, object.bytes);
        if (object.bytes != 0) spans_.erase(object.p);
        objects_.erase(objects_.begin() + static_cast<ptrdiff_t>(index));
        return object;
    }
    static void expect_whole(const Object &object, size_t bytes) {
        for (size_t i = 0; i < bytes; i++) {
            if (object.p[i] != object.stamp) FAIL() << "byte " << i << " of " << object.bytes;
        }
    }

    Choices random_;
    loam_source *source_;
    loam_region *region_;
    size_t mood_ = 50, serial_ = 0;
    unsigned char stamp_ = 0;
    std::vector<Object> objects_;
    std::map<unsigned char *, size_t> spans_;
    std::vector<std::pair<loam_region_mark, size_t>> marks_;
    std::vector<std::unique_ptr<Cleanup>> cleanups_; // oldest first
    std::vector<Neighbour> neighbours_;              // chunks of the source, newest last
};

} // namespace region_model

#endif
