// SPDX-License-Identifier: Apache-2.0
// A row of three FP4 codes would share a byte with its neighbour: such a block is no block format.
// expect: rows_fill_whole_bytes
#include <loft/block.hpp>

struct narrow {
  using element = loft::e2m1;
  using scale = loft::e8m0;
#ifdef LOFT_FAIL
  static constexpr loft::block_shape shape{1, 3};
#else
  static constexpr loft::block_shape shape{1, 4};
#endif
};

int main() {
  loft::block<narrow> const block{};
  return block.scale;
}
