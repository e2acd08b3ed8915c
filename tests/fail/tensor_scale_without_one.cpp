// SPDX-License-Identifier: Apache-2.0
// A format without a tensor scale has none to compute.
// expect: tensor_scale_for: this block format has no scale for the whole tensor
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  using format = loft::hif4;
#else
  using format = loft::nvfp4;
#endif
  return loft::tensor_scale_for<format>(1.0f).encode > 1 ? 0 : 1;
}
