/* new_delete_test.cc: operator new and operator delete in every form of C++17, and the new_handler.
 *
 * Ten ways to allocate (new, new[]; plain, nothrow, aligned, aligned nothrow) and twelve to release
 * (also sized), each allocation released in each legal way. The handler is called again and again
 * until memory turns up, it throws, or it is taken away. Replacement by the program itself is in
 * replacement_test.cc.
 */
#include "libc_test.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <map>
#include <memory>
#include <new>
#include <thread>

/* clang declares these only when told to (-fsized-deallocation). */
void operator delete(void *p, size_t size) noexcept;
void operator delete[](void *p, size_t size) noexcept;
void operator delete(void *p, size_t size, std::align_val_t align) noexcept;
void operator delete[](void *p, size_t size, std::align_val_t align) noexcept;

namespace {

using libc_test::aligned;
using libc_test::hide;
using libc_test::impossible_sizes;
using libc_test::sizes_of_every_kind;

constexpr std::nothrow_t kNothrow{};

std::vector<size_t> extended_alignments() {
    std::vector<size_t> all;
    for (size_t align = 1; align <= 65536; align *= 2) all.push_back(align);
    return all;
}

void use(void *p, size_t size) {
    if (size > 0) {
        static_cast<char *>(p)[0] = 1;
        static_cast<char *>(p)[size - 1] = 2;
    }
    hide(p);
}

TEST(New, PlainFormsAndTheirDeletes) {
    for (size_t size : sizes_of_every_kind()) {
        for (int way = 0; way < 3; way++) {
            void *object = ::operator new(hide(size));
            void *array = ::operator new[](hide(size));
            void *quiet = ::operator new(hide(size), kNothrow);
            void *quiet_array = ::operator new[](hide(size), kNothrow);
            for (void *p : {object, array, quiet, quiet_array}) {
                ASSERT_NE(p, nullptr) << size;
                EXPECT_TRUE(aligned(p, 16)) << size;
                use(p, size);
            }
            errno = 61;
            switch (way) {
            case 0:
                ::operator delete(object);
                ::operator delete[](array);
                ::operator delete(quiet);
                ::operator delete[](quiet_array);
                break;
            case 1:
                ::operator delete(object, size);
                ::operator delete[](array, size);
                ::operator delete(quiet, size);
                ::operator delete[](quiet_array, size);
                break;
            default:
                ::operator delete(object, kNothrow);
                ::operator delete[](array, kNothrow);
                ::operator delete(quiet, kNothrow);
                ::operator delete[](quiet_array, kNothrow);
                break;
            }
            EXPECT_EQ(errno, 61);
        }
    }
}

TEST(New, AlignedFormsAndTheirDeletes) {
    for (size_t align : extended_alignments()) {
        auto a = static_cast<std::align_val_t>(align);
        for (size_t size : {size_t{0}, size_t{1}, size_t{40}, size_t{1000}, size_t{5000},
                            size_t{70000}, size_t{300000}}) {
            for (int way = 0; way < 3; way++) {
                void *object = ::operator new(hide(size), a);
                void *array = ::operator new[](hide(size), a);
                void *quiet = ::operator new(hide(size), a, kNothrow);
                void *quiet_array = ::operator new[](hide(size), a, kNothrow);
                for (void *p : {object, array, quiet, quiet_array}) {
                    ASSERT_NE(p, nullptr) << size;
                    EXPECT_TRUE(aligned(p, align)) << p << " " << align;
                    use(p, size);
                }
                switch (way) {
                case 0:
                    ::operator delete(object, a);
                    ::operator delete[](array, a);
                    ::operator delete(quiet, a);
                    ::operator delete[](quiet_array, a);
                    break;
                case 1:
                    ::operator delete(object, size, a);
                    ::operator delete[](array, size, a);
                    ::operator delete(quiet, size, a);
                    ::operator delete[](quiet_array, size, a);
                    break;
                default:
                    ::operator delete(object, a, kNothrow);
                    ::operator delete[](array, a, kNothrow);
                    ::operator delete(quiet, a, kNothrow);
                    ::operator delete[](quiet_array, a, kNothrow);
                    break;
                }
            }
        }
    }
}

TEST(New, DeleteOfNullIsNothing) {
    void *null = hide(static_cast<void *>(nullptr));
    ::operator delete(null);
    ::operator delete[](null);
    ::operator delete(null, size_t{10});
    ::operator delete[](null, size_t{10});
    ::operator delete(null, std::align_val_t{64});
    ::operator delete[](null, std::align_val_t{64});
    ::operator delete(null, size_t{10}, std::align_val_t{64});
    ::operator delete[](null, size_t{10}, std::align_val_t{64});
    ::operator delete(null, kNothrow);
    ::operator delete[](null, kNothrow);
    ::operator delete(null, std::align_val_t{64}, kNothrow);
    ::operator delete[](null, std::align_val_t{64}, kNothrow);
}

TEST(New, ZeroBytesAreUniqueObjects) {
    void *a = ::operator new(hide(size_t{0}));
    void *b = ::operator new[](hide(size_t{0}));
    void *c = ::operator new(hide(size_t{0}), std::align_val_t{32});
    EXPECT_TRUE(a != b && b != c && a != c);
    EXPECT_TRUE(a != nullptr && b != nullptr && c != nullptr);
    ::operator delete(a);
    ::operator delete[](b);
    ::operator delete(c, std::align_val_t{32});
}

TEST(New, ImpossibleSizesThrowOrReturnNull) {
    for (size_t size : impossible_sizes()) {
        EXPECT_THROW(hide(::operator new(hide(size))), std::bad_alloc) << size;
        EXPECT_THROW(hide(::operator new[](hide(size))), std::bad_alloc) << size;
        EXPECT_EQ(::operator new(hide(size), kNothrow), nullptr) << size;
        EXPECT_EQ(::operator new[](hide(size), kNothrow), nullptr) << size;
        for (size_t align : {size_t{8}, size_t{64}, size_t{4096}, size_t{1} << 21}) {
            auto a = static_cast<std::align_val_t>(align);
            EXPECT_THROW(hide(::operator new(hide(size), a)), std::bad_alloc) << size;
            EXPECT_THROW(hide(::operator new[](hide(size), a)), std::bad_alloc) << size;
            EXPECT_EQ(::operator new(hide(size), a, kNothrow), nullptr) << size;
            EXPECT_EQ(::operator new[](hide(size), a, kNothrow), nullptr) << size;
        }
    }
}

/* ---- the new_handler ------------------------------------------------------------------------- */

int handler_calls = 0;

void count_then_give_up() {
    if (++handler_calls == 5) std::set_new_handler(nullptr);
}

struct OutOfPatience {};

void count_then_throw() {
    if (++handler_calls == 3) throw OutOfPatience();
}

void throw_bad_alloc() {
    handler_calls++;
    throw std::bad_alloc();
}

constexpr size_t kImpossible = static_cast<size_t>(PTRDIFF_MAX) + 1;

class NewHandler : public testing::Test {
  protected:
    void SetUp() override { handler_calls = 0; }
    void TearDown() override { std::set_new_handler(nullptr); }
};

TEST_F(NewHandler, IsCalledUntilItIsTakenAway) {
    int expected = 0;
    auto check = [&](auto allocate) {
        handler_calls = 0;
        std::set_new_handler(count_then_give_up);
        EXPECT_THROW(hide(allocate()), std::bad_alloc);
        EXPECT_EQ(handler_calls, 5) << "form " << expected;
        EXPECT_EQ(std::get_new_handler(), nullptr);
        expected++;
    };
    check([] { return ::operator new(hide(kImpossible)); });
    check([] { return ::operator new[](hide(kImpossible)); });
    check([] { return ::operator new(hide(kImpossible), std::align_val_t{64}); });
    check([] { return ::operator new[](hide(kImpossible), std::align_val_t{64}); });
}

TEST_F(NewHandler, IsCalledByNothrowFormsWhichThenReturnNull) {
    auto check = [&](auto allocate) {
        handler_calls = 0;
        std::set_new_handler(count_then_give_up);
        EXPECT_EQ(allocate(), nullptr);
        EXPECT_EQ(handler_calls, 5);
    };
    check([] { return ::operator new(hide(kImpossible), kNothrow); });
    check([] { return ::operator new[](hide(kImpossible), kNothrow); });
    check([] { return ::operator new(hide(kImpossible), std::align_val_t{64}, kNothrow); });
    check([] { return ::operator new[](hide(kImpossible), std::align_val_t{64}, kNothrow); });
}

TEST_F(NewHandler, ItsOwnExceptionLeavesOperatorNew) {
    auto check = [&](auto allocate) {
        handler_calls = 0;
        std::set_new_handler(count_then_throw);
        EXPECT_THROW(hide(allocate()), OutOfPatience);
        EXPECT_EQ(handler_calls, 3);
    };
    check([] { return ::operator new(hide(kImpossible)); });
    check([] { return ::operator new[](hide(kImpossible)); });
    check([] { return ::operator new(hide(kImpossible), std::align_val_t{128}); });
    check([] { return ::operator new[](hide(kImpossible), std::align_val_t{128}); });
}

TEST_F(NewHandler, BadAllocInsideNothrowFormsBecomesNull) {
    std::set_new_handler(throw_bad_alloc);
    EXPECT_EQ(::operator new(hide(kImpossible), kNothrow), nullptr);
    EXPECT_EQ(::operator new[](hide(kImpossible), kNothrow), nullptr);
    EXPECT_EQ(::operator new(hide(kImpossible), std::align_val_t{64}, kNothrow), nullptr);
    EXPECT_EQ(::operator new[](hide(kImpossible), std::align_val_t{64}, kNothrow), nullptr);
    EXPECT_EQ(handler_calls, 4);
}

TEST_F(NewHandler, IsNotCalledBySuccessOrByMalloc) {
    std::set_new_handler(throw_bad_alloc);
    ::operator delete(::operator new(hide(size_t{100})));
    EXPECT_EQ(malloc(hide(kImpossible)), nullptr);
    EXPECT_EQ(handler_calls, 0);
}

/* ---- memory that really runs out, in a child with little address space
 * ------------------------ */

constexpr size_t kHogBytes = size_t{160} << 20;
constexpr size_t kChunkBytes = size_t{16} << 20;
void *hog = nullptr;

void free_the_hog() {
    handler_calls++;
    free(hog);
    hog = nullptr;
}

size_t address_space_bytes() {
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages = 0;
    if (file == nullptr) return 0;
    if (fscanf(file, "%zu", &pages) != 1) pages = 0;
    fclose(file);
    return pages * libc_test::page_bytes();
}

/* The hog, then as many chunks as there is room for, and then one more with the handler's help. */
int run_out_and_recover() {
    hog = malloc(hide(kHogBytes));
    if (hog == nullptr) return 10;
    struct rlimit limit = {};
    limit.rlim_cur = limit.rlim_max = address_space_bytes() + (size_t{100} << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 11;
    size_t chunks = 0;
    while (::operator new(hide(kChunkBytes), kNothrow) != nullptr) {
        if (++chunks > 100000) return 12; /* the limit has no effect */
    }
    handler_calls = 0;
    std::set_new_handler(free_the_hog);
    void *p = ::operator new(hide(kChunkBytes));
    if (p == nullptr) return 13;
    if (handler_calls != 1) return 14;
    memset(p, 1, kChunkBytes);
    ::operator delete(p);
    return 0;
}

TEST(NewHandlerForReal, FreeingMemoryLetsTheAllocationSucceed) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(run_out_and_recover());
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

int run_out_until_bad_alloc() {
    struct rlimit limit = {};
    limit.rlim_cur = limit.rlim_max = address_space_bytes() + (size_t{64} << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 11;
    static void *taken[1000000];
    for (size_t size : {size_t{1} << 20, size_t{50000}, size_t{1000}}) {
        size_t count = 0;
        bool thrown = false;
        while (!thrown && count < 1000000) {
            try {
                taken[count] = ::operator new(hide(size));
                memset(taken[count], 1, size);
                count++;
            } catch (const std::bad_alloc &) {
                thrown = true;
            }
        }
        if (!thrown) return 20;
        if (::operator new(hide(size), kNothrow) != nullptr) return 21;
        if (count * size < (size_t{16} << 20)) return 22; /* a fair part of the 64 MiB */
        for (size_t i = 0; i < count; i++) ::operator delete(taken[i]);
        void *again = ::operator new(hide(size), kNothrow);
        if (again == nullptr) return 23; /* the heap is whole again */
        ::operator delete(again);
    }
    return 0;
}

TEST(NewHandlerForReal, WithoutOneBadAllocIsThrownAndTheHeapSurvives) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(run_out_until_bad_alloc());
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

/* ---- as programs use them -------------------------------------------------------------------- */

struct alignas(256) Wide {
    char bytes[300];
};

TEST(NewExpressions, OverAlignedTypesAndContainers) {
    std::vector<std::unique_ptr<Wide>> wides;
    for (int i = 0; i < 200; i++) {
        wides.push_back(std::make_unique<Wide>());
        ASSERT_TRUE(aligned(wides.back().get(), 256));
    }
    std::unique_ptr<Wide[]> array(new Wide[7]);
    EXPECT_TRUE(aligned(array.get(), 256));
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 5000; i++) map[std::to_string(i)].resize(static_cast<size_t>(i % 97));
    std::thread([&] {
        for (int i = 0; i < 2500; i++) map.erase(std::to_string(i));
    }).join();
    EXPECT_EQ(map.size(), 2500u);
}

TEST(NewExpressions, ArrayLengthOverflowThrows) {
    size_t count = hide(SIZE_MAX / 4);
    /* bad_array_new_length is one; clang throws its base. */
    EXPECT_THROW(hide(new double[count]), std::bad_alloc);
    EXPECT_THROW(hide(new char[hide(static_cast<size_t>(PTRDIFF_MAX) / 2)]), std::bad_alloc);
}

/* Memory of a constructor that throws goes back. */
struct Thrower {
    char bytes[100000];
    Thrower() { throw 7; }
};

TEST(NewExpressions, ThrowingConstructorsLeakNothing) {
    size_t before = libc_test::resident_bytes();
    for (int i = 0; i < 20000; i++) EXPECT_THROW(hide(new Thrower), int);
    EXPECT_LT(libc_test::resident_bytes(), before + (size_t{64} << 20));
}

} // namespace
