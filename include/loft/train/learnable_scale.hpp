// SPDX-License-Identifier: Apache-2.0
// Scales that are learnt: fake quantization by them, their gradients, and a mask that freezes those whose gradients are
// in disorder. Source: arXiv 1902.08153 (LSQ) equations 1 to 3 and section 2.2; arXiv 2412.05551 (GAQAT) for the
// freezing.
#pragma once

#include <cstdint>

#include "loft/block/tensor_scale.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/math.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/view.hpp"
#include "loft/train/detail/visit.hpp"

namespace loft {

/// What a learnable scale is shared by: tiles of rows x cols elements, 0 for the whole extent. {0, 0}: one for the
/// tensor; {1, 0}: one a row; {1, 32}: one for each 32 neighbours. Scales are floats, row-major over tiles; the last
/// are short.
struct scale_tiles {
  std::int64_t rows = 0, cols = 0;

  LOFT_HOST_DEVICE constexpr std::int64_t across(std::int64_t tensor_cols) const noexcept {
    return cols == 0 ? 1 : detail::ceil_div(tensor_cols, cols);
  }
  LOFT_HOST_DEVICE constexpr std::int64_t index(std::int64_t row, std::int64_t col,
                                                std::int64_t tensor_cols) const noexcept {
    return (rows == 0 ? 0 : row / rows * across(tensor_cols)) + (cols == 0 ? 0 : col / cols);
  }
  /// The scales of a [rows, cols] tensor; none of an empty one.
  LOFT_HOST_DEVICE constexpr std::int64_t count(std::int64_t tensor_rows, std::int64_t tensor_cols) const noexcept {
    if (tensor_rows == 0 || tensor_cols == 0) return 0;
    return (rows == 0 ? 1 : detail::ceil_div(tensor_rows, rows)) * across(tensor_cols);
  }
};

namespace detail {

/// x / s as the quantizer of learnable scales sees it, and what LSQ makes of it.
template <Format F> struct learned_element {
  float scaled, rounded;
  bool inside;  ///< strictly between the least and the largest number of F
};
template <Format F> LOFT_HOST_DEVICE constexpr learned_element<F> learn(float x, float scale) noexcept {
  static_assert(F::spec.is_signed && F::spec.has_zero, "learnable scales: the format has a sign and a zero");
  float const scaled = exact::opaque(exact::divide(x, scale));
  float const rounded = magnitude_bits(x) > float_infinity ? x : decode<F>(encode<F>(scaled));
  return {scaled, rounded, magnitude_bits(scaled) < bit_cast<std::uint32_t>(largest<F>)};
}

LOFT_HOST_DEVICE constexpr bool is_positive_finite(float x) noexcept {
  return bit_cast<std::uint32_t>(x) - 1 < float_infinity - 1;
}

template <class T>
LOFT_HOST_DEVICE constexpr status check_tiles(matrix_view<T> m, scale_tiles tiles, float const* scales) noexcept {
  if (status const s = check_matrix(m, false); s != status::ok) return s;
  if (tiles.rows < 0 || tiles.cols < 0) return status::negative_extent;
  std::int64_t const count = tiles.count(m.rows, m.cols);
  if (count > 0 && scales == nullptr) return status::null_pointer;
  for (std::int64_t i = 0; i < count; ++i)
    if (!is_positive_finite(scales[i])) return status::invalid_scale;
  return status::ok;
}

}  // namespace detail

/// LSQ's first scales: 2 mean|x| / sqrt(largest element) over each tile, from 2^-126, the least normal float, where
/// that is above it, to 2^127 at most.
///
/// in: any strides. out: tiles.count(rows, cols) scales. NaN and infinity are left out of the mean; a tile without
/// other elements has 2^-126. rounds: sums are in double in row-major order; the result is rounded to float once.
/// error: N + 2 roundings in double for N elements, then that to float; a status other than ok: nothing is written.
template <Format F, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status initial_scales(matrix_view<T> values, scale_tiles tiles,
                                                               float* scales) noexcept {
  if (status const s = detail::check_matrix(values, false); s != status::ok) return s;
  if (tiles.rows < 0 || tiles.cols < 0) return status::negative_extent;
  std::int64_t const count = tiles.count(values.rows, values.cols);
  if (count > 0 && scales == nullptr) return status::null_pointer;
  double const root = detail::square_root(detail::widen(largest<F>));
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0, n = 0;
    detail::visit_tile(values.rows, values.cols, tiles.rows, tiles.cols, i, [&](std::int64_t row, std::int64_t col) {
      std::uint32_t const bits = detail::magnitude_bits(detail::to_float(values(row, col)));
      if (bits >= detail::float_infinity) return;
      sum = exact::sum(sum, detail::widen(bit_cast<float>(bits)));
      n += 1;
    });
    double const scale = n == 0 ? 0 : exact::quotient(exact::product(2, exact::quotient(sum, n)), root);
    scales[i] = scale < 0x1p-126 ? 0x1p-126f : static_cast<float>(detail::min(scale, 0x1p127));
  }
  return status::ok;
}

/// out = round(x / s) * s with the element format F: [rows, cols] -> [rows, cols]. `out` may be `values`.
///
/// in: one positive finite scale a tile (invalid_scale for others). rounds: x / s to float, then to F to nearest even,
/// saturating; the product once. NaN stays; infinity saturates. A status other than ok: nothing is written.
template <Format F, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize_learned(matrix_view<T> values, scale_tiles tiles,
                                                                      float const* scales,
                                                                      matrix_view<float> out) noexcept {
  if (status const s = detail::check_tiles(values, tiles, scales); s != status::ok) return s;
  if (values.rows != out.rows || values.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  for (std::int64_t row = 0; row < values.rows; ++row) {
    for (std::int64_t col = 0; col < values.cols; ++col) {
      float const scale = scales[tiles.index(row, col, values.cols)];
      out(row, col) = exact::multiply(detail::learn<F>(detail::to_float(values(row, col)), scale).rounded, scale);
    }
  }
  return status::ok;
}

/// The gradients of fake_quantize_learned: of each scale, and in place of the output's gradient that of the values.
///
/// Of a scale, the sum over its tile of g * d, d = round(x/s) - x/s for elements strictly between the ends of F, else
/// the end, +largest or -largest. With `lsq_factor` times 1 / sqrt(N * largest), N the elements of the tile; without it
/// the plain derivative. Of a value: g between the ends, else 0.
/// rounds: x/s to float; d is exact in double for values within F; products and sums in double, in row-major order of
/// the tile, and the result to float. NaN in a tile makes its scale's gradient NaN. A status other than ok: nothing is
/// written. source: LSQ equation 3 and section 2.2.
template <Format F, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status learned_gradients(matrix_view<T> values, scale_tiles tiles,
                                                                  float const* scales, matrix_view<float> gradient,
                                                                  float* scale_gradients,
                                                                  bool lsq_factor = true) noexcept {
  if (status const s = detail::check_tiles(values, tiles, scales); s != status::ok) return s;
  if (values.rows != gradient.rows || values.cols != gradient.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(gradient, true); s != status::ok) return s;
  std::int64_t const count = tiles.count(values.rows, values.cols);
  if (count > 0 && scale_gradients == nullptr) return status::null_pointer;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0, n = 0;
    detail::visit_tile(values.rows, values.cols, tiles.rows, tiles.cols, i, [&](std::int64_t row, std::int64_t col) {
      auto const e = detail::learn<F>(detail::to_float(values(row, col)), scales[i]);
      float& g = gradient(row, col);
      double const slope = exact::difference(detail::widen(e.rounded), e.inside ? detail::widen(e.scaled) : 0.0);
      sum = exact::sum(sum, exact::product(detail::widen(g), slope));
      if (!e.inside) g = 0;
      n += 1;
    });
    double const root = detail::square_root(exact::product(n, detail::widen(largest<F>)));
    scale_gradients[i] = static_cast<float>(lsq_factor ? exact::quotient(sum, root) : sum);
  }
  return status::ok;
}

/// How often two gradients of one scale pull it opposite ways, as those of the task's loss and of a smoothness loss, or
/// those of one loss now and a step ago: the share of the last `window` steps. Plain data, one a scale; its share is a
/// signal like the ratios of gnmr.hpp.
struct gradient_disorder {
  static constexpr int longest = 64;
  std::uint64_t history = 0;  ///< bit i: the signs disagreed i + 1 steps ago
  std::int32_t steps = 0;     ///< the steps that were taken in, at most 64 of them

  /// Takes in one step. Window: 1 to 64, the same at each step. A gradient of 0 and one that is NaN disagree with
  /// nothing.
  LOFT_HOST_DEVICE constexpr void push(float a, float b, int window = longest) noexcept {
    auto const has_sign = [](float x) { return detail::magnitude_bits(x) - 1 < detail::float_infinity; };
    bool const opposite = ((bit_cast<std::uint32_t>(a) ^ bit_cast<std::uint32_t>(b)) >> 31) != 0;
    bool const disagree = has_sign(a) && has_sign(b) && opposite;
    int const kept = detail::clamp(window, 1, longest);
    history = (history << 1 | (disagree ? 1u : 0u)) & (~std::uint64_t{0} >> (longest - kept));
    steps = detail::min(steps + 1, kept);
  }
  /// The steps of the history that disagreed.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr int disagreements() const noexcept {
    int count = 0;
    for (std::uint64_t rest = history; rest != 0; rest &= rest - 1) ++count;
    return count;
  }
  /// Their share of the history; 0 before the first step.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double share() const noexcept {
    return steps == 0 ? 0 : exact::quotient(disagreements(), steps);
  }
  /// The share over the one that is tolerated, 0 < tolerated: a risk for gnmr's step, above 1 in too much disorder.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr double risk(double tolerated) const noexcept {
    return exact::quotient(share(), tolerated);
  }
};

/// Which scales are frozen: those whose share of disagreements is above the threshold, or those below it.
enum class freeze_when { above, below };

/// Marks the scales whose share of disagreements lies strictly above the threshold, or strictly below it.
/// in: `count` histories; a threshold that is a number. out: mask[i] = 1 where scale i is frozen, else 0: a byte
/// a scale; one without history is free; a count of 0 or below writes nothing. error: exact.
LOFT_HOST_DEVICE constexpr void choose_frozen(gradient_disorder const* disorder, std::int64_t count, double threshold,
                                              freeze_when when, std::uint8_t* mask) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    double const share = disorder[i].share();
    bool const frozen = when == freeze_when::above ? share > threshold : share < threshold;
    mask[i] = disorder[i].steps > 0 && frozen ? 1 : 0;
  }
}

/// Makes the gradients of frozen scales +0, whatever they were, NaN too.
/// in: `count` bytes of a mask, 0 where a scale is free. out: `scale_gradients`, in place; those of free scales keep
/// their bits. error: exact.
LOFT_HOST_DEVICE constexpr void freeze_scales(float* scale_gradients, std::uint8_t const* mask,
                                              std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i)
    if (mask[i] != 0) scale_gradients[i] = 0;
}

}  // namespace loft
