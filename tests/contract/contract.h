/* contract.h: what the contract suite runs over: sources that keep books, and one face for all
 * allocators.
 *
 * The contract. Every allocator of the family, over every source, checked, hardened or neither:
 *   1. Objects are aligned as promised, do not overlap, and keep what they hold until they are
 *      freed.
 *   2. NULL iff there is no memory, or the size (product, alignment) is impossible; nothing has
 *      changed then. realloc that fails leaves the object as it was. After any one refusal of the
 *      source the same request can succeed.
 *   3. usage: held, chunks and requests are what went through the source, tables included; peak is
 *      no less than held; used lies between what was asked for and held; objects are right, or
 *      LOAM_UNKNOWN. Over a contiguous source chunks that follow each other may count as one. A
 *      caller's memory is held, and was never requested.
 *   4. The end gives back every chunk with the `got` it came with, and shows it to tools again.
 *      reset keeps memory: the same again asks the source for nothing.
 *   5. In the registry iff named or checked. check is true, and says nothing, while nobody made a
 *      mistake.
 *   6. A checked one reports every mistake in one line, in the words of mistakes_test.cc, the same
 *      for all; then it aborts, or by LOAM_ON_ERROR=ignore has done nothing (free, reset) or
 *      returns NULL (alloc, realloc), and goes on as before. One without room for guards
 *      (kLiveBits) says less.
 *   7. Where a tool watches, objects may be touched and what lies around and behind their end may
 *      not.
 *
 *   allocator (adapter) ──> loam_count ──> source: buffer | heap | pages | reserve
 *                                                    | limit over heap | strict
 *
 * Every source is counted, so that whatever an allocator says of itself can be held against what
 * really went through. `strict` is a source of the tests' own, as nasty as loam/source.h allows:
 * its chunks are aligned to what was asked for and no more, hold garbage, are larger than asked for
 * by odd numbers of bytes, come from anywhere; it checks what is put back, and fails the n-th get
 * on command.
 */
#ifndef LOAM_TESTS_CONTRACT_H
#define LOAM_TESTS_CONTRACT_H

#include <gtest/gtest.h>

#include "loam/alloc.h"
#include "loam/registry.h"
#include "loam/source.h"

#include "model/choices.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace contract {

/* ---- Sources ---- */

class Strict {
  public:
    Strict() : base_{{get, put, "strict", 0}, this} {}
    ~Strict() {
        EXPECT_TRUE(out_.empty()) << out_.size() << " chunks were not put back";
        for (auto &chunk : out_) ::free(chunk.second.whole);
    }
    Strict(const Strict &) = delete;
    Strict &operator=(const Strict &) = delete;
    loam_source *source() { return &base_.source; }
    /* The n-th get from now on is refused; 0: none. */
    void refuse(size_t n) { countdown_ = n; }
    size_t refused() const { return refused_; }

  private:
    struct Base {
        loam_source source;
        Strict *self;
    };
    struct Chunk {
        void *whole;
        size_t got;
    };

    static void *get(loam_source *source, size_t bytes, size_t align, size_t *got) {
        return reinterpret_cast<Base *>(source)->self->take(bytes, align, got);
    }
    static void put(loam_source *source, void *chunk, size_t got) {
        reinterpret_cast<Base *>(source)->self->give(chunk, got);
    }
    void *take(size_t bytes, size_t align, size_t *got) {
        EXPECT_NE(bytes, 0u);
        EXPECT_TRUE(align != 0 && (align & (align - 1)) == 0) << align;
        if (countdown_ != 0 && --countdown_ == 0) {
            refused_++;
            return nullptr;
        }
        if (bytes > size_t{1} << 30 || align > size_t{1} << 24) return nullptr;
        static const size_t more[] = {0, 1, 24, 1003};
        size_t granted = bytes + more[number_++ % 4];
        void *whole = malloc(granted + 2 * align);
        auto at = reinterpret_cast<uintptr_t>(whole);
        uintptr_t chunk = (at + align - 1) & ~(align - 1);
        if (chunk % (2 * align) == 0) chunk += align; /* aligned to that, and to no more */
        auto *p = reinterpret_cast<char *>(chunk);
        memset(p, 0x5c, granted);
        out_[p] = {whole, granted};
        *got = granted;
        return p;
    }
    void give(void *chunk, size_t got) {
        auto found = out_.find(chunk);
        if (found == out_.end()) {
            ADD_FAILURE() << "no such chunk is out: " << chunk;
            return;
        }
        EXPECT_EQ(found->second.got, got);
        memset(chunk, 0x5d, found->second.got); /* a tool would object to what is hidden still */
        ::free(found->second.whole);
        out_.erase(found);
    }

    Base base_;
    std::map<void *, Chunk> out_;
    size_t countdown_ = 0, refused_ = 0, number_ = 0;
};

enum class SourceKind { Buffer, Heap, Pages, Reserve, Limit, Strict };
inline const char *name_of(SourceKind kind) {
    static const char *const names[] = {"buffer", "heap", "pages", "reserve", "limit", "strict"};
    return names[static_cast<int>(kind)];
}

/* At its end, all must have been put back. */
class CountedSource {
  public:
    /* bytes: of a buffer, reserve or limit. */
    CountedSource(SourceKind kind, size_t bytes) {
        loam_source *inner = nullptr;
        switch (kind) {
        case SourceKind::Buffer:
            memory_.reset(new char[bytes + 64]);
            loam_buffer_init(&buffer_, memory_.get() + 3, bytes);
            inner = &buffer_.source;
            break;
        case SourceKind::Heap: inner = loam_heap_source(); break;
        case SourceKind::Pages: inner = loam_pages(); break;
        case SourceKind::Reserve:
            EXPECT_EQ(loam_reserve_init(&reserve_, bytes), 0);
            inner = &reserve_.source;
            break;
        case SourceKind::Limit:
            loam_limit_init(&limit_, loam_heap_source(), bytes);
            inner = &limit_.source;
            break;
        case SourceKind::Strict: inner = strict.source(); break;
        }
        loam_count_init(&count, inner);
        kind_ = kind;
        bytes_ = bytes;
    }
    ~CountedSource() {
        EXPECT_EQ(count.gets, count.puts) << "chunks were not put back";
        EXPECT_EQ(count.used_bytes, 0u);
        EXPECT_TRUE(kind_ != SourceKind::Limit || limit_.used_bytes == 0) << "the limit kept some";
        /* What was hidden from tools must be everybody's again. */
        if (kind_ == SourceKind::Buffer) memset(memory_.get(), 0x5d, bytes_ + 64);
        if (kind_ == SourceKind::Reserve) loam_reserve_deinit(&reserve_);
    }
    CountedSource(const CountedSource &) = delete;
    CountedSource &operator=(const CountedSource &) = delete;
    loam_source *get() { return &count.source; }
    loam_count count;
    Strict strict;

  private:
    SourceKind kind_;
    size_t bytes_;
    std::unique_ptr<char[]> memory_;
    loam_buffer buffer_;
    loam_reserve reserve_ = {};
    loam_limit limit_;
};

/* ---- Allocators ---- */

/* Where the adapters say that they call from: what reports and leaks have to name. */
#define MADE "made.c", 1u
#define USED "used.c", 2u
#define MOVED "moved.c", 3u

/* Its end is the allocator's deinit. */
class Allocator {
  public:
    virtual ~Allocator() = default;
    virtual void *alloc(size_t bytes) = 0;                            /* at MADE */
    virtual void free(void *p, size_t bytes) = 0;                     /* at USED */
    virtual void *realloc(void *, size_t, size_t) { return nullptr; } /* at MOVED */
    virtual void *alloc_array(size_t, size_t) { return nullptr; }
    virtual void *alloc_aligned(size_t, size_t) { return nullptr; }
    virtual void reset() {}
    virtual loam_usage usage() = 0;
    /* Of another allocator that it needs over the same source. */
    virtual loam_usage beside() { return {}; }
    virtual bool check() = 0;
    /* To itself. */
    virtual loam_alloc handle() { return {nullptr, nullptr}; }
};

enum Capability {
    kAnySize =
        1, /* alloc takes any number of bytes, up to `bytes` of its Kind; else that is the size */
    kRealloc = 2,     /* realloc */
    kReset = 4,       /* reset keeps memory */
    kHarden = 8,      /* knows LOAM_HARDEN */
    kContiguous = 16, /* wants a source whose chunks follow each other */
    kFixed = 32,      /* takes all its memory when it is made */
    kGiven = 64, /* the same, and thinks it is the caller's: nothing was requested of a source */
    kLiveBits = 128, /* has no room for guards: if checked, it knows who is alive, and no places */
    kSized = 256,    /* free is told the size, and says so if it is wrong */
    kArrays = 512,   /* alloc_array */
    kAligned = 1024, /* alloc_aligned */
    kZeroed = 2048,  /* objects are zero when they are new */
    kPages = 4096,   /* memory is used again when a page's last object is freed */
};

struct Kind {
    const char *name; /* of this row */
    const char *noun; /* as reports say it */
    unsigned can;     /* Capability */
    size_t bytes;     /* of an object, at most; 0: any */
    size_t align;     /* of results */
    /* NULL iff it cannot be set up. bytes: what the source has in all, or more. */
    std::unique_ptr<Allocator> (*make)(loam_source *source, size_t bytes, unsigned flags,
                                       const char *name);
};

/* All of them (kinds.cc): compiled once a build, for this suite and for the fuzzer. */
const std::vector<Kind> &kinds();

/* ---- Objects, and a model of them ---- */

struct Object {
    unsigned char *at;
    size_t bytes;
    unsigned char stamp;
};

using Random = model::Choices;

/* What is alive: stamped all over, apart from each other, at the alignment promised. */
class Model {
  public:
    explicit Model(size_t align) : align_(align) {}
    void add(void *p, size_t bytes) {
        auto *at = static_cast<unsigned char *>(p);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align_, 0u) << bytes;
        if (bytes != 0) {
            auto after = spans_.lower_bound(at);
            ASSERT_TRUE(after == spans_.end() || at + bytes <= after->first) << "overlaps the next";
            if (after != spans_.begin()) {
                auto before = std::prev(after);
                ASSERT_LE(before->first + before->second, at) << "overlaps the one before";
            }
            spans_[at] = bytes;
        }
        unsigned char stamp = next_++;
        memset(at, stamp, bytes);
        objects.push_back({at, bytes, stamp});
    }
    /* Takes one out, which must be as it was left. */
    Object take(size_t index) {
        Object object = objects[index];
        expect_whole(object, object.bytes);
        if (object.bytes != 0) spans_.erase(object.at);
        objects[index] = objects.back();
        objects.pop_back();
        return object;
    }
    /* The same for one that was moved: its first bytes are what is left of it. */
    static void expect_whole(const Object &object, size_t bytes) {
        if (bytes == 0) return;
        if (object.at[0] == object.stamp && memcmp(object.at, object.at + 1, bytes - 1) == 0)
            return;
        for (size_t i = 0; i < bytes; i++) {
            if (object.at[i] != object.stamp) {
                ADD_FAILURE() << "byte " << i << " of " << object.bytes << " has changed";
                return;
            }
        }
    }
    void expect_all_whole() const {
        for (const Object &object : objects) expect_whole(object, object.bytes);
    }
    void clear() {
        expect_all_whole();
        objects.clear();
        spans_.clear();
    }
    size_t bytes() const {
        size_t sum = 0;
        for (const Object &object : objects) sum += object.bytes;
        return sum;
    }
    std::vector<Object> objects;

  private:
    size_t align_;
    unsigned char next_ = 1;
    std::map<unsigned char *, size_t> spans_;
};

} // namespace contract

#endif
