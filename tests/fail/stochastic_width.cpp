// SPDX-License-Identifier: Apache-2.0
// A random word has at most 32 bits.
// expect: stochastic_word: Bits must be from 1 to 32
#include <loft/number.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int bits = 33;
#else
  constexpr int bits = 32;
#endif
  loft::stochastic_word<bits> const rounding{0};
  return loft::encode<loft::e4m3, loft::overflow::saturate>(0.0f, rounding) == 0 ? 0 : 1;
}
