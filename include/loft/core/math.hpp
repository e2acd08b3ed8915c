// SPDX-License-Identifier: Apache-2.0
// Logarithm, exponential, powers and square roots without <cmath>, the same bits everywhere.
// Source: textbook series; each operation is rounded once in double.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"

namespace loft::detail {

// The two series are evaluated by Horner's rule. Coefficients are constants, so that nothing is divided at run time.

/// 1/N + x (1/(N + 2) + x (... + x / Last)).
template <int N, int Last> LOFT_HOST_DEVICE constexpr double odd_series(double x) noexcept {
  constexpr double coefficient = 1.0 / N;
  if constexpr (N >= Last) return coefficient;
  else return exact::sum(coefficient, exact::product(x, odd_series<N + 2, Last>(x)));
}
/// 1 + x/N (1 + x/(N + 1) (... (1 + x/Last))).
template <int N, int Last> LOFT_HOST_DEVICE constexpr double exponential_series(double x) noexcept {
  constexpr double inverse = 1.0 / N;
  if constexpr (N >= Last) return exact::sum(1, exact::product(x, inverse));
  else return exact::sum(1, exact::product(exact::product(x, inverse), exponential_series<N + 1, Last>(x)));
}

/// The natural logarithm of a positive finite number. error: below 2e-12, where the result is below 1 in magnitude.
/// With x = m * 2^e and m in [sqrt(1/2), sqrt(2)): ln m = 2 atanh(s), s = (m - 1) / (m + 1), a series in s^2 < 0.0295.
LOFT_HOST_DEVICE constexpr double natural_log(double x) noexcept {
  constexpr double ln2 = 0.69314718055994530942, sqrt2 = 1.41421356237309504880;
  auto const parts = unpack<std::uint64_t>(x);
  int exponent = parts.exponent;
  double mantissa = static_cast<double>(static_cast<std::int64_t>(parts.significand >> 11)) * 0x1p-52;
  if (mantissa > sqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  double const s = exact::quotient(exact::difference(mantissa, 1), exact::sum(mantissa, 1));
  double const atanh_over_s = odd_series<1, 13>(exact::product(s, s));
  return exact::sum(exact::product(exponent, ln2), exact::product(2, exact::product(s, atanh_over_s)));
}

/// e^x. error: below 1e-11 relative; 0 below 2^-1022, infinity above 2^1023.
/// e^x = 2^n e^r with n = x / ln 2 rounded and |r| < 0.35.
LOFT_HOST_DEVICE constexpr double exponential(double x) noexcept {
  constexpr double ln2 = 0.69314718055994530942, inverse_ln2 = 1.44269504088896340736;
  double const turns = exact::product(x, inverse_ln2);
  if (!(turns > -1022)) return 0;
  if (!(turns < 1023)) return bit_cast<double>(double_infinity_bits);
  int const n = static_cast<int>(turns < 0 ? turns - 0.5 : turns + 0.5);
  double const r = exact::difference(x, exact::product(n, ln2));
  return exact::product(exponential_series<1, 11>(r), bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52));
}

/// x^exponent for a positive finite x. error: below 1e-10 relative while |exponent * ln x| is below 20, which is far
/// below half an ulp of a float.
LOFT_HOST_DEVICE constexpr double power(double x, double exponent) noexcept {
  return exponent == 0 ? 1.0 : exponential(exact::product(exponent, natural_log(x)));
}

/// The square root of a double, rounded once; at compile time it is at most a few ulps off. 0 where x is not positive.
LOFT_HOST_DEVICE constexpr double square_root(double x) noexcept {
  if (!(x > 0)) return 0;
  if (!constant_evaluated()) return exact::square_root(x);
  double root = bit_cast<double>((bit_cast<std::uint64_t>(x) >> 1) + (std::uint64_t{1023} << 51));
  for (int i = 0; i < 6; ++i) root = (root + x / root) / 2;
  return root;
}

/// The square root of a float that is not negative, rounded once: it is never so close to the middle of two floats that
/// a few ulps of a double decide. NaN and infinity stay as they are.
LOFT_HOST_DEVICE constexpr float square_root_of_float(float x) noexcept {
  return magnitude_bits(x) >= float_infinity ? x : static_cast<float>(square_root(widen(x)));
}

}  // namespace loft::detail
