/* loam/xallocator.hpp: STL containers, strings and streams over xmalloc (loam/xallocator.h).
 *
 *     loam::xlist<int> list;                     // a std::list<int>, every node an xmalloc
 *     loam::xmap<int, loam::xstring> names;
 *     loam::xostringstream out;
 *     out << 5;
 *     assert(out.str() == loam::xstring("5"));
 *     std::vector<int, loam::xalloc_allocator<int>> any;
 *
 * Choose it where containers cannot be given an allocator object. Where they can, loam/blocks.hpp
 * keeps each group of containers in separate blocks. All allocators are equal: contents may be
 * swapped, moved and spliced between any two containers, by any threads. If there is no memory,
 * std::bad_alloc is thrown, and nothing else. */
#ifndef LOAM_XALLOCATOR_HPP
#define LOAM_XALLOCATOR_HPP

#include "loam/names_begin.h"

#include "loam/xallocator.h"

#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <queue>
#include <set>
#include <sstream>
#include <stack>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace loam {

/** A stateless allocator of xmalloc and xfree. All are equal. Any thread. */
template <typename T> class xalloc_allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    /** Makes an allocator; it has no state. */
    constexpr xalloc_allocator() noexcept = default;
    /** Makes an allocator from one of another type. */
    template <typename U> constexpr xalloc_allocator(const xalloc_allocator<U> &) noexcept {}

    /** Returns memory for count objects, at T's alignment. Throws std::bad_alloc if there is
     * none. */
    [[nodiscard]] T *allocate(std::size_t count) {
        std::size_t bytes = detail::array_bytes<T>(count);
        void *p = alignof(T) <= 16 ? loam_xmalloc_at(bytes, nullptr, 0)
                                   : loam_xmalloc_aligned_at(bytes, alignof(T), nullptr, 0);
        return static_cast<T *>(detail::need(p));
    }
    /** Frees what allocate returned. */
    void deallocate(T *p, std::size_t) noexcept { loam_xfree_at(p, nullptr, 0); }

    /** All allocators are equal. */
    template <typename U> constexpr bool operator==(const xalloc_allocator<U> &) const noexcept {
        return true;
    }
    /** No two allocators differ. */
    template <typename U> constexpr bool operator!=(const xalloc_allocator<U> &) const noexcept {
        return false;
    }
};

/** A std::list over xmalloc. */
template <typename T> using xlist = std::list<T, xalloc_allocator<T>>;
/** A std::forward_list over xmalloc. */
template <typename T> using xforward_list = std::forward_list<T, xalloc_allocator<T>>;
/** A std::vector over xmalloc. */
template <typename T> using xvector = std::vector<T, xalloc_allocator<T>>;
/** A std::deque over xmalloc. */
template <typename T> using xdeque = std::deque<T, xalloc_allocator<T>>;
/** A std::queue over xmalloc. */
template <typename T> using xqueue = std::queue<T, xdeque<T>>;
/** A std::stack over xmalloc. */
template <typename T> using xstack = std::stack<T, xdeque<T>>;
/** A std::priority_queue over xmalloc. */
template <typename T, typename Less = std::less<T>>
using xpriority_queue = std::priority_queue<T, xvector<T>, Less>;

/** A std::map over xmalloc. */
template <typename K, typename V, typename Less = std::less<K>>
using xmap = std::map<K, V, Less, xalloc_allocator<std::pair<const K, V>>>;
/** A std::multimap over xmalloc. */
template <typename K, typename V, typename Less = std::less<K>>
using xmultimap = std::multimap<K, V, Less, xalloc_allocator<std::pair<const K, V>>>;
/** A std::set over xmalloc. */
template <typename T, typename Less = std::less<T>>
using xset = std::set<T, Less, xalloc_allocator<T>>;
/** A std::multiset over xmalloc. */
template <typename T, typename Less = std::less<T>>
using xmultiset = std::multiset<T, Less, xalloc_allocator<T>>;

/** A std::unordered_map over xmalloc. */
template <typename K, typename V, typename Hash = std::hash<K>, typename Equal = std::equal_to<K>>
using xunordered_map =
    std::unordered_map<K, V, Hash, Equal, xalloc_allocator<std::pair<const K, V>>>;
/** A std::unordered_set over xmalloc. */
template <typename T, typename Hash = std::hash<T>, typename Equal = std::equal_to<T>>
using xunordered_set = std::unordered_set<T, Hash, Equal, xalloc_allocator<T>>;

/** A std::basic_string over xmalloc. */
template <typename Char>
using xbasic_string = std::basic_string<Char, std::char_traits<Char>, xalloc_allocator<Char>>;
/** A std::string over xmalloc. */
using xstring = xbasic_string<char>;
/** A std::wstring over xmalloc. */
using xwstring = xbasic_string<wchar_t>;

/** A std::basic_stringstream over xmalloc. */
template <typename Char>
using xbasic_stringstream =
    std::basic_stringstream<Char, std::char_traits<Char>, xalloc_allocator<Char>>;
/** A std::basic_ostringstream over xmalloc. */
template <typename Char>
using xbasic_ostringstream =
    std::basic_ostringstream<Char, std::char_traits<Char>, xalloc_allocator<Char>>;
/** A std::basic_istringstream over xmalloc. */
template <typename Char>
using xbasic_istringstream =
    std::basic_istringstream<Char, std::char_traits<Char>, xalloc_allocator<Char>>;
/** A std::stringstream over xmalloc. */
using xstringstream = xbasic_stringstream<char>;
/** A std::ostringstream over xmalloc. */
using xostringstream = xbasic_ostringstream<char>;
/** A std::istringstream over xmalloc. */
using xistringstream = xbasic_istringstream<char>;
/** A std::wstringstream over xmalloc. */
using xwstringstream = xbasic_stringstream<wchar_t>;
/** A std::wostringstream over xmalloc. */
using xwostringstream = xbasic_ostringstream<wchar_t>;
/** A std::wistringstream over xmalloc. */
using xwistringstream = xbasic_istringstream<wchar_t>;

/** Does what std::make_shared does: object and counts share one xmalloc. */
template <typename T, typename... Args>
[[nodiscard]] std::shared_ptr<T> xmake_shared(Args &&...args) {
    return std::allocate_shared<T>(xalloc_allocator<T>(), std::forward<Args>(args)...);
}

} // namespace loam

#include "loam/names_end.h"

#endif
