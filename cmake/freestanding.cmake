# The part of loam that needs no operating system and no C library: src/base, src/family and the
# port of src/os/freestanding.c. Built for a device (preset cortex-m4), and for the host, too, where
# programs that will run on a device can be tried.

file(GLOB LOAM_FREESTANDING_SOURCES CONFIGURE_DEPENDS src/base/*.c src/family/*.c)
list(APPEND LOAM_FREESTANDING_SOURCES ${PROJECT_SOURCE_DIR}/src/os/freestanding.c)

# loam_freestanding_library(<name> <definition>...)
function(loam_freestanding_library name)
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${LOAM_FREESTANDING_SOURCES})
  # A program pays for the functions that it uses. The protector of stacks would call into a C
  # library.
  target_compile_options(${name} PRIVATE ${LOAM_WARNING_OPTIONS} ${LOAM_OWN_OPTIONS} -ffreestanding
    -fvisibility=hidden -fno-stack-protector
    -ffunction-sections -fdata-sections)
  target_compile_features(${name} PUBLIC c_std_11)
  loam_own_target(${name})
  target_compile_definitions(${name} PUBLIC ${ARGN}
    $<$<BOOL:${LOAM_ASSERT}>:LOAM_ASSERT=1>
    $<$<BOOL:${LOAM_DEBUG}>:LOAM_DEBUG=1> $<$<BOOL:${LOAM_SECURE}>:LOAM_SECURE=1>)
  if(LOAM_METER) # without an operating system there is no clock: counters only
    target_compile_definitions(${name} PUBLIC LOAM_METER=1 PRIVATE LOAM_METER_HOOKS=0)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(${name} ${LOAM_HEADERS_AS} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

loam_freestanding_library(loam_freestanding)
add_library(loam::freestanding ALIAS loam_freestanding)
if(LOAM_VARIANT)
  add_library(loam::${LOAM_VARIANT}_freestanding ALIAS loam_freestanding)
endif()
set_target_properties(loam_freestanding PROPERTIES OUTPUT_NAME ${LOAM_LIBRARY_NAME}-freestanding)
if(CMAKE_SYSTEM_NAME STREQUAL "Generic" OR LOAM_INSTALL)
  set_target_properties(loam_freestanding PROPERTIES EXCLUDE_FROM_ALL FALSE)
endif()
