/* stack_sources.h: what the tests of stacks and rings have in common. */
#ifndef LOAM_TESTS_STACK_SOURCES_H
#define LOAM_TESTS_STACK_SOURCES_H

#include "loam/stack.h"

#include "family/pool_sources.h"
#include "model/choices.h"
#include "unit/stderr_of.h"

extern "C" {
#include "base/base.h"
#include "family/family.h"
}

#include <gtest/gtest.h>

#include <string>

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif

/* Where addresses are told exactly: stacks that are neither checked (a debug build) nor watched by
 * a tool. */
#define SKIP_UNLESS_PLAIN() \
    if (LOAM_DEBUG || kWatched) GTEST_SKIP() << "objects have guards here"

struct Stack {
    loam_stack stack;
    explicit Stack(loam_source *source = nullptr, loam_stack_options options = {}) {
        EXPECT_EQ(loam_stack_init(&stack, source, &options), 0);
    }
    ~Stack() {
        EXPECT_TRUE(loam_stack_check(&stack));
        loam_stack_deinit(&stack);
    }
    Stack(const Stack &) = delete;
    char *alloc(size_t bytes, size_t align = 1) {
        return static_cast<char *>(loam_stack_alloc_aligned(&stack, bytes, align));
    }
    loam_stack_frame push() { return loam_stack_push(&stack); }
    void pop(loam_stack_frame frame) { loam_stack_pop(&stack, frame); }
    loam_usage usage() {
        loam_usage usage;
        loam_stack_usage(&stack, &usage);
        return usage;
    }
    loam_stack *operator&() { return &stack; }
};

inline loam_stack_options with_block(size_t bytes) {
    loam_stack_options options = {};
    options.block_bytes = bytes;
    return options;
}

using Random = model::Choices;

/* What is said when mistakes are ignored. */
template <typename Code> std::string all_said(Code code) {
    lm_misuse_policy.ignore = true;
    std::string text = unit::stderr_of(code);
    lm_misuse_policy.ignore = false;
    return text;
}

#endif
