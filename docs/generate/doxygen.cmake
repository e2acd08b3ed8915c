# SPDX-License-Identifier: Apache-2.0
# Runs Doxygen and fails on what it warns of:
#   cmake -DDOXYGEN=<program> -DFOLDER=<of Doxyfile and doxygen.log> -P doxygen.cmake
# One kind of warning is no error: members of a struct that has a docstring. A concept explains the members of its
# models, and a record's docstring its fields.
execute_process(COMMAND "${DOXYGEN}" "${FOLDER}/Doxyfile" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "doxygen failed: ${failed}")
endif()
file(STRINGS "${FOLDER}/doxygen.log" warnings)
list(FILTER warnings EXCLUDE REGEX "Member .* of (struct|class) .* is not documented")
if(warnings)
  list(JOIN warnings "\n  " text)
  message(FATAL_ERROR "the reference has faults:\n  ${text}")
endif()
