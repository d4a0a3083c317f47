# Joins objects into one relocatable object, whose internal names are then made local.
#
# CMake has no target for `ld -r`. So the compiler is called as CMake would call it: with the user's
# flags, target and sysroot, but without what means nothing for a part of a program (-pie,
# -Wl,--gc-sections, sanitizers). It cannot join objects of link-time optimisation: loam has none
# (cmake/guest.cmake).

separate_arguments(loam_join_flags UNIX_COMMAND "${CMAKE_C_COMPILER_ARG1} ${CMAKE_C_FLAGS}")
string(JOIN "|" loam_join_dropped -pie -static -static-pie -shared -rdynamic -s -pg --coverage
  "-fprofile.*" "-fsanitize.*" "-Wl,.*" "-l.*" "-D.*" "-Wp,.*")
list(FILTER loam_join_flags EXCLUDE REGEX "^(${loam_join_dropped})$")
if(CMAKE_C_COMPILER_TARGET AND CMAKE_C_COMPILE_OPTIONS_TARGET)
  list(APPEND loam_join_flags ${CMAKE_C_COMPILE_OPTIONS_TARGET}${CMAKE_C_COMPILER_TARGET})
endif()
if(CMAKE_C_COMPILER_EXTERNAL_TOOLCHAIN AND CMAKE_C_COMPILE_OPTIONS_EXTERNAL_TOOLCHAIN)
  list(APPEND loam_join_flags
    ${CMAKE_C_COMPILE_OPTIONS_EXTERNAL_TOOLCHAIN}${CMAKE_C_COMPILER_EXTERNAL_TOOLCHAIN})
endif()
if(CMAKE_SYSROOT)
  list(APPEND loam_join_flags --sysroot=${CMAKE_SYSROOT})
endif()
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
  list(APPEND loam_join_flags -Wno-unused-command-line-argument)
endif()

# loam_join(<target> <file without its ending> <objcopy's option>...): joins LOAM_OBJECTS. A custom
# target, one file for each configuration; where that is, is left in <target>_FILE.
function(loam_join target name)
  if(NOT CMAKE_OBJCOPY)
    message(FATAL_ERROR "loam: objcopy is needed (-DCMAKE_OBJCOPY=...)")
  endif()
  set(file ${PROJECT_BINARY_DIR}/${name}.o)
  if(LOAM_MULTI_CONFIG)
    set(file ${PROJECT_BINARY_DIR}/$<CONFIG>/${name}.o)
  endif()
  add_custom_command(OUTPUT ${file}
    COMMAND ${CMAKE_C_COMPILER} ${loam_join_flags} -fno-lto -r -nostdlib -o ${file} ${LOAM_OBJECTS}
    COMMAND ${CMAKE_OBJCOPY} ${ARGN} ${file}
    DEPENDS ${LOAM_OBJECTS} COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Joining ${name}.o")
  add_custom_target(${target} ALL DEPENDS ${file})
  # Make knows the objects as files that nobody makes: the order has to be said.
  add_dependencies(${target} ${LOAM_OBJECT_TARGETS})
  set(${target}_FILE ${file} PARENT_SCOPE)
endfunction()
