// fifo_model_test.cc: random programs of fifo_program.h, on FIFOs of every kind.
#include "effort.h"
#include "fifo_program.h"

namespace {

constexpr uint64_t kSeeds = effort::kSlowness == 1 ? 12 : 4;

void programs(unsigned flags, size_t page_bytes, size_t spares, size_t most_bytes = SIZE_MAX) {
    for (uint64_t seed = 1; seed <= kSeeds; seed++) {
        SCOPED_TRACE(seed);
        loam_fifo_options options = {};
        options.page_bytes = page_bytes;
        options.spare_pages = spares;
        options.flags = flags;
        fifo_model::Program(model::Choices(seed), options, most_bytes).run(2500);
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(FifoModel, SmallPages) { programs(0, 1024, 1); }
TEST(FifoModel, MiddlePages) { programs(0, 8192, 0); }
TEST(FifoModel, LargePages) { programs(0, 65536, 2); }
TEST(FifoModel, Raw) { programs(LOAM_FIFO_RAW, 4096, 0); }
TEST(FifoModel, Remote) { programs(LOAM_FIFO_REMOTE, 4096, 0); }
TEST(FifoModel, Checked) { programs(LOAM_CHECK, 4096, 3); }
TEST(FifoModel, CheckedRemote) { programs(LOAM_CHECK | LOAM_FIFO_REMOTE, 4096, 3); }
TEST(FifoModel, WithLittleMemory) { programs(0, 1024, 2, 16384); }
TEST(FifoModel, RemoteWithLittleMemory) { programs(LOAM_FIFO_REMOTE, 1024, 2, 16384); }

} // namespace
