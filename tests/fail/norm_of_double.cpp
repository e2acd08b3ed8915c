// SPDX-License-Identifier: Apache-2.0
// The square of a double is no double: a norm of doubles could overflow, and would be rounded in another way.
// expect: a norm is taken of floats
#include <loft/gnmr.hpp>

int main() {
#ifdef LOFT_FAIL
  using number = double;
#else
  using number = float;
#endif
  number const values[] = {3, 4};
  return loft::norm_of(loft::partial_norm(values, 2)) == 5 ? 0 : 1;
}
