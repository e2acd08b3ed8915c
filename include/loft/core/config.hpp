// SPDX-License-Identifier: Apache-2.0
// What every header needs: C++20, the version, and LOFT_HOST_DEVICE.
#pragma once

#if __cplusplus < 202002L
#error "LOFT needs C++20: compile with -std=c++20 or newer"
#endif

/// The version as one number: major * 10000 + minor * 100 + patch.
#define LOFT_VERSION 100

/// Marks a function for host and device; nothing in plain C++. clang is given the attribute, because `__host__` is a
/// macro of vendor headers there, which need not be included.
#if defined(__NVCC__)
#define LOFT_HOST_DEVICE __host__ __device__
#elif defined(__CUDA__) || defined(__HIP__)
#define LOFT_HOST_DEVICE __attribute__((host, device))
#else
#define LOFT_HOST_DEVICE
#endif
