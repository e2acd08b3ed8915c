// SPDX-License-Identifier: Apache-2.0
// The storage types of CUDA and the formats they hold, for from_vendor and to_vendor. Any compiler; the CUDA 13
// headers. Source: cuda_fp4.h, cuda_fp6.h, cuda_fp8.h, cuda_fp16.h and cuda_bf16.h of CUDA 13.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

#include "loft/interop/vendor_types.hpp"
#include "loft/number/formats.hpp"

namespace loft {

// CUDA has no type for NVFP4's scale: __nv_fp8_e4m3 holds it, whose codes without a sign are those of ue4m3.
// clang-format off
template <> inline constexpr holds<e4m3> vendor_type<__nv_fp8_e4m3>{};
template <> inline constexpr holds<e4m3, 2> vendor_type<__nv_fp8x2_e4m3>{};
template <> inline constexpr holds<e4m3, 4> vendor_type<__nv_fp8x4_e4m3>{};
template <> inline constexpr holds<e5m2> vendor_type<__nv_fp8_e5m2>{};
template <> inline constexpr holds<e5m2, 2> vendor_type<__nv_fp8x2_e5m2>{};
template <> inline constexpr holds<e5m2, 4> vendor_type<__nv_fp8x4_e5m2>{};
template <> inline constexpr holds<e8m0> vendor_type<__nv_fp8_e8m0>{};
template <> inline constexpr holds<e8m0, 2> vendor_type<__nv_fp8x2_e8m0>{};
template <> inline constexpr holds<e8m0, 4> vendor_type<__nv_fp8x4_e8m0>{};
template <> inline constexpr holds<e2m3> vendor_type<__nv_fp6_e2m3>{};
template <> inline constexpr holds<e2m3, 2> vendor_type<__nv_fp6x2_e2m3>{};
template <> inline constexpr holds<e2m3, 4> vendor_type<__nv_fp6x4_e2m3>{};
template <> inline constexpr holds<e3m2> vendor_type<__nv_fp6_e3m2>{};
template <> inline constexpr holds<e3m2, 2> vendor_type<__nv_fp6x2_e3m2>{};
template <> inline constexpr holds<e3m2, 4> vendor_type<__nv_fp6x4_e3m2>{};
template <> inline constexpr holds<e2m1> vendor_type<__nv_fp4_e2m1>{};
template <> inline constexpr holds<e2m1, 2> vendor_type<__nv_fp4x2_e2m1>{};
template <> inline constexpr holds<e2m1, 4> vendor_type<__nv_fp4x4_e2m1>{};
template <> inline constexpr holds<bf16> vendor_type<__nv_bfloat16>{};
// clang-format on

}  // namespace loft
