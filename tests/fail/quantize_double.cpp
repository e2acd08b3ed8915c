// SPDX-License-Identifier: Apache-2.0
// A view of doubles would be rounded twice: once to the floats of the block, then to its codes.
// expect: tensors hold float or a minifloat
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using number = double;
#else
  using number = float;
#endif
  loft::matrix_view<number const> const in{};
  loft::quantized_view<loft::mxfp4> const out{};
  return loft::quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
