// SPDX-License-Identifier: Apache-2.0
// NVFP4 has a scale for the whole tensor, which a block does not know.
// expect: quantize_block: this block format has a scale for the whole tensor: pass tensor_scale_for
#include <loft/block.hpp>

int main() {
  float const values[16] = {};
#ifdef LOFT_FAIL
  return loft::quantize_block(values, 16, loft::operand<loft::nvfp4>{}).scale;
#else
  auto const t = loft::tensor_scale_for<loft::nvfp4>(1.0f);
  return loft::quantize_block(values, 16, loft::operand<loft::nvfp4>{}, t).scale;
#endif
}
