# SPDX-License-Identifier: Apache-2.0
# The library under other compilers and flags: each entry compiles a program at test time and runs it.
# A compiler that this machine lacks is reported and left out. Labels: toolchain, fuzz.
find_program(LOFT_GXX NAMES g++-12 g++)
find_program(LOFT_CLANG14 NAMES clang++-14)
find_program(LOFT_CLANG22 NAMES clang++-22)

# loft_toolchain_test(<name> <compiler variable> <source> <flag> ...)
# Two ctest entries, <name>.build and <name>.run; the second needs the first. Names in `nightly_toolchains` are for the
# nightly tests.
set(nightly_toolchains toolchain.gcc_plain toolchain.clang14_plain toolchain.clang22_plain)
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

# The frozen codes, whatever the flags. Plain flags are those of the golden tests, so that here they are asked nightly.
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

# Fuzzing; clang brings libFuzzer. Twenty seconds with every change, compiled without optimisation, which takes a third of the
# time; ten minutes nightly, with it, where each second runs four times as many inputs. fuzz/tensor_fuzz.cpp tells of longer runs.
set(fuzz_flags -std=c++20 -g1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
function(loft_fuzz_test name label optimization seconds)
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/tensor_fuzz.cpp")
  set(program "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  math(EXPR timeout "${seconds} + 100")
  add_test(NAME ${name}.build COMMAND "${LOFT_CLANG14}" ${fuzz_flags} ${optimization} ${loft_warnings} -I
    "${PROJECT_SOURCE_DIR}/include" "${source}" -o "${program}")
  # A fixed seed: a change is judged by itself, and long runs look for what is new.
  add_test(NAME ${name}.run COMMAND "${program}" -max_total_time=${seconds} -max_len=2048 -len_control=0 -seed=1 -print_final_stats=1)
  set_tests_properties(${name}.build PROPERTIES LABELS ${label} TIMEOUT 600 COST 100 FIXTURES_SETUP ${name})
  set_tests_properties(${name}.run PROPERTIES LABELS ${label} TIMEOUT ${timeout} COST 100 FIXTURES_REQUIRED ${name}
    ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1")
endfunction()
if(LOFT_CLANG14)
  loft_fuzz_test(fuzz.tensor fuzz -O0 20)
  loft_fuzz_test(fuzz.tensor_long nightly -O1 600)
  add_custom_target(tensor_fuzz COMMAND "${LOFT_CLANG14}" ${fuzz_flags} -O1 ${loft_warnings} -I "${PROJECT_SOURCE_DIR}/include"
    "${CMAKE_CURRENT_SOURCE_DIR}/fuzz/tensor_fuzz.cpp" -o "${CMAKE_CURRENT_BINARY_DIR}/tensor_fuzz" VERBATIM)
else()
  message(STATUS "The fuzzing is left out: clang++-14 was not found")
endif()
