// SPDX-License-Identifier: Apache-2.0
// The operand names the format, and the view has to be of it.
// expect: this quantized_view is of another block format than the operand
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using format = loft::mxfp8_e4m3;
#else
  using format = loft::mxfp4;
#endif
  loft::matrix_view<float const> const in{};
  loft::quantized_view<format> const out{};
  return loft::quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
