/* loam/detail.hpp: what loam's C++ headers share; programs do not use it. */
#ifndef LOAM_DETAIL_HPP
#define LOAM_DETAIL_HPP

#include "loam/names_begin.h"

#include "loam/types.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {
namespace detail {

/* The flags that LOAM_CHECKED adds to an allocator. It is the default argument of each constructor,
 * so that the file that constructs decides. A constructor that read LOAM_CHECKED itself would
 * differ between files, of which the linker keeps one (docs/decisions/0046). */
struct checks {
    unsigned flags;
};
#define LOAM_CHECKS_ \
    ::loam::detail::checks { (LOAM_CHECKED ? (unsigned)LOAM_CHECK : 0u) }
/* These flags as a type, for templates that code of the C++ library constructs. */
using checks_of_file = std::integral_constant<unsigned, (LOAM_CHECKED ? (unsigned)LOAM_CHECK : 0u)>;

/* Throws std::bad_alloc; without exceptions it traps. */
[[noreturn]] inline void no_memory() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    __builtin_trap();
#endif
}

/* Returns p; throws std::bad_alloc if it is nullptr. */
inline void *need(void *p) {
    if (LOAM_UNLIKELY(p == nullptr)) no_memory();
    return p;
}

/* Finishes operator new after take() has returned nullptr: calls the program's new handler and
 * take() again, as long as there is a handler. Returns nullptr iff there is none left. A device has
 * no handler. */
template <typename Take> void *new_again(const Take &take) {
#if __STDC_HOSTED__
    while (std::new_handler handler = std::get_new_handler()) {
        handler();
        if (void *p = take()) return p;
    }
#endif
    (void)take;
    return nullptr;
}
/* Finishes operator new (std::nothrow): as new_again, and returns nullptr if the handler throws. */
template <typename Take> void *new_again_nothrow(const Take &take) noexcept {
#if defined(__cpp_exceptions)
    try {
        return new_again(take);
    } catch (...) {
        return nullptr;
    }
#else
    return new_again(take);
#endif
}

/* Returns the size in bytes of an array of count T. An empty array takes the memory of one T, so
 * that each array has an address of its own. */
template <typename T> constexpr std::size_t array_bytes_of(std::size_t count) noexcept {
    return (count + (count == 0)) * sizeof(T);
}
/* array_bytes_of, but throws std::bad_alloc if the array is larger than PTRDIFF_MAX. */
template <typename T> std::size_t array_bytes(std::size_t count) {
    constexpr std::size_t most = static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T);
    if (LOAM_UNLIKELY(count - 1 >= most)) { /* true for 0, too */
        if (count != 0) no_memory();
        return sizeof(T);
    }
    return count * sizeof(T);
}

/* Returns the size that a memory resource requests: at least 1, so that each object has an address
 * of its own. */
constexpr std::size_t bytes_of(std::size_t bytes) noexcept { return bytes + (bytes == 0); }

/* The line of the program that calls a function whose last parameter is a place. Programs leave
 * that parameter out. */
struct place {
    const char *file;
    unsigned line;
#if LOAM_LOCATIONS
    static constexpr place here(const char *file = __builtin_FILE(),
                                unsigned line = __builtin_LINE()) noexcept {
        return {file, line};
    }
#else
    static constexpr place here() noexcept { return {nullptr, 0}; }
#endif
};

/* Makes a T of args in `memory`. If the constructor throws, calls give_back() and throws on. */
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

/* Returns the address of the whole object of which *object may be a base. Only a type with virtual
 * functions can tell. By the Itanium C++ ABI, the offset stands two words in front of the virtual
 * function table. (dynamic_cast to void * reads it, too, but does not exist without RTTI.) */
template <typename T> void *whole_of(T *object) noexcept {
    void *at = const_cast<std::remove_cv_t<T> *>(object);
    if constexpr (std::is_polymorphic_v<T> && !std::is_final_v<T>) {
        const std::ptrdiff_t *table;
        __builtin_memcpy(&table, at, sizeof table);
        return static_cast<char *>(at) + table[-2];
    }
    return at;
}

} // namespace detail
} // namespace loam

/* ---- Functions that pass arguments on to a constructor, and know their caller's line ----
 *
 * A parameter with a default value cannot follow a pack of parameters. So there is one function for
 * each number of arguments from 0 to 8, which Form(n) declares. A ninth function with a pack takes
 * more arguments, and knows no line. */
#define LOAM_TYPES_0_
#define LOAM_TYPES_1_ , typename A1
#define LOAM_TYPES_2_ LOAM_TYPES_1_, typename A2
#define LOAM_TYPES_3_ LOAM_TYPES_2_, typename A3
#define LOAM_TYPES_4_ LOAM_TYPES_3_, typename A4
#define LOAM_TYPES_5_ LOAM_TYPES_4_, typename A5
#define LOAM_TYPES_6_ LOAM_TYPES_5_, typename A6
#define LOAM_TYPES_7_ LOAM_TYPES_6_, typename A7
#define LOAM_TYPES_8_ LOAM_TYPES_7_, typename A8
#define LOAM_ARGUMENTS_0_
#define LOAM_ARGUMENTS_1_ A1 &&a1,
#define LOAM_ARGUMENTS_2_ LOAM_ARGUMENTS_1_ A2 &&a2,
#define LOAM_ARGUMENTS_3_ LOAM_ARGUMENTS_2_ A3 &&a3,
#define LOAM_ARGUMENTS_4_ LOAM_ARGUMENTS_3_ A4 &&a4,
#define LOAM_ARGUMENTS_5_ LOAM_ARGUMENTS_4_ A5 &&a5,
#define LOAM_ARGUMENTS_6_ LOAM_ARGUMENTS_5_ A6 &&a6,
#define LOAM_ARGUMENTS_7_ LOAM_ARGUMENTS_6_ A7 &&a7,
#define LOAM_ARGUMENTS_8_ LOAM_ARGUMENTS_7_ A8 &&a8,
#define LOAM_FORWARD_0_
#define LOAM_FORWARD_1_ , std::forward<A1>(a1)
#define LOAM_FORWARD_2_ LOAM_FORWARD_1_, std::forward<A2>(a2)
#define LOAM_FORWARD_3_ LOAM_FORWARD_2_, std::forward<A3>(a3)
#define LOAM_FORWARD_4_ LOAM_FORWARD_3_, std::forward<A4>(a4)
#define LOAM_FORWARD_5_ LOAM_FORWARD_4_, std::forward<A5>(a5)
#define LOAM_FORWARD_6_ LOAM_FORWARD_5_, std::forward<A6>(a6)
#define LOAM_FORWARD_7_ LOAM_FORWARD_6_, std::forward<A7>(a7)
#define LOAM_FORWARD_8_ LOAM_FORWARD_7_, std::forward<A8>(a8)
/* For the ninth function, which takes at least nine arguments. */
#define LOAM_TYPES_MORE_ LOAM_TYPES_8_, typename A9, typename... More
#define LOAM_ARGUMENTS_MORE_ LOAM_ARGUMENTS_8_ A9 &&a9, More &&...more
#define LOAM_FORWARD_MORE_ LOAM_FORWARD_8_, std::forward<A9>(a9), std::forward<More>(more)...
#define LOAM_FOR_EACH_ARITY_(Form) \
    Form(0) Form(1) Form(2) Form(3) Form(4) Form(5) Form(6) Form(7) Form(8)

#include "loam/names_end.h"

#endif
