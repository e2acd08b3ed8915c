// SPDX-License-Identifier: Apache-2.0
// A view names the format before the layout.
// expect: a quantized tensor names its block format first, then the layout of its scales
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using view = loft::quantized_view<loft::tiled_128x4>;
#else
  using view = loft::quantized_view<loft::mxfp4, loft::tiled_128x4>;
#endif
  view const q{};
  return q.rows == 0 ? 0 : 1;
}
