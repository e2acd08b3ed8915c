// SPDX-License-Identifier: Apache-2.0
// A variable that nobody uses: a warning, which the checks make an error of.
#include "words.hpp"

__global__ void warning(int* out) {
  int unused = 3;
  *out = 1;
}
