# What keeps loam's own code the same in whatever project it is built, and that project as it was.
#
#   a parent's or a distribution's   unity builds, link-time optimisation, -Werror, language
#                                    standard, visibility
#   stops at                         loam_own_target(), LOAM_OWN_OPTIONS, LOAM_LINK_OPTIONS
#
# Everything here is a property of loam's targets. No variable of the parent is set: not its build
# type, its flags, its output folders or its standards. It cannot undo flags that change what C
# means (-fpack-struct, -funsigned-char).

get_property(LOAM_MULTI_CONFIG GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)

# loam_own_target(<target>): for each target that compiles or links code of ours.
function(loam_own_target target)
  set_target_properties(${target} PROPERTIES
    C_EXTENSIONS ON
    UNITY_BUILD OFF # a file's static names are its own
    INTERPROCEDURAL_OPTIMIZATION OFF)
  if(NOT LOAM_TOP_LEVEL)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 CXX_STANDARD 17
      COMPILE_WARNING_AS_ERROR ${LOAM_WERROR})
  endif()
endfunction()

# Never link-time optimisation, which distributions' flags turn on for all: functions that are
# written in assembly, and second names that assembly gives, are not seen by it; it would take
# malloc's code for the malloc that it knows; and the code that is measured is the code that is
# installed. Programs may use it: they meet ordinary objects.
set(LOAM_OWN_OPTIONS -fno-lto)
set(LOAM_LINK_OPTIONS -fno-lto)

# Nor a sanitizer of a parent's flags: it would have its own code, which allocates, within malloc,
# and ends the program before main. Programs with sanitizers may use loam's ordinary objects.
# LOAM_ASAN and the like are what tests loam.
if(NOT (LOAM_ASAN OR LOAM_TSAN OR LOAM_UBSAN OR LOAM_FUZZ))
  list(APPEND LOAM_OWN_OPTIONS -fno-sanitize=all)
  list(APPEND LOAM_LINK_OPTIONS -fno-sanitize=all)
endif()

# No path of the machine that builds, neither by __FILE__ nor for a debugger, which finds the source
# where it is started in its folder. Debug configurations keep the paths.
if(LOAM_MULTI_CONFIG OR NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # ccache may name the source from where it compiles, with ../ before it.
  file(RELATIVE_PATH loam_from_build ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  string(REGEX REPLACE "/$" "" loam_from_build "${loam_from_build}")
  foreach(folder ${loam_from_build} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    list(APPEND LOAM_OWN_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-ffile-prefix-map=${folder}=.>)
  endforeach()
endif()

set(LOAM_HEADERS_AS)
if(NOT LOAM_TOP_LEVEL)
  set(LOAM_HEADERS_AS SYSTEM)
  # Of a parent without a build type, malloc is still not the slow part.
  if(NOT LOAM_MULTI_CONFIG AND NOT CMAKE_BUILD_TYPE AND NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS}"
    MATCHES "(^| )-O")
    list(APPEND LOAM_OWN_OPTIONS -O2)
  endif()
endif()

# loam_linker_has(<result> <option>): whether the linker of the shared libraries knows it. gold does
# not know all of ld's.
include(CheckLinkerFlag)
function(loam_linker_has result option)
  string(REGEX MATCHALL "-fuse-ld=[^ ]+|--ld-path=[^ ]+" CMAKE_REQUIRED_LINK_OPTIONS
    "${CMAKE_SHARED_LINKER_FLAGS}")
  check_linker_flag(C ${option} ${result})
endfunction()

if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  loam_linker_has(LOAM_LINKER_HAS_NOSEPARATE_CODE -Wl,-z,noseparate-code)
endif()

# Ubuntu's -Bsymbolic-functions binds libloam.so's own references to operator new to loam's,
# although a program may have replaced it (override/forms.cpp looks).
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND "${CMAKE_SHARED_LINKER_FLAGS} ${CMAKE_C_FLAGS}"
  MATCHES "-Bsymbolic")
  loam_linker_has(LOAM_LINKER_HAS_NO_SYMBOLIC -Wl,-Bno-symbolic)
  if(NOT LOAM_LINKER_HAS_NO_SYMBOLIC)
    message(FATAL_ERROR
      "loam: -Bsymbolic is among the linker's flags, and this linker has no -Bno-symbolic: "
      "programs could not replace operator new")
  endif()
  list(APPEND LOAM_LINK_OPTIONS -Wl,-Bno-symbolic)
endif()
