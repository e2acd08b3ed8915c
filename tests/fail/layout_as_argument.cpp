// SPDX-License-Identifier: Apache-2.0
// A layout beside the view could be another one than the view was written in.
// expect: quantize: the layout of scales is part of the view.s type, quantized_view<B, L>
#include <loft/tensor.hpp>

int main() {
  loft::matrix_view<float const> const in{};
#ifdef LOFT_FAIL
  loft::quantized_view<loft::mxfp4> const out{};
  return loft::quantize(in, out, loft::operand<loft::mxfp4>{}, loft::tiled_128x4{}) == loft::status::ok ? 0 : 1;
#else
  loft::quantized_view<loft::mxfp4, loft::tiled_128x4> const out{};
  return loft::quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
#endif
}
