// SPDX-License-Identifier: Apache-2.0
// Instructions of AMD's GPUs behind the names of device.hpp, which says what each function means. No vendor header.
// Source: CDNA3 and CDNA4 ISA, VOP3 conversions and DPP; clang's AMDGPU builtins. No function here knows the size of a
// wave. None has run on a chip yet: docs/hardware.md.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/native/gpu/device.hpp"
#include "loft/number/format.hpp"
#include "loft/number/formats.hpp"

namespace loft::native {

#if defined(__HIP_DEVICE_COMPILE__)

/// The 8-bit conversions have the same names everywhere; nothing but the target tells which formats they mean.
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
using native_e4m3 = e4m3fnuz;
using native_e5m2 = e5m2fnuz;
#else
using native_e4m3 = e4m3;
using native_e5m2 = e5m2;
#endif
#if __has_builtin(__builtin_amdgcn_cvt_pk_fp8_f32)
inline constexpr bool has_8_bit_conversions = true;
#else
inline constexpr bool has_8_bit_conversions = false;
#endif
#if __has_builtin(__builtin_amdgcn_cvt_scalef32_pk_fp4_f32)
inline constexpr bool has_narrow_conversions = true;
#else
inline constexpr bool has_narrow_conversions = false;
#endif
/// gfx950 has stochastic conversions, but which bits of the seed they take has not been seen on a chip.
inline constexpr bool has_hardware_stochastic = false;
/// The rounding mode is the wave's, not an instruction's.
inline constexpr bool has_directed_rounding = false;

template <class F>
inline constexpr bool is_native_e4m3 = std::is_same_v<F, native_e4m3> ||
                                       (std::is_same_v<F, ue4m3> && std::is_same_v<native_e4m3, e4m3>);
template <class F>
inline constexpr bool has_pair_encode = (has_8_bit_conversions &&
                                         (is_native_e4m3<F> || std::is_same_v<F, native_e5m2>)) ||
                                        (has_narrow_conversions && std::is_same_v<F, e2m1>);
template <class F> inline constexpr bool has_pair_decode = has_pair_encode<F>;
template <class F>
inline constexpr bool has_encode_32 = has_narrow_conversions && (std::is_same_v<F, e2m3> || std::is_same_v<F, e3m2>);

/// The 8-bit conversions make NaN or infinity of what is too large, as the mode bit FP16_OVFL is clear in compiled
/// kernels: values are clamped first. Those of 4 and 6 bits saturate, and divide by a scale, here 1.
template <Format F> LOFT_HOST_DEVICE inline std::uint16_t encode_pair(float low, float high) noexcept {
  static_assert(has_pair_encode<F>);
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << 23;
  constexpr float largest = bit_cast<float>((spec.max_code() << shift) + rebias);
  [[maybe_unused]] float const a = __builtin_amdgcn_fmed3f(low, -largest, largest);
  [[maybe_unused]] float const b = __builtin_amdgcn_fmed3f(high, -largest, largest);
  std::uint32_t pair = 0;
#if __has_builtin(__builtin_amdgcn_cvt_scalef32_pk_fp4_f32)
  if constexpr (std::is_same_v<F, e2m1>) pair = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(0, low, high, 1.0f, 0) & 0xff;
#endif
#if __has_builtin(__builtin_amdgcn_cvt_pk_fp8_f32)
  if constexpr (is_native_e4m3<F>) pair = static_cast<std::uint32_t>(__builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false));
  if constexpr (std::is_same_v<F, native_e5m2>)
    pair = static_cast<std::uint32_t>(__builtin_amdgcn_cvt_pk_bf8_f32(a, b, 0, false));
#endif
  return static_cast<std::uint16_t>(pair);
}

/// A NaN is replaced by that of decode.
template <Format F>
LOFT_HOST_DEVICE inline void decode_pair([[maybe_unused]] std::uint16_t pair, float& low, float& high) noexcept {
  static_assert(has_pair_decode<F>);
  typedef float two_floats __attribute__((ext_vector_type(2)));
  two_floats values = {};
#if __has_builtin(__builtin_amdgcn_cvt_scalef32_pk_f32_fp4)
  if constexpr (std::is_same_v<F, e2m1>) values = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(pair, 1.0f, 0);
#endif
#if __has_builtin(__builtin_amdgcn_cvt_pk_f32_fp8)
  if constexpr (is_native_e4m3<F>) values = __builtin_amdgcn_cvt_pk_f32_fp8(pair, false);
  if constexpr (std::is_same_v<F, native_e5m2>) values = __builtin_amdgcn_cvt_pk_f32_bf8(pair, false);
#endif
  low = values[0];
  high = values[1];
  if constexpr (F::spec.has_nan()) {
    low = detail::magnitude_bits(low) > detail::float_infinity ? bit_cast<float>(detail::float_nan) : low;
    high = detail::magnitude_bits(high) > detail::float_infinity ? bit_cast<float>(detail::float_nan) : high;
  }
}

/// The instruction takes the even values in one operand and the odd ones in another, and stores them in turn.
template <Format F>
LOFT_HOST_DEVICE inline void encode_32([[maybe_unused]] float const* values, [[maybe_unused]] float scale,
                                       [[maybe_unused]] std::uint32_t* words) noexcept {
  static_assert(has_encode_32<F>);
#if __has_builtin(__builtin_amdgcn_cvt_scalef32_2xpk16_fp6_f32)
  typedef float sixteen_floats __attribute__((ext_vector_type(16)));
  typedef unsigned six_words __attribute__((ext_vector_type(6)));
  sixteen_floats even, odd;
  for (int i = 0; i < 16; ++i) {
    even[i] = values[2 * i];
    odd[i] = values[2 * i + 1];
  }
  six_words codes = {};
  if constexpr (std::is_same_v<F, e2m3>) codes = __builtin_amdgcn_cvt_scalef32_2xpk16_fp6_f32(even, odd, scale);
  else codes = __builtin_amdgcn_cvt_scalef32_2xpk16_bf6_f32(even, odd, scale);
  for (int i = 0; i < 6; ++i) words[i] = codes[i];
#endif
}

/// What crosses few lanes is an operand's modifier (DPP); a constant `lane_mask` leaves one case.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline std::uint32_t exchange(std::uint32_t value, int lane_mask) noexcept {
  int const word = static_cast<int>(value);
  auto const result = [](int other) { return static_cast<std::uint32_t>(other); };
  switch (lane_mask) {
    case 1:
      return result(__builtin_amdgcn_mov_dpp(word, 0xb1, 0xf, 0xf, true));  // quad_perm [1, 0, 3, 2]
    case 2:
      return result(__builtin_amdgcn_mov_dpp(word, 0x4e, 0xf, 0xf, true));  // quad_perm [2, 3, 0, 1]
    case 3:
      return result(__builtin_amdgcn_mov_dpp(word, 0x1b, 0xf, 0xf, true));  // quad_perm [3, 2, 1, 0]
    case 7:
      return result(__builtin_amdgcn_mov_dpp(word, 0x141, 0xf, 0xf, true));  // row_half_mirror
    case 8:
      return result(__builtin_amdgcn_mov_dpp(word, 0x128, 0xf, 0xf, true));  // row_ror by 8 of 16
    case 15:
      return result(__builtin_amdgcn_mov_dpp(word, 0x140, 0xf, 0xf, true));  // row_mirror
    case 4:
      return result(__builtin_amdgcn_ds_swizzle(word, 4 << 10 | 0x1f));  // exclusive or, and with all
    case 16:
      return result(__builtin_amdgcn_ds_swizzle(word, 16 << 10 | 0x1f));
    default: {
      auto const lane = static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)));
      return result(__builtin_amdgcn_ds_bpermute((lane ^ lane_mask) * 4, word));
    }
  }
}

[[gnu::always_inline]] LOFT_HOST_DEVICE inline float fma(float a, float b, float c) noexcept {
  return __builtin_fmaf(a, b, c);
}

/// The median becomes the clamp modifier of the multiply-add; its NaN is the least of the other two, 0.
[[gnu::always_inline]] LOFT_HOST_DEVICE inline float fma_saturated(float a, float b, float c) noexcept {
  return __builtin_amdgcn_fmed3f(__builtin_fmaf(a, b, c), 0.0f, 1.0f);
}

#endif

}  // namespace loft::native
