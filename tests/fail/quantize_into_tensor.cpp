// SPDX-License-Identifier: Apache-2.0
// Calls take views, and a tensor that owns its memory gives one.
// expect: a quantized_tensor gives one with view
#include <loft/tensor.hpp>

int main() {
  loft::quantized_tensor<loft::mxfp4> q{0, 0};
#ifdef LOFT_FAIL
  auto& out = q;
#else
  auto const out = q.view();
#endif
  loft::matrix_view<float const> const in{};
  return loft::quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
