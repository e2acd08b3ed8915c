// SPDX-License-Identifier: Apache-2.0
// The storage types of HIP as bare structs of the same names and sizes, for machines without ROCm.
#pragma once

#include <cstdint>

struct __hip_fp8_e4m3 {
  std::uint8_t __x;
};
struct __hip_fp8x2_e4m3 {
  std::uint16_t __x;
};
struct __hip_fp8x4_e4m3 {
  std::uint32_t __x;
};
struct __hip_fp8_e5m2 {
  std::uint8_t __x;
};
struct __hip_fp8x2_e5m2 {
  std::uint16_t __x;
};
struct __hip_fp8x4_e5m2 {
  std::uint32_t __x;
};
struct __hip_fp8_e4m3_fnuz {
  std::uint8_t __x;
};
struct __hip_fp8x2_e4m3_fnuz {
  std::uint16_t __x;
};
struct __hip_fp8x4_e4m3_fnuz {
  std::uint32_t __x;
};
struct __hip_fp8_e5m2_fnuz {
  std::uint8_t __x;
};
struct __hip_fp8x2_e5m2_fnuz {
  std::uint16_t __x;
};
struct __hip_fp8x4_e5m2_fnuz {
  std::uint32_t __x;
};
struct __hip_fp8_e8m0 {
  std::uint8_t __x;
};
struct __hip_fp6_e2m3 {
  std::uint8_t __x;
};
struct __hip_fp6_e3m2 {
  std::uint8_t __x;
};
struct __hip_fp4_e2m1 {
  std::uint8_t __x;
};
struct __hip_fp4x2_e2m1 {
  std::uint8_t __x;
};
struct __hip_bfloat16 {
  std::uint16_t data;
};
