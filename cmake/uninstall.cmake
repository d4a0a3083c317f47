# The target `uninstall`: removes what the last `cmake --install` of a build has put there, and
# folders left empty.
#
#   cmake -D BUILD=build/release -P cmake/uninstall.cmake
#
# CMake lists what it installs in install_manifest.txt, one file for all or one for each component.
# Where another build of loam is below the same prefix, the files that both share stay. DESTDIR
# counts as it does for installing.

cmake_minimum_required(VERSION 3.20)
file(GLOB lists ${BUILD}/install_manifest*.txt)
if(NOT lists)
  message(FATAL_ERROR "loam: nothing was installed from ${BUILD}: there is no install_manifest.txt")
endif()
set(files)
foreach(list ${lists})
  file(STRINGS ${list} lines)
  list(APPEND files ${lines})
endforeach()
list(REMOVE_DUPLICATES files)

# First the file that says of this build that it is there; the others of its kind are other builds.
set(others)
foreach(file ${files})
  if(file MATCHES "/loam/loam[^/]*\\.build$")
    file(REMOVE "$ENV{DESTDIR}${file}")
    get_filename_component(folder "${file}" DIRECTORY)
    file(GLOB found "$ENV{DESTDIR}${folder}/*.build")
    list(APPEND others ${found})
  endif()
endforeach()
string(JOIN "|" shared "/include/loam/" "/loamConfig[A-Za-z]*\\.cmake$" "/loam/gdb/"
  "/man7/loam\\.7$" "/doc/loam/LICENSE$" "/libloam_copies\\.so$")
set(removed 0)
set(kept 0)
set(folders)
foreach(file ${files})
  set(path "$ENV{DESTDIR}${file}")
  if(others AND file MATCHES "${shared}")
    math(EXPR kept "${kept} + 1")
  else()
    if(EXISTS "${path}" OR IS_SYMLINK "${path}")
      file(REMOVE "${path}")
    endif()
    math(EXPR removed "${removed} + 1")
  endif()
  get_filename_component(folder "${path}" DIRECTORY)
  list(APPEND folders "${folder}")
endforeach()

# Folders that are loam's by their names, the deepest first.
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING)
foreach(folder ${folders})
  while(folder MATCHES "/loam(/|$)")
    file(GLOB inside "${folder}/*")
    if(inside)
      break()
    endif()
    file(REMOVE_RECURSE "${folder}")
    get_filename_component(folder "${folder}" DIRECTORY)
  endwhile()
endforeach()
file(REMOVE ${lists})
message("loam: removed ${removed} files, left ${kept} that another build of loam has, too")
