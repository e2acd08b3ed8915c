# SPDX-License-Identifier: Apache-2.0
# Compares the written pages of a docs folder with what the generator writes now:
#   cmake -DGENERATOR=<program> -DDOCS=<folder> -DFOLDER=<to write in> -P check.cmake
execute_process(COMMAND "${GENERATOR}" "${FOLDER}" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${GENERATOR} failed: ${failed}")
endif()
foreach(file IN ITEMS formats.md images/number-lines.svg)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E compare_files "${FOLDER}/${file}" "${DOCS}/${file}"
    RESULT_VARIABLE different OUTPUT_QUIET ERROR_QUIET)
  if(different)
    message(FATAL_ERROR "${file} is not what the catalogue says: build the target docs, and read what changed")
  endif()
endforeach()
