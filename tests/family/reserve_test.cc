// reserve_test.cc: the source over a reserved range of addresses.
#include "loam/source.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kKib = 1024, kMib = 1024 * kKib, kGib = 1024 * kMib;
constexpr size_t kUnit = 64 * kKib;

struct Reserve : loam_reserve {
    explicit Reserve(size_t bytes) { error = loam_reserve_init(this, bytes); }
    ~Reserve() { loam_reserve_deinit(this); }
    char *take(size_t bytes, size_t align = 16) {
        size_t got = 0;
        void *chunk = loam_source_get(&source, bytes, align, &got);
        EXPECT_TRUE(chunk == nullptr || got == bytes) << got;
        return static_cast<char *>(chunk);
    }
    void give(void *chunk, size_t bytes) { loam_source_put(&source, chunk, bytes); }
    size_t committed_bytes() const { return static_cast<size_t>(committed - start); }
    int error;
};

/* Whether the page at p is mapped for writing: the system refuses to read a file into it if not. */
bool writable(const void *p) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    bool good = write(ends[1], "x", 1) == 1 && read(ends[0], const_cast<void *>(p), 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return good;
}

size_t resident_pages(const char *at, size_t bytes) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> there(bytes / page);
    if (mincore(const_cast<char *>(at), bytes, there.data()) != 0) return SIZE_MAX;
    size_t n = 0;
    for (unsigned char t : there) n += t & 1;
    return n;
}

TEST(Reserve, ChunksFollowEachOtherAndNothingMoves) {
    Reserve reserve(kGib);
    ASSERT_EQ(reserve.error, 0);
    char *first = reserve.take(100);
    ASSERT_EQ(first, reserve.start);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % (2 * kMib), 0u) << "where huge pages may be";
    memset(first, 'a', 100);
    char *end = first + 100;
    for (int i = 0; i < 300; i++) {
        size_t bytes = 1 + static_cast<size_t>(i) * 997;
        char *chunk = reserve.take(bytes, 1);
        ASSERT_EQ(chunk, end);
        memset(chunk, 'b', bytes);
        end += bytes;
    }
    EXPECT_EQ(first[99], 'a');
    EXPECT_EQ(end[-1], 'b');
}

TEST(Reserve, OnlyWhatIsUsedIsCommitted) {
    Reserve reserve(64 * kGib);
    ASSERT_EQ(reserve.error, 0);
    EXPECT_EQ(reserve.committed_bytes(), 0u);
    EXPECT_NE(reserve.take(1), nullptr);
    EXPECT_EQ(reserve.committed_bytes(), kUnit);
    EXPECT_TRUE(writable(reserve.start + kUnit - 1));
    EXPECT_FALSE(writable(reserve.start + kUnit));
    size_t steps = 0, committed = kUnit;
    while (reserve.at < reserve.start + 64 * kMib) {
        ASSERT_NE(reserve.take(4096), nullptr);
        size_t now = reserve.committed_bytes();
        ASSERT_LE(now, static_cast<size_t>(reserve.at - reserve.start) * 5 / 4 + kUnit);
        steps += now != committed;
        committed = now;
    }
    EXPECT_LE(steps, 40u) << "steps grow with what is there";
    EXPECT_EQ(resident_pages(reserve.start + kUnit, committed - kUnit), 0u)
        << "what was never touched occupies nothing";
}

TEST(Reserve, TheEndIsUsedToTheLastByteAndNotBeyond) {
    for (size_t bytes : {size_t{1}, kUnit, kUnit + 1, 3 * kMib}) {
        Reserve reserve(bytes);
        ASSERT_EQ(reserve.error, 0);
        size_t whole = (bytes + kUnit - 1) / kUnit * kUnit;
        EXPECT_EQ(reserve.take(whole + 1), nullptr);
        char *chunk = reserve.take(whole - 1);
        ASSERT_NE(chunk, nullptr);
        memset(chunk, 1, whole - 1);
        char *last = reserve.take(1, 1);
        ASSERT_EQ(last, chunk + whole - 1);
        *last = 1;
        EXPECT_EQ(reserve.take(1, 1), nullptr);
        reserve.give(last, 1);
        EXPECT_EQ(reserve.take(1, 1), last);
    }
}

TEST(Reserve, MemoryGoesBackWhenMuchIsIdle) {
    Reserve reserve(kGib);
    ASSERT_EQ(reserve.error, 0);
    std::vector<char *> chunks;
    for (int i = 0; i < 64; i++) {
        chunks.push_back(reserve.take(kMib));
        ASSERT_NE(chunks.back(), nullptr);
        memset(chunks.back(), 1, kMib);
    }
    while (chunks.size() > 8) {
        reserve.give(chunks.back(), kMib);
        chunks.pop_back();
        size_t used = chunks.size() * kMib;
        EXPECT_LE(reserve.committed_bytes(), used + (used / 2 > 2 * kMib ? used / 2 : 2 * kMib));
    }
    EXPECT_FALSE(writable(reserve.committed));
    EXPECT_EQ(chunks[7][kMib - 1], 1);
    /* To and fro within the kept part: no system call, the same memory. */
    char *committed = reserve.committed;
    for (int i = 0; i < 100; i++) {
        char *chunk = reserve.take(kMib);
        ASSERT_NE(chunk, nullptr);
        reserve.give(chunk, kMib);
        EXPECT_EQ(reserve.committed, committed);
    }
    while (!chunks.empty()) {
        reserve.give(chunks.back(), kMib);
        chunks.pop_back();
    }
    EXPECT_LE(reserve.committed_bytes(), 2 * kMib);
    /* What comes again is usable, wherever it was given back. */
    char *all = reserve.take(kGib);
    ASSERT_NE(all, nullptr);
    all[0] = all[kGib / 2] = all[kGib - 1] = 1;
    EXPECT_EQ(all[20 * kMib], 0) << "given back and fresh";
}

TEST(Reserve, OutOfOrderPutsAreThereWhenAllIsBack) {
    Reserve reserve(kMib);
    ASSERT_EQ(reserve.error, 0);
    char *a = reserve.take(1000), *b = reserve.take(1000, 4096), *c = reserve.take(1000);
    reserve.give(a, 1000);
    reserve.give(b, 1000);
    EXPECT_GT(reserve.take(16), c);
    reserve.give(reserve.at - 16, 16);
    reserve.give(c, 1000);
    EXPECT_EQ(reserve.take(kMib), reserve.start);
}

TEST(Reserve, ImpossibleSizes) {
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - kUnit, static_cast<size_t>(PTRDIFF_MAX),
                         static_cast<size_t>(PTRDIFF_MAX) - kUnit, size_t{1} << 56}) {
        Reserve reserve(bytes);
        EXPECT_EQ(reserve.error, -ENOMEM) << bytes;
        EXPECT_EQ(reserve.take(1), nullptr);
    }
    Reserve reserve(kMib);
    size_t got = 77;
    for (size_t bytes : {SIZE_MAX, static_cast<size_t>(PTRDIFF_MAX), kMib + 1}) {
        for (size_t align : {size_t{1}, size_t{4096}, size_t{1} << 40, size_t{1} << 63}) {
            EXPECT_EQ(loam_source_get(&reserve.source, bytes, align, &got), nullptr);
        }
    }
    EXPECT_EQ(got, 77u);
    EXPECT_EQ(reserve.take(kMib), reserve.start) << "nothing is lost";
}

TEST(Reserve, TheAddressesAreFreeAfterTheEnd) {
    loam_reserve reserve;
    ASSERT_EQ(loam_reserve_init(&reserve, 4 * kMib), 0);
    size_t got = 0;
    char *chunk = static_cast<char *>(loam_source_get(&reserve.source, kMib, 1, &got));
    ASSERT_NE(chunk, nullptr);
    EXPECT_TRUE(writable(chunk));
    loam_reserve_deinit(&reserve);
    EXPECT_EQ(loam_source_get(&reserve.source, 1, 1, &got), nullptr);
    EXPECT_FALSE(writable(chunk));
    loam_reserve_deinit(&reserve);
    /* Two hundred tebibytes, one after the other, more than there are: nothing stays behind. Few of
     * them under tools, which leave less room, and where an emulator may walk each page of a
     * range. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__aarch64__)
    const size_t each = kGib, count = 20;
#else
    const size_t each = 1024 * kGib, count = 200;
#endif
    for (size_t i = 0; i < count; i++) {
        ASSERT_EQ(loam_reserve_init(&reserve, each), 0) << i;
        loam_reserve_deinit(&reserve);
    }
}

TEST(Reserve, AddressesMayBeLimited) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers need more addresses than a limit would leave";
#endif
    rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    rlimit small = before;
    small.rlim_cur = 2 * kGib;
    if (setrlimit(RLIMIT_AS, &small) != 0) GTEST_SKIP() << "no limit can be set";
    loam_reserve large, fits;
    int refused = loam_reserve_init(&large, 4 * kGib), taken = loam_reserve_init(&fits, 16 * kMib);
    setrlimit(RLIMIT_AS, &before);
    if (refused == 0) {
        loam_reserve_deinit(&large);
        loam_reserve_deinit(&fits);
        GTEST_SKIP() << "the system does not keep the limit (an emulator)";
    }
    EXPECT_EQ(refused, -ENOMEM);
    EXPECT_EQ(taken, 0);
    loam_reserve_deinit(&large);
    loam_reserve_deinit(&fits);
}

} // namespace
