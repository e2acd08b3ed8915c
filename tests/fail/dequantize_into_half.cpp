// SPDX-License-Identifier: Apache-2.0
// Decoded values are floats; to round them once more is a choice of its own.
// expect: dequantize writes floats: its output is a matrix_view<float>
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using number = loft::bf16_t;
#else
  using number = float;
#endif
  loft::quantized_view<loft::mxfp4 const> const in{};
  loft::matrix_view<number> const out{};
  return loft::dequantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
