// SPDX-License-Identifier: Apache-2.0
// encode and decode of one number without branches, in words of 32 bits: compilers make vectors of loops over them.
// Source: the steps are those of number/convert.hpp; tests/array/array_test.cpp compares the two over whole domains.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/native/gpu/device.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/number/rounding.hpp"

namespace loft::detail {

/// Calls f(0), f(1), ..., f(count - 1). Where count is N, as it mostly is, the compiler sees a constant.
template <int N, class Function>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void for_each_index(int count, Function&& f) noexcept {
  if (count == N) {
    if constexpr (native::unrolls_runs && N <= 32) {
      native::unrolled<N>(f);
    } else {
      for (int i = 0; i < N; ++i) f(i);
    }
  } else {
    for (int i = 0; i < count; ++i) f(i);
  }
}

/// Whether a format_spec describes F: its numbers are laid out like those of a float.
template <Format F>
inline constexpr bool has_float_layout = std::is_same_v<std::remove_cv_t<decltype(F::spec)>, format_spec>;
/// Whether decode_branchless serves F: all its values are normal floats.
template <Format F> inline constexpr bool has_branchless_decode = requires {
  requires has_float_layout<F> && F::spec.min_exponent() - F::spec.mantissa_bits >= -126;
};

/// Whether encode_branchless serves elements of F rounded by R: F has a sign, and a fraction fits in 32 bits.
template <Format F, class R> inline constexpr bool has_branchless_encode = requires {
  requires has_float_layout<F>;
  requires F::spec.is_signed&& F::spec.has_zero&& F::spec.mantissa_bits < 23;
  requires sizeof(typename fraction_word<R, float>::type) == 4;
};

/// The least `scale` for which encode_branchless needs no subnormal float normalised: scaled by it, or by more, they
/// lie below F's normal numbers.
template <Format F> inline constexpr int least_branchless_scale = -126 - F::spec.min_exponent();

/// encode_scaled<F, overflow::saturate>(value, scale, ...). in: a value that is not NaN, and a scale of at least
/// least_branchless_scale<F>.
template <Format F, Rounding R>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<F> encode_branchless(float value, int scale, R const& rounding,
                                                                            std::uint64_t index) noexcept {
  constexpr auto spec = F::spec;
  constexpr int mantissa_bits = spec.mantissa_bits;
  auto const bits = bit_cast<std::uint32_t>(value);
  std::uint32_t const magnitude = bits & ~float_sign;
  bool const negative = bits != magnitude;
  // A subnormal float counts in the exponent of the least normal one, without the hidden bit; infinity is 2^128.
  int const field = static_cast<int>(magnitude >> 23);
  std::uint32_t const significand = (magnitude & 0x7f'ffffu) | (field != 0 ? 0x80'0000u : 0u);
  int const above = max(field, 1) - 127 - scale - spec.min_exponent();
  int const dropped = 23 - mantissa_bits + max(-above, 0);
  std::uint32_t kept = 0, fraction = 0;
  if constexpr (has_random_words<R>) {
    // A random word is compared with the fraction itself, however small it is.
    int const near = min(dropped, 31), far = clamp(dropped - 32, 0, 31);
    kept = significand >> near;
    fraction = dropped < 32 ? significand << (32 - near) : (significand >> far) | (significand != 0 ? 1u : 0u);
  } else {
    // Below a quarter of the gap all values round alike, zero apart.
    int const near = min(dropped, 25);
    kept = significand >> near;
    fraction = significand << (32 - near);
  }
  std::uint32_t const lower = (static_cast<std::uint32_t>(max(above, 0)) << mantissa_bits) + kept;
  std::uint32_t const up = rounding.up(lower, fraction, negative, index) ? 1u : 0u;
  return with_sign<F>(min(lower + up, spec.max_code()), negative);
}

/// decode<F>(c) for formats with has_branchless_decode<F>.
template <Format F> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float decode_branchless(code<F> c) noexcept {
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << 23;
  bool const negative = (c & spec.sign_mask()) != 0;
  std::uint32_t magnitude = c & spec.magnitude_mask();
  if constexpr (spec.twos_complement) magnitude = negative ? spec.sign_mask() - magnitude : magnitude;
  std::uint32_t const moved = (magnitude << shift) + rebias;
  bool const subnormal = spec.has_zero && magnitude < 1u << spec.mantissa_bits;
  float const value =
      bit_cast<float>(moved + (subnormal ? 1u << 23 : 0u)) - (subnormal ? power_of_two(spec.min_exponent()) : 0.0f);
  std::uint32_t bits = bit_cast<std::uint32_t>(value);
  if constexpr (spec.has_infinity()) bits = magnitude == spec.infinity_code() ? float_infinity : bits;
  bits |= negative ? float_sign : 0u;
  if constexpr (spec.has_nan()) bits = spec.is_nan(c) ? float_nan : bits;
  return bit_cast<float>(bits);
}

/// decode<F>(c), without branches where F allows it.
template <Format F> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float decode_number(code<F> c) noexcept {
  if constexpr (has_branchless_decode<F>) return decode_branchless<F>(c);
  else return decode<F>(c);
}

}  // namespace loft::detail
