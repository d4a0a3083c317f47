# Run by `cmake --install`, before anything is copied: refuses to overwrite another build of the
# same names.
#
# share/loam/<name>.build says what is installed: what system, configuration and options. A build
# that says the same may replace it, whatever its version; another one would leave a mixture (its
# libloam.so beside the old loam-override.o, one measured and one not). LOAM_INSTALL_REPLACE=1 in
# the environment overrules this.

cmake_minimum_required(VERSION 3.20)
get_filename_component(name "${LOAM_MARKER}" NAME)
if(NOT IS_ABSOLUTE "${LOAM_MARKER_DIR}")
  set(LOAM_MARKER_DIR "${CMAKE_INSTALL_PREFIX}/${LOAM_MARKER_DIR}")
endif()
set(there "$ENV{DESTDIR}${LOAM_MARKER_DIR}/${name}")
if(EXISTS "${there}" AND NOT "$ENV{LOAM_INSTALL_REPLACE}")
  file(STRINGS "${there}" old)
  file(STRINGS "${LOAM_MARKER}" new)
  if(NOT "${old}" STREQUAL "${new}")
    set(differ "")
    foreach(line ${old})
      if(NOT line IN_LIST new)
        string(REGEX REPLACE " .*" "" key "${line}")
        set(other ${new})
        list(FILTER other INCLUDE REGEX "^${key}( |$)")
        string(APPEND differ "\n  there: ${line}; to be installed: ${other}")
      endif()
    endforeach()
    message(FATAL_ERROR
      "loam: another build of loam is installed below ${CMAKE_INSTALL_PREFIX}:${differ}\n"
      "Choose another prefix, remove it first (the target `uninstall` of its build), give "
      "the configurations names of their own (CMAKE_DEBUG_POSTFIX), or set "
      "LOAM_INSTALL_REPLACE=1 in the environment.")
  endif()
endif()
