# SPDX-License-Identifier: Apache-2.0
# The library under other compilers and flags: each entry compiles a program at test time and runs it.
# A compiler that this machine lacks is reported and left out. Labels: toolchain, fuzz.
find_program(LOFT_GXX NAMES g++-12 g++)
find_program(LOFT_CLANG14 NAMES clang++-14)
find_program(LOFT_CLANG22 NAMES clang++-22)

# loft_toolchain_test(<name> <compiler variable> <source> <flag> ...)
# Two ctest entries, <name>.build and <name>.run; the second needs the first. Names in `nightly_toolchains` are for the
# nightly tests.
set(nightly_toolchains toolchain.gcc_plain toolchain.clang22_plain)
function(loft_toolchain_test name compiler source)
  if(NOT ${compiler})
    message(STATUS "${name} is left out: ${compiler} was not found")
    return()
  endif()
  set(program "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  add_test(NAME ${name}.build
    COMMAND "${${compiler}}" -std=c++20 ${loft_warnings} ${ARGN} "-DLOFT_TEST_DATA=\"${CMAKE_CURRENT_SOURCE_DIR}/data\""
      -I "${PROJECT_SOURCE_DIR}/include" -I "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${program}")
  add_test(NAME ${name}.run COMMAND "${program}")
  # COST: the longest begin first, so that none of them runs alone at the end.
  set_tests_properties(${name}.build PROPERTIES LABELS toolchain TIMEOUT 600 COST 50 FIXTURES_SETUP ${name})
  set_tests_properties(${name}.run PROPERTIES LABELS toolchain TIMEOUT 300 FIXTURES_REQUIRED ${name})
  if(name IN_LIST nightly_toolchains)
    set_tests_properties(${name}.build ${name}.run PROPERTIES LABELS nightly)
  endif()
endfunction()

# The frozen codes, whatever the flags. Without them g++ is asked by the golden tests, and clang 14 here.
# clang 22 says that -Ofast is deprecated: -O3 -ffast-math is the same.
set(fast -O3 -ffast-math -march=native)
set(plain -fno-exceptions -fno-rtti)
loft_toolchain_test(toolchain.gcc_fast LOFT_GXX toolchain/frozen_codes.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.gcc_plain LOFT_GXX toolchain/frozen_codes.cpp -O2 ${plain})
loft_toolchain_test(toolchain.clang14_fast LOFT_CLANG14 toolchain/frozen_codes.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.clang14_plain LOFT_CLANG14 toolchain/frozen_codes.cpp -O2 ${plain})
loft_toolchain_test(toolchain.clang22_fast LOFT_CLANG22 toolchain/frozen_codes.cpp ${fast})
loft_toolchain_test(toolchain.clang22_plain LOFT_CLANG22 toolchain/frozen_codes.cpp -O2 ${plain})
loft_toolchain_test(toolchain.gnmr_gcc_fast LOFT_GXX toolchain/frozen_gnmr.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.gnmr_gcc_plain LOFT_GXX toolchain/frozen_gnmr.cpp -O2 ${plain})
loft_toolchain_test(toolchain.gnmr_clang14_fast LOFT_CLANG14 toolchain/frozen_gnmr.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.gnmr_clang22_fast LOFT_CLANG22 toolchain/frozen_gnmr.cpp ${fast})
loft_toolchain_test(toolchain.gradients_gcc_fast LOFT_GXX toolchain/frozen_gradients.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.gradients_gcc_plain LOFT_GXX toolchain/frozen_gradients.cpp -O2 ${plain})
loft_toolchain_test(toolchain.gradients_clang14_fast LOFT_CLANG14 toolchain/frozen_gradients.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.gradients_clang22_fast LOFT_CLANG22 toolchain/frozen_gradients.cpp ${fast})
loft_toolchain_test(toolchain.products_gcc_fast LOFT_GXX toolchain/frozen_products.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.products_gcc_fused LOFT_GXX toolchain/frozen_products.cpp -O3 -march=native -ffp-contract=fast)
loft_toolchain_test(toolchain.products_clang14_fast LOFT_CLANG14 toolchain/frozen_products.cpp -Ofast -march=native)
loft_toolchain_test(toolchain.products_clang22_fast LOFT_CLANG22 toolchain/frozen_products.cpp ${fast})
loft_toolchain_test(toolchain.stochastic_widths LOFT_GXX toolchain/stochastic_widths.cpp -O1)

# Fifteen seconds of fuzzing with every change; see fuzz/tensor_fuzz.cpp for longer runs. clang brings libFuzzer.
set(fuzz_flags -std=c++20 -O1 -g1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
if(LOFT_CLANG14)
  set(fuzz_source "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/tensor_fuzz.cpp")
  set(fuzz_program "${CMAKE_CURRENT_BINARY_DIR}/tensor_fuzz")
  set(fuzz_build "${LOFT_CLANG14}" ${fuzz_flags} ${loft_warnings} -I "${PROJECT_SOURCE_DIR}/include" "${fuzz_source}" -o "${fuzz_program}")
  add_custom_target(tensor_fuzz COMMAND ${fuzz_build} COMMENT "Building ${fuzz_program}" VERBATIM)
  add_test(NAME fuzz.tensor.build COMMAND ${fuzz_build})
  # A fixed seed: a change is judged by itself, and long runs look for what is new.
  add_test(NAME fuzz.tensor.run COMMAND "${fuzz_program}" -max_total_time=15 -max_len=2048 -len_control=0 -seed=1 -print_final_stats=1)
  set_tests_properties(fuzz.tensor.build PROPERTIES LABELS fuzz TIMEOUT 600 COST 100 FIXTURES_SETUP fuzz.tensor)
  set_tests_properties(fuzz.tensor.run PROPERTIES LABELS fuzz TIMEOUT 120 COST 100 FIXTURES_REQUIRED fuzz.tensor
    ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1")
else()
  message(STATUS "The fuzzing is left out: clang++-14 was not found")
endif()
