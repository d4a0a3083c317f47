# GoogleTest from the sources that Debian's package `googletest` installs, compiled anew in every
# build, so that it has the same sanitizer and the same processor as the tests.

find_path(LOAM_GTEST_DIR src/gtest-all.cc
  PATHS /usr/src/googletest/googletest /usr/src/gtest
  NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
  DOC "The folder of googletest's sources that holds src/gtest-all.cc")
if(NOT LOAM_GTEST_DIR)
  message(FATAL_ERROR "loam: the tests need googletest's sources: run scripts/bootstrap, "
    "or give -DLOAM_GTEST_DIR=..., or build without tests (-DLOAM_TESTS=OFF)")
endif()

add_library(loam_gtest STATIC ${LOAM_GTEST_DIR}/src/gtest-all.cc
  ${LOAM_GTEST_DIR}/src/gtest_main.cc)
target_include_directories(loam_gtest SYSTEM PUBLIC ${LOAM_GTEST_DIR}/include)
target_include_directories(loam_gtest PRIVATE ${LOAM_GTEST_DIR})
target_compile_features(loam_gtest PUBLIC cxx_std_17)
target_link_libraries(loam_gtest PUBLIC Threads::Threads)
# Not what is measured here: a third of the time to compile.
target_compile_options(loam_gtest PRIVATE -O0 -g0 -w)
