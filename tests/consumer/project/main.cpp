// SPDX-License-Identifier: Apache-2.0
// A user's first program: rounds a number to FP4 and reads it back.
#include <loft/loft.hpp>

int main() {
  auto const code = loft::encode<loft::e2m1>(2.6f);
  return loft::decode<loft::e2m1>(code) == 3.0f ? 0 : 1;
}
