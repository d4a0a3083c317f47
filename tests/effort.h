/* effort.h: how much a test tries where a step costs more than in a release build.
 *
 * A test that tries many of a kind (seeds, steps, refusals) takes its number from here, so that
 * builds that run slower try fewer, and all builds differ in one place:
 *
 *     effort::fewer(60000)   60000 in release, a third in debug and secure, an eighth under a
 *                            sanitizer, in an emulator and by clang, which run the C of release
 *     EFFORT_ONE_THREAD      skips a long test of one thread under ThreadSanitizer, which cannot
 *                            find a thing in it
 */
#ifndef LOAM_TESTS_EFFORT_H
#define LOAM_TESTS_EFFORT_H

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EFFORT_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define EFFORT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(EFFORT_TSAN)
#define EFFORT_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(EFFORT_ASAN)
#define EFFORT_ASAN 1
#endif

#if defined(EFFORT_TSAN)
#define EFFORT_ONE_THREAD() GTEST_SKIP() << "one thread: nothing that ThreadSanitizer could find"
#else
#define EFFORT_ONE_THREAD() static_assert(true)
#endif

namespace effort {

/* LOAM_EMULATED: tests/CMakeLists.txt, where the build is for another processor. */
#if defined(EFFORT_TSAN) || defined(EFFORT_ASAN) || defined(LOAM_EMULATED) || defined(__clang__)
constexpr unsigned kSlowness = 8;
#elif (defined(LOAM_DEBUG) && LOAM_DEBUG) || (defined(LOAM_SECURE) && LOAM_SECURE)
constexpr unsigned kSlowness = 3;
#else
constexpr unsigned kSlowness = 1;
#endif

/* Never none. */
constexpr unsigned fewer(unsigned many) { return many < kSlowness ? 1 : many / kSlowness; }

} // namespace effort

#endif
