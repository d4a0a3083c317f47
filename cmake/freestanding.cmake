# The part of loam that needs no operating system and no C library: src/base, src/family and the port of
# src/os/freestanding.c. Built for a device (preset cortex-m4), and by the tests for the host, too.

file(GLOB LOAM_FREESTANDING_SOURCES CONFIGURE_DEPENDS src/base/*.c src/family/*.c)
list(APPEND LOAM_FREESTANDING_SOURCES ${PROJECT_SOURCE_DIR}/src/os/freestanding.c)

# loam_freestanding_library(<name> <definition>...)
function(loam_freestanding_library name)
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${LOAM_FREESTANDING_SOURCES})
  # A program pays for the functions that it uses. The protector of stacks would call into a C library.
  target_compile_options(${name} PRIVATE -ffreestanding -fvisibility=hidden -fno-stack-protector
    -ffunction-sections -fdata-sections)
  target_compile_features(${name} PUBLIC c_std_11)
  set_target_properties(${name} PROPERTIES C_EXTENSIONS ON)
  target_compile_definitions(${name} PUBLIC ${ARGN}
    $<$<BOOL:${LOAM_DEBUG}>:LOAM_DEBUG=1> $<$<BOOL:${LOAM_SECURE}>:LOAM_SECURE=1>)
  if(LOAM_METER) # without an operating system there is no clock: counters only
    target_compile_definitions(${name} PUBLIC LOAM_METER=1 PRIVATE LOAM_METER_HOOKS=0)
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE loam_warnings)
endfunction()

loam_freestanding_library(loam_freestanding)
add_library(loam::freestanding ALIAS loam_freestanding)
set_target_properties(loam_freestanding PROPERTIES OUTPUT_NAME loam-freestanding
  ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
  set_target_properties(loam_freestanding PROPERTIES EXCLUDE_FROM_ALL FALSE)
endif()
