// SPDX-License-Identifier: Apache-2.0
// A scale with levels along the row cannot be shared by a tile.
// expect: constraints? not satisfied|template constraint failure
#include <loft/block.hpp>

int main() {
#ifdef LOFT_FAIL
  using tile = loft::square<loft::hif4, 16>;
#else
  using tile = loft::square<loft::nvfp4, 16>;
#endif
  return tile::shape.rows - 16;
}
