// SPDX-License-Identifier: Apache-2.0
// One block cannot hold a run of 64: that is rotated before its blocks are made.
// expect: a rotation longer than the block's rows is applied to the run before
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  using rotation = loft::hadamard<64>;
#else
  using rotation = loft::hadamard<32>;
#endif
  using operand = loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, rotation>;
  float const values[64] = {};
  return loft::quantize_block(values, 32, operand{}).scale;
}
