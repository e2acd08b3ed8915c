// SPDX-License-Identifier: Apache-2.0
// What fake_quantize gives are floats, which a matrix of doubles would only make larger.
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
