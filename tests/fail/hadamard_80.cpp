// SPDX-License-Identifier: Apache-2.0
// Neither is eighty.
// expect: N must be a power of two
#include <loft/rotation.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int size = 80;
#else
  constexpr int size = 64;
#endif
  float run[128] = {};
  loft::hadamard<size>{}.apply(run);
  return run[0] == 0 ? 0 : 1;
}
