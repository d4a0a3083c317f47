# Every option of the build. A run-time option (LOAM_VERBOSE and the like) is not here but in
# src/api/options.def.

if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  set(LOAM_TOP_LEVEL ON)
else()
  set(LOAM_TOP_LEVEL OFF)
endif()

option(LOAM_DEBUG "Check everything: overflow by a byte, double free, foreign pointers, invariants" OFF)
option(LOAM_SECURE "Harden: free lists encoded and verified" OFF)
option(LOAM_VALGRIND "Valgrind's Memcheck sees loam's objects (a debug build; docs/guide/tools.md)" OFF)
option(LOAM_POISON "AddressSanitizer, in programs built with it, sees loam's objects (a debug build)" OFF)
option(LOAM_PROBES "Have USDT probes in slow paths (needs <sys/sdt.h>)" OFF)
option(LOAM_ASAN "Build loam and its tests with AddressSanitizer (no override of malloc)" OFF)
option(LOAM_TSAN "Build loam and its tests with ThreadSanitizer (no override of malloc)" OFF)
option(LOAM_UBSAN "Build loam and its tests with UndefinedBehaviorSanitizer (no override of malloc)" OFF)
option(LOAM_FUZZ "Build the fuzzers alone, by clang's libFuzzer (tests/fuzz; no override of malloc)" OFF)
option(LOAM_TESTS "Build the tests" ${LOAM_TOP_LEVEL})
option(LOAM_BENCH "Have the target `bench`: the programs that bench/run.py measures" OFF)
option(LOAM_WERROR "Treat compiler warnings as errors" ${LOAM_TOP_LEVEL})
set(LOAM_METER 0 CACHE STRING "Measure allocators (docs/guide/meter.md): 0 nothing, 1 counters, 2 also time and rows")
set_property(CACHE LOAM_METER PROPERTY STRINGS 0 1 2)
option(LOAM_OVERRIDE "Put malloc, free, operator new ... themselves into libloam.so" ON)

if(NOT LOAM_METER MATCHES "^[012]$")
  message(FATAL_ERROR "loam: LOAM_METER is ${LOAM_METER}, not 0, 1 or 2")
endif()
if(LOAM_VALGRIND OR LOAM_POISON) # only the debug build knows each object's exact size
  set(LOAM_DEBUG ON)
endif()
if(LOAM_ASAN AND LOAM_TSAN)
  message(FATAL_ERROR "loam: LOAM_ASAN and LOAM_TSAN exclude each other")
endif()
