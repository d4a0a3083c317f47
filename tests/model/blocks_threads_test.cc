// blocks_threads_test.cc: the exchange of batches between threads, by random programs; blocks_program.h says what of.
#include "blocks_program.h"

#include <string>

TEST(BlocksThreads, RandomProgramsOfCalls) {
#if defined(LOAM_DEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr unsigned kSeeds = 3;
#else
    constexpr unsigned kSeeds = 8;
#endif
    for (unsigned seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        blocks_model::Program program{model::Choices(seed)};
        for (int i = 0; i < 7000 && !testing::Test::HasFailure(); i++) program.step();
    }
}
