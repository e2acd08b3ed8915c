// SPDX-License-Identifier: Apache-2.0
// Scales that are corrected, behind a rotation that no tile holds: the compiler has to say so.
#if defined(__HIP__)
#include "loft/hip.hpp"
using device = loft::hip;
#else
#include "loft/cuda.hpp"
using device = loft::cuda;
#endif

using how = loft::operand<loft::nvfp4, loft::ms_eden<128>, loft::nearest_even, loft::hadamard<48>>;
loft::status quantize(loft::matrix_view<float const> in, loft::quantized_view<how::format> out) {
  return device::quantize(in, out, how{}, device::context{});
}
