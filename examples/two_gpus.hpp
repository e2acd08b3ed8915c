// SPDX-License-Identifier: Apache-2.0
// What the examples on two GPUs share: checked calls.
#ifndef LOFT_EXAMPLES_TWO_GPUS_HPP
#define LOFT_EXAMPLES_TWO_GPUS_HPP

#include <nccl.h>

#include <cstdio>
#include <cstdlib>

#include "device_memory.hpp"
#include "loft/tensor.hpp"

inline void check(cudaError_t error) { device::check(error, "a call of CUDA"); }
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

#endif
