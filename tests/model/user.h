/* user.h: a user of the heap: makes calls of loam_*, and holds every result against the twin.
 *
 * What calls, of what sizes and in what order, its owner decides: at random (model_test.cc), or as
 * a fuzzer wants it (tests/fuzz/heap_fuzz.cc). Each call returns what is wrong, or nothing. Objects
 * are live()[index]; one that is freed changes places with the last. Users that hand objects to
 * each other share the twin. A user of a first-class heap allocates from that; whether what it got
 * lies there, its owner asks (tests/fuzz/own_fuzz.cc).
 */
#ifndef LOAM_TESTS_MODEL_USER_H
#define LOAM_TESTS_MODEL_USER_H

#include "twin.h"

#include <loam/loam.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace model {

enum class Free { Plain, Sized, AlignedSized };

class User {
  public:
    explicit User(Twin &twin) : twin_(twin) {}

    /* NULL: of malloc. */
    loam_heap *heap = nullptr;

    const std::vector<Object> &live() const { return live_; }
    size_t bytes() const { return bytes_; }

    /* Where the system may have no memory: NULL is right then, with errno ENOMEM, and counted. */
    bool may_be_refused = false;
    size_t refused = 0;

    std::string malloc(size_t size, uint64_t seed) {
        void *p = heap == nullptr ? loam_malloc(size) : loam_heap_malloc(heap, size);
        return keep(made(p, size, 16, seed));
    }
    /* count is not 0. */
    std::string calloc(size_t count, size_t size, uint64_t seed) {
        void *p = heap == nullptr ? loam_calloc(count, size) : loam_heap_calloc(heap, count, size);
        return keep_zeroed(made(p, count * size, 16, seed));
    }
    std::string zalloc(size_t size, uint64_t seed) {
        void *p = heap == nullptr ? loam_zalloc(size) : loam_heap_zalloc(heap, size);
        return keep_zeroed(made(p, size, 16, seed));
    }
    std::string aligned(size_t size, size_t align, uint64_t seed) {
        void *p = heap == nullptr ? loam_malloc_aligned(size, align)
                                  : loam_heap_malloc_aligned(heap, size, align);
        Object object = made(p, size, align, seed);
        object.sized = false;
        return keep(object);
    }
    /* Of malloc only, as are the next ones. */
    std::string at_offset(size_t size, size_t align, size_t offset, uint64_t seed) {
        Object object = made(loam_malloc_aligned_offset(size, align, offset), size, 1, seed);
        object.sized = false;
        if (object.p != nullptr && ((uintptr_t)object.p + offset) % align != 0) {
            return "not at " + std::to_string(align) + " less " + std::to_string(offset) + ": " +
                   describe(object);
        }
        return keep(object);
    }
    /* bytes of an object, as it is now. */
    std::string copy(size_t index, size_t bytes, uint64_t seed) {
        const Object from = live_[index];
        Object object = made(loam_memdup(from.p, bytes), bytes, 16, seed);
        if (object.p != nullptr && memcmp(object.p, from.p, bytes) != 0) {
            return "not what was to be copied: " + describe(object);
        }
        return keep(object);
    }

    std::string free(size_t index, Free how) {
        Object object = drop(index);
        std::string wrong = leave(object);
        if (!wrong.empty()) return wrong;
        if (how == Free::Sized && object.sized) {
            loam_free_sized(object.p, object.size);
        } else if (how == Free::AlignedSized && object.size == object.asked) {
            loam_free_aligned_sized(object.p, object.align, object.size);
        } else {
            loam_free(object.p);
        }
        return "";
    }

    /* size is not 0, which would free. */
    std::string realloc(size_t index, size_t size, uint64_t seed) {
        return moved(index, size, seed, [this](void *p, size_t bytes) {
            return heap == nullptr ? loam_realloc(p, bytes) : loam_heap_realloc(heap, p, bytes);
        });
    }
    /* Where all objects are from functions that zero, and this one changes all sizes. */
    std::string rezalloc(size_t index, size_t size, uint64_t seed) {
        std::string grown;
        size_t old = live_[index].size;
        std::string wrong = moved(index, size, seed, [&grown, old](void *p, size_t bytes) {
            auto *there = static_cast<unsigned char *>(loam_rezalloc(p, bytes));
            if (there != nullptr && bytes > old && !all_zero(there + old, bytes - old)) {
                grown = "rezalloc grew by what is not zero";
            }
            return static_cast<void *>(there);
        });
        return wrong.empty() ? grown : wrong;
    }
    /* In place or not at all. */
    std::string expand(size_t index, size_t size, uint64_t seed) {
        void *before = live_[index].p;
        std::string wrong = moved(
            index, size, seed, [](void *p, size_t bytes) { return loam_expand(p, bytes); }, true);
        return wrong.empty() && live_.back().p != before ? "expand moved" : wrong;
    }
    /* Nor are count and size. */
    std::string reallocarray(size_t index, size_t count, size_t size, uint64_t seed) {
        return moved(index, count * size, seed,
                     [count, size](void *p, size_t) { return loam_reallocarray(p, count, size); });
    }

    /* What no machine has: all calls refuse, and the object is as it was. */
    std::string impossible(size_t index, size_t size) {
        Object &object = live_[index];
        for (int call = 0; call < 5; call++) {
            errno = 0;
            void *p = call == 0   ? loam_malloc(size)
                      : call == 1 ? loam_calloc(1, size)
                      : call == 2 ? loam_malloc_aligned(size, 64)
                      : call == 3 ? loam_realloc(object.p, size)
                                  : loam_reallocarray(object.p, size / 2, 5);
            if (p != nullptr || errno != ENOMEM) {
                return "call " + std::to_string(call) + " gave " + std::to_string(size) +
                       " bytes, or errno " + std::to_string(errno);
            }
        }
        return check(object);
    }

    /* What usable_size says may be written to, from now on it is all contents. */
    std::string use_whole(size_t index) {
        Object &object = live_[index];
        std::string wrong = check(object);
        if (!wrong.empty()) return wrong;
        if (loam_usable_size(object.p) != object.usable) {
            return "usable size changed: " + describe(object);
        }
        bytes_ += object.usable - object.size;
        object.size = object.usable;
        object.sized = false;
        write_contents(object);
        return "";
    }

    static std::string check(const Object &object) {
        size_t at = changed_contents(object.p, object, object.size);
        return at == SIZE_MAX
                   ? ""
                   : "contents changed at " + std::to_string(at) + ": " + describe(object);
    }

    /* To another user; and all of them. */
    Object hand_over(size_t index) { return drop(index); }
    std::vector<Object> hand_over_all() {
        bytes_ = 0;
        return std::exchange(live_, {});
    }
    std::string receive(const Object &object) {
        std::string wrong = check(object);
        if (!wrong.empty()) return wrong;
        bytes_ += object.size;
        live_.push_back(object);
        return "";
    }

  private:
    static Object made(void *p, size_t size, size_t align, uint64_t seed) {
        Object object;
        object.p = static_cast<unsigned char *>(p);
        object.size = object.asked = size;
        object.align = align;
        object.seed = seed;
        object.sized = true;
        return object;
    }
    std::string no_memory(const char *what, const Object &object) {
        if (!may_be_refused) return what + describe(object);
        if (errno != ENOMEM) return "refused with errno " + std::to_string(errno);
        refused++;
        return "";
    }
    std::string keep_zeroed(const Object &object) {
        if (object.p != nullptr && !all_zero(object.p, object.size)) {
            return "not zero: " + describe(object);
        }
        return keep(object);
    }
    std::string keep(Object object) {
        if (object.p == nullptr) return no_memory("no memory: ", object);
        object.usable = loam_usable_size(object.p);
        std::string wrong = twin_.add(object);
        if (!wrong.empty()) return wrong;
        write_contents(object);
        live_.push_back(object);
        bytes_ += object.size;
        return "";
    }
    Object drop(size_t index) {
        Object object = live_[index];
        bytes_ -= object.size;
        live_[index] = live_.back();
        live_.pop_back();
        return object;
    }
    /* Before it is given back. */
    std::string leave(const Object &object) {
        std::string wrong = check(object);
        return wrong.empty() ? twin_.remove(object) : wrong;
    }
    template <typename Call>
    std::string moved(size_t index, size_t size, uint64_t seed, Call call, bool may_fail = false) {
        Object object = drop(index);
        std::string wrong = leave(object);
        if (!wrong.empty()) return wrong;
        size_t align =
            object.align < 16 ? 1 : 16; /* realloc promises no more, nor less where it stays */
        Object next = made(call(object.p, size), size, align, seed);
        if (next.p == nullptr) { /* as it was */
            if (!may_fail) wrong = no_memory("realloc failed: ", next);
            if (wrong.empty()) wrong = check(object);
            if (wrong.empty()) wrong = twin_.add(object);
            live_.push_back(object);
            bytes_ += object.size;
            return wrong;
        }
        size_t at = changed_contents(next.p, object, object.size < size ? object.size : size);
        if (at != SIZE_MAX) {
            return "realloc lost contents at " + std::to_string(at) + ": " + describe(object) +
                   " to " + describe(next);
        }
        return keep(next);
    }

    Twin &twin_;
    std::vector<Object> live_;
    size_t bytes_ = 0;
};

} // namespace model

#endif
