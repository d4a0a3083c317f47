/* ring_program.h: a ring for the tests, and a program of frames that end in any order, against a
 * list of what must be there.
 */
#ifndef LOAM_TESTS_FAMILY_RING_PROGRAM_H
#define LOAM_TESTS_FAMILY_RING_PROGRAM_H

#include "loam/ring.h"

#include "model/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace ring_model {

using model::Choices;

struct Ring {
    loam_ring ring;
    explicit Ring(loam_source *source = nullptr, size_t block = 0, unsigned flags = 0,
                  const char *name = nullptr) {
        loam_ring_options options = {};
        options.block_bytes = block;
        options.flags = flags;
        options.name = name;
        EXPECT_EQ(loam_ring_init(&ring, source, &options), 0);
    }
    ~Ring() {
        EXPECT_TRUE(loam_ring_check(&ring));
        loam_ring_deinit(&ring);
    }
    Ring(const Ring &) = delete;
    char *alloc(size_t bytes) {
        return static_cast<char *>(loam_ring_alloc_at(&ring, bytes, "a.c", 10));
    }
    loam_ring_frame *open() { return loam_ring_open_at(&ring, "o.c", 5); }
    void release(loam_ring_frame *frame) { loam_ring_release_at(&ring, frame, "f.c", 20); }
    size_t used() {
        loam_usage usage;
        loam_ring_usage(&ring, &usage);
        return usage.used_bytes;
    }
};

struct Object {
    unsigned char *p;
    size_t bytes;
    unsigned char stamp;
};
struct Frame {
    loam_ring_frame *frame;
    std::vector<Object> objects;
};

inline void expect_whole(const Object &object, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (object.p[i] != object.stamp) FAIL() << "byte " << i << " of " << object.bytes;
}

inline void run(Ring &r, Choices random, int steps) {
    std::vector<Frame> frames;
    unsigned char stamp = 0;
    size_t most = 10;
    for (int i = 0; i < steps && !random.over(); i++) {
        if (i % 300 == 0) most = 1 + random.below(60);
        size_t what = random.below(100);
        if (what < 15) {
            loam_ring_frame *frame = r.open();
            if (frame != nullptr) frames.push_back({frame, {}});
        } else if (what < 30 && (frames.size() > most || random.below(3) == 0)) {
            if (frames.empty()) continue;
            size_t index = random.below(2) == 0 ? 0 : random.below(frames.size());
            for (const Object &object : frames[index].objects) expect_whole(object, object.bytes);
            r.release(frames[index].frame);
            /* Who is the newest now allocates: the last that is alive, if none behind it is
             * waiting. */
            frames.erase(frames.begin() + static_cast<long>(index));
        } else if (!frames.empty() && frames.back().frame == r.ring.newest) {
            std::vector<Object> &objects = frames.back().objects;
            size_t bytes = random.below(20) == 0 ? random.below(20000) : random.below(300);
            if (what < 90 || objects.empty()) {
                auto *p = reinterpret_cast<unsigned char *>(r.alloc(bytes));
                if (p == nullptr) continue;
                memset(p, ++stamp, bytes);
                objects.push_back({p, bytes, stamp});
            } else {
                Object object = objects.back();
                void *p = loam_ring_realloc(&r.ring, object.p, object.bytes, bytes);
                if (p == nullptr) continue;
                objects.pop_back();
                Object there = {static_cast<unsigned char *>(p), bytes, object.stamp};
                expect_whole(there, std::min(bytes, object.bytes));
                memset(p, there.stamp, bytes);
                objects.push_back(there);
            }
        }
        if (i % 32 == 0) {
            ASSERT_TRUE(loam_ring_check(&r.ring)) << i;
            for (const Frame &frame : frames)
                for (const Object &object : frame.objects)
                    ASSERT_NO_FATAL_FAILURE(expect_whole(object, object.bytes)) << i;
        }
        if (random.below(200) == 0) loam_ring_trim(&r.ring);
    }
    for (const Frame &frame : frames) r.release(frame.frame);
    EXPECT_EQ(r.used(), 0u);
}

} // namespace ring_model

#endif
