// SPDX-License-Identifier: Apache-2.0
// Input and output changed places.
// expect: this is no quantized_view, which holds codes and scales
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  loft::quantized_view<loft::mxfp4> const out{};
  loft::matrix_view<float> const in{};
#else
  loft::quantized_view<loft::mxfp4> const in{};
  loft::matrix_view<float> const out{};
#endif
  return loft::dequantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
