// SPDX-License-Identifier: Apache-2.0
// Sylvester matrices exist for powers of two only.
// expect: N must be a power of two
#include <loft/rotation.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int size = 24;
#else
  constexpr int size = 16;
#endif
  float run[size] = {};
  loft::hadamard<size>{}.apply(run);
  return run[0] == 0 ? 0 : 1;
}
