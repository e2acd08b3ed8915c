// SPDX-License-Identifier: Apache-2.0
// loft::hip: quantize, dequantize, rotations, amax and norms on AMD GPUs, for compilers that speak HIP.
// Source: HIP Runtime API (execution control). Include hip/hip_runtime.h first, or what declares the names used here.
#pragma once

#if !defined(LOFT_HIP_RUNTIME_DECLARED)
#include <hip/hip_runtime.h>
#endif

#include <cstddef>
#include <type_traits>

#include "loft/gpu/launcher.hpp"

namespace loft {
namespace gpu {

/// How HIP starts a kernel. Errors come back from the very call that met them.
struct hip_device {
  using stream = hipStream_t;
  static constexpr int shared_limit = shared_bytes();

  template <class... Parameters, class... Arguments>
  static status launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, int shared, stream on,
                       Arguments... arguments) noexcept {
    static_assert((std::is_same_v<Arguments, std::remove_cv_t<Parameters>> && ...), "the kernel's own types");
    void* parameters[] = {&arguments...};
    hipError_t const error = hipLaunchKernel(reinterpret_cast<void const*>(kernel), dim3(blocks), dim3(threads),
                                             parameters, static_cast<std::size_t>(shared), on);
    return error == hipSuccess ? status::ok : status::launch_failed;
  }
  static status zero(void* memory, std::size_t bytes, stream on) noexcept {
    return hipMemsetAsync(memory, 0, bytes, on) == hipSuccess ? status::ok : status::launch_failed;
  }
};

}  // namespace gpu

/// The calls of gpu::launcher: loft::hip::quantize(in, out, how, {stream}), ...
using hip = gpu::launcher<gpu::hip_device>;

}  // namespace loft
