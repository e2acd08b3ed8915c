// SPDX-License-Identifier: Apache-2.0
// An array in the memory of a GPU, for programs that test one. In HIP's dialect, with HIP's names for CUDA's under nvcc.
#pragma once

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#else
#include "hip_on_cuda.hpp"
#endif

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace device_tests {

/// Exit code 2 where the runtime refuses: there is no GPU that could be tested.
inline void need(hipError_t error, char const* what) {
  if (error == hipSuccess) return;
  std::printf("%s: %s\n", what, hipGetErrorString(error));
  std::exit(2);
}

/// Memory that both sides see through copies; poisoned when it is made.
template <class T>
struct device_array {
  T* data = nullptr;
  std::size_t count;
  explicit device_array(std::size_t n) : count{n} {
    need(hipMalloc(reinterpret_cast<void**>(&data), n * sizeof(T)), "allocation");
    need(hipMemset(data, 0xa5, n * sizeof(T)), "poison");
  }
  ~device_array() { (void)hipFree(data); }
  device_array(device_array const&) = delete;
  void upload(std::vector<T> const& from) {
    need(hipMemcpy(data, from.data(), from.size() * sizeof(T), hipMemcpyHostToDevice), "upload");
  }
  std::vector<T> download() const {
    std::vector<T> result(count);
    need(hipMemcpy(result.data(), data, count * sizeof(T), hipMemcpyDeviceToHost), "download");
    return result;
  }
};

}  // namespace device_tests
