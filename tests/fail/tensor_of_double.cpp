// SPDX-License-Identifier: Apache-2.0
// A block maximum is a float, so a tensor of doubles would be rounded twice.
// expect: tensors hold float or a minifloat
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  double const values[32] = {};
#else
  float const values[32] = {};
#endif
  return loft::quantize_block(values, 32, loft::operand<loft::mxfp4>{}).scale;
}
