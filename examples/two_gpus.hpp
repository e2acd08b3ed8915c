// SPDX-License-Identifier: Apache-2.0
// What the examples on two GPUs share: checked calls, and memory of a GPU.
#ifndef LOFT_EXAMPLES_TWO_GPUS_HPP
#define LOFT_EXAMPLES_TWO_GPUS_HPP

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "loft/tensor.hpp"

inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}
inline void check(ncclResult_t error) {
  if (error == ncclSuccess) return;
  std::printf("NCCL: %s\n", ncclGetErrorString(error));
  std::exit(1);
}
inline void check(loft::status s) {
  if (s == loft::status::ok) return;
  std::printf("LOFT: %s\n", loft::message(s));
  std::exit(1);
}

/// Memory of the GPU that is current, every byte of which is `fill`.
template <class T>
T* allocate(std::int64_t count, int fill) {
  T* data = nullptr;
  auto const bytes = static_cast<std::size_t>(count) * sizeof(T);
  check(cudaMalloc(&data, bytes));
  check(cudaMemset(data, fill, bytes));
  return data;
}

#endif
