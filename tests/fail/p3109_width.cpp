// SPDX-License-Identifier: Apache-2.0
// P3109 formats have at most 8 bits here.
// expect: p3109: 2 <= K <= 8 and 1 <= P < K
#include <loft/number.hpp>

int main() {
#ifdef LOFT_FAIL
  using format = loft::p3109<9, 3>;
#else
  using format = loft::p3109<7, 3>;
#endif
  return format::spec.bits() - 7;
}
