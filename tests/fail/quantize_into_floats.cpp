// SPDX-License-Identifier: Apache-2.0
// quantize writes codes and scales; fake_quantize writes floats.
// expect: this is no quantized_view, which holds codes and scales
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  loft::matrix_view<float> const out{};
#else
  loft::quantized_view<loft::mxfp4> const out{};
#endif
  loft::matrix_view<float const> const in{};
  return loft::quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
