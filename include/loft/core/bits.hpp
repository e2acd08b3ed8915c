// SPDX-License-Identifier: Apache-2.0
// Bit patterns of float and double: casts, exact powers of two, and numbers taken apart.
// Source: IEEE 754-2019, section 3.4 (binary interchange formats).
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/config.hpp"

namespace loft {

/// The value whose bytes are those of `x`. error: exact.
template <class To, class From> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr To bit_cast(From const& x) noexcept {
  return __builtin_bit_cast(To, x);
}

/// Whether the compiler is evaluating a constant expression.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr bool constant_evaluated() noexcept {
  return __builtin_is_constant_evaluated();
}

namespace detail {

/// The layout of float and of double.
template <class T> struct ieee;
template <> struct ieee<float> {
  using word = std::uint32_t;
  using integer = std::int32_t;
  static constexpr int mantissa_bits = 23, bias = 127;
};
template <> struct ieee<double> {
  using word = std::uint64_t;
  using integer = std::int64_t;
  static constexpr int mantissa_bits = 52, bias = 1023;
};

template <class W> inline constexpr int word_bits = static_cast<int>(sizeof(W) * 8);

inline constexpr std::uint32_t float_sign = 0x8000'0000u;
inline constexpr std::uint32_t float_infinity = 0x7f80'0000u;
inline constexpr std::uint32_t float_nan = 0x7fc0'0000u;
inline constexpr std::uint32_t float_max = 0x7f7f'ffffu;
inline constexpr std::uint32_t float_least_normal = 0x0080'0000u;
inline constexpr std::uint64_t double_infinity_bits = 0x7ff0'0000'0000'0000u;

[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t magnitude_bits(float x) noexcept {
  return bit_cast<std::uint32_t>(x) & ~float_sign;
}

template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T min(T a, T b) noexcept { return b < a ? b : a; }
template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T max(T a, T b) noexcept { return a < b ? b : a; }
template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T clamp(T x, T low, T high) noexcept {
  return x < low ? low : (high < x ? high : x);
}
LOFT_HOST_DEVICE constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }
LOFT_HOST_DEVICE constexpr int least_common_multiple(int a, int b) noexcept {
  int result = a;
  while (result % b != 0) result += a;
  return result;
}

/// 2^exponent, exact for -149..127, built from its bits so that no flushing of subnormals can touch it.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float power_of_two(int exponent) noexcept {
  return bit_cast<float>(exponent >= -126 ? static_cast<std::uint32_t>(exponent + 127) << 23 : 1u << (exponent + 149));
}

/// A number taken apart: |x| = significand * 2^(exponent - (bits of W - 1)). The significand's leading one is the top
/// bit of W; that of 0 is 0.
template <class W> struct unpacked {
  W significand;
  int exponent;
  bool negative;
};

/// Takes a finite float or double apart. A subnormal is normalised by a conversion from integer, which no flush-to-zero
/// mode touches, so that callers need not tell it from other numbers.
template <class W, class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr unpacked<W> unpack(T x) noexcept {
  using layout = ieee<T>;
  using word = typename layout::word;
  constexpr int mantissa_bits = layout::mantissa_bits;
  constexpr word hidden = word{1} << mantissa_bits;
  constexpr word sign = word{1} << (word_bits<word> - 1);
  word const bits = bit_cast<word>(x);
  word magnitude = bits & static_cast<word>(~sign);
  int exponent = -layout::bias;
  if (magnitude < hidden) {
    magnitude = bit_cast<word>(static_cast<T>(static_cast<typename layout::integer>(magnitude)));
    exponent += 1 - layout::bias - mantissa_bits;
  }
  exponent += static_cast<int>(magnitude >> mantissa_bits);
  word const significand = magnitude == 0 ? word{0} : static_cast<word>((magnitude & (hidden - 1)) | hidden);
  return {static_cast<W>(static_cast<W>(significand) << (word_bits<W> - 1 - mantissa_bits)), exponent,
          (bits & sign) != 0};
}

/// A float as a double. Subnormals are kept in builds whose conversions flush them, too.
LOFT_HOST_DEVICE constexpr double widen(float x) noexcept {
  std::uint32_t const magnitude = magnitude_bits(x);
  if (magnitude >= 0x80'0000u) return static_cast<double>(x);
  double const value = static_cast<double>(static_cast<std::int32_t>(magnitude)) * 0x1p-149;
  return bit_cast<std::uint32_t>(x) == magnitude ? value : -value;
}

/// x >> count, where the lowest bit is also set if any bit that was shifted out was set. in: any count >= 0.
template <class W> LOFT_HOST_DEVICE constexpr W shift_right_sticky(W x, int count) noexcept {
  if (count >= word_bits<W>) return static_cast<W>(x != 0);
  W const kept = static_cast<W>(x >> count);
  return static_cast<W>(kept | static_cast<W>(static_cast<W>(kept << count) != x));
}

/// x * 2^exponent, computed in integers. error: exact where the result is a float; infinity above the largest float,
/// and cut towards zero below the least normal one. NaN and infinity stay as they are.
LOFT_HOST_DEVICE constexpr float scale_by_power_of_two(float x, int exponent) noexcept {
  if (magnitude_bits(x) >= float_infinity) return x;
  auto const parts = unpack<std::uint32_t>(x);
  std::uint32_t const sign = parts.negative ? float_sign : 0u;
  if (parts.significand == 0) return bit_cast<float>(sign);
  int const field = parts.exponent + exponent + 127;
  std::uint32_t const significand = parts.significand >> 8;
  if (field >= 255) return bit_cast<float>(sign | float_infinity);
  if (field > 0) return bit_cast<float>(sign | static_cast<std::uint32_t>(field) << 23 | (significand & 0x7f'ffffu));
  return bit_cast<float>(sign | (field > -24 ? significand >> (1 - field) : 0u));
}

}  // namespace detail
}  // namespace loft
