# SPDX-License-Identifier: Apache-2.0
# Runs Doxygen and fails on what it warns of:
#   cmake -DDOXYGEN=<program> -DFOLDER=<of Doxyfile and doxygen.log> -P doxygen.cmake
# Two kinds of warning are no errors: members of a struct that has a docstring, as a concept explains the members of its
# models, and a record's docstring its fields; and deduction guides, which say what a constructor's docstring says.
execute_process(COMMAND "${DOXYGEN}" "${FOLDER}/Doxyfile" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "doxygen failed: ${failed}")
endif()
file(STRINGS "${FOLDER}/doxygen.log" warnings)
list(FILTER warnings EXCLUDE REGEX "Member .* of (struct|class) .* is not documented")
list(FILTER warnings EXCLUDE REGEX "Member .*\\) -> .* is not documented")
if(warnings)
  list(JOIN warnings "\n  " text)
  message(FATAL_ERROR "the reference has faults:\n  ${text}")
endif()
