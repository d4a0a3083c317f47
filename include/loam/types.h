/* loam/types.h: what every public header needs: visibility, attributes, version. */
#ifndef LOAM_TYPES_H
#define LOAM_TYPES_H

#include "loam/names_begin.h"

#include <stddef.h>

#define LOAM_VERSION_MAJOR 0
#define LOAM_VERSION_MINOR 1
#define LOAM_VERSION_PATCH 0
#define LOAM_VERSION (LOAM_VERSION_MAJOR * 10000 + LOAM_VERSION_MINOR * 100 + LOAM_VERSION_PATCH)
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

#define LOAM_API __attribute__((__visibility__("default")))
/* How code finds the library's thread-local variables: by one load; by a call for a library that
 * was built with -DLOAM_TLS_MODEL=global-dynamic. Its CMake targets and its loam.pc define
 * LOAM_TLS_DYNAMIC as 1. */
#if defined(LOAM_TLS_DYNAMIC) && LOAM_TLS_DYNAMIC
#define LOAM_TLS
#else
#define LOAM_TLS __attribute__((__tls_model__("initial-exec")))
#endif
#define LOAM_NODISCARD __attribute__((__warn_unused_result__))
/* Attributes have underlines: a program may have macros of the plain names, as override.h has one
 * of malloc. */
#define LOAM_MALLOC __attribute__((__malloc__, __warn_unused_result__))
#ifdef __alloc_size__ /* Linux makes the whole attribute of it, for its modules */
#define LOAM_SIZE(arg) __alloc_size__(arg)
#define LOAM_SIZES(a, b) __alloc_size__(a, b)
#else
#define LOAM_SIZE(arg) __attribute__((__alloc_size__(arg)))
#define LOAM_SIZES(a, b) __attribute__((__alloc_size__(a, b)))
#endif
#define LOAM_ALIGN(arg) __attribute__((__alloc_align__(arg)))
/* The pointer comes from a function whose results `release` takes as its first argument: gcc warns
 * where another one gets it (-Wmismatched-dealloc), and where it is used afterwards
 * (-Wuse-after-free). _SECOND: as its second argument. clang knows nothing like it. */
#if defined(__GNUC__) && !defined(__clang__)
#define LOAM_FREED_BY(release) __attribute__((__malloc__(release, 1)))
#define LOAM_FREED_BY_SECOND(release) __attribute__((__malloc__(release, 2)))
#else
#define LOAM_FREED_BY(release)
#define LOAM_FREED_BY_SECOND(release)
#endif
/* A variable that a header defines without a value, and of which the linker keeps one: a common
 * symbol, or in clang's C++, which has none, an inline variable; before C++17, which has no such
 * variable, a weak one. */
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

/* Where a call stands in the program: functions whose name ends in _at take it as two arguments,
 * and macros without that ending fill it in. It reaches cold paths only, for reports and leaks.
 * Devices that cannot spare the strings, and builds that must not name source files, define
 * LOAM_LOCATIONS as 0. */
#ifndef LOAM_LOCATIONS
#define LOAM_LOCATIONS __STDC_HOSTED__
#endif
#if LOAM_LOCATIONS
#define LOAM_HERE __FILE__, __LINE__
#else
#define LOAM_HERE NULL, 0
#endif

/* 1: allocators that this file of the program sets up are checked ones (LOAM_CHECK), whoever uses
 * them then. */
#ifndef LOAM_CHECKED
#define LOAM_CHECKED 0
#endif

/* What an allocator of the family is asked to be, or'ed together; each header says which of them it
 * knows. */
typedef enum loam_flags {
    LOAM_CHECK =
        /* guards, live list with places, double free, wrong owner: memory and time, no mistake lost
         * */
    1,
    LOAM_HARDEN = 2,  /* free links encoded and verified; slower, same layout */
    LOAM_THREADS = 4, /* may be used by several threads at once */
    LOAM_FIXED = 8,   /* never asks its source for more than it was set up with */
} loam_flags;

#include "loam/names_end.h"

#endif
