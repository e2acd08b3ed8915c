// SPDX-License-Identifier: Apache-2.0
// The ratio of gradient to quantization noise, with an alarm at sqrt(3), from one quantized gradient or many samples of
// it.
// Source: arXiv 2505.19115 (FP4 All the Way): r = ||E[g_q]|| / sqrt(E ||g_q - g||^2).
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/math.hpp"
#include "loft/stability/freeze.hpp"
#include "loft/stability/norm.hpp"

namespace loft {

/// The two sides of the ratio, squared. They are doubles that add up over shards, tensors and ranks by one SUM
/// all-reduce.
struct gradient_to_noise {
  double signal = 0;     ///< an estimate of ||E[g_q]||^2; chance may take a small one below 0, which counts as 0
  double noise = 0;      ///< E ||g_q - g||^2
  double nonfinite = 0;  ///< elements that are NaN or infinite, counted

  LOFT_HOST_DEVICE friend constexpr gradient_to_noise operator+(gradient_to_noise a, gradient_to_noise b) noexcept {
    return {exact::sum(a.signal, b.signal), exact::sum(a.noise, b.noise), exact::sum(a.nonfinite, b.nonfinite)};
  }
  /// ||E[g_q]|| / sqrt(E ||g_q - g||^2): infinite without noise, 0 where an element was not finite. error: 3 roundings;
  /// at compile time the two roots are a few ulps off.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double ratio() const noexcept {
    if (nonfinite != 0) return 0;
    if (noise == 0) return bit_cast<double>(detail::double_infinity_bits);
    return exact::quotient(detail::square_root(signal), detail::square_root(noise));
  }
  /// Whether the ratio is below sqrt(3), so that the gradient no longer trains; decided without a root. Without noise
  /// there is no alarm; with an element that is not finite there is one.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr bool alarm() const noexcept {
    return nonfinite != 0 || signal < exact::product(3, noise);
  }
  /// noise_risk of the two sides, for gnmr's step: above 1 where there is an alarm.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double risk() const noexcept {
    if (nonfinite != 0) return bit_cast<double>(detail::double_infinity_bits);
    return noise_risk(detail::square_root(signal), detail::square_root(noise));
  }
};

/// From one sample of a quantized gradient: noise = ||g_q - g||^2, and signal = ||g_q||^2 - noise, because ||g_q||^2
/// holds the noise beside ||E[g_q]||^2.
///
/// Over many elements both are close to their expectations. Of rounding with a bias b the signal is low by ||b||^2, and
/// r^2 by at most 1, so that on average the alarm is early, never late; ||g||^2 in its place would not see what a
/// rounding to 0 loses. gradient_noise_samples has no such error.
/// in: the gradient before and after it was quantized, floats or minifloats; a count of 0 or below is none. error: sums
/// as partial_norm, and one rounding.
template <class T, class U>
[[nodiscard]] LOFT_HOST_DEVICE constexpr gradient_to_noise one_gradient_to_noise(T const* exact, U const* quantized,
                                                                                 std::int64_t count) noexcept {
  norm_partial const signal = partial_norm(quantized, count), noise = partial_noise(exact, quantized, count);
  return {exact::difference(signal.sum_of_squares, noise.sum_of_squares), noise.sum_of_squares, noise.nonfinite};
}

/// The ratio over samples of one gradient, as of stochastic rounding with several seeds, or of several microbatches.
/// The caller lends the memory for the mean.
///
/// ||mean||^2 holds 1/n of the samples' variance beside ||E[g_q]||^2. From two samples on the signal is ||mean||^2 -
/// s^2 / n, s^2 the sample variance with n - 1 below it, summed over elements: without bias for independent samples,
/// whatever the bias of the rounding. One sample: as one_gradient_to_noise.
struct gradient_noise_samples {
  double* mean = nullptr;  ///< `size` doubles, set to 0 by the caller before the first sample
  std::int64_t size = 0;
  std::int64_t samples = 0;
  double noise = 0, nonfinite = 0;
  double squares = 0;  ///< the mean of ||g_q||^2

  /// Takes in one sample: mean += (g_q - mean) / n, each operation rounded once in double. in: `size` elements.
  template <class T, class U> LOFT_HOST_DEVICE constexpr void add(T const* exact, U const* quantized) noexcept {
    ++samples;
    auto const n = static_cast<double>(samples);
    norm_partial const sample = partial_noise(exact, quantized, size);
    noise = exact::sum(noise, exact::quotient(exact::difference(sample.sum_of_squares, noise), n));
    double const square = partial_norm(quantized, size).sum_of_squares;
    squares = exact::sum(squares, exact::quotient(exact::difference(square, squares), n));
    nonfinite = exact::sum(nonfinite, sample.nonfinite);
    for (std::int64_t i = 0; i < size; ++i) {
      double const step = exact::difference(detail::widen(static_cast<float>(quantized[i])), mean[i]);
      mean[i] = exact::sum(mean[i], exact::quotient(step, n));
    }
  }
  /// The ratio so far; no signal and no noise before the first sample. rounds: ||mean||^2 is summed in index order,
  /// then (n ||mean||^2 - squares) / (n - 1), each operation rounded once in double.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr gradient_to_noise result() const noexcept {
    if (samples <= 0 || nonfinite != 0) return {0, noise, nonfinite};
    if (samples == 1) return {exact::difference(squares, noise), noise, nonfinite};
    double whole = 0;
    for (std::int64_t i = 0; i < size; ++i) whole = exact::sum(whole, exact::product(mean[i], mean[i]));
    auto const n = static_cast<double>(samples);
    double const spread = exact::difference(exact::product(n, whole), squares);
    return {exact::quotient(spread, exact::difference(n, 1)), noise, nonfinite};
  }
};

}  // namespace loft
