// SPDX-License-Identifier: Apache-2.0
// NVFP4 has E4M3 scales, which a rule that gives powers of two cannot write.
// expect: this scale rule gives powers of two
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  using format = loft::nvfp4;
#else
  using format = loft::mxfp4;
#endif
  float const values[16] = {};
  return loft::quantize_block(values, 16, loft::operand<format, loft::ocp_floor>{}, loft::tensor_scale{}).scale;
}
