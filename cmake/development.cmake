# SPDX-License-Identifier: Apache-2.0
# What tests, examples and benchmarks share: the warnings, and how a missing package is reported. Users get none of it.

# Strict warnings for the project's own programs; the headers are checked with the same list in tests/headers.
set(loft_warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)

# loft_find_package(<part> <package> <Debian package> [find_package arguments ...])
# Finds what LOFT_BUILD_<part> needs, or stops and says what to install.
macro(loft_find_package part package debian_package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "LOFT_BUILD_${part} needs ${package}, which was not found. "
      "Install the Debian package ${debian_package} (apt-get install ${debian_package}), "
      "or configure with -DLOFT_BUILD_${part}=OFF.")
  endif()
endmacro()

# Makes a program of the project follow the rules that all of them share.
function(loft_own_program target)
  target_link_libraries(${target} PRIVATE loft::loft)
  target_compile_options(${target} PRIVATE ${loft_warnings})
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
