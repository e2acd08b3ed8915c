// SPDX-License-Identifier: Apache-2.0
// A tile on a machine whose shared memory has no room for it: the compiler has to say so, and name both sizes.
#if defined(__HIP__)
#include "loft/hip.hpp"
using device = loft::gpu::hip_device;
#else
#include "loft/cuda.hpp"
using device = loft::gpu::cuda_device;
#endif

struct small_device {
  using stream = device::stream;
  static constexpr int shared_limit = 16 * 1024;
  template <class... Arguments> static loft::status launch(Arguments... arguments) noexcept {
    return device::launch(arguments...);
  }
};

using tile = loft::operand<loft::square<loft::mxfp4, 32>>;
loft::status quantize(loft::matrix_view<float const> in, loft::quantized_view<tile::format> out) {
  return loft::gpu::launcher<small_device>::quantize(in, out, tile{}, {});
}
