# Every option of the build. A run-time option (LOAM_VERBOSE and the like) is not here but in
# src/api/options.def.

if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  set(LOAM_TOP_LEVEL ON)
else()
  set(LOAM_TOP_LEVEL OFF)
endif()

option(LOAM_DEBUG "Check everything: overflow by a byte, double free, foreign pointers, invariants"
  OFF)
option(LOAM_ASSERT "Check loam's own invariants, as the debug build does, in any build" OFF)
option(LOAM_SECURE "Harden: free lists encoded and verified" OFF)
option(LOAM_VALGRIND "Valgrind's Memcheck sees loam's objects (a debug build; docs/guide/tools.md)"
  OFF)
option(LOAM_POISON
  "AddressSanitizer, in programs built with it, sees loam's objects (a debug build)" OFF)
option(LOAM_READ_ENVIRONMENT "Take run-time options from the environment, too (LOAM_*)" ON)
option(LOAM_PROBES "Have USDT probes in slow paths (needs <sys/sdt.h>)" OFF)
option(LOAM_ASAN "Build loam and its tests with AddressSanitizer (no override of malloc)" OFF)
option(LOAM_TSAN "Build loam and its tests with ThreadSanitizer (no override of malloc)" OFF)
option(LOAM_UBSAN "Build loam and its tests with UndefinedBehaviorSanitizer (no override of malloc)"
  OFF)
option(LOAM_FUZZ "Build the fuzzers alone, by clang's libFuzzer (tests/fuzz; no override of malloc)"
  OFF)
# A project that has loam as a part gets the libraries, and nothing else that it has not asked for.
set(loam_tests ${LOAM_TOP_LEVEL})
if(DEFINED BUILD_TESTING AND NOT BUILD_TESTING)
  set(loam_tests OFF)
endif()
option(LOAM_TESTS
  "Build the tests (by default where loam is the project itself, unless BUILD_TESTING is OFF)"
  ${loam_tests})
option(LOAM_INSTALL "Have rules to install (by default where loam is the project itself)"
  ${LOAM_TOP_LEVEL})
option(LOAM_BENCH "Have the target `bench`: the programs that bench/run.py measures" OFF)
option(LOAM_WERROR "Treat compiler warnings as errors (the presets do)" OFF)
set(LOAM_METER 0 CACHE STRING
  "Measure allocators (docs/guide/meter.md): 0 nothing, 1 counters, 2 also time and rows")
set_property(CACHE LOAM_METER PROPERTY STRINGS 0 1 2)
set(LOAM_TLS_MODEL initial-exec CACHE STRING
  "Thread-local variables: initial-exec, or global-dynamic for plugins of which many are loaded \
(no override of malloc)")
set_property(CACHE LOAM_TLS_MODEL PROPERTY STRINGS initial-exec global-dynamic)
option(LOAM_OVERRIDE "Put malloc, free, operator new ... themselves into libloam.so" ON)

if(NOT LOAM_METER MATCHES "^[012]$")
  message(FATAL_ERROR "loam: LOAM_METER is ${LOAM_METER}, not 0, 1 or 2")
endif()
if(LOAM_TLS_MODEL STREQUAL "initial-exec")
  set(LOAM_TLS_DYNAMIC OFF)
elseif(LOAM_TLS_MODEL STREQUAL "global-dynamic")
  # The first access of a thread allocates: a malloc that is itself called for that would never
  # return.
  set(LOAM_TLS_DYNAMIC ON)
  set(LOAM_OVERRIDE OFF)
else()
  message(FATAL_ERROR
    "loam: LOAM_TLS_MODEL is ${LOAM_TLS_MODEL}, not initial-exec or global-dynamic")
endif()
if(LOAM_VALGRIND OR LOAM_POISON) # only the debug build knows each object's exact size
  set(LOAM_DEBUG ON)
endif()
# What the library is called: libloam.so, libloam-secure.so or libloam-debug.so, each with a package
# of its own, so that all three may be installed below one prefix. A build that is both has the
# debug build's heap.
if(LOAM_DEBUG)
  set(LOAM_VARIANT debug)
elseif(LOAM_SECURE)
  set(LOAM_VARIANT secure)
else()
  set(LOAM_VARIANT "")
endif()
if(LOAM_VARIANT)
  set(LOAM_LIBRARY_NAME loam-${LOAM_VARIANT})
  set(LOAM_TARGET_PREFIX ${LOAM_VARIANT}_) # loam::secure_static
else()
  set(LOAM_LIBRARY_NAME loam)
  set(LOAM_TARGET_PREFIX "")
endif()
# BUILD_SHARED_LIBS=OFF leaves libloam.so out. ON, or not set: both kinds, as their targets have
# names of their own.
if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
  set(LOAM_SHARED OFF)
else()
  set(LOAM_SHARED ON)
endif()
if(LOAM_ASAN AND LOAM_TSAN)
  message(FATAL_ERROR "loam: LOAM_ASAN and LOAM_TSAN exclude each other")
endif()
