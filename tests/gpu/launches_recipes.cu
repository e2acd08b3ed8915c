// SPDX-License-Identifier: Apache-2.0
// The operands of every named recipe, quantized on a GPU and on the host, to the byte.
//
// nvcc -std=c++20 -O2 -arch=sm_90 -Iinclude -Itests/gpu -DLOFT_TEST_PART=0 tests/gpu/launches_recipes.cu
// and with 1 and 2 for other formats, which keeps compile time in bounds. Exit code 1 where a byte differs, 2
// without a GPU.
#include <string_view>

#include "launches_quantize.hpp"
#include "loft/recipes.hpp"

#if !defined(LOFT_TEST_PART)
#define LOFT_TEST_PART 0
#endif

using namespace gpu_tests;

namespace {

/// The kernels work on blocks whose length divides 128; longer ones are for the host's function.
template <class O> void check_operand(std::string const& what, O const& how) {
  if constexpr (requires { how.then; }) check_operand(what, how.then);
  else if constexpr (requires { how.how; }) check_operand(what, how.how);
  else if constexpr (requires { typename O::format; }) {
    if constexpr (128 % O::format::shape.cols == 0) {
      group const g(what.c_str());
      all_matrices<bf16_t>(what.c_str(), how);
    }
  }
}

/// One operand of each type in a recipe is enough.
template <class R> void check_recipe(std::string const& name, R const& r) {
  check_operand(name + ", X", r.fprop.left);
  if constexpr (!std::is_same_v<decltype(r.fprop.right), decltype(r.fprop.left)>)
    check_operand(name + ", W", r.fprop.right);
  if constexpr (!std::is_same_v<decltype(r.dgrad.left), decltype(r.fprop.left)>)
    check_operand(name + ", dY", r.dgrad.left);
  if constexpr (!std::is_same_v<decltype(r.wgrad.left), decltype(r.dgrad.left)>) {
    check_operand(name + ", dY^T", r.wgrad.left);
    if constexpr (!std::is_same_v<decltype(r.wgrad.right), decltype(r.wgrad.left)>)
      check_operand(name + ", X^T", r.wgrad.right);
  }
}

/// Which part of the program has an operand: the formats with powers of two for scales, NVFP4, the others.
template <class O> constexpr int part_of() {
  if constexpr (requires { typename O::format; }) {
    if (detail::is_power_of_two_format<typename O::format::scale>) return 0;
    return std::is_same_v<typename O::format, nvfp4> ? 1 : 2;
  }
  return 2;
}

}  // namespace

int main() {
  if (!device::has()) return 2;
  for_each_recipe([](std::string_view name, auto const& plan) {
    using left = decltype(plan.main.fprop.left);
    if constexpr (part_of<std::remove_cvref_t<left>>() == LOFT_TEST_PART)
      check_recipe(std::string{name}, reseed(plan.main, 1ull << 40 | 5, 77));
  });
  check(cudaDeviceSynchronize());
  return report();
}
