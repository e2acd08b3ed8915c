// SPDX-License-Identifier: Apache-2.0
// A signed P3109 format of K bits has at most K - 1 bits of precision.
// expect: p3109: 2 <= K <= 8 and 1 <= P < K
#include <loft/number.hpp>

int main() {
#ifdef LOFT_FAIL
  using format = loft::p3109<8, 8>;
#else
  using format = loft::p3109<8, 7>;
#endif
  return format::spec.bits() - 8;
}
