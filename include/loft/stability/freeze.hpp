// SPDX-License-Identifier: Apache-2.0
// Silent freeze: learning stops without a spike, because updates are lost when stored weights are rounded, or because
// the gradient drowns in quantization noise. What is measured here can be passed to the controller of gnmr.hpp as a
// risk.
// Source: arXiv 2505.19115 (a gradient below sqrt(3) times its quantization noise no longer trains).
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/stability/norm.hpp"

namespace loft {

/// Counts of how a step's updates compare with the weights that they change. They are doubles, exact up to 2^53, that
/// add up over shards and ranks by one SUM all-reduce.
struct update_counts {
  static constexpr int bins = 60, first_exponent = -40;

  double updates = 0;    ///< finite, not 0
  double lost = 0;       ///< of these, the ones after which rounding to nearest even gives the old weight back
  double zero = 0;       ///< updates that are 0
  double nonfinite = 0;  ///< updates or weights that are NaN or infinite
  /// Bin b: updates of which |update| / gap is from 2^(first_exponent + b) to below twice that; the first and the last
  /// bin hold all that lie beyond. The gap is that between the weight and its neighbour in the update's direction.
  double histogram[bins] = {};

  LOFT_HOST_DEVICE friend constexpr update_counts operator+(update_counts a, update_counts const& b) noexcept {
    a.updates += b.updates, a.lost += b.lost, a.zero += b.zero, a.nonfinite += b.nonfinite;
    for (int i = 0; i < bins; ++i) a.histogram[i] += b.histogram[i];
    return a;
  }
};

namespace detail {

/// log2 of the distance from a finite value of F to the next one, towards zero or away from it. From 0 it is away.
template <Format F> LOFT_HOST_DEVICE constexpr int gap_exponent(float value, bool towards_zero) noexcept {
  constexpr auto spec = F::spec;
  auto const parts = unpack<std::uint32_t>(value);
  constexpr int least = spec.min_exponent();
  int exponent = parts.significand == 0 ? least : max(parts.exponent, least);
  bool const first_of_binade = parts.significand == 0x8000'0000u && parts.exponent > least;
  if (towards_zero && first_of_binade) --exponent;
  return exponent - spec.mantissa_bits_at(exponent);
}

LOFT_HOST_DEVICE constexpr bool same_value(float a, float b) noexcept {
  std::uint32_t const x = bit_cast<std::uint32_t>(a), y = bit_cast<std::uint32_t>(b);
  return x == y || ((x | y) & ~float_sign) == 0;
}

/// Counts one update, given in units of the stored number.
template <Format F>
LOFT_HOST_DEVICE constexpr void count_update(update_counts& out, float weight, double update) noexcept {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  std::uint64_t const bits = bit_cast<std::uint64_t>(update), magnitude = bits & ~sign;
  if (magnitude >= double_infinity_bits || magnitude_bits(weight) >= float_infinity) {
    out.nonfinite += 1;
    return;
  }
  if (magnitude == 0) {
    out.zero += 1;
    return;
  }
  out.updates += 1;
  float const changed = decode<F>(encode<F>(exact::sum(widen(weight), update)));
  out.lost += same_value(changed, weight) ? 1 : 0;
  bool const opposite = ((bits & sign) != 0) != ((bit_cast<std::uint32_t>(weight) & float_sign) != 0);
  int const log2 = unpack<std::uint64_t>(update).exponent - gap_exponent<F>(weight, opposite);
  out.histogram[clamp(log2 - update_counts::first_exponent, 0, update_counts::bins - 1)] += 1;
}

}  // namespace detail

/// Counts what storing weights in format F does to `count` updates.
///
/// in: the stored weights, floats or minifloats, which are rounded to F where they are no numbers of F; the updates
/// that are added to them, before any rounding; `scale`: the value of a stored 1, for weights with a scale. error:
/// exact for scales that are powers of two; for others the quotient of update and scale is rounded once in double. A
/// tie that rounds back is lost, and so is an update beyond the largest number. With stochastic rounding no update is
/// lost on average, and this function says nothing. A count of 0 or below counts nothing.
template <Format F, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr update_counts count_updates(T const* weights, float const* updates,
                                                                     std::int64_t count, double scale = 1) noexcept {
  static_assert(F::spec.is_signed && F::spec.has_zero, "weights are stored in a signed format that has a zero");
  update_counts out;
  for (std::int64_t i = 0; i < count; ++i) {
    float const given = static_cast<float>(weights[i]);
    bool const finite = detail::magnitude_bits(given) < detail::float_infinity;
    detail::count_update<F>(out, finite ? decode<F>(encode<F>(given)) : given,
                            exact::quotient(detail::widen(updates[i]), scale));
  }
  return out;
}

/// The share of updates that would be below half a gap if all were `factor` times as large; 0 where there are none.
///
/// error: one rounding of the quotient where factor is a power of two; for other factors the updates of a bin count as
/// spread evenly over it. A tie counts as kept. With a factor of 0 all are lost, with one that is negative or not
/// finite none.
[[nodiscard]] LOFT_HOST_DEVICE constexpr double lost_share(update_counts const& counts, double factor = 1) noexcept {
  std::uint64_t const bits = bit_cast<std::uint64_t>(factor);
  if (counts.updates == 0 || bits >= detail::double_infinity_bits) return 0;
  if (bits == 0) return 1;
  double const threshold = detail::min(exact::quotient(0.5, factor), 0x1p1000);  // in gaps
  auto const parts = detail::unpack<std::uint64_t>(threshold);
  int const bin = parts.exponent - update_counts::first_exponent;
  double below = 0;
  for (int i = 0; i < detail::clamp(bin, 0, update_counts::bins); ++i) below += counts.histogram[i];
  if (bin >= 0 && bin < update_counts::bins) {
    double const part = static_cast<double>(parts.significand << 1 >> 11) * 0x1p-53;  // threshold / 2^exponent - 1
    below = exact::sum(below, exact::product(part, counts.histogram[bin]));
  }
  return exact::quotient(below, counts.updates);
}

/// The first step in [first, last) at which, by a schedule of learning rates, at least `share` of the updates are below
/// half a gap; `last` if there is none.
///
/// in: counts of a step with learning rate `rate_now` > 0; rate(step), the learning rate of a step as a double. Updates
/// are assumed to shrink with the learning rate alone, as those of Adam nearly do.
template <class Schedule>
[[nodiscard]] LOFT_HOST_DEVICE constexpr std::int64_t freeze_step(update_counts const& counts, double share,
                                                                  double rate_now, Schedule&& rate, std::int64_t first,
                                                                  std::int64_t last) noexcept {
  for (std::int64_t step = first; step < last; ++step)
    if (lost_share(counts, exact::quotient(rate(step), rate_now)) >= share) return step;
  return last;
}

/// The risk, for gnmr's step, that a unit freezes: the share of its updates that are lost, over the share `tolerated` >
/// 0. Above 1 the unit asks for its safe path. Infinite where an update or a weight is not finite.
[[nodiscard]] LOFT_HOST_DEVICE constexpr double freeze_risk(update_counts const& counts, double tolerated) noexcept {
  if (counts.nonfinite > 0) return bit_cast<double>(detail::double_infinity_bits);
  if (counts.updates == 0) return 0;
  return exact::quotient(exact::quotient(counts.lost, counts.updates), tolerated);
}

namespace detail {

/// The differences of two arrays of numbers, each rounded to float once, as a Source of norm.hpp.
template <class T, class U> struct differences {
  T const* exact;
  U const* quantized;

  LOFT_HOST_DEVICE constexpr float operator[](std::int64_t i) const noexcept {
    return static_cast<float>(
        exact::difference(widen(static_cast<float>(quantized[i])), widen(static_cast<float>(exact[i]))));
  }
  LOFT_HOST_DEVICE friend constexpr differences operator+(differences d, std::int64_t i) noexcept {
    return {d.exact + i, d.quantized + i};
  }
};

}  // namespace detail

/// What a shard adds to the norm of the quantization noise: the partial_norm of quantized - exact.
template <class T, class U>
[[nodiscard]] LOFT_HOST_DEVICE constexpr norm_partial partial_noise(T const* exact, U const* quantized,
                                                                    std::int64_t count) noexcept {
  return detail::partial_of(detail::differences<T, U>{exact, quantized}, count);
}

/// sqrt(3): a gradient below this many times its quantization noise no longer trains.
inline constexpr double noise_threshold = 1.7320508075688772;

/// The risk, for gnmr's step, that a gradient drowns in its quantization noise: noise_threshold * noise / gradient.
/// in: the two norms, of sums over ranks. 0 where the noise is 0; infinite where the gradient is 0 or a norm not
/// finite.
[[nodiscard]] LOFT_HOST_DEVICE constexpr double noise_risk(double gradient_norm, double noise_norm) noexcept {
  std::uint64_t const gradient = bit_cast<std::uint64_t>(gradient_norm), noise = bit_cast<std::uint64_t>(noise_norm);
  if (noise == 0 && gradient < detail::double_infinity_bits) return 0;
  if (gradient == 0 || gradient >= detail::double_infinity_bits || noise >= detail::double_infinity_bits)
    return bit_cast<double>(detail::double_infinity_bits);
  return exact::quotient(exact::product(noise_threshold, noise_norm), gradient_norm);
}

}  // namespace loft
