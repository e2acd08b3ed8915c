// SPDX-License-Identifier: Apache-2.0
// An unsigned integer is mostly a code, which from_bits takes; as a value it is refused.
// expect: ambiguous|no matching (function|conversion)
#include <loft/number.hpp>

int main() {
#ifdef LOFT_FAIL
  unsigned const value = 1;
#else
  int const value = 1;
#endif
  return loft::e2m1_t{value} == loft::e2m1_t{1.0f} ? 0 : 1;
}
