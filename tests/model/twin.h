/* twin.h: the slow, obvious twin of the allocator: a list of live intervals, and contents by seed.
 *
 * Every live object is an interval [p, p + usable) in one ordered map under one lock. An object
 * that overlaps another, is misaligned, or was never handed out is found at once, whoever's thread
 * it is. Contents are words that follow from the object's seed, so they need not be remembered to
 * be checked:
 *
 *     up to 16 KiB   every byte
 *     above          the first and the last 4 KiB, and one word in every 4 KiB between
 *
 * It cannot see memory that is lost, only memory that is handed out twice or changed.
 */
#ifndef LOAM_TESTS_MODEL_TWIN_H
#define LOAM_TESTS_MODEL_TWIN_H

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace model {

/* splitmix64: one multiplication chain, no state but a counter. */
inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

class Random {
  public:
    explicit Random(uint64_t seed) : state_(mix(seed)) {}
    uint64_t next() { return mix(state_++); }
    /* A number below limit, which is small against 2^64. */
    uint64_t below(uint64_t limit) { return next() % limit; }
    bool percent(unsigned share) { return below(100) < share; }

  private:
    uint64_t state_;
};

struct Object {
    unsigned char *p = nullptr;
    size_t size = 0;   /* bytes whose contents are ours */
    size_t asked = 0;  /* of these, what was asked for */
    size_t usable = 0; /* bytes that must belong to nobody else */
    size_t align = 16;
    uint64_t seed = 0;
    bool sized =
        false; /* size is what was asked for, without an alignment: free_sized may be told */
};

constexpr size_t kWhole = 16 * 1024;
constexpr size_t kEnd = 4096;

/* Calls action(offset, bytes <= 8) for each piece of an object of this size that holds contents. */
template <typename Action> void for_contents(size_t size, Action action) {
    size_t whole_words = size / 8 * 8;
    if (size <= kWhole) {
        for (size_t at = 0; at < whole_words; at += 8) action(at, size_t{8});
    } else {
        for (size_t at = 0; at < kEnd; at += 8) action(at, size_t{8});
        size_t tail = (size - kEnd) / 8 * 8;
        for (size_t at = kEnd; at < tail; at += kEnd) action(at, size_t{8});
        for (size_t at = tail; at < whole_words; at += 8) action(at, size_t{8});
    }
    if (whole_words < size) action(whole_words, size - whole_words);
}

inline void write_contents(const Object &object) {
    for_contents(object.size, [&](size_t at, size_t bytes) {
        uint64_t word = mix(object.seed + at);
        memcpy(object.p + at, &word, bytes);
    });
}

/* The offset of the first piece below limit that changed, or SIZE_MAX. p may have moved
 * (realloc). */
inline size_t changed_contents(const unsigned char *p, const Object &object, size_t limit) {
    size_t changed = SIZE_MAX;
    for_contents(object.size, [&](size_t at, size_t bytes) {
        if (at >= limit || changed != SIZE_MAX) return;
        uint64_t word = mix(object.seed + at), there;
        bool same;
        if (bytes == sizeof there &&
            at + bytes <= limit) { /* nearly always, and sanitizers watch memcmp */
            memcpy(&there, p + at, sizeof there);
            same = there == word;
        } else {
            same = memcmp(p + at, &word, at + bytes > limit ? limit - at : bytes) == 0;
        }
        if (!same) changed = at;
    });
    return changed;
}

inline bool all_zero(const unsigned char *p, size_t bytes) {
    return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

inline std::string describe(const Object &object) {
    char text[160];
    snprintf(text, sizeof(text), "[%p + %zu, usable %zu, align %zu, seed %016" PRIx64 "]",
             static_cast<void *>(object.p), object.size, object.usable, object.align, object.seed);
    return text;
}

/* All live objects of all threads. Each call returns what is wrong, or nothing. */
class Twin {
  public:
    /* Right after the object was handed out. */
    std::string add(const Object &object) {
        auto start = reinterpret_cast<uintptr_t>(object.p);
        if (start == 0) return "no object: " + describe(object);
        if (start % object.align != 0) return "misaligned: " + describe(object);
        if (object.usable < object.size) return "usable size too small: " + describe(object);
        /* An empty object takes a byte: its address is its own, too. */
        uintptr_t end = start + (object.usable > 0 ? object.usable : 1);
        std::lock_guard<std::mutex> lock(mutex_);
        auto after = live_.lower_bound(start);
        if (after != live_.end() && after->first < end) {
            return describe(object) + " overlaps " + describe(after->second.object);
        }
        if (after != live_.begin()) {
            auto before = std::prev(after);
            if (before->second.end > start) {
                return describe(object) + " overlaps " + describe(before->second.object);
            }
        }
        live_.emplace(start, Interval{end, object});
        return "";
    }

    /* Right before the object is given back: after that, another thread may have it. */
    std::string remove(const Object &object) {
        std::lock_guard<std::mutex> lock(mutex_);
        auto found = live_.find(reinterpret_cast<uintptr_t>(object.p));
        if (found == live_.end()) return "not live: " + describe(object);
        if (found->second.object.usable != object.usable) {
            return describe(object) + " was " + describe(found->second.object);
        }
        live_.erase(found);
        return "";
    }

    size_t live() {
        std::lock_guard<std::mutex> lock(mutex_);
        return live_.size();
    }

  private:
    struct Interval {
        uintptr_t end;
        Object object;
    };
    std::mutex mutex_;
    std::map<uintptr_t, Interval> live_;
};

} // namespace model

#endif
