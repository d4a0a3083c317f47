// region_model_test.cc: random programs of region_program.h, over every source.
#include "region_program.h"

#include <string>

namespace {

using region_model::Program;

class RegionModel : public testing::TestWithParam<unsigned> {
  protected:
    static loam_region_options options(uint64_t seed) {
        loam_region_options options = {};
        options.flags = GetParam();
        if (seed % 4 == 1) options = LOAM_REGION_TFW, options.flags = GetParam();
        if (seed % 4 == 2) options.first_bytes = 1024, options.most_bytes = 20000;
        if (seed % 4 == 3) options.large_bytes = 1024, options.keep_bytes = 100000;
        return options;
    }
    static void run(loam_source *source, uint64_t seed) {
        SCOPED_TRACE(seed);
        loam_count count;
        loam_count_init(&count, source);
        {
            loam_region_options of = options(seed);
            std::string name = "with seed " + std::to_string(seed);
            if (GetParam() != 0) of.name = name.c_str(); /* a report ends the test */
            Program program(&count.source, of, model::Choices(seed));
            program.run(4000);
        }
        EXPECT_EQ(count.gets, count.puts);
        EXPECT_EQ(count.used_bytes, 0u);
    }
};

INSTANTIATE_TEST_SUITE_P(All, RegionModel, testing::Values(0u, unsigned{LOAM_CHECK}),
                         [](const auto &info) { return info.param == 0 ? "plain" : "checked"; });

TEST_P(RegionModel, OverPages) {
    for (uint64_t seed = 1; seed <= 12; seed++) run(loam_pages(), seed);
}

TEST_P(RegionModel, OverTheHeap) {
    for (uint64_t seed = 13; seed <= 20; seed++) run(loam_heap_source(), seed);
}

TEST_P(RegionModel, OverASourceThatEnds) {
    for (uint64_t seed = 21; seed <= 28; seed++) {
        loam_limit limit;
        loam_limit_init(&limit, loam_pages(), 300000 + seed % 7 * 100000);
        run(&limit.source, seed);
        EXPECT_EQ(limit.used_bytes, 0u);
    }
}

TEST_P(RegionModel, InABuffer) {
    std::vector<char> memory(500000);
    for (uint64_t seed = 29; seed <= 36; seed++) {
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory.data() + seed % 16, memory.size() - 16);
        run(&buffer.source, seed);
        EXPECT_EQ(buffer.out, 0u);
    }
    memset(memory.data(), 0, memory.size()); /* a tool may see it all again */
}

TEST_P(RegionModel, OverAReserve) {
    for (uint64_t seed = 37; seed <= 44; seed++) {
        loam_reserve reserve;
        ASSERT_EQ(loam_reserve_init(&reserve, size_t{64} << 20), 0);
        run(&reserve.source, seed);
        loam_reserve_deinit(&reserve);
    }
}

} // namespace
