// SPDX-License-Identifier: Apache-2.0
// Twelve is a Hadamard order, but not one of Sylvester's.
// expect: N must be a power of two
#include <loft/rotation.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int size = 12;
#else
  constexpr int size = 8;
#endif
  float run[128] = {};
  loft::hadamard<size>{}.apply(run);
  return run[0] == 0 ? 0 : 1;
}
