// SPDX-License-Identifier: Apache-2.0
// A kernel with an array that cannot stay in registers, and no conversion: what the checks have to refuse.
#include "words.hpp"

__global__ void local_memory(int const* places, int count, int* out) {
  int table[64];
  for (int i = 0; i < 64; ++i) table[i] = places[i];
  for (int i = 0; i < count; ++i) table[places[i] & 63] += i;
  *out = table[count & 63];
}
