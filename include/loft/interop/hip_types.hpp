// SPDX-License-Identifier: Apache-2.0
// The storage types of HIP and the formats they hold, for from_vendor and to_vendor.
// Source: hip_fp8.h, hip_fp6.h, hip_fp4.h, hip_bf16.h, hip_bfloat16.h and hip_fp16.h of ROCm.
#pragma once

#if __has_include(<hip/hip_bfloat16.h>)
#include <hip/hip_bfloat16.h>
#endif

#include "loft/interop/vendor_types.hpp"
#include "loft/number/formats.hpp"

// Which of these a ROCm has depends on its version, and in some on the compiler's target. So they are only declared
// here, and a program includes the vendor's header for those it uses.
struct __hip_fp8_e4m3;
struct __hip_fp8x2_e4m3;
struct __hip_fp8x4_e4m3;
struct __hip_fp8_e5m2;
struct __hip_fp8x2_e5m2;
struct __hip_fp8x4_e5m2;
struct __hip_fp8_e4m3_fnuz;
struct __hip_fp8x2_e4m3_fnuz;
struct __hip_fp8x4_e4m3_fnuz;
struct __hip_fp8_e5m2_fnuz;
struct __hip_fp8x2_e5m2_fnuz;
struct __hip_fp8x4_e5m2_fnuz;
struct __hip_fp8_e8m0;
struct __hip_fp6_e2m3;
struct __hip_fp6_e3m2;
struct __hip_fp4_e2m1;
struct __hip_fp4x2_e2m1;
struct __hip_bfloat16;

namespace loft {

// clang-format off
template <> inline constexpr holds<e4m3> vendor_type<__hip_fp8_e4m3>{};
template <> inline constexpr holds<e4m3, 2> vendor_type<__hip_fp8x2_e4m3>{};
template <> inline constexpr holds<e4m3, 4> vendor_type<__hip_fp8x4_e4m3>{};
template <> inline constexpr holds<e5m2> vendor_type<__hip_fp8_e5m2>{};
template <> inline constexpr holds<e5m2, 2> vendor_type<__hip_fp8x2_e5m2>{};
template <> inline constexpr holds<e5m2, 4> vendor_type<__hip_fp8x4_e5m2>{};
template <> inline constexpr holds<e4m3fnuz> vendor_type<__hip_fp8_e4m3_fnuz>{};
template <> inline constexpr holds<e4m3fnuz, 2> vendor_type<__hip_fp8x2_e4m3_fnuz>{};
template <> inline constexpr holds<e4m3fnuz, 4> vendor_type<__hip_fp8x4_e4m3_fnuz>{};
template <> inline constexpr holds<e5m2fnuz> vendor_type<__hip_fp8_e5m2_fnuz>{};
template <> inline constexpr holds<e5m2fnuz, 2> vendor_type<__hip_fp8x2_e5m2_fnuz>{};
template <> inline constexpr holds<e5m2fnuz, 4> vendor_type<__hip_fp8x4_e5m2_fnuz>{};
template <> inline constexpr holds<e8m0> vendor_type<__hip_fp8_e8m0>{};
template <> inline constexpr holds<e2m3> vendor_type<__hip_fp6_e2m3>{};
template <> inline constexpr holds<e3m2> vendor_type<__hip_fp6_e3m2>{};
template <> inline constexpr holds<e2m1> vendor_type<__hip_fp4_e2m1>{};
template <> inline constexpr holds<e2m1, 2> vendor_type<__hip_fp4x2_e2m1>{};
template <> inline constexpr holds<bf16> vendor_type<__hip_bfloat16>{};
#if __has_include(<hip/hip_bfloat16.h>)  // in plain C++ an unnamed struct, which cannot be declared beforehand
template <> inline constexpr holds<bf16> vendor_type<hip_bfloat16>{};
#endif
// clang-format on

}  // namespace loft
