# Compiles with clang, version 16 preferred (what CI is held to), else the newest one found.

find_program(LOAM_CLANG NAMES clang-16 clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang
  REQUIRED)
find_program(LOAM_CLANGXX
  NAMES clang++-16 clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++
  REQUIRED)
set(CMAKE_C_COMPILER ${LOAM_CLANG})
set(CMAKE_CXX_COMPILER ${LOAM_CLANGXX})
