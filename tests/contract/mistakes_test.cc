// mistakes_test.cc: one table of mistakes, and what is said of each: by every checked allocator, in
// the same words.
#include "rows.h"

#include "unit/stderr_of.h"

#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <functional>

namespace {

using namespace contract;
using unit::stderr_of;

/* Writes where no program may, past the eyes of a sanitizer. */
void poke(void *p, ptrdiff_t offset, int value) {
    char *at = static_cast<char *>(p) + offset;
    lm_tool_show(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(at) & ~uintptr_t{7}), 8);
    *static_cast<volatile char *>(at) = static_cast<char>(value);
}

/* Runs code that makes a mistake, and goes on. */
template <typename Code> std::string said(Code code) {
    lm_misuse_policy.ignore = true;
    std::string text = stderr_of(code);
    lm_misuse_policy.ignore = false;
    return text;
}

__attribute__((format(printf, 1, 2))) std::string text_of(const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

/* The whole line: the words, then where the call was, if that is known. */
std::string line_of(const Kind &kind, const char *name, const std::string &words,
                    const char *place) {
    return text_of("loam: %s %s: %s (%s%sthread %d)\n", kind.noun, name, words.c_str(), place,
                   place[0] != '\0' ? ", " : "", gettid());
}

/* ---- The table ---- */

/* What a mistake has to work with: two objects alive, one freed, another allocator with one
 * alive. */
struct Scene {
    const Kind *kind;
    Allocator *a;
    size_t bytes;
    void *live, *last, *freed, *theirs;
};

struct Mistake {
    const char *name;
    unsigned needs, lacks; /* Capability */
    const char *place;     /* that the line ends with */
    std::function<void(Scene &)> make;
    std::function<std::string(const Scene &)> words;
    std::function<void(Scene &)> mend; /* so that the next one finds a whole allocator */
};

constexpr const char *kAtUsed = "at used.c:2", *kAtMoved = "at moved.c:3", *kAtMade = "at made.c:1";
char somewhere[4096];

void free_one(Scene &s, void *p) { s.a->free(p, s.bytes); }
std::string about(const char *format, const void *p) { return text_of(format, p); }

void nothing(Scene &) {}

const std::vector<Mistake> &mistakes() {
    static const std::vector<Mistake> all = {
        {"double free", 0, kLiveBits, kAtUsed, [](Scene &s) { free_one(s, s.freed); },
         [](const Scene &s) {
             return about("free of %p after its free at used.c:2, allocated at made.c:1", s.freed);
         },
         nothing},
        {"double free", kLiveBits, 0, kAtUsed, [](Scene &s) { free_one(s, s.freed); },
         [](const Scene &s) { return about("free of %p, which is free already", s.freed); },
         nothing},
        {"free of another's", 0, kLiveBits, kAtUsed, [](Scene &s) { free_one(s, s.theirs); },
         [](const Scene &s) {
             return text_of("free of %p, which belongs to %s theirs", s.theirs, s.kind->noun);
         },
         nothing},
        {"free of another's", kLiveBits, 0, kAtUsed, [](Scene &s) { free_one(s, s.theirs); },
         [](const Scene &s) { return about("free of %p, which is no object of it", s.theirs); },
         nothing},
        {"free of a foreign pointer", 0, 0, kAtUsed, [](Scene &s) { free_one(s, somewhere + 512); },
         [](const Scene &) {
             return about("free of %p, which is no object of it", somewhere + 512);
         },
         nothing},
        {"free of a pointer to nothing", 0, 0, kAtUsed,
         [](Scene &s) { free_one(s, reinterpret_cast<void *>(UINTPTR_MAX - 4095)); },
         [](const Scene &) {
             return about("free of %p, which is no object of it",
                          reinterpret_cast<void *>(UINTPTR_MAX - 4095));
         },
         nothing},
        {"free of an odd pointer", 0, 0, kAtUsed,
         [](Scene &s) { free_one(s, static_cast<char *>(s.live) + 1); },
         [](const Scene &s) {
             return about("free of %p, which is no object of it", static_cast<char *>(s.live) + 1);
         },
         nothing},
        {"free of the inside", kAnySize, 0, kAtUsed,
         [](Scene &s) { free_one(s, static_cast<char *>(s.live) + 16); },
         [](const Scene &s) {
             return about("free of %p, which is no object of it", static_cast<char *>(s.live) + 16);
         },
         nothing},
        {"free with a wrong size", kSized, 0, kAtUsed,
         [](Scene &s) { s.a->free(s.live, s.bytes + 1); },
         [](const Scene &s) {
             return text_of("free of %p with %zu bytes, allocated with %zu at made.c:1", s.live,
                            s.bytes + 1, s.bytes);
         },
         nothing},
        {"realloc with a wrong size", kSized, 0, kAtMoved,
         [](Scene &s) { EXPECT_EQ(s.a->realloc(s.live, s.bytes - 1, 100), nullptr); },
         [](const Scene &s) {
             return text_of("realloc of %p with %zu bytes, allocated with %zu at made.c:1", s.live,
                            s.bytes - 1, s.bytes);
         },
         nothing},
        {"realloc of what is freed", kRealloc, kLiveBits, kAtMoved,
         [](Scene &s) { EXPECT_EQ(s.a->realloc(s.freed, s.bytes, 100), nullptr); },
         [](const Scene &s) {
             return about("realloc of %p after its free at used.c:2, allocated at made.c:1",
                          s.freed);
         },
         nothing},
        {"realloc of another's", kRealloc, kLiveBits, kAtMoved,
         [](Scene &s) { EXPECT_EQ(s.a->realloc(s.theirs, s.bytes, 100), nullptr); },
         [](const Scene &s) {
             return text_of("realloc of %p, which belongs to %s theirs", s.theirs, s.kind->noun);
         },
         nothing},
        {"realloc of a foreign pointer", kRealloc, 0, kAtMoved,
         [](Scene &s) { EXPECT_EQ(s.a->realloc(somewhere + 512, s.bytes, 100), nullptr); },
         [](const Scene &) {
             return about("realloc of %p, which is no object of it", somewhere + 512);
         },
         nothing},
        {"overflow by a byte, freed", 0, kLiveBits, kAtUsed,
         [](Scene &s) {
             poke(s.live, static_cast<ptrdiff_t>(s.bytes), 1);
             free_one(s, s.live);
         },
         [](const Scene &s) {
             return text_of("overflow of %p: byte %zu of %zu written, allocated at made.c:1",
                            s.live, s.bytes + 1, s.bytes);
         },
         [](Scene &s) { poke(s.live, static_cast<ptrdiff_t>(s.bytes), LM_GUARD_BYTE); }},
        {"overflow by 16 bytes, checked", 0, kLiveBits, "",
         [](Scene &s) {
             poke(s.live, static_cast<ptrdiff_t>(s.bytes) + 15, 1);
             EXPECT_FALSE(s.a->check());
         },
         [](const Scene &s) {
             return text_of("overflow of %p: byte %zu of %zu written, allocated at made.c:1",
                            s.live, s.bytes + 16, s.bytes);
         },
         [](Scene &s) { poke(s.live, static_cast<ptrdiff_t>(s.bytes) + 15, LM_GUARD_BYTE); }},
        {"overflow, resized", kRealloc, kLiveBits, kAtMoved,
         [](Scene &s) {
             poke(s.live, static_cast<ptrdiff_t>(s.bytes), 1);
             EXPECT_EQ(s.a->realloc(s.live, s.bytes, 1000), nullptr);
         },
         [](const Scene &s) {
             return text_of("overflow of %p: byte %zu of %zu written, allocated at made.c:1",
                            s.live, s.bytes + 1, s.bytes);
         },
         [](Scene &s) { poke(s.live, static_cast<ptrdiff_t>(s.bytes), LM_GUARD_BYTE); }},
        {"underflow by a byte, freed", 0, kLiveBits, kAtUsed,
         [](Scene &s) {
             poke(s.live, -1, 1);
             free_one(s, s.live);
         },
         [](const Scene &s) {
             return about("underflow of %p: 1 byte(s) before it written, allocated at made.c:1",
                          s.live);
         },
         [](Scene &s) { poke(s.live, -1, LM_GUARD_BYTE); }},
        {"underflow by 16 bytes, checked", 0, kLiveBits, "",
         [](Scene &s) {
             poke(s.live, -16, 1);
             EXPECT_FALSE(s.a->check());
         },
         [](const Scene &s) {
             return about("underflow of %p: 16 byte(s) before it written, allocated at made.c:1",
                          s.live);
         },
         [](Scene &s) { poke(s.live, -16, LM_GUARD_BYTE); }},
        {"write after free, checked", 0, kLiveBits, "",
         [](Scene &s) {
             poke(s.freed, 0, 1);
             EXPECT_FALSE(s.a->check());
         },
         [](const Scene &s) {
             return about("byte 1 of %p written after its free at used.c:2", s.freed);
         },
         [](Scene &s) { poke(s.freed, 0, 0xdd); }},
    };
    return all;
}

class Mistakes : public PerRow {
  protected:
    static std::string expected(const Mistake &mistake, const Scene &scene) {
        return line_of(kind(), "box", mistake.words(scene), mistake.place);
    }
    static bool applies(const Mistake &mistake) {
        return (kind().can & mistake.needs) == mistake.needs && !can(mistake.lacks);
    }
    static void set_scene(Set &mine, Set &theirs, Scene *scene) {
        ASSERT_TRUE(mine.a != nullptr && theirs.a != nullptr);
        size_t bytes = some_size();
        *scene = {&kind(), mine.a.get(), bytes, mine.a->alloc(bytes), nullptr, nullptr, nullptr};
        scene->freed = mine.a->alloc(bytes);
        scene->last = mine.a->alloc(bytes);
        scene->theirs = theirs.a->alloc(bytes);
        ASSERT_TRUE(scene->live && scene->freed && scene->last && scene->theirs);
        mine.a->free(scene->freed, bytes);
    }
};
INSTANTIATE(Mistakes, [](const Row &row) { return row.mode == Mode::Check; });

TEST_P(Mistakes, AreAllReportedAndChangeNothing) {
    Set mine(GetParam(), "box"), theirs(GetParam(), "theirs");
    Scene scene;
    ASSERT_NO_FATAL_FAILURE(set_scene(mine, theirs, &scene));
    memset(scene.last, 0x11, scene.bytes);
    for (const Mistake &mistake : mistakes()) {
        if (!applies(mistake)) continue;
        SCOPED_TRACE(mistake.name);
        for (int twice = 0; twice < 2; twice++) {
            EXPECT_EQ(said([&] { mistake.make(scene); }), expected(mistake, scene));
            mistake.mend(scene);
            ASSERT_TRUE(mine.a->check() && theirs.a->check());
        }
    }
    for (size_t i = 0; i < scene.bytes; i++)
        ASSERT_EQ(static_cast<unsigned char *>(scene.last)[i], 0x11);
    /* All goes on: nothing was freed twice, or given out again. */
    void *a = mine.a->alloc(scene.bytes), *b = mine.a->alloc(scene.bytes);
    EXPECT_TRUE(a != nullptr && b != nullptr && a != b && a != scene.live && b != scene.live &&
                a != scene.last && b != scene.last);
    for (void *p : {a, b, scene.live, scene.last}) mine.a->free(p, scene.bytes);
    theirs.a->free(scene.theirs, scene.bytes);
    EXPECT_TRUE(mine.a->check() && theirs.a->check());
}

/* Without LOAM_ON_ERROR=ignore, the same line is the last one. */
class MistakesDeathTest : public Mistakes {};
INSTANTIATE(MistakesDeathTest, [](const Row &row) {
    return row.mode == Mode::Check && row.source == SourceKind::Buffer;
});

TEST_P(MistakesDeathTest, EndTheProgram) {
    Set mine(GetParam(), "box"), theirs(GetParam(), "theirs");
    Scene scene;
    ASSERT_NO_FATAL_FAILURE(set_scene(mine, theirs, &scene));
    for (const Mistake &mistake : mistakes()) {
        if (!applies(mistake) || mistake.name != std::string("double free")) continue;
        std::string words = mistake.words(scene);
        EXPECT_EXIT(mistake.make(scene), testing::KilledBySignal(SIGABRT),
                    "box: " + words + " .at used.c:2, thread ");
    }
}

/* Mistakes of those that are not checked, but hardened: the free list is whole or said to be
 * damaged. */
class Hardened : public PerRow {};
INSTANTIATE(Hardened, [](const Row &row) { return row.mode == Mode::Harden; });

TEST_P(Hardened, AFreeListThatIsWrittenToIsNotFollowed) {
    if (LOAM_DEBUG) GTEST_SKIP() << "all are checked here, whose links lie in front of objects";
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    size_t bytes = some_size();
    void *below = set.a->alloc(bytes), *p = set.a->alloc(bytes);
    set.a->free(below, bytes);
    set.a->free(p, bytes);
    EXPECT_TRUE(set.a->check());
    char was = 0;
    lm_tool_show(p, sizeof(void *));
    memcpy(&was, p, 1);
    poke(p, 0, was ^ 0x41);
    std::string damaged = text_of("free list damaged: %p was written to after its free", p);
    void *got = p;
    EXPECT_EQ(said([&] { got = set.a->alloc(bytes); }), line_of(kind(), "box", damaged, kAtMade));
    EXPECT_EQ(got, nullptr);
    EXPECT_TRUE(set.a->check()) << "what is lost is lost";
    EXPECT_NE(set.a->alloc(bytes), nullptr);
}

TEST_P(Hardened, WhatWasFreedLastIsNotFreedAgain) {
    if (LOAM_DEBUG) GTEST_SKIP() << "all are checked here, and say more";
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    void *p = set.a->alloc(some_size());
    set.a->free(p, some_size());
    EXPECT_EQ(said([&] { set.a->free(p, some_size()); }),
              line_of(kind(), "box", about("free of %p, which is free already", p), kAtUsed));
    EXPECT_EQ(said([&] { set.a->free(somewhere + 512, some_size()); }),
              line_of(kind(), "box", about("free of %p, which is no object of it", somewhere + 512),
                      kAtUsed));
    EXPECT_TRUE(set.a->check());
}

/* ---- Leaks, the list, contents ---- */

TEST_P(Mistakes, LeaksAreListedWithTheirPlaces) {
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    size_t bytes = some_size();
    void *a = set.a->alloc(bytes), *b = set.a->alloc(bytes), *c = set.a->alloc(bytes);
    set.a->free(b, bytes);
    EXPECT_EQ(set.a->usage().objects, 2u);
    size_t leaks = 0;
    std::string text = stderr_of([&] { leaks = loam_registry_leaks(); });
    if (can(kLiveBits)) { /* has no places */
        EXPECT_EQ(text, "");
        return;
    }
    EXPECT_EQ(leaks, 2u);
    std::string expected; /* the newest first */
    for (void *p : {c, a})
        expected += text_of("loam: %s box: leak of %zu bytes at %p, allocated at made.c:1\n",
                            kind().noun, bytes, p);
    EXPECT_EQ(text, expected);
    if (!can(kReset)) return;
    set.a->reset();
    EXPECT_EQ(loam_registry_leaks(), 0u);
}

TEST_P(Mistakes, TheListSaysWhatUsageSays) {
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    ASSERT_NE(set.a->alloc(some_size()), nullptr);
    loam_usage usage = set.a->usage();
    std::string line = text_of("loam: %s box: 1 objects, %zu of %zu bytes used, %zu at most, %zu "
                               "chunks, %zu requests\n",
                               kind().noun, usage.used_bytes, usage.held_bytes, usage.peak_bytes,
                               usage.chunks, usage.requests);
    EXPECT_NE(stderr_of(loam_registry_print).find(line), std::string::npos) << line;
}

TEST_P(Mistakes, ContentsAreFilledAndPoisoned) {
    Set set(GetParam(), "box");
    ASSERT_NE(set.a, nullptr);
    size_t bytes = some_size();
    auto *kept = static_cast<unsigned char *>(set.a->alloc(bytes));
    auto *p = static_cast<unsigned char *>(set.a->alloc(bytes));
    auto *last = set.a->alloc(bytes);
    ASSERT_TRUE(kept && p && last);
    int fresh = can(kZeroed) ? 0 : 0xa5;
    for (size_t i = 0; i < bytes; i++) ASSERT_EQ(p[i], fresh) << "never written to";
    set.a->free(p, bytes);
    lm_tool_show(p, bytes);
    size_t links = can(kLiveBits) ? sizeof(void *) : 0; /* those lie in the object, then */
    for (size_t i = links; i < bytes; i++) ASSERT_EQ(p[i], 0xdd) << "freed";
    lm_tool_hide(p, bytes);
    set.a->free(kept, bytes);
}

} // namespace
