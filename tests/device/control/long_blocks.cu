// SPDX-License-Identifier: Apache-2.0
// Blocks that are longer than a tile: the compiler has to say so.
#if defined(__HIP__)
#include "loft/hip.hpp"
using device = loft::hip;
#else
#include "loft/cuda.hpp"
using device = loft::cuda;
#endif

using how = loft::operand<loft::per_row<loft::e2m1>>;
loft::status quantize(loft::matrix_view<float const> in, loft::quantized_view<how::format> out) {
  return device::quantize(in, out, how{}, device::context{});
}
