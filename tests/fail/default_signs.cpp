// SPDX-License-Identifier: Apache-2.0
// Signs that nobody chose are all plus, which is another rotation.
// expect: this operand has a state, as a seed, signs or an amax, and cannot be left out
#include <loft/tensor.hpp>

int main() {
  using how = loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::signed_hadamard<16>>;
  loft::quantized_view<loft::mxfp4 const> const in{};
  loft::matrix_view<float> const out{};
#ifdef LOFT_FAIL
  return loft::dequantize<how>(in, out) == loft::status::ok ? 0 : 1;
#else
  return loft::dequantize(in, out, how{.rotation = {0x9a5c}}) == loft::status::ok ? 0 : 1;
#endif
}
