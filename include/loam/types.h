/* loam/types.h: what all public headers share. Programs use the version (LOAM_VERSION), the flags
 * of special allocators (loam_flags), and two switches that they may define before the first
 * include:
 *
 *     LOAM_CHECKED=1      allocators that this source file sets up are checked ones (LOAM_CHECK)
 *     LOAM_LOCATIONS=0    calls do not pass __FILE__ and __LINE__
 *
 * The other macros are attributes that the headers put on their functions.
 */
#ifndef LOAM_TYPES_H
#define LOAM_TYPES_H

#include "loam/names_begin.h"

#include <stddef.h>

#define LOAM_VERSION_MAJOR 0
#define LOAM_VERSION_MINOR 1
#define LOAM_VERSION_PATCH 0
/** The version as a number: 102 for 0.1.2. */
#define LOAM_VERSION (LOAM_VERSION_MAJOR * 10000 + LOAM_VERSION_MINOR * 100 + LOAM_VERSION_PATCH)
/** The version as a string. */
#define LOAM_VERSION_TEXT "0.1.0"

#ifdef __cplusplus
#define LOAM_BEGIN extern "C" {
#define LOAM_END }
#define LOAM_NOEXCEPT noexcept
#else
#define LOAM_BEGIN
#define LOAM_END
#define LOAM_NOEXCEPT
#endif

/* Exported by the library. */
#define LOAM_API __attribute__((__visibility__("default")))
/* How code reaches the library's thread-local variables: by one load, or, in a library that was
 * built with -DLOAM_TLS_MODEL=global-dynamic, by a call. The library's CMake targets and loam.pc
 * define LOAM_TLS_DYNAMIC as 1 then. */
#if defined(LOAM_TLS_DYNAMIC) && LOAM_TLS_DYNAMIC
#define LOAM_TLS
#else
#define LOAM_TLS __attribute__((__tls_model__("initial-exec")))
#endif
#define LOAM_NODISCARD __attribute__((__warn_unused_result__))
/* Attributes are spelled with underscores, because a program may define macros of the plain names,
 * as override.h defines malloc. */
#define LOAM_MALLOC __attribute__((__malloc__, __warn_unused_result__))
#ifdef __alloc_size__ /* Linux defines it as the whole attribute, for its modules */
#define LOAM_SIZE(arg) __alloc_size__(arg)
#define LOAM_SIZES(a, b) __alloc_size__(a, b)
#else
#define LOAM_SIZE(arg) __attribute__((__alloc_size__(arg)))
#define LOAM_SIZES(a, b) __attribute__((__alloc_size__(a, b)))
#endif
#define LOAM_ALIGN(arg) __attribute__((__alloc_align__(arg)))
/* The result is an object that `release` accepts as its first (_SECOND: second) argument. gcc warns
 * if another function gets it (-Wmismatched-dealloc), or if it is used afterwards
 * (-Wuse-after-free). clang has no such attribute. */
#if defined(__GNUC__) && !defined(__clang__)
#define LOAM_FREED_BY(release) __attribute__((__malloc__(release, 1)))
#define LOAM_FREED_BY_SECOND(release) __attribute__((__malloc__(release, 2)))
#else
#define LOAM_FREED_BY(release)
#define LOAM_FREED_BY_SECOND(release)
#endif
/* A variable that several files define without a value, and the linker merges: a common symbol; in
 * clang's C++, which has none, an inline variable, or before C++17 a weak one. */
#if defined(__cplusplus) && defined(__clang__) && __cplusplus >= 201703L
#define LOAM_COMMON inline
#elif defined(__cplusplus) && defined(__clang__)
#define LOAM_COMMON __attribute__((__weak__))
#else
#define LOAM_COMMON __attribute__((__common__))
#endif
/* This argument must not be NULL. */
#define LOAM_NONNULL(arg) __attribute__((__nonnull__(arg)))
#define LOAM_COLD __attribute__((__cold__))
#define LOAM_INLINE static __inline__ __attribute__((__always_inline__))
#define LOAM_LIKELY(x) __builtin_expect(!!(x), 1)
#define LOAM_UNLIKELY(x) __builtin_expect(!!(x), 0)

/** The place of a call in the program, as two arguments. Functions whose names end in _at take it,
 * and macros without that ending fill it in. Only cold paths use it, for reports and leaks. Devices
 * that have no memory for the strings, and builds that must not name source files, define
 * LOAM_LOCATIONS as 0. */
#ifndef LOAM_LOCATIONS
#define LOAM_LOCATIONS __STDC_HOSTED__
#endif
#if LOAM_LOCATIONS
#define LOAM_HERE __FILE__, __LINE__
#else
#define LOAM_HERE NULL, 0
#endif

/** Define as 1 to make the allocators that this source file sets up checked ones (LOAM_CHECK),
 * whichever file uses them later. */
#ifndef LOAM_CHECKED
#define LOAM_CHECKED 0
#endif

/** Properties of a special allocator (pool, region, ...), combined by |. Each header says which of
 * them it knows. */
typedef enum loam_flags {
    /** Checks: guards, a list of live objects with their places, double frees, wrong owners. It
     * takes memory and time, and misses no mistake. */
    LOAM_CHECK = 1,
    /** Hardening: links of free lists are encoded and verified. Slower; the layout is unchanged. */
    LOAM_HARDEN = 2,
    LOAM_THREADS = 4, /**< several threads may use it at once */
    LOAM_FIXED = 8,   /**< it never asks its source for more memory than at its setup */
} loam_flags;

#include "loam/names_end.h"

#endif
