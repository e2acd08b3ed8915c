// SPDX-License-Identifier: Apache-2.0
// Numbers are decoded to floats, and rounded once more for minifloats; there are no doubles to decode to.
// expect: dequantize writes a matrix of float or of a minifloat
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using number = double;
#else
  using number = float;
#endif
  loft::quantized_view<loft::mxfp4 const> const in{};
  loft::matrix_view<number> const out{};
  return loft::dequantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
