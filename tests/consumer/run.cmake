# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs the consumer project from nothing, in one of the three WAYs.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${WORK}")
set(where "-DLOFT_SOURCE=${SOURCE}")
if(WAY STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
  # The package alone has to be enough: no path to the source is given.
  set(where "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
endif()
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/project" -B "${WORK}/build" -G "${GENERATOR}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" -DWAY=${WAY} -DVERSION=${VERSION} ${where})
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/consumer")
