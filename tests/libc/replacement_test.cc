/* replacement_test.cc: a program that replaces operator new and delete, and only the plain ones.
 *
 * The standard's replacement rules ([new.delete]): new[] calls new, nothrow forms call the throwing
 * one and turn its bad_alloc into nullptr, delete[] and the sized and nothrow deletes call plain
 * delete; the aligned family is apart. All of them are loam's, and must reach the program's two.
 * Linked with libloam.so here; CMakeLists.txt also runs it with loam preloaded instead.
 */
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

/* That only the plain two are replaced is the point here. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

/* clang declares these only when told to (-fsized-deallocation). */
void operator delete(void *p, size_t size) noexcept;
void operator delete[](void *p, size_t size) noexcept;
void operator delete(void *p, size_t size, std::align_val_t align) noexcept;
void operator delete[](void *p, size_t size, std::align_val_t align) noexcept;

namespace {

struct Counts {
    int news = 0;
    int deletes = 0;
    size_t last_size = 0;
    void *last_deleted = nullptr;
};

Counts counts;
bool refuse = false;

/* What the replacements hand out starts with a word of their own, so that memory of one allocator
 * released by the other would be noticed at once. */
constexpr size_t kHeader = 64;
constexpr unsigned long kMagic = 0x5eed5eed12345678;

template <typename T> T hide(T value) {
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

} // namespace

void *operator new(size_t size) {
    counts.news++;
    counts.last_size = size;
    if (refuse) throw std::bad_alloc();
    auto *block = static_cast<char *>(malloc(size + kHeader));
    if (block == nullptr) throw std::bad_alloc();
    *reinterpret_cast<unsigned long *>(block) = kMagic;
    return block + kHeader;
}

void operator delete(void *p) noexcept {
    if (p == nullptr) return;
    counts.deletes++;
    counts.last_deleted = p;
    char *block = static_cast<char *>(p) - kHeader;
    if (*reinterpret_cast<unsigned long *>(block) != kMagic)
        abort(); /* not from operator new above */
    *reinterpret_cast<unsigned long *>(block) = 0;
    free(block);
}

namespace {

constexpr std::nothrow_t kNothrow{};

/* One allocation and its release: both must pass through the replacements, once each. */
template <typename Allocate, typename Release>
void through_both(const char *what, Allocate allocate, Release release) {
    Counts before = counts;
    void *p = hide(allocate());
    ASSERT_NE(p, nullptr) << what;
    EXPECT_EQ(counts.news, before.news + 1) << what << ": operator new was not reached";
    EXPECT_EQ(counts.last_size, 40u) << what;
    release(p);
    EXPECT_EQ(counts.deletes, before.deletes + 1) << what << ": operator delete was not reached";
    EXPECT_EQ(counts.last_deleted, p) << what;
}

TEST(Replacement, PlainForms) {
    through_both(
        "new", [] { return ::operator new(hide(size_t{40})); },
        [](void *p) { ::operator delete(p); });
    through_both(
        "sized delete", [] { return ::operator new(hide(size_t{40})); },
        [](void *p) { ::operator delete(p, size_t{40}); });
}

TEST(Replacement, ArrayFormsGoThrough) {
    through_both(
        "new[]", [] { return ::operator new[](hide(size_t{40})); },
        [](void *p) { ::operator delete[](p); });
    through_both(
        "sized delete[]", [] { return ::operator new[](hide(size_t{40})); },
        [](void *p) { ::operator delete[](p, size_t{40}); });
}

TEST(Replacement, NothrowFormsGoThrough) {
    through_both(
        "nothrow new", [] { return ::operator new(hide(size_t{40}), kNothrow); },
        [](void *p) { ::operator delete(p, kNothrow); });
    through_both(
        "nothrow new[]", [] { return ::operator new[](hide(size_t{40}), kNothrow); },
        [](void *p) { ::operator delete[](p, kNothrow); });
}

TEST(Replacement, NothrowFormsTurnItsBadAllocIntoNull) {
    refuse = true;
    int before = counts.news;
    void *object = ::operator new(hide(size_t{40}), kNothrow);
    void *array = ::operator new[](hide(size_t{40}), kNothrow);
    int after = counts.news;
    refuse = false;
    EXPECT_EQ(object, nullptr);
    EXPECT_EQ(array, nullptr);
    EXPECT_EQ(after, before + 2);
}

TEST(Replacement, BadAllocOfTheReplacementLeavesArrayNew) {
    refuse = true;
    bool thrown = false;
    try {
        hide(::operator new[](hide(size_t{40})));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    refuse = false;
    EXPECT_TRUE(thrown);
}

TEST(Replacement, AlignedFormsAreApart) {
    Counts before = counts;
    auto align = std::align_val_t{128};
    void *object = ::operator new(hide(size_t{40}), align);
    void *array = ::operator new[](hide(size_t{40}), align);
    void *quiet = ::operator new(hide(size_t{40}), align, kNothrow);
    ::operator delete(object, align);
    ::operator delete[](array, size_t{40}, align);
    ::operator delete(quiet, align, kNothrow);
    EXPECT_EQ(counts.news, before.news);
    EXPECT_EQ(counts.deletes, before.deletes);
}

TEST(Replacement, LibrariesUseItToo) {
    Counts before = counts;
    {
        std::vector<std::string> strings(1000, std::string(100, 'x')); /* code inside libstdc++ */
        strings[3].append(5000, 'y');
        auto shared = std::make_shared<std::string>(strings[3]);
    }
    EXPECT_GE(counts.news, before.news + 1001);
    EXPECT_EQ(counts.news - before.news, counts.deletes - before.deletes);
}

TEST(Replacement, MallocStaysOutside) {
    Counts before = counts;
    free(hide(malloc(hide(size_t{40}))));
    EXPECT_EQ(counts.news, before.news);
    EXPECT_EQ(counts.deletes, before.deletes);
}

} // namespace
