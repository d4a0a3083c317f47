/* fuzz.h: what the harnesses have in common: the entry, and how a run that found something ends.
 *
 *   bytes ──> LLVMFuzzerTestOneInput ──> a program of calls, and an oracle ──> nothing, or abort
 *
 *   preset fuzz     libFuzzer's own main chooses the bytes, by what code they reach
 *                   (release's code, and as fuzz_heap_secure the secure build's heap)
 *   release, debug  replay.cc's main takes the files of corpus/: ordinary quick tests
 *
 * What is said on the way to the abort names the harness and what is wrong; libFuzzer then keeps
 * the bytes, which any build's replay program repeats:
 * build/<preset>/tests/fuzz/fuzz_<harness>_replay <file>.
 */
#ifndef LOAM_TESTS_FUZZ_H
#define LOAM_TESTS_FUZZ_H

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

namespace fuzz {

inline void expect(const std::string &wrong) {
    if (wrong.empty()) return;
    fprintf(stderr, "fuzz: %s\n", wrong.c_str());
    abort();
}

/* For oracles that are written as tests: what googletest would count as a failure ends the run at
 * once. */
class Abort : public testing::EmptyTestEventListener {
  public:
    void OnTestPartResult(const testing::TestPartResult &result) override {
        if (result.failed()) abort();
    }
    static void install() {
        static bool done;
        if (done) return;
        done = true;
        testing::UnitTest::GetInstance()->listeners().Append(new Abort);
    }
};

} // namespace fuzz

#endif
