# The warnings that all code of ours is compiled with, and the compilers that loam accepts.

get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
foreach(lang ${languages})
  set(id ${CMAKE_${lang}_COMPILER_ID})
  set(version ${CMAKE_${lang}_COMPILER_VERSION})
  if(NOT ((id STREQUAL "GNU" AND version VERSION_GREATER_EQUAL 12) OR
          (id STREQUAL "Clang" AND version VERSION_GREATER_EQUAL 16)))
    message(FATAL_ERROR "loam: gcc >= 12 or clang >= 16 is needed, not ${id} ${version}")
  endif()
endforeach()

# -Werror is for those who work on loam: the presets and CI. A parent project reads no warnings of
# ours, nor does its own -Werror stop at them.
if(LOAM_TOP_LEVEL OR LOAM_WERROR)
  set(LOAM_WARNING_OPTIONS -Wall -Wextra -Wpedantic
    # Files that silence a warning of gcc's by its name are no mistake under clang.
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unknown-warning-option>
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<BOOL:${LOAM_WERROR}>:-Werror>)
else()
  set(LOAM_WARNING_OPTIONS -w)
endif()
add_library(loam_warnings INTERFACE)
target_compile_options(loam_warnings INTERFACE ${LOAM_WARNING_OPTIONS})

# Tests do on purpose what these warn of.
add_library(loam_test_warnings INTERFACE)
target_compile_options(loam_test_warnings INTERFACE
  -Wall -Wextra -Wno-unused-result -Wno-deprecated-declarations -Wno-free-nonheap-object
  $<$<C_COMPILER_ID:GNU>:-Wno-use-after-free>
  $<$<C_COMPILER_ID:GNU>:-Wno-alloc-size-larger-than>
  $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-unknown-warning-option>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unknown-warning-option>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-mismatched-new-delete>
  $<$<BOOL:${LOAM_WERROR}>:-Werror>)
