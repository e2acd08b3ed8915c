// SPDX-License-Identifier: Apache-2.0
// One block does not know the others whose scales are corrected with its own.
// expect: quantize_block: this rule corrects the scales of several blocks together
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  using rule = loft::ms_eden<128>;
#else
  using rule = loft::ms_eden<16>;
#endif
  float const values[16] = {};
  return loft::quantize_block(values, 16, loft::operand<loft::nvfp4, rule>{}, loft::tensor_scale{}).scale;
}
