// SPDX-License-Identifier: Apache-2.0
// How far two matrices of values are apart: the signal-to-quantization-noise ratio, rows against columns.
// Part of diagnostics.hpp; knows values and no codes. Source: textbook.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/status.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/view.hpp"

namespace loft {

// Every sum here runs over a row in the order of its columns, from 0, and then over the rows in order. Differences are
// kept to 26 bits, which is exact between a value and its neighbours in a format, and so are all squares in double. So
// the results are the same bits on host and device, whether or not a compiler fuses multiply-adds, regroups sums or
// flushes subnormals.

namespace detail {

LOFT_HOST_DEVICE constexpr bool is_finite(float x) noexcept { return magnitude_bits(x) < float_infinity; }

/// (x - y)^2, the difference rounded to 26 significant bits.
LOFT_HOST_DEVICE constexpr double squared_difference(float x, float y) noexcept {
  constexpr std::uint64_t half = 1u << 26;
  auto const bits = bit_cast<std::uint64_t>(widen(x) - widen(y));
  auto const difference = bit_cast<double>((bits + half) & ~(2 * half - 1));
  return difference * difference;
}

/// sum += term, in this order and no other.
LOFT_HOST_DEVICE constexpr void add_to(double& sum, double term) noexcept { sum = exact::opaque(sum + term); }

/// a / b; where b is 0, `otherwise`.
LOFT_HOST_DEVICE constexpr double ratio_or(double a, double b, double otherwise) noexcept {
  return b == 0 ? otherwise : a / b;
}

inline constexpr double double_infinity = bit_cast<double>(std::uint64_t{0x7ff} << 52);

/// The decimal logarithm of a positive finite number. error: below 1e-12 and, near 1, below 1e-14 relative.
/// With x = m * 2^e and m in [sqrt(1/2), sqrt(2)): ln m = 2 atanh(s), s = (m - 1) / (m + 1), a series in s^2 < 0.0295.
LOFT_HOST_DEVICE constexpr double log10(double x) noexcept {
  constexpr double log10_of_2 = 0.30102999566398119521, log10_of_e = 0.43429448190325182765;
  auto const parts = unpack<std::uint64_t>(x);
  int exponent = parts.exponent;
  double mantissa = static_cast<double>(parts.significand >> 11) * 0x1p-52;
  if (mantissa > 1.41421356237309504880) {
    mantissa *= 0.5;
    ++exponent;
  }
  double const s = (mantissa - 1) / (mantissa + 1), s_squared = s * s;
  double series = 0;
  for (int n = 25; n >= 1; n -= 2) series = series * s_squared + 1.0 / n;
  return exponent * log10_of_2 + 2 * s * series * log10_of_e;
}

}  // namespace detail

/// 10 log10(ratio): minus infinity for 0, infinity for infinity. in: a power ratio >= 0. error: below 1e-11.
LOFT_HOST_DEVICE constexpr double decibels(double ratio) noexcept {
  if (ratio == 0) return -detail::double_infinity;
  return bit_cast<std::uint64_t>(ratio) >= bit_cast<std::uint64_t>(detail::double_infinity) ? ratio
                                                                                            : 10 * detail::log10(ratio);
}

/// Energies: the sum of x^2 and that of (x - y)^2.
struct signal_and_noise {
  double signal = 0, noise = 0;
  std::int64_t left_out = 0;  ///< pairs of which one is not finite: in neither sum

  /// signal / noise, a power ratio; infinity where there is no noise.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double ratio() const noexcept {
    return detail::ratio_or(signal, noise, detail::double_infinity);
  }
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double decibels() const noexcept { return loft::decibels(ratio()); }
};

/// The signal-to-quantization-noise ratio of `quantized`, the floats of a dequantized or fake-quantized tensor.
///
/// in: two matrices of one shape, float or minifloat, any strides. out: the energies and what was left out; an empty
/// tensor has none. error: each sum is rounded in double once a term. A status other than ok: nothing is written.
template <class T, class U>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status signal_to_quantization_noise(matrix_view<T> original,
                                                                             matrix_view<U> quantized,
                                                                             signal_and_noise& out) noexcept {
  if (status const s = detail::check_matrix(original, false); s != status::ok) return s;
  if (status const s = detail::check_matrix(quantized, false); s != status::ok) return s;
  if (original.rows != quantized.rows || original.cols != quantized.cols) return status::shape_mismatch;
  out = {};
  for (std::int64_t row = 0; row < original.rows; ++row) {
    double signal = 0, noise = 0;
    for (std::int64_t col = 0; col < original.cols; ++col) {
      float const x = detail::to_float(original(row, col)), y = detail::to_float(quantized(row, col));
      if (!detail::is_finite(x) || !detail::is_finite(y)) {
        ++out.left_out;
        continue;
      }
      detail::add_to(signal, detail::squared_difference(x, 0));
      detail::add_to(noise, detail::squared_difference(x, y));
    }
    detail::add_to(out.signal, signal);
    detail::add_to(out.noise, noise);
  }
  return status::ok;
}

/// How often quantized values differ between scales along rows and scales along columns, and by how much.
struct transposition_mismatch {
  std::int64_t elements = 0;
  std::int64_t different = 0;         ///< unlike values; -0 is like 0, NaN like NaN
  std::int64_t left_out = 0;          ///< pairs of which one is not finite: in neither sum
  double signal = 0, difference = 0;  ///< the sum of a^2, of the one along the rows, and that of (a - b)^2

  /// The share of elements that differ, 0 for an empty tensor; and the squared difference relative to the signal.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double share() const noexcept {
    return detail::ratio_or(static_cast<double>(different), static_cast<double>(elements), 0);
  }
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double relative() const noexcept {
    return detail::ratio_or(difference, signal, difference == 0 ? 0 : detail::double_infinity);
  }
};

/// Compares a tensor quantized along its rows with its transpose quantized along *its* rows, the two copies that
/// training keeps of one matrix. Formats on square blocks have no mismatch.
///
/// in: both [rows, cols], so the second is read transposed: fake_quantize(x, a); fake_quantize(transposed(x),
/// transposed(b)); compare_transposition(a, b, out). error: each sum is rounded in double once a term. A status other
/// than ok: nothing is written.
template <class T, class U>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status compare_transposition(matrix_view<T> along_rows,
                                                                      matrix_view<U> along_cols,
                                                                      transposition_mismatch& out) noexcept {
  signal_and_noise energies;
  if (status const s = signal_to_quantization_noise(along_rows, along_cols, energies); s != status::ok) return s;
  out = {along_rows.rows * along_rows.cols, 0, energies.left_out, energies.signal, energies.noise};
  for (std::int64_t row = 0; row < along_rows.rows; ++row) {
    for (std::int64_t col = 0; col < along_rows.cols; ++col) {
      float const a = detail::to_float(along_rows(row, col)), b = detail::to_float(along_cols(row, col));
      std::uint32_t const size_a = detail::magnitude_bits(a), size_b = detail::magnitude_bits(b);
      bool const both_nan = size_a > detail::float_infinity && size_b > detail::float_infinity;
      bool const alike = both_nan || (size_a | size_b) == 0 || bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b);
      out.different += alike ? 0 : 1;
    }
  }
  return status::ok;
}

}  // namespace loft
