// SPDX-License-Identifier: Apache-2.0
// LOFT on AMD GPUs: the storage types of HIP as minifloats, for any compiler; and loft::hip with its kernels, for
// compilers that speak HIP.
#pragma once

#include "loft/gnmr.hpp"
#include "loft/interop/hip_types.hpp"
#include "loft/tensor.hpp"
#if defined(__HIP__) || defined(LOFT_HIP_RUNTIME_DECLARED) || defined(__CUDACC__)
#include "loft/gpu/hip.hpp"
#endif
