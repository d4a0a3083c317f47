# The board as something to link with: loam_board. A program of the device gets its start, its
# linker script and the two functions of libc; one of the host only output and exit.

if(NOT TARGET loam_board)
  set(folder ${CMAKE_CURRENT_LIST_DIR})
  add_library(loam_board INTERFACE)
  target_include_directories(loam_board INTERFACE ${folder})
  if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
    # Objects, not an archive: nothing refers to the vectors.
    add_library(loam_board_objects OBJECT ${folder}/mps2.c ${folder}/libc.c)
    target_compile_options(loam_board_objects PRIVATE -ffreestanding
      -fno-tree-loop-distribute-patterns)
    target_sources(loam_board INTERFACE $<TARGET_OBJECTS:loam_board_objects>)
    target_link_options(loam_board INTERFACE -nostdlib -Wl,--gc-sections -Wl,--fatal-warnings
      -T ${folder}/mps2.ld)
    target_link_libraries(loam_board INTERFACE gcc) # the compiler's own arithmetic
  else()
    add_library(loam_board_objects OBJECT ${folder}/host.c)
    target_sources(loam_board INTERFACE $<TARGET_OBJECTS:loam_board_objects>)
  endif()
  target_compile_features(loam_board_objects PRIVATE c_std_11)
  target_link_libraries(loam_board_objects PRIVATE loam_warnings)
  target_include_directories(loam_board_objects PRIVATE ${folder})
endif()
