/* refusal_test.cc: what no memory could serve is told to an error handler by every form that can be
 * asked for it: once, as EOVERFLOW, in words that say what was asked for (loam/handlers.h). What
 * the system refuses: tests/faulty.
 */
#include <gtest/gtest.h>
#include <loam/handlers.h>
#include <loam/heap.h>
#include <loam/malloc.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace {

struct Told {
    int code;
    std::string message;
};
std::vector<Told> told;

/* The same value, unknown to the compiler. */
template <typename T> T hide(T value) {
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

class Refusal : public testing::Test {
  protected:
    Refusal() : heap(loam_heap_create()), p(loam_zalloc(100)) {
        loam_error_register(
            [](int code, const char *message, void *) {
                told.push_back({code, message});
            },
            nullptr);
    }
    ~Refusal() override {
        loam_error_register(nullptr, nullptr);
        loam_free(p);
        loam_heap_destroy(heap);
    }

    static void once(const char *form, const char *text, const std::function<void *()> &call) {
        told.clear();
        errno = 0;
        EXPECT_EQ(nullptr, call()) << form;
        EXPECT_EQ(ENOMEM, errno) << form;
        ASSERT_EQ(1u, told.size()) << form;
        EXPECT_EQ(EOVERFLOW, told[0].code) << form;
        EXPECT_EQ(0u, told[0].message.find(text)) << form << ": " << told[0].message;
    }

    loam_heap *heap;
    void *p;
};

#define ONCE(text, call) \
    once(#call, text, [=, this_heap = heap, old = p] { \
        (void)this_heap, (void)old; \
        return static_cast<void *>(call); \
    })

TEST_F(Refusal, OfSizesByEveryForm) {
    const char *text = "loam: out of memory: more than there can be: 18446744073709551615 bytes";
    size_t most = hide(SIZE_MAX);
    ONCE(text, loam_malloc(most));
    ONCE(text, loam_zalloc(most));
    ONCE(text, loam_calloc(most, 1));
    ONCE(text, loam_mallocarray(1, most));
    ONCE(text, loam_realloc(old, most));
    ONCE(text, loam_realloc(nullptr, most));
    ONCE(text, loam_reallocarray(old, 1, most));
    ONCE(text, loam_reallocf(nullptr, most));
    ONCE(text, loam_rezalloc(old, most));
    ONCE(text, loam_recalloc(old, most, 1));
    ONCE(text, loam_expand(old, most));
    ONCE(text, loam_memdup(old, most));
    ONCE(text, loam_valloc(most));
    ONCE(text, loam_pvalloc(most));
    ONCE(text, loam_memalign(10, most));
    ONCE(text, loam_heap_malloc(this_heap, most));
    ONCE(text, loam_heap_zalloc(this_heap, most));
    ONCE(text, loam_heap_calloc(this_heap, most, 1));
    ONCE(text, loam_heap_mallocarray(this_heap, 1, most));
    ONCE(text, loam_heap_realloc(this_heap, old, most));
    ONCE(text, loam_heap_reallocarray(this_heap, old, 1, most));
    ONCE(text, loam_heap_reallocf(this_heap, nullptr, most));
    ONCE(text, loam_heap_rezalloc(this_heap, old, most));
    ONCE(text, loam_heap_recalloc(this_heap, old, 1, most));
    ONCE(text, loam_heap_memdup(this_heap, old, most));
    for (size_t align : {size_t{16}, size_t{64}, size_t{1} << 20}) {
        ONCE(text, loam_malloc_aligned(most, align));
        ONCE(text, loam_zalloc_aligned(most, align));
        ONCE(text, loam_calloc_aligned(most, 1, align));
        ONCE(text, loam_realloc_aligned(old, most, align));
        ONCE(text, loam_rezalloc_aligned(old, most, align));
        ONCE(text, loam_recalloc_aligned(old, most, 1, align));
        ONCE(text, loam_heap_malloc_aligned(this_heap, most, align));
        ONCE(text, loam_heap_zalloc_aligned(this_heap, most, align));
        ONCE(text, loam_heap_calloc_aligned(this_heap, most, 1, align));
        ONCE(text, loam_heap_realloc_aligned(this_heap, old, most, align));
        ONCE(text, loam_heap_rezalloc_aligned(this_heap, old, most, align));
        ONCE(text, loam_heap_recalloc_aligned(this_heap, old, most, 1, align));
        for (size_t offset : {size_t{8}, size_t{1} << 30}) {
            ONCE(text, loam_malloc_aligned_offset(most, align, offset));
            ONCE(text, loam_zalloc_aligned_offset(most, align, offset));
            ONCE(text, loam_calloc_aligned_offset(1, most, align, offset));
            ONCE(text, loam_realloc_aligned_offset(old, most, align, offset));
            ONCE(text, loam_rezalloc_aligned_offset(old, most, align, offset));
            ONCE(text, loam_recalloc_aligned_offset(old, 1, most, align, offset));
        }
    }
}

TEST_F(Refusal, OfProductsByEveryForm) {
    const char *text =
        "loam: out of memory: more than there can be: 18446744073709551615 objects of 2 bytes";
    size_t most = hide(SIZE_MAX);
    ONCE(text, loam_calloc(most, 2));
    ONCE(text, loam_mallocarray(most, 2));
    ONCE(text, loam_reallocarray(old, most, 2));
    ONCE(text, loam_recalloc(old, most, 2));
    ONCE(text, loam_calloc_aligned(most, 2, 64));
    ONCE(text, loam_recalloc_aligned(old, most, 2, 64));
    ONCE(text, loam_calloc_aligned_offset(most, 2, 64, 8));
    ONCE(text, loam_recalloc_aligned_offset(old, most, 2, 64, 8));
    ONCE(text, loam_heap_calloc(this_heap, most, 2));
    ONCE(text, loam_heap_mallocarray(this_heap, most, 2));
    ONCE(text, loam_heap_reallocarray(this_heap, old, most, 2));
    ONCE(text, loam_heap_recalloc(this_heap, old, most, 2));
    ONCE(text, loam_heap_calloc_aligned(this_heap, most, 2, 64));
    ONCE(text, loam_heap_recalloc_aligned(this_heap, old, most, 2, 64));
}

TEST_F(Refusal, OfAlignmentsSaysWhatItWas) {
    const char *text = "loam: out of memory: more than there can be: 10 bytes at a multiple of "
                       "9223372036854775808 refused";
    size_t align = hide(size_t{1} << 63);
    ONCE(text, loam_malloc_aligned(10, align));
    ONCE(text, loam_aligned_alloc(align, 10));
    ONCE(text, loam_memalign(align, 10));
    ONCE(text, loam_zalloc_aligned(10, align));
    ONCE(text, loam_malloc_aligned_offset(10, align, 8));
    ONCE(text, loam_heap_malloc_aligned(this_heap, 10, align));
    /* Possible as a number, but nowhere. */
    told.clear();
    EXPECT_EQ(nullptr, loam_malloc_aligned(10, hide(size_t{1} << 60)));
    ASSERT_EQ(1u, told.size());
    EXPECT_EQ(ENOMEM, told[0].code);
    EXPECT_NE(std::string::npos,
              told[0].message.find("at a multiple of 1152921504606846976 refused"))
        << told[0].message;
}

/* An object that cannot grow where it is, is nothing to be told of; nor is a mistake. */
TEST_F(Refusal, OfNothingElse) {
    told.clear();
    EXPECT_EQ(nullptr, loam_expand(p, hide(size_t{1} << 20)));
    EXPECT_EQ(nullptr, loam_expand(nullptr, 10));
    EXPECT_EQ(nullptr, loam_malloc_aligned(10, hide(size_t{24})));
    EXPECT_EQ(nullptr, loam_calloc_aligned(hide(SIZE_MAX), 2, hide(size_t{24})));
    EXPECT_TRUE(told.empty());
}

} // namespace
