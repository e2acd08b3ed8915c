# SPDX-License-Identifier: Apache-2.0
# Runs a command that has to fail, and for the right reason:
#   cmake -DEXPECT=<regex> -P expect_failure.cmake -- command argument ...
# Succeeds when the command fails and its output matches the regex.
set(command "")
set(found_separator FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(found_separator)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(found_separator TRUE)
  endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "succeeded, but has to fail: ${command}\n${output}")
endif()
# Compilers and CMake break lines and indent; a sentence has to be found all the same.
string(REGEX REPLACE "[ \t\r\n]+" " " output_line "${output}")
if(NOT output_line MATCHES "${EXPECT}")
  message(FATAL_ERROR "failed, but for another reason than '${EXPECT}':\n${output}")
endif()
