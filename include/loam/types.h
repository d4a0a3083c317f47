/* loam/types.h: what every public header needs: visibility, attributes, version. */
#ifndef LOAM_TYPES_H
#define LOAM_TYPES_H

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

#define LOAM_API __attribute__((visibility("default")))
#define LOAM_NODISCARD __attribute__((warn_unused_result))
#define LOAM_MALLOC __attribute__((malloc, warn_unused_result))
#define LOAM_SIZE(arg) __attribute__((alloc_size(arg)))
#define LOAM_SIZES(a, b) __attribute__((alloc_size(a, b)))
#define LOAM_ALIGN(arg) __attribute__((alloc_align(arg)))

#endif
