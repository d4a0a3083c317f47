# What is there of the tools that a build may speak to: their headers, which options and tests ask
# for.

include(CheckIncludeFile)
check_include_file(sys/sdt.h LOAM_HAS_SDT)
check_include_file(valgrind/memcheck.h LOAM_HAS_MEMCHECK)

if(LOAM_PROBES AND NOT LOAM_HAS_SDT)
  message(FATAL_ERROR "loam: LOAM_PROBES needs <sys/sdt.h> (Debian: systemtap-sdt-dev)")
endif()
if(LOAM_VALGRIND AND NOT LOAM_HAS_MEMCHECK)
  message(FATAL_ERROR "loam: LOAM_VALGRIND needs <valgrind/memcheck.h> (Debian: valgrind)")
endif()
