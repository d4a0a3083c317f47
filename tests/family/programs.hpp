/* programs.hpp: what the C++ programs that programs.py writes have in common: pairs of containers.
 *
 *     pair<std::pmr::vector<int>, std::vector<int>> numbers(&resource);   numbers.step(seed)
 *
 * The one with std::allocator is the model of the other. step(seed) makes one random change to
 * both; same() compares them. counted is a class that counts its objects, of any size and
 * alignment, and knows where it lies.
 *
 * It cannot see who gave the memory; allocators are checked by what containers do to it.
 * Invariant: after each step both have the same elements in the same order, but for unordered
 * ones, which are looked up.
 */
#ifndef LOAM_TESTS_PROGRAMS_HPP
#define LOAM_TESTS_PROGRAMS_HPP

#include "programs.h"

#include <loam/alloc.hpp>
#include <loam/blocks.hpp>
#include <loam/fifo.hpp>
#include <loam/heap.hpp>
#include <loam/pool.hpp>
#include <loam/region.hpp>
#include <loam/stack.hpp>
#define XALLOCATOR_NO_SHORT_NAMES
#include <loam/xallocator.hpp>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace programs {

inline unsigned next(unsigned &seed) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* Sequences: vector, deque, list, string. */
template <typename C> void change(C &c, unsigned seed, const typename C::value_type *) {
    using Value = typename C::value_type;
    Value value = Value(next(seed) % 90 + 33);
    std::size_t at = c.empty() ? 0 : next(seed) % c.size();
    switch (next(seed) % 9) {
    case 0: c.insert(std::next(c.begin(), long(at)), value); break;
    case 1:
        if (!c.empty()) c.erase(std::next(c.begin(), long(at)));
        break;
    case 2: c.insert(c.end(), next(seed) % 70, value); break;
    case 3:
        if (!c.empty()) c.pop_back();
        break;
    case 4: c.erase(std::next(c.begin(), long(at / 2)), std::next(c.begin(), long(at))); break;
    case 5: c = C(c); break; /* by a copy, with the allocator that a copy has, and assigned */
    case 6:
        if (next(seed) % 4 == 0) c.clear();
        break;
    case 7: c.resize(next(seed) % 200, value); break;
    default:
        for (unsigned i = next(seed) % 20; i > 0; i--) c.push_back(value);
    }
}

/* Maps and sets with an order or without. */
template <typename C> void change(C &c, unsigned seed, const void *) {
    unsigned key = next(seed) % 60;
    auto value_of = [&](unsigned of) {
        using Value = typename C::value_type;
        if constexpr (std::is_arithmetic_v<Value>)
            return Value(of);
        else
            return Value(of, typename C::mapped_type(of % 50 + 1, char('a' + of % 26)));
    };
    switch (next(seed) % 6) {
    case 0:
    case 1: c.insert(value_of(key)); break;
    case 2: c.erase(typename C::key_type(key)); break;
    case 3:
        for (unsigned i = 0; i < 12; i++) c.insert(value_of((key + i * 7) % 60));
        break;
    case 4: c = C(c); break;
    default:
        if (next(seed) % 4 == 0) c.clear();
    }
}

template <typename A, typename B> bool is_same(const A &a, const B &b) {
    if constexpr (std::is_arithmetic_v<A>) {
        return a == b;
    } else {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
}
template <typename K, typename A, typename B>
bool is_same(const std::pair<const K, A> &a, const std::pair<const K, B> &b) {
    return a.first == b.first && is_same(a.second, b.second);
}

template <typename C, typename = void> struct is_map : std::false_type {};
template <typename C> struct is_map<C, std::void_t<typename C::key_type>> : std::true_type {};
template <typename C, typename = void> struct is_hashed : std::false_type {};
template <typename C> struct is_hashed<C, std::void_t<typename C::hasher>> : std::true_type {};

template <typename Own, typename Model> struct pair {
    Own own;
    Model model;

    template <typename... Args> explicit pair(Args &&...args) : own(std::forward<Args>(args)...) {}
    void step(unsigned seed, int times, int line) {
        for (int i = 0; i < times; i++) {
            unsigned each = seed + unsigned(i) * 77u;
            if constexpr (is_map<Own>::value) {
                change(own, each, static_cast<const void *>(nullptr));
                change(model, each, static_cast<const void *>(nullptr));
            } else {
                change(own, each, static_cast<const typename Own::value_type *>(nullptr));
                change(model, each, static_cast<const typename Model::value_type *>(nullptr));
            }
        }
        if (!same()) differs(line, "a container differs from std's");
    }
    bool same() const {
        if (own.size() != model.size()) return false;
        if constexpr (is_hashed<Own>::value) {
            for (const auto &each : model) {
                auto found = own.find(each.first);
                if (found == own.end() || !is_same(found->second, each.second)) return false;
            }
            return true;
        } else {
            return std::equal(own.begin(), own.end(), model.begin(),
                              [](const auto &a, const auto &b) { return is_same(a, b); });
        }
    }
};

inline int live; /* of counted */

/* Reports a place that is not aligned, and bytes that are not its own. */
template <std::size_t kBytes, std::size_t kAlign> struct alignas(kAlign) counted {
    unsigned char bytes[kBytes];
    unsigned seed;
    explicit counted(unsigned of = 1) : seed(of) {
        live++;
        if (reinterpret_cast<std::uintptr_t>(this) % kAlign != 0)
            differs(__LINE__, "%p is not aligned to %zu", static_cast<void *>(this), kAlign);
        for (std::size_t i = 0; i < kBytes; i++) bytes[i] = pattern(seed, i);
    }
    counted(const counted &) = delete;
    counted &operator=(const counted &) = delete;
    ~counted() {
        live--;
        for (std::size_t i = 0; i < kBytes; i++)
            if (bytes[i] != pattern(seed, i)) differs(__LINE__, "byte %zu of an object", i);
    }
};

template <std::size_t kBytes, std::size_t kAlign>
struct pooled : counted<kBytes, kAlign>, loam::pooled<pooled<kBytes, kAlign>> {
    using counted<kBytes, kAlign>::counted;
};

template <std::size_t kBytes, std::size_t kAlign> struct declared : counted<kBytes, kAlign> {
    XALLOCATOR
  public:
    using counted<kBytes, kAlign>::counted;
};

} // namespace programs

#endif
