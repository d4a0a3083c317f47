# What `cmake --install` puts where, and how other builds find it: find_package(loam), pkg-config.
#
#   release  libloam.so         libloam.a         loam-override.o         loam.pc         loam::loam, static, override
#   secure   libloam-secure.so  libloam-secure.a  loam-secure-override.o  loam-secure.pc  loam::secure, secure_static, ...
#   debug    libloam-debug.so   libloam-debug.a   loam-debug-override.o   loam-debug.pc   loam::debug, debug_static, ...
#
# All else (headers, the manual, libloam_copies.so, the commands for gdb, loamConfig.cmake) is the same in each, so that
# the three may be installed below one prefix, in any order.

include(CMakePackageConfigHelpers)
set(LOAM_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/loam)

if(LOAM_VARIANT)
  set_target_properties(loam PROPERTIES EXPORT_NAME ${LOAM_VARIANT})
  set_target_properties(loam_static PROPERTIES EXPORT_NAME ${LOAM_VARIANT}_static)
  set(LOAM_TARGETS_FILE loam_${LOAM_VARIANT}Targets.cmake)
else()
  set_target_properties(loam_static PROPERTIES EXPORT_NAME static)
  set(LOAM_TARGETS_FILE loamTargets.cmake)
endif()
install(TARGETS loam loam_static EXPORT loam
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT loam NAMESPACE loam:: FILE ${LOAM_TARGETS_FILE} DESTINATION ${LOAM_CMAKE_DIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/loam DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/tools/gdb/loam.py ${PROJECT_SOURCE_DIR}/tools/gdb/loam_heap.py
  DESTINATION ${CMAKE_INSTALL_DATADIR}/loam/gdb)
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/loam.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
if(LOAM_HAS_OVERRIDE)
  install(FILES ${LOAM_OVERRIDE_OBJECT} DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RENAME ${LOAM_LIBRARY_NAME}-override.o)
  install(TARGETS loam_copies LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/loamConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/loamConfig.cmake INSTALL_DESTINATION ${LOAM_CMAKE_DIR}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/loamConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/loamConfig.cmake
  ${PROJECT_BINARY_DIR}/cmake/loamConfigVersion.cmake DESTINATION ${LOAM_CMAKE_DIR})

# pkg-config files hold absolute directories or ones under ${prefix}; CMake's may be either.
foreach(dir LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(LOAM_PC_${dir} "${CMAKE_INSTALL_${dir}}")
  else()
    set(LOAM_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
set(LOAM_PC_CFLAGS)
if(LOAM_TLS_DYNAMIC)
  set(LOAM_PC_CFLAGS " -DLOAM_TLS_DYNAMIC=1")
endif()
# The prefix is known only when installing: `cmake --install --prefix` may choose another one.
configure_file(${PROJECT_SOURCE_DIR}/packaging/loam.pc.in ${PROJECT_BINARY_DIR}/cmake/loam.pc.in @ONLY)
install(CODE "
  file(READ \"${PROJECT_BINARY_DIR}/cmake/loam.pc.in\" text)
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  string(REPLACE \"%PREFIX%\" \"\${prefix}\" text \"\${text}\")
  file(WRITE \"${PROJECT_BINARY_DIR}/cmake/${LOAM_LIBRARY_NAME}.pc\" \"\${text}\")")
install(FILES ${PROJECT_BINARY_DIR}/cmake/${LOAM_LIBRARY_NAME}.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
