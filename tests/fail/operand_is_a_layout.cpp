// SPDX-License-Identifier: Apache-2.0
// Where scales lie belongs to the view, in the type of which it stands.
// expect: this is a layout where an operand belongs
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  loft::tiled_128x4 const how;
#else
  loft::operand<loft::mxfp4> const how;
#endif
  loft::matrix_view<float const> const in{};
  loft::quantized_view<loft::mxfp4> const out{};
  return loft::quantize(in, out, how) == loft::status::ok ? 0 : 1;
}
