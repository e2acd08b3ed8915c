// SPDX-License-Identifier: Apache-2.0
// Numbers are decoded to floats, and rounded once more for minifloats; there are no doubles to decode to.
// expect: fake_quantize writes a matrix of float or of a minifloat
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using number = double;
#else
  using number = float;
#endif
  loft::matrix_view<float const> const in{};
  loft::matrix_view<number> const out{};
  return loft::fake_quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
