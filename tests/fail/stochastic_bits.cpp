// SPDX-License-Identifier: Apache-2.0
// The words of stochastic rounding are equal parts of a Philox call, as random_bits deals them.
// expect: Bits must divide 32
#include <loft/number.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int bits = 24;
#else
  constexpr int bits = 8;
#endif
  return loft::encode<loft::e4m3>(0.0f, loft::stochastic<bits>{1, 2}, 3) == 0 ? 0 : 1;
}
