/* program.h: a program of calls to one row's allocator, against the model: of a seed
 * (contract_test.cc), or of a fuzzer's bytes (tests/fuzz/family_fuzz.cc).
 */
#ifndef LOAM_TESTS_CONTRACT_PROGRAM_H
#define LOAM_TESTS_CONTRACT_PROGRAM_H

#include "rows.h"

#include <algorithm>

namespace contract {

/* What the allocator says of itself is what went through the source. */
inline void expect_books(const Row &row, Set &set, const Model &model) {
    const Kind &kind = *row.kind;
    loam_usage usage = set.a->usage(), beside = set.a->beside();
    const loam_count &count = set.source.count;
    if ((kind.can & kGiven) != 0) {
        EXPECT_LE(usage.held_bytes, count.used_bytes);
        EXPECT_EQ(usage.chunks, 1u);
        EXPECT_EQ(usage.requests, 0u);
    } else {
        EXPECT_EQ(usage.held_bytes + beside.held_bytes, count.used_bytes);
        size_t chunks = count.gets - count.puts;
        if ((set.source.get()->flags & LOAM_SOURCE_CONTIGUOUS) != 0) {
            EXPECT_LE(usage.chunks + beside.chunks, chunks)
                << "those that follow each other may be one";
        } else {
            EXPECT_EQ(usage.chunks + beside.chunks, chunks);
        }
        EXPECT_EQ(usage.requests + beside.requests, count.gets);
        EXPECT_LE(usage.peak_bytes, count.peak_bytes);
    }
    EXPECT_GE(usage.peak_bytes, usage.held_bytes);
    EXPECT_LE(usage.used_bytes, usage.held_bytes);
    EXPECT_GE(usage.used_bytes, model.bytes());
    EXPECT_TRUE(usage.objects == LOAM_UNKNOWN || usage.objects == model.objects.size())
        << usage.objects << " of " << model.objects.size();
    EXPECT_TRUE(!is_checked(row) || usage.objects != LOAM_UNKNOWN) << "a checked one knows";
    EXPECT_EQ(usage.object_bytes, (kind.can & kAnySize) != 0 ? 0u : kind.bytes);
    EXPECT_STREQ(usage.kind, kind.noun);
}

class Program {
  public:
    Program(const Row &row, Set &set, Random &random)
        : row_(row), kind_(*row.kind), set_(set), random_(random), model_(row.kind->align) {}

    void run(int steps) {
        for (int i = 0; i < steps && !random_.over(); i++) {
            if (i % 250 == 0) mood_ = 35 + random_.below(40);
            ASSERT_NO_FATAL_FAILURE(step()) << "step " << i;
            if (i % 100 == 0) {
                ASSERT_TRUE(set_.a->check()) << "step " << i;
                expect_books(row_, set_, model_);
            }
        }
        EXPECT_TRUE(set_.a->check());
        expect_books(row_, set_, model_);
        model_.expect_all_whole();
    }

  private:
    bool can(unsigned what) const { return (kind_.can & what) != 0; }

    void step() {
        size_t what = random_.below(100);
        if (what < mood_ || model_.objects.empty()) {
            alloc();
        } else if (what < 88 || !can(kRealloc)) {
            Object object = model_.take(random_.below(model_.objects.size()));
            set_.a->free(object.at, object.bytes);
        } else if (what < 98) {
            resize();
        } else if (what < 99) {
            if (can(kReset) && random_.below(4) == 0) {
                model_.clear();
                set_.a->reset();
            }
        } else {
            set_.source.strict.refuse(1 + random_.below(3)); /* where that is the source */
        }
    }
    void alloc() {
        size_t bytes = size_for(kind_, random_);
        void *p;
        if (can(kArrays) && random_.below(8) == 0) {
            size_t count = 1 + random_.below(4);
            bytes /= count;
            p = set_.a->alloc_array(count, bytes);
            bytes *= count;
            for (size_t i = 0; p != nullptr && i < bytes; i++)
                if (static_cast<char *>(p)[i] != 0) FAIL() << "byte " << i << " is not zero";
        } else {
            p = set_.a->alloc(bytes);
        }
        if (p != nullptr) model_.add(p, bytes); /* sources have ends */
    }
    void resize() {
        size_t bytes = size_for(kind_, random_) + 1;
        Object object = model_.take(random_.below(model_.objects.size()));
        void *p = set_.a->realloc(object.at, object.bytes, bytes);
        size_t kept = std::min(object.bytes, bytes);
        if (p == nullptr) { /* as it was */
            Model::expect_whole(object, object.bytes);
            p = object.at, bytes = object.bytes;
        } else {
            object.at = static_cast<unsigned char *>(p);
            Model::expect_whole(object, kept);
        }
        model_.add(p, bytes);
    }

    const Row &row_;
    const Kind &kind_;
    Set &set_;
    Random &random_;
    Model model_;
    size_t mood_ = 50; /* percent of allocations: grows and shrinks in turn */
};

inline void run_program(const Row &row, Set &set, Random &random, int steps) {
    Program(row, set, random).run(steps);
}

} // namespace contract

#endif
