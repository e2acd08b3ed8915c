// SPDX-License-Identifier: Apache-2.0
// A run has at least one value.
// expect: N must be a power of two, or 12, 20 or 28 times one
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int size = 0;
#else
  constexpr int size = 1;
#endif
  float run[4096] = {};
  loft::hadamard<size>{}.apply(run);
  return run[0] == 0 ? 0 : 1;
}
