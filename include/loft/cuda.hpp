// SPDX-License-Identifier: Apache-2.0
// LOFT on NVIDIA GPUs: the storage types of CUDA as minifloats, for any compiler; and loft::cuda with its kernels, for
// compilers that speak CUDA.
#pragma once

#include "loft/gnmr.hpp"
#include "loft/interop/cuda_types.hpp"
#include "loft/tensor.hpp"
#if defined(__CUDACC__)
#include "loft/gpu/cuda.hpp"
#endif
