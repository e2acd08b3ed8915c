# SPDX-License-Identifier: Apache-2.0
# Checks that clang-format would change nothing: cmake -DCLANG_FORMAT=<program> -DROOT=<folder> -P format.cmake
# Every C++ and CUDA source under the folder, hidden and build folders left out.
set(sources "")
foreach(kind IN ITEMS hpp cpp cu)
  file(GLOB_RECURSE found RELATIVE "${ROOT}" "${ROOT}/*.${kind}")
  list(APPEND sources ${found})
endforeach()
list(FILTER sources EXCLUDE REGEX "^(build|\\.)")
list(LENGTH sources count)
if(count EQUAL 0)
  message(FATAL_ERROR "no source under ${ROOT}")
endif()
execute_process(COMMAND "${CLANG_FORMAT}" --dry-run -Werror ${sources} WORKING_DIRECTORY "${ROOT}"
  RESULT_VARIABLE failed ERROR_VARIABLE output)
if(failed)
  message(FATAL_ERROR "the layout is not that of clang-format; 'clang-format-14 -i <file>' mends it:\n${output}")
endif()
message(STATUS "${count} files are laid out as .clang-format says")
