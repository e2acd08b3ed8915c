// SPDX-License-Identifier: Apache-2.0
// The bits of one Philox call are dealt out in equal words.
// expect: Bits must divide 32
#include <loft/number.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int bits = 12;
#else
  constexpr int bits = 16;
#endif
  return loft::random_bits<bits>(1, 2, 3) == 0 ? 1 : 0;
}
