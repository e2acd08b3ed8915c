// SPDX-License-Identifier: Apache-2.0
// What GPUs do in one instruction: the meaning of each function, and what the host computes in its place for one lane.
// In a device pass the definitions are those of cuda.hpp or hip.hpp, which include this header. Where a target lacks
// the instruction there is no definition, and a constant is false.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/number/format.hpp"

namespace loft::native {

/// unrolled<N>(f) calls f(0), f(1), ..., f(N - 1) without a loop: some compilers for GPUs keep a loop over a short
/// array, and then put the array into memory. unrolls_runs says whether this pass needs that.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
inline constexpr bool unrolls_runs = true;
#else
inline constexpr bool unrolls_runs = false;
#endif
template <int N, int First = 0, class Function>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void unrolled(Function& f) noexcept {
  if constexpr (N - First == 1) {
    f(First);
  } else if constexpr (N > First) {
    unrolled<First + (N - First) / 2, First>(f);
    unrolled<N, First + (N - First) / 2>(f);
  }
}

/// f(0), f(1), ..., f(count - 1) as a loop on every machine: compilers for GPUs write a loop out, however long its
/// body, where they know how often it turns.
template <class Function>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void rolled(int count, Function&& f) noexcept {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#pragma unroll 1
#endif
  for (int i = 0; i < count; ++i) f(i);
}

/// encode<F>(low) and encode<F>(high), nearest even and saturated: two bytes, the first value in the low one. Formats
/// of 4 bits: two nibbles of one byte. in: no NaN; for unsigned formats nothing below zero, nor -0.
template <Format F> [[gnu::always_inline]] LOFT_HOST_DEVICE std::uint16_t encode_pair(float low, float high) noexcept;

/// decode<F> of both codes of a pair, NaN and infinity included.
template <Format F>
[[gnu::always_inline]] LOFT_HOST_DEVICE void decode_pair(std::uint16_t pair, float& low, float& high) noexcept;

/// pack<F> of encode<F>(values[i] / scale), nearest even and saturated: [32] -> six words. in: no NaN; `scale` is a
/// power of two.
template <Format F>
[[gnu::always_inline]] LOFT_HOST_DEVICE void encode_32(float const* values, float scale, std::uint32_t* words) noexcept;

/// Four e2m1 codes, the first in the low nibble, rounded up or down by the chip's own use of `random`, whose bits pairs
/// of values share. NOT bit-equal to stochastic<> or anything else of this library; for those who want the instruction.
LOFT_HOST_DEVICE std::uint16_t hardware_stochastic_e2m1x4(float x0, float x1, float x2, float x3,
                                                          std::uint32_t random) noexcept;

/// The `value` of lane (own lane ^ lane_mask), for trees that reduce over groups of lanes. All lanes of a wave that
/// have not ended call it, and groups end as a whole.
LOFT_HOST_DEVICE std::uint32_t exchange(std::uint32_t value, int lane_mask) noexcept;

/// a * b + c, rounded once to nearest even, subnormals kept.
LOFT_HOST_DEVICE float fma(float a, float b, float c) noexcept;

/// fma(a, b, c) clamped to [0, 1], for numbers that become fixed point. NaN becomes 0; a zero may have either sign.
LOFT_HOST_DEVICE float fma_saturated(float a, float b, float c) noexcept;

/// a * b + c and a + b, rounded once towards zero: with a large c they cut a number to fixed point.
LOFT_HOST_DEVICE float fma_toward_zero(float a, float b, float c) noexcept;
LOFT_HOST_DEVICE float add_toward_zero(float a, float b) noexcept;

#if !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)

/// Whether this pass has encode_pair<F> and decode_pair<F>.
template <class F> inline constexpr bool has_pair_encode = false;
template <class F> inline constexpr bool has_pair_decode = false;
/// Whether it has encode_32<F>.
template <class F> inline constexpr bool has_encode_32 = false;
/// Whether it has hardware_stochastic_e2m1x4, and whether it has fma_toward_zero and add_toward_zero.
inline constexpr bool has_hardware_stochastic = false;
inline constexpr bool has_directed_rounding = false;

[[gnu::always_inline]] LOFT_HOST_DEVICE inline std::uint32_t exchange(std::uint32_t value, int) noexcept {
  return value;
}
[[gnu::always_inline]] LOFT_HOST_DEVICE inline float fma(float a, float b, float c) noexcept {
  return __builtin_fmaf(a, b, c);
}
[[gnu::always_inline]] LOFT_HOST_DEVICE inline float fma_saturated(float a, float b, float c) noexcept {
  auto const bits = bit_cast<std::uint32_t>(fma(a, b, c));
  if (bits > detail::float_infinity) return 0.0f;
  return bit_cast<float>(detail::min(bits, 0x3f80'0000u));
}

#endif

}  // namespace loft::native
