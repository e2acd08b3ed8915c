// SPDX-License-Identifier: Apache-2.0
// An integer has no rounding of its own: encode refuses it.
// expect: encode takes a float, a double or a minifloat
#include <loft/number.hpp>

int main() {
#ifdef LOFT_FAIL
  int const one = 1;
#else
  float const one = 1;
#endif
  return loft::encode<loft::e2m1>(one) == 2 ? 0 : 1;
}
