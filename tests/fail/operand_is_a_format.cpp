// SPDX-License-Identifier: Apache-2.0
// A block format says what bits mean, not how they are made.
// expect: this is a block format where an operand belongs: pass operand<format>
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  loft::mxfp4 const how;
#else
  loft::operand<loft::mxfp4> const how;
#endif
  loft::matrix_view<float const> const in{};
  loft::quantized_view<loft::mxfp4> const out{};
  return loft::quantize(in, out, how) == loft::status::ok ? 0 : 1;
}
