# What `cmake --install` puts where, and how other builds find it: find_package(loam), pkg-config.
#
#   release  libloam.so         libloam.a         loam-override.o         loam.pc
#            loam::loam, loam::static, loam::override
#   secure   libloam-secure.so  libloam-secure.a  loam-secure-override.o  loam-secure.pc
#            loam::secure, loam::secure_static, ...
#   debug    libloam-debug.so   libloam-debug.a   loam-debug-override.o   loam-debug.pc
#            loam::debug, loam::debug_static, ...
#
# Each has its libloam...-freestanding.a besides; a build for a device has that and the headers
# alone. All else (headers, the manual, libloam_copies.so, the commands for gdb, loamConfig.cmake)
# is the same in each, so that the three may be installed below one prefix, in any order. Two builds
# whose files have the same names are refused there (cmake/installed.cmake). Components: runtime,
# development, tools. The folder of the build is a place to be found in, too:
# -Dloam_DIR=build/release. Nothing here writes outside of the build before somebody installs.

include(CMakePackageConfigHelpers)
set(LOAM_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/loam)
if(LOAM_VARIANT)
  set(LOAM_EXPORT_FILE loam_${LOAM_VARIANT})
else()
  set(LOAM_EXPORT_FILE loam)
endif()

# Debug's libraries may have another name: CMAKE_DEBUG_POSTFIX.
set(LOAM_POSTFIX "")
if(LOAM_MULTI_CONFIG)
  set(loam_configs ${CMAKE_CONFIGURATION_TYPES})
  set(LOAM_CONFIG_FOLDER /$<CONFIG>)
else()
  set(loam_configs ${CMAKE_BUILD_TYPE})
  set(LOAM_CONFIG_FOLDER "")
endif()
foreach(config ${loam_configs})
  string(TOUPPER ${config} upper)
  string(APPEND LOAM_POSTFIX "$<$<CONFIG:${config}>:${CMAKE_${upper}_POSTFIX}>")
endforeach()
set(LOAM_CONFIG_NAME $<IF:$<STREQUAL:$<CONFIG>,>,noconfig,$<LOWER_CASE:$<CONFIG>>>)

# ---- not two builds in one place -----------------------------------------------------------------

# What differs between two builds whose files have the same names. The version does not: a new one
# replaces an old one.
set(loam_facts "system ${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}\nconfiguration $<CONFIG>\n")
foreach(option METER TLS_MODEL OVERRIDE SHARED SECURE VALGRIND POISON PROBES ASAN TSAN UBSAN)
  string(APPEND loam_facts "LOAM_${option} ${LOAM_${option}}\n")
endforeach()
set(loam_marker
  ${PROJECT_BINARY_DIR}/install${LOAM_CONFIG_FOLDER}/${LOAM_LIBRARY_NAME}${LOAM_POSTFIX}.build)
file(GENERATE OUTPUT ${loam_marker} CONTENT "${loam_facts}")
set(LOAM_DATA_DIR ${CMAKE_INSTALL_DATADIR}/loam)
# Before the other rules, which run in this order.
foreach(component runtime development tools)
  install(CODE "
    set(LOAM_MARKER \"${loam_marker}\")
    set(LOAM_MARKER_DIR \"${LOAM_DATA_DIR}\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/installed.cmake\")" COMPONENT ${component})
endforeach()
install(FILES ${loam_marker} DESTINATION ${LOAM_DATA_DIR} COMPONENT runtime)

# ---- files ---------------------------------------------------------------------------------------

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/loam
  COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/loam DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

set_target_properties(loam_freestanding PROPERTIES EXPORT_NAME ${LOAM_TARGET_PREFIX}freestanding)
install(TARGETS loam_freestanding EXPORT loam_freestanding
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set(loam_exports loam_freestanding)

if(TARGET loam_static)
  list(APPEND loam_exports loam)
  set_target_properties(loam_static PROPERTIES EXPORT_NAME ${LOAM_TARGET_PREFIX}static)
  install(TARGETS loam_static EXPORT loam
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  if(LOAM_SHARED)
    if(LOAM_VARIANT)
      set_target_properties(loam PROPERTIES EXPORT_NAME ${LOAM_VARIANT})
    endif()
    install(TARGETS loam EXPORT loam
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
  endif()
  install(FILES ${PROJECT_SOURCE_DIR}/tools/gdb/loam.py ${PROJECT_SOURCE_DIR}/tools/gdb/loam_heap.py
    DESTINATION ${LOAM_DATA_DIR}/gdb COMPONENT tools)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/loam.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7
    COMPONENT runtime)
endif()

if(LOAM_HAS_OVERRIDE)
  set_target_properties(loam_override PROPERTIES EXPORT_NAME ${LOAM_TARGET_PREFIX}override)
  install(TARGETS loam_override EXPORT loam)
  set(loam_object ${LOAM_LIBRARY_NAME}-override${LOAM_POSTFIX}.o)
  install(FILES ${LOAM_OVERRIDE_OBJECT} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME ${loam_object}
    COMPONENT development)
  if(LOAM_SHARED)
    install(TARGETS loam_copies LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tools)
  endif()
endif()

# ---- CMake's package -----------------------------------------------------------------------------

foreach(export ${loam_exports})
  string(REGEX REPLACE "^loam" ${LOAM_EXPORT_FILE} file ${export})
  install(EXPORT ${export} NAMESPACE loam:: FILE ${file}Targets.cmake DESTINATION ${LOAM_CMAKE_DIR}
    COMPONENT development)
  export(EXPORT ${export} NAMESPACE loam:: FILE ${PROJECT_BINARY_DIR}/${file}Targets.cmake)
endforeach()

# From the folder of the package to the libraries, wherever both are moved to.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(loam_root "")
else()
  set(loam_root /)
endif()
file(RELATIVE_PATH loam_to_libraries ${loam_root}${LOAM_CMAKE_DIR}
  ${loam_root}${CMAKE_INSTALL_LIBDIR})
# loam_object_file(<where the file is generated> <the object, as that file names it>)
function(loam_object_file output object)
  file(GENERATE OUTPUT ${output} CONTENT "# The override object of one configuration.
get_filename_component(loam_object \"${object}\" ABSOLUTE)
set_property(TARGET loam::${LOAM_TARGET_PREFIX}override_file APPEND
  PROPERTY IMPORTED_CONFIGURATIONS $<UPPER_CASE:${LOAM_CONFIG_NAME}>)
set_target_properties(loam::${LOAM_TARGET_PREFIX}override_file PROPERTIES
  IMPORTED_LOCATION_$<UPPER_CASE:${LOAM_CONFIG_NAME}> \"\${loam_object}\")
")
endfunction()
if(LOAM_HAS_OVERRIDE)
  set(loam_object_config ${LOAM_EXPORT_FILE}Override-${LOAM_CONFIG_NAME}.cmake)
  loam_object_file(${PROJECT_BINARY_DIR}/install/${loam_object_config}
    "\${CMAKE_CURRENT_LIST_DIR}/${loam_to_libraries}/${loam_object}")
  loam_object_file(${PROJECT_BINARY_DIR}/${loam_object_config} ${LOAM_OVERRIDE_OBJECT})
  install(FILES ${PROJECT_BINARY_DIR}/install/${loam_object_config} DESTINATION ${LOAM_CMAKE_DIR}
    COMPONENT development)
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/loamConfig.cmake.in
  ${PROJECT_BINARY_DIR}/loamConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/loamConfigVersion.cmake COMPATIBILITY
  SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/loamConfig.cmake ${PROJECT_BINARY_DIR}/loamConfigVersion.cmake
  DESTINATION ${LOAM_CMAKE_DIR} COMPONENT development)

# ---- pkg-config's --------------------------------------------------------------------------------

if(TARGET loam_static)
  # A blank has a backslash before it, as pkgconf gives it to ${pcfiledir}; quotes would keep that
  # one.
  if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    string(REPLACE " " "\\ " LOAM_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
    string(REPLACE " " "\\ " LOAM_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
  else()
    file(RELATIVE_PATH LOAM_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" LOAM_PC_PREFIX "\${pcfiledir}/${LOAM_PC_PREFIX}")
    string(REPLACE " " "\\ " LOAM_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  endif()
  set(LOAM_PC_CFLAGS)
  if(LOAM_TLS_DYNAMIC)
    string(APPEND LOAM_PC_CFLAGS " -DLOAM_TLS_DYNAMIC=1")
  endif()
  if(LOAM_METER)
    string(APPEND LOAM_PC_CFLAGS " -DLOAM_METER=${LOAM_METER}")
  endif()
  if(LOAM_HAS_OVERRIDE)
    set(LOAM_PC_OBJECT "override_object=\${libdir}/${loam_object}\n")
  endif()
  if(LOAM_SHARED OR NOT LOAM_HAS_OVERRIDE)
    set(LOAM_PC_LIBS "-L\${libdir} -l${LOAM_LIBRARY_NAME}${LOAM_POSTFIX}")
  else()
    set(LOAM_PC_LIBS "\${override_object}")
  endif()
  set(LOAM_PC_NAME ${LOAM_LIBRARY_NAME}${LOAM_POSTFIX})
  configure_file(${PROJECT_SOURCE_DIR}/packaging/loam.pc.in ${PROJECT_BINARY_DIR}/install/loam.pc.in
    @ONLY)
  set(loam_pc ${PROJECT_BINARY_DIR}/install${LOAM_CONFIG_FOLDER}/${LOAM_PC_NAME}.pc)
  file(GENERATE OUTPUT ${loam_pc} INPUT ${PROJECT_BINARY_DIR}/install/loam.pc.in)
  install(FILES ${loam_pc} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()

# ---- and away again ------------------------------------------------------------------------------

if(LOAM_TOP_LEVEL)
  add_custom_target(uninstall
    COMMAND ${CMAKE_COMMAND} -D BUILD=${PROJECT_BINARY_DIR}
    -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
    COMMENT "Removing what was installed from here" VERBATIM)
endif()
