// SPDX-License-Identifier: Apache-2.0
// A seed that nobody chose repeats its words from call to call.
// expect: this operand has a state, as a seed, signs or an amax, and cannot be left out
#include <loft/tensor.hpp>

int main() {
  using how = loft::operand<loft::mxfp4, loft::ocp_floor, loft::stochastic<>>;
  loft::matrix_view<float const> const in{};
  loft::matrix_view<float> const out{};
#ifdef LOFT_FAIL
  return loft::fake_quantize<how>(in, out) == loft::status::ok ? 0 : 1;
#else
  return loft::fake_quantize(in, out, how{.rounding = {1, 2}}) == loft::status::ok ? 0 : 1;
#endif
}
