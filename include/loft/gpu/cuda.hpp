// SPDX-License-Identifier: Apache-2.0
// loft::cuda: quantize, dequantize, rotations, amax and norms on NVIDIA GPUs, for compilers that speak CUDA.
// Source: CUDA Runtime API (execution control).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "loft/gpu/launcher.hpp"

namespace loft {
namespace gpu {

/// How CUDA starts a kernel. Errors come back from the very call that met them.
struct cuda_device {
  using stream = cudaStream_t;
  static constexpr int shared_limit = shared_bytes();

  template <class... Parameters, class... Arguments>
  static status launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, int shared, stream on,
                       Arguments... arguments) noexcept {
    static_assert((std::is_same_v<Arguments, std::remove_cv_t<Parameters>> && ...), "the kernel's own types");
    auto const* const function = reinterpret_cast<void const*>(kernel);
    if (shared > 48 * 1024 &&
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) != cudaSuccess)
      return status::launch_failed;
    void* parameters[] = {&arguments...};
    cudaError_t const error =
        cudaLaunchKernel(function, dim3{blocks}, dim3{threads}, parameters, static_cast<std::size_t>(shared), on);
    return error == cudaSuccess ? status::ok : status::launch_failed;
  }
  static status zero(void* memory, std::size_t bytes, stream on) noexcept {
    return cudaMemsetAsync(memory, 0, bytes, on) == cudaSuccess ? status::ok : status::launch_failed;
  }
};

}  // namespace gpu

/// The calls of gpu::launcher: loft::cuda::quantize(in, out, how, {stream}), ...
using cuda = gpu::launcher<gpu::cuda_device>;

}  // namespace loft
