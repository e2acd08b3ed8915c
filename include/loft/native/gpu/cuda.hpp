// SPDX-License-Identifier: Apache-2.0
// Instructions of NVIDIA's GPUs behind the names of device.hpp, which says what each function means. No vendor header.
// Source: PTX ISA 9.0, sections cvt, fma, shfl. A format has a hook here only where the instruction gives the codes of
// encode and decode for all values; e8m0 has none, because the rules find their scales in integers, faster than cvt.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/native/gpu/device.hpp"
#include "loft/number/format.hpp"
#include "loft/number/formats.hpp"

namespace loft::native {

#if defined(__CUDA_ARCH__)

/// 8-bit conversions came with sm_89, those of 4 and 6 bits with the targets of family 100, 103 and 120 (sm_100a,
/// sm_120f, ...; the plain sm_100 and sm_120 lack them), and stochastic ones with sm_100a and sm_103a alone.
inline constexpr bool has_8_bit_conversions = __CUDA_ARCH__ >= 890;
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM110_ALL) ||    \
    defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)
inline constexpr bool has_narrow_conversions = __CUDA_ARCH__ >= 1000;
#else
inline constexpr bool has_narrow_conversions = false;
#endif
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
inline constexpr bool has_hardware_stochastic = true;
#else
inline constexpr bool has_hardware_stochastic = false;
#endif
inline constexpr bool has_directed_rounding = true;

template <class> inline constexpr bool has_encode_32 = false;

template <class F>
inline constexpr bool has_pair_encode =
    (has_8_bit_conversions && (std::is_same_v<F, e4m3> || std::is_same_v<F, ue4m3> || std::is_same_v<F, e5m2>)) ||
    (has_narrow_conversions && (std::is_same_v<F, e2m1> || std::is_same_v<F, e2m3> || std::is_same_v<F, e3m2>));
template <class F> inline constexpr bool has_pair_decode = has_pair_encode<F>;

/// cvt puts its first operand into the high half.
template <Format F> LOFT_HOST_DEVICE inline std::uint16_t encode_pair(float low, float high) noexcept {
  static_assert(has_pair_encode<F>);
  std::uint16_t pair = 0;
  if constexpr (std::is_same_v<F, e5m2>)
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  else if constexpr (std::is_same_v<F, e2m3>)
    asm("cvt.rn.satfinite.e2m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  else if constexpr (std::is_same_v<F, e3m2>)
    asm("cvt.rn.satfinite.e3m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  else if constexpr (std::is_same_v<F, e2m1>)
    asm("{.reg .b8 byte;\n\tcvt.rn.satfinite.e2m1x2.f32 byte, %1, %2;\n\tcvt.u16.u8 %0, byte;}"
        : "=h"(pair)
        : "f"(high), "f"(low));
  else asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Through fp16, which holds every number of these formats; its NaN is replaced by that of decode.
template <Format F> LOFT_HOST_DEVICE inline void decode_pair(std::uint16_t pair, float& low, float& high) noexcept {
  static_assert(has_pair_decode<F>);
  std::uint32_t halves = 0;
  if constexpr (std::is_same_v<F, e5m2>) asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
  else if constexpr (std::is_same_v<F, e2m3>) asm("cvt.rn.f16x2.e2m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  else if constexpr (std::is_same_v<F, e3m2>) asm("cvt.rn.f16x2.e3m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
  else if constexpr (std::is_same_v<F, e2m1>)
    asm("{.reg .b8 byte;\n\tcvt.u8.u16 byte, %1;\n\tcvt.rn.f16x2.e2m1x2 %0, byte;}" : "=r"(halves) : "h"(pair));
  else asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  asm("{.reg .f16 a, b;\n\tmov.b32 {a, b}, %2;\n\tcvt.f32.f16 %0, a;\n\tcvt.f32.f16 %1, b;}"
      : "=f"(low), "=f"(high)
      : "r"(halves));
  if constexpr (F::spec.has_nan()) {
    low = detail::magnitude_bits(low) > detail::float_infinity ? bit_cast<float>(detail::float_nan) : low;
    high = detail::magnitude_bits(high) > detail::float_infinity ? bit_cast<float>(detail::float_nan) : high;
  }
}

/// Its layout of random bits: values 0 and 1 share the low bytes of the two halves of `random`, 2 and 3 the high ones.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline std::uint16_t hardware_stochastic_e2m1x4(float x0, float x1, float x2,
                                                                                        float x3,
                                                                                        std::uint32_t random) noexcept {
  std::uint16_t codes = 0;
  if constexpr (has_hardware_stochastic)
    asm("cvt.rs.satfinite.e2m1x4.f32 %0, {%1, %2, %3, %4}, %5;"
        : "=h"(codes)
        : "f"(x3), "f"(x2), "f"(x1), "f"(x0), "r"(random));
  else asm("trap;");
  return codes;
}

/// Every lane of the warp that has not returned takes part.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline std::uint32_t exchange(std::uint32_t value, int lane_mask) noexcept {
  std::uint32_t other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(lane_mask));
  return other;
}

// Written out, because --use_fast_math adds .ftz to what the compiler makes of a product and a sum.

[[gnu::always_inline]] LOFT_HOST_DEVICE inline float fma(float a, float b, float c) noexcept {
  float result;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

[[gnu::always_inline]] LOFT_HOST_DEVICE inline float fma_saturated(float a, float b, float c) noexcept {
  float result;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

[[gnu::always_inline]] LOFT_HOST_DEVICE inline float fma_toward_zero(float a, float b, float c) noexcept {
  float result;
  asm("fma.rz.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

[[gnu::always_inline]] LOFT_HOST_DEVICE inline float add_toward_zero(float a, float b) noexcept {
  float result;
  asm("add.rz.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

#endif

}  // namespace loft::native
