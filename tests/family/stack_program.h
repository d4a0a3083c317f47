/* stack_program.h: a program of everything a stack can do, against a list of what must be there. */
#ifndef LOAM_TESTS_FAMILY_STACK_PROGRAM_H
#define LOAM_TESTS_FAMILY_STACK_PROGRAM_H

#include "stack_sources.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace stack_model {

using model::Choices;

struct Object {
    unsigned char *p;
    size_t bytes;
    unsigned char stamp;
};

struct Frame {
    loam_stack_frame frame;
    std::vector<Object> objects;
    bool sealed = false;
    std::vector<std::pair<loam_stack_mark, size_t>> marks; /* how many objects there were */
};

class Program {
  public:
    Program(loam_source *source, const loam_stack_options &options, const Choices &random)
        : random_(random), stack_(source, options) {
        frames_.emplace_back();
    }
    void run(int steps) {
        for (int i = 0; i < steps && !random_.over() && !testing::Test::HasFatalFailure(); i++) {
            if (i % 300 == 0) mood_ = 5 + random_.below(30);
            step();
            if (i % 32 == 0) {
                ASSERT_TRUE(loam_stack_check(&stack_)) << i;
                ASSERT_NO_FATAL_FAILURE(expect_all_whole()) << i;
            }
        }
        while (frames_.size() > 1) pop();
        expect_all_whole();
    }
    size_t pushed = 0, allocated = 0;

  private:
    size_t size() {
        size_t of = random_.below(100);
        return of < 4    ? 0
               : of < 75 ? random_.below(200)
               : of < 97 ? random_.below(3000)
                         : random_.below(150000);
    }
    void step() {
        size_t what = random_.below(100);
        Frame &top = frames_.back();
        if (what < mood_) {
            if (random_.below(2) == 0)
                push();
            else if (frames_.size() > 1)
                pop();
        } else if (what < 75) {
            alloc();
        } else if (what < 88) {
            resize();
        } else if (what < 92) {
            give_back();
        } else if (what < 94) {
            top.sealed ? loam_stack_unseal(&stack_) : loam_stack_seal(&stack_);
            top.sealed = !top.sealed;
        } else if (what < 96) {
            top.marks.push_back({loam_stack_mark_here(&stack_), top.objects.size()});
        } else if (what < 98) {
            if (top.marks.empty()) return;
            size_t index = random_.below(top.marks.size());
            auto [mark, count] = top.marks[index];
            top.marks.resize(index + 1);
            top.objects.resize(count);
            loam_stack_rewind(&stack_, &mark);
        } else if (what < 99) {
            loam_stack_trim(&stack_);
        } else if (random_.below(10) == 0) {
            loam_stack_reset(&stack_);
            frames_.clear();
            frames_.emplace_back();
        }
    }
    void push() {
        loam_stack_frame frame = stack_.push();
        if (!loam_stack_pushed_it(&frame)) return;
        pushed++;
        frames_.emplace_back();
        frames_.back().frame = frame;
    }
    void pop() {
        for (const Object &object : frames_.back().objects) expect_whole(object, object.bytes);
        stack_.pop(frames_.back().frame);
        frames_.pop_back();
    }
    void alloc() {
        if (frames_.back().sealed) return;
        size_t bytes = size(), align = size_t{1} << random_.below(random_.below(10) == 0 ? 12 : 5);
        void *p;
        switch (random_.below(4)) { /* constant sizes and alignments have paths of their own */
        case 0: p = loam_stack_alloc_aligned(&stack_, 24, 8), bytes = 24, align = 8; break;
        case 1: p = loam_stack_alloc_aligned(&stack_, 7, 1), bytes = 7, align = 1; break;
        case 2: p = loam_stack_alloc(&stack_, bytes), align = 16; break;
        default: p = loam_stack_alloc_aligned(&stack_, bytes, align);
        }
        if (p == nullptr) return; /* sources have ends */
        allocated++;
        ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
        add(p, bytes);
    }
    void add(void *p, size_t bytes) {
        auto *at = static_cast<unsigned char *>(p);
        for (const Frame &frame : frames_) {
            for (const Object &object : frame.objects) {
                ASSERT_TRUE(bytes == 0 || object.bytes == 0 || at + bytes <= object.p ||
                            object.p + object.bytes <= at)
                    << "objects overlap";
            }
        }
        memset(at, ++stamp_, bytes);
        frames_.back().objects.push_back({at, bytes, stamp_});
    }
    /* One of the newest frame, and not older than its newest mark: what becomes of the others is
     * tested elsewhere. */
    size_t pick() {
        const Frame &top = frames_.back();
        size_t first = top.marks.empty() ? 0 : top.marks.back().second, count = top.objects.size();
        if (count <= first) return SIZE_MAX;
        return random_.below(2) == 0 ? count - 1 : first + random_.below(count - first);
    }
    void resize() {
        size_t index = pick();
        if (index == SIZE_MAX || frames_.back().sealed) return;
        Object object = frames_.back().objects[index];
        size_t bytes = size();
        void *p = loam_stack_realloc(&stack_, object.p, object.bytes, bytes);
        if (p == nullptr) return;
        frames_.back().objects.erase(frames_.back().objects.begin() + static_cast<long>(index));
        Object there = object;
        there.p = static_cast<unsigned char *>(p);
        expect_whole(there, std::min(bytes, object.bytes));
        add(p, bytes);
    }
    void give_back() {
        size_t index = pick();
        if (index == SIZE_MAX) return;
        Object object = frames_.back().objects[index];
        expect_whole(object, object.bytes);
        frames_.back().objects.erase(frames_.back().objects.begin() + static_cast<long>(index));
        loam_stack_free(&stack_, object.p, object.bytes);
    }
    static void expect_whole(const Object &object, size_t bytes) {
        for (size_t i = 0; i < bytes; i++)
            if (object.p[i] != object.stamp) FAIL() << "byte " << i << " of " << object.bytes;
    }
    void expect_all_whole() const {
        for (const Frame &frame : frames_)
            for (const Object &object : frame.objects) expect_whole(object, object.bytes);
    }

    Choices random_;
    Stack stack_;
    std::vector<Frame> frames_;
    size_t mood_ = 10;
    unsigned char stamp_ = 0;
};

} // namespace stack_model

#endif
