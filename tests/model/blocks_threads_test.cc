// blocks_threads_test.cc: the exchange of batches between threads, by random programs;
// blocks_program.h says what of.
#include "blocks_program.h"
#include "effort.h"

#include <string>

TEST(BlocksThreads, RandomProgramsOfCalls) {
    constexpr unsigned kSeeds = effort::kSlowness == 1 ? 8 : 3;
    for (unsigned seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        blocks_model::Program program{model::Choices(seed)};
        for (int i = 0; i < 7000 && !testing::Test::HasFailure(); i++) program.step();
    }
}
