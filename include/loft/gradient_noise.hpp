// SPDX-License-Identifier: Apache-2.0
// The gradient-to-noise ratio with its alarm at sqrt(3), from one quantized gradient or from many samples of it.
// Source: arXiv 2505.19115 (FP4 All the Way): r = ||E[g_q]|| / sqrt(E ||g_q - g||^2).
#ifndef LOFT_GRADIENT_NOISE_HPP
#define LOFT_GRADIENT_NOISE_HPP

#include <cstdint>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/freeze.hpp"
#include "loft/native/opaque.hpp"
#include "loft/norm.hpp"

namespace loft {

/// The two sides of the ratio, squared. Plain doubles that add up over shards, tensors and ranks: one SUM all-reduce.
struct gradient_to_noise {
  double signal = 0;     ///< ||E[g_q]||^2
  double noise = 0;      ///< E ||g_q - g||^2
  double nonfinite = 0;  ///< elements that are NaN or infinite, counted

  LOFT_HOST_DEVICE friend constexpr gradient_to_noise operator+(gradient_to_noise a, gradient_to_noise b) noexcept {
    return {native::sum(a.signal, b.signal), native::sum(a.noise, b.noise), native::sum(a.nonfinite, b.nonfinite)};
  }
  /// ||E[g_q]|| / sqrt(E ||g_q - g||^2): infinite without noise, 0 where an element was not finite. error: 2 roundings.
  [[nodiscard]] LOFT_HOST_DEVICE double ratio() const noexcept {
    if (nonfinite != 0) return 0;
    if (noise == 0) return bit_cast<double>(detail::double_infinity_bits);
    return native::quotient(native::square_root(signal), native::square_root(noise));
  }
  /// True where the ratio is below sqrt(3), decided without a root: the gradient no longer trains. No noise, no alarm;
  /// an element that is not finite raises it.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr bool alarm() const noexcept {
    return nonfinite != 0 || signal < native::product(3, noise);
  }
  /// noise_risk of the two: above 1 where there is an alarm, for gnmr's step.
  [[nodiscard]] LOFT_HOST_DEVICE double risk() const noexcept {
    if (nonfinite != 0) return bit_cast<double>(detail::double_infinity_bits);
    return noise_risk(native::square_root(signal), native::square_root(noise));
  }
};

/// From one sample of a quantized gradient: both expectations are taken for what this step shows. Over many elements
/// that is close for the noise; the signal holds the noise too, so that for rounding without bias the ratio is sqrt(r^2
/// + 1).
///
/// in: the gradient before and after it was quantized, floats or minifloats; a count of 0 or below is none. error: sums
/// as partial_norm.
template <class T, class U>
[[nodiscard]] LOFT_HOST_DEVICE constexpr gradient_to_noise one_gradient_to_noise(T const* exact, U const* quantized,
                                                                                 std::int64_t count) noexcept {
  norm_partial const signal = partial_norm(quantized, count), noise = partial_noise(exact, quantized, count);
  return {signal.sum_of_squares, noise.sum_of_squares, noise.nonfinite};
}

/// The ratio over samples of one gradient, as of stochastic rounding with several seeds, or of several microbatches.
/// The caller lends the memory for the mean. With n samples ||mean||^2 exceeds ||E[g_q]||^2 by 1/n of the noise, on
/// average.
struct gradient_noise_samples {
  double* mean = nullptr;  ///< `size` doubles, set to 0 by the caller before the first sample
  std::int64_t size = 0;
  std::int64_t samples = 0;
  double noise = 0, nonfinite = 0;

  /// Takes in one sample: mean += (g_q - mean) / n, each operation rounded once in double. in: `size` elements.
  template <class T, class U>
  LOFT_HOST_DEVICE constexpr void add(T const* exact, U const* quantized) noexcept {
    ++samples;
    auto const n = static_cast<double>(samples);
    norm_partial const sample = partial_noise(exact, quantized, size);
    noise = native::sum(noise, native::quotient(native::difference(sample.sum_of_squares, noise), n));
    nonfinite = native::sum(nonfinite, sample.nonfinite);
    for (std::int64_t i = 0; i < size; ++i) {
      double const step = native::difference(detail::widen(static_cast<float>(quantized[i])), mean[i]);
      mean[i] = native::sum(mean[i], native::quotient(step, n));
    }
  }
  /// The ratio so far; no signal and no noise before the first sample. error: the sum of squares is in index order,
  /// each operation rounded once in double.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr gradient_to_noise result() const noexcept {
    double signal = 0;
    if (samples > 0 && nonfinite == 0)
      for (std::int64_t i = 0; i < size; ++i) signal = native::sum(signal, native::product(mean[i], mean[i]));
    return {signal, noise, nonfinite};
  }
};

}  // namespace loft

#endif
