# SPDX-License-Identifier: Apache-2.0
# Runs gnmr_mpi on RANKS ranks: unbroken, with a NaN, killed and resumed, and with a rank that is made to disagree.
file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)  # as in a container, where there is nobody else
set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
set(ENV{OMPI_MCA_rmaps_base_oversubscribe} 1)
set(ENV{OMPI_MCA_btl} self,vader)  # ranks of one machine: no network

# run(<variable for what it prints> <zero|fails> <options ...>)
function(run out expected)
  execute_process(COMMAND "${MPIEXEC}" -n ${RANKS} "${PROGRAM}" ${ARGN}
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  if(expected STREQUAL "zero" AND NOT code EQUAL 0 OR expected STREQUAL "fails" AND code EQUAL 0)
    message(FATAL_ERROR "gnmr_mpi ${ARGN}: exit code ${code}\n${text}${errors}")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

run(unbroken zero)
if(NOT unbroken MATCHES "^40 steps, loss [0-9.]+, [1-9][0-9]* unit-steps on the safe path, state [0-9a-f]+\n$")
  message(FATAL_ERROR "unexpected: ${unbroken}")
endif()

run(with_nan zero --nan-rank 1)
if(NOT with_nan MATCHES "^step 15: a gradient that is not finite, seen by ${RANKS} of ${RANKS} ranks; no update\n40 steps")
  message(FATAL_ERROR "unexpected: ${with_nan}")
endif()

# The run with the NaN: its checkpoint of step 20 has an update less than steps.
run(killed fails --nan-rank 1 --state "${FOLDER}/state" --stop-at 27)
if(killed MATCHES "40 steps")
  message(FATAL_ERROR "the killed run came to an end: ${killed}")
endif()
run(resumed zero --state "${FOLDER}/state" --resume)
string(REGEX MATCH "40 steps.*" end_of_unbroken "${with_nan}")
if(NOT resumed STREQUAL end_of_unbroken)
  message(FATAL_ERROR "killed and resumed: ${resumed}unbroken: ${end_of_unbroken}")
endif()

run(odd fails --odd-rank 1)
if(NOT errors MATCHES "step 0: the ranks disagree")
  message(FATAL_ERROR "a rank with another norm was not found: ${errors}")
endif()
