// SPDX-License-Identifier: Apache-2.0
// Codes of one block format are not read as another one.
// expect: the operand describes another block format
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using described = loft::mxfp8_e4m3;
#else
  using described = loft::mxfp4;
#endif
  loft::quantized_view<loft::mxfp4> const in{};
  loft::matrix_view<float> const out{};
  return loft::dequantize(in, out, loft::operand<described>{}) == loft::status::ok ? 0 : 1;
}
