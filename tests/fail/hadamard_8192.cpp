// SPDX-License-Identifier: Apache-2.0
// A run has at most 4096 values.
// expect: N must be a power of two, or 12, 20 or 28 times one
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  constexpr int size = 8192;
#else
  constexpr int size = 4096;
#endif
  float run[4096] = {};
  loft::hadamard<size>{}.apply(run);
  return run[0] == 0 ? 0 : 1;
}
