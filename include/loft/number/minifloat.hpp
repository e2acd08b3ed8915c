// SPDX-License-Identifier: Apache-2.0
// minifloat<F>: one number of format F as a value, with operators and numeric_limits.
// Source: ISO C++20 [numeric.limits] for the limits; the arithmetic is that of float, rounded to F.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/formats.hpp"

namespace loft {

/// A number stored as a code of F. Conversions are explicit; those to F round to nearest even and saturate.
///
/// Arithmetic is that of float, and its result is rounded to F. For formats of up to 11 significant bits that equals
/// rounding the exact result once. Values are compared: NaN equals nothing, and -0 equals 0.
template <Format F> class minifloat {
 public:
  using format = F;

  /// The number with code 0: 0, or the least number of a format without zero.
  constexpr minifloat() noexcept = default;
  /// Rounds `x` once, to nearest even, saturating. NaN becomes what encode makes of it.
  LOFT_HOST_DEVICE constexpr explicit minifloat(float x) noexcept : code_{encode<F>(x)} {}
  LOFT_HOST_DEVICE constexpr explicit minifloat(double x) noexcept : code_{encode<F>(x)} {}
  /// Rounds the value of an int once. Other integers are refused: mostly they are codes, which from_bits takes.
  template <std::same_as<int> I>
  LOFT_HOST_DEVICE constexpr explicit minifloat(I x) noexcept : code_{encode<F>(static_cast<double>(x))} {}
  /// Rounds a number of another format once.
  template <Format G>
    requires(!std::is_same_v<F, G>)
  LOFT_HOST_DEVICE constexpr explicit minifloat(minifloat<G> x) noexcept : code_{encode<F>(x)} {}
  /// The value. error: exact; NaN is the quiet NaN.
  LOFT_HOST_DEVICE constexpr explicit operator float() const noexcept { return decode<F>(code_); }
  LOFT_HOST_DEVICE constexpr explicit operator double() const noexcept { return static_cast<double>(decode<F>(code_)); }

  /// The number whose code is `bits`.
  LOFT_HOST_DEVICE static constexpr minifloat from_bits(code<F> bits) noexcept {
    minifloat result;
    result.code_ = bits;
    return result;
  }
  /// The code.
  LOFT_HOST_DEVICE constexpr code<F> bits() const noexcept { return code_; }
  /// Whether the number is NaN. The code is tested, so that builds that take NaN for impossible see it too.
  LOFT_HOST_DEVICE constexpr bool is_nan() const noexcept {
    constexpr auto spec = F::spec;
    return spec.is_nan(code_);
  }

  // Comparisons of the values, exact in every build. Each is false where one is NaN, and -0 equals 0.
  /// a and b are the same number.
  LOFT_HOST_DEVICE friend constexpr bool operator==(minifloat a, minifloat b) noexcept {
    return !a.is_nan() && !b.is_nan() && a.order() == b.order();
  }
  /// a is less than b.
  LOFT_HOST_DEVICE friend constexpr bool operator<(minifloat a, minifloat b) noexcept {
    return !a.is_nan() && !b.is_nan() && a.order() < b.order();
  }
  /// a is greater than b.
  LOFT_HOST_DEVICE friend constexpr bool operator>(minifloat a, minifloat b) noexcept { return b < a; }
  /// a is less than b or equal to it.
  LOFT_HOST_DEVICE friend constexpr bool operator<=(minifloat a, minifloat b) noexcept { return a < b || a == b; }
  /// a is greater than b or equal to it.
  LOFT_HOST_DEVICE friend constexpr bool operator>=(minifloat a, minifloat b) noexcept { return b <= a; }

  // Arithmetic: that of float, rounded to nearest even and saturated. Overflow and division by zero give the largest
  // number; 0 / 0 and operands that are NaN give NaN where the format has one.
  /// -a. error: exact where the format is signed; NaN stays NaN.
  LOFT_HOST_DEVICE constexpr minifloat operator-() const noexcept { return minifloat{-static_cast<float>(*this)}; }
  /// a + b, rounded to F.
  LOFT_HOST_DEVICE friend constexpr minifloat operator+(minifloat a, minifloat b) noexcept {
    return minifloat{static_cast<float>(a) + static_cast<float>(b)};
  }
  /// a - b, rounded to F.
  LOFT_HOST_DEVICE friend constexpr minifloat operator-(minifloat a, minifloat b) noexcept {
    return minifloat{static_cast<float>(a) - static_cast<float>(b)};
  }
  /// a * b, rounded to F.
  LOFT_HOST_DEVICE friend constexpr minifloat operator*(minifloat a, minifloat b) noexcept {
    return minifloat{static_cast<float>(a) * static_cast<float>(b)};
  }
  /// a / b, rounded to F.
  LOFT_HOST_DEVICE friend constexpr minifloat operator/(minifloat a, minifloat b) noexcept {
    return minifloat{static_cast<float>(a) / static_cast<float>(b)};
  }
  /// a = a + b, and likewise below.
  LOFT_HOST_DEVICE constexpr minifloat& operator+=(minifloat b) noexcept { return *this = *this + b; }
  LOFT_HOST_DEVICE constexpr minifloat& operator-=(minifloat b) noexcept { return *this = *this - b; }
  LOFT_HOST_DEVICE constexpr minifloat& operator*=(minifloat b) noexcept { return *this = *this * b; }
  LOFT_HOST_DEVICE constexpr minifloat& operator/=(minifloat b) noexcept { return *this = *this / b; }

 private:
  /// The bits of the value as an integer that grows with it. Bits, because -Ofast folds comparisons with NaN.
  LOFT_HOST_DEVICE constexpr std::int32_t order() const noexcept {
    auto const value = bit_cast<std::uint32_t>(decode<F>(code_));
    auto const magnitude = static_cast<std::int32_t>(value & ~detail::float_sign);
    return (value & detail::float_sign) != 0 ? -magnitude : magnitude;
  }

  code<F> code_ = 0;
};

using e1m2_t = minifloat<e1m2>;
using e2m1_t = minifloat<e2m1>;
using e2m3_t = minifloat<e2m3>;
using e3m2_t = minifloat<e3m2>;
using ue3m1_t = minifloat<ue3m1>;
using e3m4_t = minifloat<e3m4>;
using e4m3_t = minifloat<e4m3>;
using e5m2_t = minifloat<e5m2>;
using e4m3fnuz_t = minifloat<e4m3fnuz>;
using e5m2fnuz_t = minifloat<e5m2fnuz>;
using hifloat8_t = minifloat<hifloat8>;
using bf16_t = minifloat<bf16>;
using fp16_t = minifloat<fp16>;
using int4_t = minifloat<int4>;
using int6_t = minifloat<int6>;
using int8_t = minifloat<int8>;
using int8_over_64_t = minifloat<int8_over_64>;
using ue4m3_t = minifloat<ue4m3>;
using ue5m3_t = minifloat<ue5m3>;
using ue5m3_ieee_t = minifloat<ue5m3_ieee>;
using e6m2_t = minifloat<e6m2>;
using e8m0_t = minifloat<e8m0>;

namespace detail {

/// The float that a value of a tensor is, exactly.
template <class T> LOFT_HOST_DEVICE constexpr float to_float(T x) noexcept {
  static_assert(EncodeSource<T> && !std::is_same_v<T, double>,
                "tensors hold float or a minifloat: a block maximum is a float");
  return static_cast<float>(x);
}

}  // namespace detail
}  // namespace loft

/// Limits derived from the format's spec.
template <loft::Format F> class std::numeric_limits<loft::minifloat<F>> {
  using number = loft::minifloat<F>;
  static constexpr auto spec = F::spec;
  static constexpr number from(unsigned bits) noexcept { return number::from_bits(static_cast<loft::code<F>>(bits)); }

 public:
  static constexpr bool is_specialized = true, is_signed = spec.is_signed, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = spec.has_infinity(), has_quiet_NaN = spec.has_nan(), has_signaling_NaN = false;
  static constexpr bool is_iec559 = false, is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = spec.mantissa_bits + 1;
  static constexpr int digits10 = (digits - 1) * 30103 / 100000, max_digits10 = digits * 30103 / 100000 + 2;
  static constexpr int min_exponent = spec.min_exponent() + 1, max_exponent = spec.max_exponent() + 1;
  static constexpr int min_exponent10 = spec.min_exponent() * 30103 / 100000;  // towards zero, as the definition wants
  static constexpr int max_exponent10 = spec.max_exponent() * 30103 / 100000;

  static constexpr number min() noexcept { return number{loft::detail::power_of_two(spec.min_exponent())}; }
  static constexpr number denorm_min() noexcept { return from(spec.has_zero ? 1u : 0u); }
  static constexpr number max() noexcept { return from(spec.max_code()); }
  static constexpr number lowest() noexcept {
    return from(spec.is_signed ? spec.with_sign(spec.max_ordinal(), true) : 0u);
  }
  static constexpr number epsilon() noexcept {
    // The gap above 1, or above the least normal where that is larger.
    return number{loft::detail::power_of_two(loft::detail::max(spec.min_exponent(), 0) - spec.mantissa_bits)};
  }
  static constexpr number round_error() noexcept { return number{0.5f}; }
  static constexpr number infinity() noexcept { return from(has_infinity ? spec.infinity_code() : 0u); }
  static constexpr number quiet_NaN() noexcept { return from(has_quiet_NaN ? spec.nan_code() : 0u); }
  static constexpr number signaling_NaN() noexcept { return from(0u); }
};
