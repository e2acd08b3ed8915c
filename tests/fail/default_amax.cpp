// SPDX-License-Identifier: Apache-2.0
// The rule of nvfp4 has an amax, which may be known: the operand is never guessed.
// expect: this operand has a state, as a seed, signs or an amax, and cannot be left out
#include <loft/tensor.hpp>

int main() {
  loft::matrix_view<float const> const in{};
  loft::quantized_view<loft::nvfp4> const out{};
#ifdef LOFT_FAIL
  return loft::quantize<loft::operand<loft::nvfp4>>(in, out) == loft::status::ok ? 0 : 1;
#else
  return loft::quantize(in, out, loft::operand<loft::nvfp4>{}) == loft::status::ok ? 0 : 1;
#endif
}
