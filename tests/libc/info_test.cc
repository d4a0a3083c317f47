/* info_test.cc: mallinfo, mallinfo2, malloc_trim, mallopt, malloc_stats, malloc_info.
 *
 * The calls that look at the allocator or steer it: shape and plausibility of what they report
 * (exact figures are not promised, because a thread's own lists are not counted block by block),
 * and the promise that metadata takes at most 0.25% of the memory under management, on a fill of
 * 1 GiB, from the figures of malloc_info.
 */
#include "libc_test.h"

#include <fcntl.h>

#include <algorithm>
#include <functional>

namespace {

using libc_test::hide;
using libc_test::resident_bytes;

constexpr size_t kMiB = size_t{1} << 20;

/* What the action writes to file descriptor 2, whoever's buffers it goes through. */
std::string stderr_of(const std::function<void()> &action) {
    fflush(stderr);
    char path[] = "/tmp/loam-info-test-XXXXXX";
    int file = mkstemp(path);
    int saved = dup(2);
    if (file < 0 || saved < 0) return "(cannot capture)";
    unlink(path);
    dup2(file, 2);
    action();
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    off_t size = lseek(file, 0, SEEK_END);
    std::string text(static_cast<size_t>(size), '\0');
    if (pread(file, &text[0], text.size(), 0) != size) text = "(cannot read)";
    close(file);
    return text;
}

std::string xml_of(int options, int *result) {
    char *text = nullptr;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes); /* allocates while malloc_info writes */
    if (stream == nullptr) return "";
    *result = malloc_info(options, stream);
    fclose(stream);
    std::string copy(text, bytes);
    free(text);
    return copy;
}

/* The size="..." of <system type="NAME" size="..."/>; SIZE_MAX if there is none. */
size_t system_bytes(const std::string &xml, const char *type) {
    std::string start = std::string("<system type=\"") + type + "\" size=\"";
    size_t at = xml.find(start);
    if (at == std::string::npos) return SIZE_MAX;
    return strtoull(xml.c_str() + at + start.size(), nullptr, 10);
}

TEST(Mallinfo2, SeesALargeObjectComeAndGo) {
    struct mallinfo2 before = mallinfo2();
    void *p = malloc(hide(256 * kMiB));
    ASSERT_NE(p, nullptr);
    struct mallinfo2 during = mallinfo2();
    free(hide(p));
    struct mallinfo2 after = mallinfo2();
    size_t in_use_before = before.uordblks + before.hblkhd;
    size_t in_use_during = during.uordblks + during.hblkhd;
    size_t in_use_after = after.uordblks + after.hblkhd;
    EXPECT_GE(in_use_during, in_use_before + 256 * kMiB);
    EXPECT_LE(in_use_during, in_use_before + 258 * kMiB);
    EXPECT_LE(in_use_after, in_use_before + 2 * kMiB);
}

TEST(Mallinfo2, SeesManySmallObjects) {
    std::vector<void *> all(1000000);
    size_t before = mallinfo2().uordblks;
    for (auto &p : all) p = malloc(hide(size_t{100}));
    size_t during = mallinfo2().uordblks;
    EXPECT_GE(during, before + all.size() * 100 * 9 / 10);
    EXPECT_LE(during, before + all.size() * 100 * 13 / 10 + kMiB);
    for (void *p : all) free(p);
    EXPECT_LE(mallinfo2().uordblks, before + 8 * kMiB);
}

TEST(Mallinfo2, PartsAddUp) {
    void *p = malloc(hide(30 * kMiB));
    struct mallinfo2 info = mallinfo2();
    EXPECT_LE(info.uordblks + info.fordblks, info.arena + info.hblkhd);
    EXPECT_GT(info.arena + info.hblkhd, 0u);
    EXPECT_LE(info.keepcost, info.arena + info.hblkhd);
    free(p);
}

/* What LTP's mallinfo02 expects: a block of 20 KiB is in no mapping of its own and costs more than
 * its bytes; an object of as many bytes as are free, and of 128 KiB at least, is. */
TEST(Mallinfo2, TellsSmallFromLarge) {
    struct mallinfo2 before = mallinfo2();
    void *small = malloc(hide(size_t{20480}));
    struct mallinfo2 during = mallinfo2();
    EXPECT_GT(during.uordblks, 20480u);
    EXPECT_EQ(before.hblks, during.hblks);
    free(small);
    size_t bytes = std::max(mallinfo2().fordblks, size_t{131072});
    void *large = malloc(hide(bytes));
    ASSERT_NE(nullptr, large);
    during = mallinfo2();
    EXPECT_GT(during.hblkhd, bytes);
    EXPECT_EQ(before.hblks + 1, during.hblks);
    free(large);
}

/* A freed block is counted by its size, and new blocks of many classes do not change the number. */
TEST(Mallinfo2, CountsFreedBlocks) {
    std::vector<void *> all;
    struct mallinfo2 before = mallinfo2();
    for (size_t size = 1100; size <= 4000; size += 100) all.push_back(malloc(hide(size)));
    struct mallinfo2 during = mallinfo2();
    EXPECT_LE(during.ordblks, before.ordblks);
    for (size_t freed = 1; freed <= 3; freed++) {
        free(all.back());
        all.pop_back();
        struct mallinfo2 after = mallinfo2();
        EXPECT_EQ(after.ordblks, during.ordblks + freed);
        EXPECT_EQ(static_cast<unsigned>(mallinfo().ordblks), after.ordblks);
    }
    for (void *p : all) free(p);

    size_t with_small = mallinfo2().ordblks;
    free(malloc(hide(size_t{700})));
    EXPECT_EQ(mallinfo2().ordblks, with_small);
    EXPECT_EQ(mallinfo2().smblks, 0u);
}

/* What a mapped object takes is more than its size, as with glibc's. */
TEST(Mallinfo2, ALargeObjectTakesMoreThanItsSize) {
    for (size_t size : {size_t{131072}, size_t{1} << 20, (size_t{1} << 20) + 1}) {
        size_t before = mallinfo2().hblkhd;
        void *p = malloc(hide(size));
        EXPECT_GT(mallinfo2().hblkhd, before + size);
        free(p);
        EXPECT_EQ(mallinfo2().hblkhd, before);
    }
}

TEST(Mallinfo, AgreesWithMallinfo2WhereItFits) {
    void *p = malloc(hide(20 * kMiB));
    struct mallinfo2 wide = mallinfo2();
    struct mallinfo narrow = mallinfo();
    EXPECT_EQ(static_cast<size_t>(static_cast<unsigned>(narrow.uordblks + narrow.hblkhd)),
              static_cast<size_t>(static_cast<unsigned>(wide.uordblks + wide.hblkhd)));
    free(p);
}

TEST(MallocTrim, GivesBackWhatWasFreedAndSaysSo) {
    std::vector<void *> all(2000);
    for (int kind = 0; kind < 2; kind++) {
        size_t size = kind == 0 ? size_t{64} * 1024 : size_t{1} << 20;
        size_t count = kind == 0 ? 2000 : 128;
        for (size_t i = 0; i < count; i++) {
            all[i] = malloc(hide(size));
            ASSERT_NE(all[i], nullptr);
            memset(all[i], 1, size);
        }
        size_t peak = resident_bytes();
        for (size_t i = 0; i < count; i++) free(all[i]);
        size_t freed = resident_bytes();
        errno = 31;
        int released = malloc_trim(0);
        EXPECT_EQ(errno, 31);
        EXPECT_TRUE(released == 0 || released == 1) << released;
        size_t trimmed = resident_bytes();
        EXPECT_LT(trimmed + 100 * kMiB, peak) << size;
        if (freed > trimmed + 16 * kMiB) {
            EXPECT_EQ(released, 1) << "memory was given back";
        }
    }
}

TEST(MallocTrim, KeepsWhatIsInUse) {
    std::vector<unsigned char *> all(3000);
    for (size_t i = 0; i < all.size(); i++) {
        all[i] = static_cast<unsigned char *>(malloc(hide(size_t{5000})));
        memset(all[i], static_cast<int>(i), 5000);
    }
    for (size_t i = 0; i < all.size(); i += 2) free(all[i]);
    malloc_trim(0);
    malloc_trim(SIZE_MAX);
    for (size_t i = 1; i < all.size(); i += 2) {
        for (size_t at = 0; at < 5000; at++) {
            ASSERT_EQ(all[i][at], static_cast<unsigned char>(i));
        }
        free(all[i]);
    }
}

TEST(Mallopt, KnownParametersAreAccepted) {
    EXPECT_EQ(mallopt(M_MMAP_THRESHOLD, 128 * 1024), 1);
    EXPECT_EQ(mallopt(M_TRIM_THRESHOLD, 128 * 1024), 1);
    EXPECT_EQ(mallopt(M_TOP_PAD, 64 * 1024), 1);
    EXPECT_EQ(mallopt(M_MMAP_MAX, 65536), 1);
    EXPECT_EQ(mallopt(M_ARENA_MAX, 2), 1);
    EXPECT_EQ(mallopt(M_ARENA_TEST, 2), 1);
    EXPECT_EQ(mallopt(M_MXFAST, 64), 1);
    EXPECT_EQ(mallopt(M_CHECK_ACTION, 0), 1);
    EXPECT_EQ(mallopt(M_PERTURB, 0), 1);
    void *p = malloc(hide(size_t{1000}));
    EXPECT_NE(p, nullptr);
    free(p);
}

TEST(Mallopt, UnknownParametersAreRefused) {
    for (int param : {12345, -100, 77, INT32_MAX, INT32_MIN}) {
        EXPECT_EQ(mallopt(param, 1), 0) << param;
    }
}

TEST(MallocStats, PrintsToStandardError) {
    void *p = malloc(hide(3 * kMiB));
    std::string text = stderr_of([] { malloc_stats(); });
    free(p);
    EXPECT_GT(text.size(), 40u);
    EXPECT_EQ(text.back(), '\n') << text;
    EXPECT_NE(text.find_first_of("0123456789"), std::string::npos);
}

void *print_while_cancelled(void *) {
    pthread_cancel(pthread_self()); /* takes effect at the first cancellation point */
    malloc_stats();
    pthread_testcancel();
    return nullptr;
}

/* glibc's last lines are there, though the thread is to end, and no lock stays with it. */
TEST(MallocStats, IsWholeInAThreadThatIsCancelled) {
    for (int round = 0; round < 3; round++) {
        void *result = nullptr;
        std::string text = stderr_of([&result] {
            pthread_t thread;
            if (pthread_create(&thread, nullptr, print_while_cancelled, nullptr) == 0)
                pthread_join(thread, &result);
        });
        EXPECT_EQ(result, PTHREAD_CANCELED);
        EXPECT_NE(text.find("max mmap bytes"), std::string::npos) << text;
    }
}

TEST(MallocInfo, WritesXml) {
    void *p = malloc(hide(3 * kMiB));
    int result = -1;
    std::string xml = xml_of(0, &result);
    free(p);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(xml.rfind("<malloc", 0), 0u) << xml;
    size_t end = xml.find("</malloc>");
    ASSERT_NE(end, std::string::npos) << xml;
    EXPECT_EQ(xml.find_first_not_of(" \n", end + strlen("</malloc>")), std::string::npos) << xml;
    /* As many elements closed as opened, and no stray quote. */
    int depth = 0;
    long quotes = 0;
    for (size_t i = 0; i < xml.size(); i++) {
        if (xml[i] == '"') quotes++;
        if (xml[i] != '<') continue;
        size_t close = xml.find('>', i);
        ASSERT_NE(close, std::string::npos);
        if (xml[i + 1] == '/') {
            depth--;
        } else if (xml[close - 1] != '/' && xml[i + 1] != '?') {
            depth++;
        }
        ASSERT_GE(depth, 0) << xml;
    }
    EXPECT_EQ(depth, 0) << xml;
    EXPECT_EQ(quotes % 2, 0) << xml;
}

TEST(MallocInfo, OtherOptionsAreEinval) {
    for (int options : {1, -1, 4096}) {
        int result = 0;
        errno = 0;
        std::string xml = xml_of(options, &result);
        EXPECT_NE(result, 0);
        EXPECT_TRUE(result == EINVAL || errno == EINVAL) << result << " errno " << errno;
        EXPECT_EQ(xml, "") << "nothing is written";
    }
}

/* 1 GiB of 32 KiB objects: metadata depends on the memory managed, not on the objects in it. */
TEST(Metadata, IsAtMostAQuarterOfAPercent) {
    constexpr size_t kTotal = size_t{1} << 30;
    for (size_t size : {size_t{32} * 1024, size_t{300} * 1024, size_t{1} << 26}) {
        std::vector<void *> all(kTotal / size);
        for (auto &p : all) {
            p = malloc(hide(size));
            ASSERT_NE(p, nullptr);
        }
        int result = -1;
        std::string xml = xml_of(0, &result);
        ASSERT_EQ(result, 0);
        size_t metadata = system_bytes(xml, "metadata");
        size_t arena = system_bytes(xml, "arena");
        ASSERT_NE(metadata, SIZE_MAX) << xml;
        ASSERT_NE(arena, SIZE_MAX) << xml;
        printf("%zu B objects: %zu bytes of metadata over %zu: %.4f%%\n", size, metadata, arena,
               100.0 * static_cast<double>(metadata) / static_cast<double>(arena));
        EXPECT_GE(arena, kTotal);
        EXPECT_GT(metadata, 0u);
        EXPECT_LE(metadata * 400, arena);
        for (void *p : all) free(p);
    }
}

/* The same as the machine sees it: objects never written to leave only metadata resident. */
TEST(Metadata, ResidentShareOfUntouchedMemory) {
    if (libc_test::kDebugBuild)
        GTEST_SKIP() << "a debug build writes check bytes behind each object";
    constexpr size_t kTotal = size_t{1} << 30;
    constexpr size_t kSize = size_t{1} << 20;
    std::vector<void *> all(kTotal / kSize);
    malloc_trim(0);
    size_t before = resident_bytes();
    for (auto &p : all) p = malloc(hide(kSize));
    size_t grown = resident_bytes() - before;
    printf("1 GiB of untouched objects: %zu resident bytes\n", grown);
    /* In the secure build the system counts guards among it, another map entry for each object. It
     * makes 512 guards in 50 ms at most, and each object beyond these has a canary, which makes a
     * page resident. */
    EXPECT_LE(grown * (libc_test::kSecureBuild ? 200 : 400), kTotal);
    for (void *p : all) free(p);
}

} // namespace
