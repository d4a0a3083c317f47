/* loam/detail.hpp: what loam's C++ headers share; nothing in it is for programs. */
#ifndef LOAM_DETAIL_HPP
#define LOAM_DETAIL_HPP

#include "loam/types.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {
namespace detail {

/* What operator new does without memory. */
[[noreturn]] inline void no_memory() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    __builtin_trap();
#endif
}

inline void *need(void *p) {
    if (LOAM_UNLIKELY(p == nullptr)) no_memory();
    return p;
}

/* Of count T in a row. */
template <typename T> std::size_t array_bytes(std::size_t count) {
    if (count > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T)) no_memory();
    return count * sizeof(T);
}

/* A T made of args in the memory, which give_back() takes when the constructor throws. */
template <typename T, typename GiveBack, typename... Args>
T *construct(void *memory, GiveBack &&give_back, Args &&...args) {
#if defined(__cpp_exceptions)
    if constexpr (!std::is_nothrow_constructible_v<T, Args...>) {
        try {
            return ::new (memory) T(std::forward<Args>(args)...);
        } catch (...) {
            give_back();
            throw;
        }
    }
#endif
    (void)give_back;
    return ::new (memory) T(std::forward<Args>(args)...);
}

} // namespace detail
} // namespace loam

#endif
