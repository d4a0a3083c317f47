// guard_test.cc: objects of checked allocators, with an allocator made up for it: every object a
// block of malloc.
#include "unit/stderr_of.h"

#include "loam/registry.h"

#include <gtest/gtest.h>

extern "C" {
#include "family/family.h"
}

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

namespace {

using unit::stderr_of;

void no_usage(const loam_entry *, loam_usage *) {}
bool check_guards(const loam_entry *entry) { return lm_guard_check(entry); }
const loam_kind kKind = {"thing", no_usage, check_guards, nullptr};

/* Freed blocks stay until the end, as in an allocator that reuses late. */
class Things {
  public:
    explicit Things(const char *name = nullptr) { lm_entry_init(&entry, &kKind, name, true); }
    ~Things() {
        lm_guard_drop_all(&entry);
        lm_entry_deinit(&entry);
        for (Raw &raw : raws_) {
            lm_tool_show(raw.at, raw.bytes);
            free(raw.at);
        }
    }
    void *alloc(size_t bytes, size_t align = 16, unsigned line = 7, size_t more = 0) {
        size_t whole = lm_guard_whole(bytes, align) + more;
        void *raw = aligned_alloc(align < 16 ? 16 : align, (whole + align - 1) / align * align);
        raws_.push_back({raw, whole});
        return lm_guard_open(&entry, raw, whole, bytes, align, "made.c", line);
    }
    bool release(const void *p, unsigned line = 9) {
        loam_tag *tag = lm_guard_find(&entry, p, "free", "used.c", line);
        if (tag == nullptr) return false;
        return lm_guard_close(&entry, tag, "used.c", line) != nullptr;
    }
    bool owns_raw(const void *raw) const {
        for (const Raw &r : raws_) {
            if (r.at == raw) return true;
        }
        return false;
    }
    loam_entry entry;

  private:
    struct Raw {
        void *at;
        size_t bytes;
    };
    std::vector<Raw> raws_;
};

/* What is said when a mistake is not deadly. */
template <typename Code> std::string said(Code code) {
    lm_misuse_policy.ignore = true;
    std::string text = stderr_of(code);
    lm_misuse_policy.ignore = false;
    return text;
}

std::string hex(const void *p) {
    char text[32];
    snprintf(text, sizeof text, "%p", p);
    return text;
}
std::string thread() { return "thread " + std::to_string(gettid()) + ")\n"; }

/* Writes where no program may, past the eyes of a sanitizer. */
void poke(const void *p, ptrdiff_t offset, char value) {
    char *at = static_cast<char *>(const_cast<void *>(p)) + offset;
    lm_tool_show(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(at) & ~uintptr_t{7}), 8);
    *static_cast<volatile char *>(at) = value;
}

TEST(Guard, ObjectsAreAlignedFilledAndOfTheirSize) {
    Things things;
    for (size_t align = 1; align <= 8192; align *= 2) {
        for (size_t bytes : {0, 1, 7, 16, 100, 5000}) {
            auto *p = static_cast<unsigned char *>(things.alloc(bytes, align));
            EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (align < 16 ? 16 : align), 0u);
            for (size_t i = 0; i < bytes; i++) ASSERT_EQ(p[i], 0xa5);
            memset(p, 1, bytes);
            EXPECT_TRUE(lm_guard_check(&things.entry));
            EXPECT_TRUE(things.release(p)) << bytes << " at " << align;
        }
    }
}

TEST(Guard, SizesThatCannotBe) {
    EXPECT_EQ(lm_guard_head(16), lm_guard_head(1));
    EXPECT_EQ(lm_guard_head(16) % 16, 0u);
    EXPECT_EQ(lm_guard_whole(0, 1), lm_guard_head(16) + 16);
    EXPECT_EQ(lm_guard_whole(1, 64) % 16, 0u);
    const size_t most = PTRDIFF_MAX;
    for (size_t align : {size_t{1}, size_t{16}, size_t{4096}, size_t{1} << 61}) {
        size_t head = lm_guard_head(align);
        EXPECT_NE(lm_guard_whole(most - head - 32, align), 0u);
        EXPECT_LE(lm_guard_whole(most - head - 32, align), most);
        EXPECT_EQ(lm_guard_whole(most - head - 31, align), 0u);
        for (size_t bytes : {most, most + 1, SIZE_MAX - 100, SIZE_MAX})
            EXPECT_EQ(lm_guard_whole(bytes, align), 0u);
    }
    for (size_t bytes : {size_t{0}, size_t{1}, most, SIZE_MAX})
        EXPECT_EQ(lm_guard_whole(bytes, size_t{1} << 63), 0u) << bytes;
}

TEST(Guard, DoubleFreeNamesBothPlaces) {
    Things things("box");
    void *p = things.alloc(24, 16, 3);
    EXPECT_TRUE(things.release(p, 5));
    EXPECT_EQ(said([&] { EXPECT_FALSE(things.release(p, 8)); }),
              "loam: thing box: free of " + hex(p) +
                  " after its free at used.c:5, allocated at made.c:3 (at used.c:8, " + thread());
}

TEST(Guard, FreedBytesArePoisonedAndWritesToThemAreSeen) {
    Things things("box");
    auto *p = static_cast<unsigned char *>(things.alloc(40));
    loam_tag *tag = lm_guard_find(&things.entry, p, "free", "used.c", 1);
    ASSERT_NE(tag, nullptr);
    EXPECT_TRUE(things.owns_raw(lm_guard_close(&things.entry, tag, "used.c", 1)));
    EXPECT_TRUE(lm_guard_check_freed(&things.entry, tag));
    poke(p, 39, 0);
    EXPECT_EQ(said([&] { EXPECT_FALSE(lm_guard_check_freed(&things.entry, tag)); }),
              "loam: thing box: byte 40 of " + hex(p) + " written after its free at used.c:1 (" +
                  thread());
}

TEST(Guard, OverflowAndUnderflowAreSeenToTheByte) {
    for (size_t bytes : {0, 1, 13, 16, 64, 1000}) {
        Things things("box");
        auto end = static_cast<ptrdiff_t>(bytes);
        for (ptrdiff_t past : {0, 1, 15}) {
            void *p = things.alloc(bytes, 16, 4);
            poke(p, end + past, 1);
            EXPECT_EQ(said([&] { EXPECT_FALSE(things.release(p)); }),
                      "loam: thing box: overflow of " + hex(p) + ": byte " +
                          std::to_string(end + past + 1) + " of " + std::to_string(bytes) +
                          " written, allocated at made.c:4 (at used.c:9, " + thread());
            poke(p, end + past, static_cast<char>(LM_GUARD_BYTE));
            EXPECT_TRUE(things.release(p)) << "the object lived on";
        }
        for (ptrdiff_t before : {1, 16}) {
            void *p = things.alloc(bytes, 16, 4);
            poke(p, -before, 1);
            EXPECT_EQ(said([&] { EXPECT_FALSE(lm_guard_check(&things.entry)); }),
                      "loam: thing box: underflow of " + hex(p) + ": " + std::to_string(before) +
                          " byte(s) before it written, allocated at made.c:4 (" + thread());
            poke(p, -before, static_cast<char>(LM_GUARD_BYTE));
            EXPECT_TRUE(things.release(p));
        }
    }
}

TEST(Guard, OthersObjectsAreNamed) {
    Things mine("mine"), theirs("theirs");
    void *p = mine.alloc(16), *q = theirs.alloc(16);
    EXPECT_EQ(said([&] { EXPECT_FALSE(mine.release(q)); }),
              "loam: thing mine: free of " + hex(q) +
                  ", which belongs to thing theirs (at used.c:9, " + thread());
    EXPECT_EQ(said([&] { EXPECT_FALSE(theirs.release(p)); }),
              "loam: thing theirs: free of " + hex(p) +
                  ", which belongs to thing mine (at used.c:9, " + thread());
    EXPECT_TRUE(mine.release(p));
    EXPECT_TRUE(theirs.release(q));
}

TEST(Guard, ForeignPointersAreSeenWhereverTheyPoint) {
    Things things("box");
    alignas(16) char local[256] = {};
    auto no_object = [&](const void *p) {
        return "loam: thing box: free of " + hex(p) + ", which is no object of it (at used.c:9, " +
               thread();
    };
    /* An address behind which there is nothing: reading it would be the end. */
    void *nowhere = mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(nowhere, MAP_FAILED);
    for (bool with_objects : {false, true}) {
        if (with_objects) things.alloc(100);
        for (const void *p :
             {static_cast<const void *>(local + 128), static_cast<const void *>(local + 129),
              static_cast<const void *>(nowhere),
              static_cast<const void *>(static_cast<char *>(nowhere) + 65536),
              reinterpret_cast<const void *>(uintptr_t{16}),
              reinterpret_cast<const void *>(UINTPTR_MAX - 15),
              reinterpret_cast<const void *>(UINTPTR_MAX)}) {
            EXPECT_EQ(said([&] { EXPECT_FALSE(things.release(p)); }), no_object(p));
        }
    }
    munmap(nowhere, 1 << 20);
    /* Into an object: between its bounds, but no object. */
    char *p = static_cast<char *>(things.alloc(512));
    EXPECT_EQ(said([&] { EXPECT_FALSE(things.release(p + 256)); }), no_object(p + 256));
    /* A copy of a tag, elsewhere, is no tag. */
    auto *copy = static_cast<char *>(things.alloc(512));
    memcpy(copy + 16, reinterpret_cast<loam_tag *>(p) - 1, sizeof(loam_tag) - 16);
    char *fake = copy + 16 + sizeof(loam_tag);
    EXPECT_EQ(said([&] { EXPECT_FALSE(things.release(fake)); }), no_object(fake));
}

TEST(Guard, AllAreGoneAtOnce) {
    Things things("box");
    std::vector<void *> objects;
    for (int i = 0; i < 10; i++) objects.push_back(things.alloc(30));
    lm_guard_drop_all(&things.entry);
    EXPECT_EQ(things.entry.live, nullptr);
    for (void *p : objects) {
        std::string text = said([&] { EXPECT_FALSE(things.release(p)); });
        EXPECT_NE(text.find("after its free"), std::string::npos) << text;
    }
}

TEST(Guard, LeaksAreListedNewestFirst) {
    Things things("box");
    void *a = things.alloc(10, 16, 1), *b = things.alloc(20, 16, 2), *c = things.alloc(30, 16, 3);
    EXPECT_TRUE(things.release(b));
    size_t leaks = 0;
    EXPECT_EQ(stderr_of([&] { leaks = loam_registry_leaks(); }),
              "loam: thing box: leak of 30 bytes at " + hex(c) + ", allocated at made.c:3\n" +
                  "loam: thing box: leak of 10 bytes at " + hex(a) + ", allocated at made.c:1\n");
    EXPECT_EQ(leaks, 2u);
}

TEST(Guard, TheLiveListHoldsTogetherInAnyOrder) {
    for (unsigned seed = 1; seed <= 20; seed++) {
        Things things;
        std::vector<void *> live;
        unsigned random = seed * 2654435761u;
        for (int i = 0; i < 300; i++) {
            random = random * 1664525 + 1013904223;
            if (live.empty() || (random >> 16) % 3 != 0) {
                live.push_back(things.alloc((random >> 8) % 200));
            } else {
                size_t at = (random >> 16) % live.size();
                ASSERT_TRUE(things.release(live[at]));
                live.erase(live.begin() + static_cast<ptrdiff_t>(at));
            }
            size_t n = 0;
            for (loam_tag *tag = things.entry.live; tag != nullptr; tag = tag->next, n++) {
                ASSERT_EQ(static_cast<void *>(tag + 1), live[live.size() - 1 - n]);
            }
            ASSERT_EQ(n, live.size());
        }
    }
}

/* A large object's memory is the program's to touch, or not. */
TEST(Guard, LargeObjectsAreNotWalkedThrough) {
    Things things;
    const size_t bytes = size_t{64} << 20;
    size_t whole = lm_guard_whole(bytes, 16) + (size_t{1} << 20);
    void *raw = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(raw, MAP_FAILED);
    madvise(raw, whole, MADV_NOHUGEPAGE);
    void *p = lm_guard_open(&things.entry, raw, whole, bytes, 16, "made.c", 1);
    EXPECT_TRUE(lm_guard_check(&things.entry));
    EXPECT_TRUE(things.release(p));
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), n = 0;
    std::vector<unsigned char> there(whole / page + 1);
    ASSERT_EQ(mincore(raw, whole, there.data()), 0);
    for (unsigned char t : there) n += t & 1;
    EXPECT_LE(n * page, 4 * 65536u);
    lm_tool_show(raw, whole);
    munmap(raw, whole);
}

#if UNDER_ASAN
TEST(GuardDeathTest, AddressSanitizerSeesTheWriteItself) {
    Things things;
    auto *p = static_cast<volatile char *>(things.alloc(24));
    p[23] = 1;
    EXPECT_DEATH(p[24] = 1, "use-after-poison");
    EXPECT_DEATH(p[-1] = 1, "use-after-poison");
    things.release(const_cast<char *>(p));
    EXPECT_DEATH(p[0] = 1, "use-after-poison");
}
#else
TEST(GuardDeathTest, TheLineThenAbort) {
    Things things("box");
    void *p = things.alloc(24);
    things.release(p);
    EXPECT_DEATH(things.release(p),
                 "loam: thing box: free of 0x[0-9a-f]+ after its free at used.c:9");
}
#endif

} // namespace
