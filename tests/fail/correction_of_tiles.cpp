// SPDX-License-Identifier: Apache-2.0
// The scale of a tile belongs to several rows, each with a factor of its own.
// expect: scales are corrected in whole blocks of one row
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  using format = loft::square<loft::nvfp4, 16>;
#else
  using format = loft::nvfp4;
#endif
  return static_cast<int>(loft::operand<format, loft::ms_eden<>>{}.rule.seed);
}
