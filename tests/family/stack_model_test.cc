// stack_model_test.cc: random programs of stack_program.h, over several sources.
#include "stack_program.h"

namespace {

using stack_model::Program;

loam_stack_options options_of(unsigned flags, size_t block) {
    loam_stack_options options = with_block(block);
    options.flags = flags;
    return options;
}

class StackModel : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Seeds, StackModel, testing::Range(1, 9));

TEST_P(StackModel, OverPages) {
    for (unsigned flags : {0u, unsigned{LOAM_CHECK}}) {
        for (size_t block : {size_t{512}, size_t{4096}, size_t{64} << 10}) {
            Counted counted;
            Program program(&counted.source, options_of(flags, block), model::Choices(GetParam()));
            ASSERT_NO_FATAL_FAILURE(program.run(3000));
            EXPECT_GT(program.pushed, 20u);
            EXPECT_GT(program.allocated, 500u);
        }
    }
}

TEST_P(StackModel, OverARangeAndASmallBuffer) {
    for (unsigned flags : {0u, unsigned{LOAM_CHECK}}) {
        loam_reserve range;
        ASSERT_EQ(loam_reserve_init(&range, size_t{256} << 20), 0);
        {
            Program program(&range.source, options_of(flags, 4096), model::Choices(GetParam()));
            ASSERT_NO_FATAL_FAILURE(program.run(3000));
        }
        loam_reserve_deinit(&range);
        static char memory[100000];
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory, sizeof memory);
        {
            Program program(&buffer.source, options_of(flags, 1024), model::Choices(GetParam()));
            ASSERT_NO_FATAL_FAILURE(program.run(3000));
        }
        loam_limit limit;
        loam_limit_init(&limit, loam_heap_source(), 300000);
        {
            Program program(&limit.source, options_of(flags, 2048), model::Choices(GetParam()));
            ASSERT_NO_FATAL_FAILURE(program.run(3000));
        }
        EXPECT_EQ(limit.used_bytes, 0u);
    }
}

} // namespace
