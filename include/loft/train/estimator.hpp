// SPDX-License-Identifier: Apache-2.0
// Gradient estimators: what the gradient of a quantized tensor is multiplied with, element by element.
// Source: straight-through: arXiv 1308.3432; clipped: arXiv 2502.05003 (trust mask); differentiable: arXiv 2501.17116.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/block/block_row.hpp"
#include "loft/block/operand.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/math.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/number/formats.hpp"
#include "loft/tensor/block_walk.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/staging.hpp"
#include "loft/tensor/view.hpp"

namespace loft {

/// A gradient estimator stands for the derivative of rounding: `factor<F>(x)` is what the gradient of an element is
/// multiplied with, x the scaled value that the quantizer rounded to a number of F. x is NaN in a block with a NaN
/// scale.
template <class E>
concept Estimator = requires(E const estimator, float x) {
  { estimator.template factor<e2m1>(x) } -> std::same_as<float>;
};

namespace detail {

/// True where x lies between the least and the largest number of F, both included. Not for NaN.
template <Format F> LOFT_HOST_DEVICE constexpr bool is_within(float x) noexcept {
  constexpr auto spec = F::spec;
  std::uint32_t const magnitude = magnitude_bits(x);
  if (magnitude > bit_cast<std::uint32_t>(largest<F>)) return false;
  if constexpr (!spec.has_zero)
    if (magnitude < bit_cast<std::uint32_t>(loft::decode<F>(with_sign<F>(0, false)))) return false;
  return spec.is_signed || magnitude == 0 || magnitude == bit_cast<std::uint32_t>(x);
}

/// How far |x| is from the middle of its interval between neighbours of F, in units of half the interval: 0 in the
/// middle, 1 on a number of F. in: |x| within F. error: below 2^-53.
template <Format F> LOFT_HOST_DEVICE constexpr double distance_from_middle(float x) noexcept {
  float const magnitude = bit_cast<float>(magnitude_bits(x));
  std::uint32_t const lower = round_to_ordinal<F>(unpack<std::uint32_t>(magnitude), toward_zero{}, 0);
  constexpr std::uint32_t most = F::spec.max_ordinal();
  if (lower >= most) return 1;
  double const low = widen(loft::decode<F>(with_sign<F>(lower, false)));
  double const width = exact::difference(widen(loft::decode<F>(with_sign<F>(lower + 1, false))), low);
  double const place = exact::quotient(exact::product(2, exact::difference(widen(magnitude), low)), width);
  double const from_middle = exact::difference(place, 1);
  return from_middle < 0 ? -from_middle : from_middle;
}

}  // namespace detail

/// Rounding is taken for the identity: the gradient passes.
struct straight_through {
  template <Format F> LOFT_HOST_DEVICE constexpr float factor(float) const noexcept { return 1; }
};

/// 1 where the value was within the numbers of the format, 0 where it was clipped to the largest or the least one, and
/// where the block has a NaN scale. QuEST's trust mask is this with `quest_scale` for a rule.
struct clipped_straight_through {
  template <Format F> LOFT_HOST_DEVICE constexpr float factor(float x) const noexcept {
    return detail::is_within<F>(x) ? 1.0f : 0.0f;
  }
};

/// The derivative of a smooth step between neighbouring numbers: (1/k) |2p - 1|^(1/k - 1), at most `cap`, with p in [0,
/// 1] the place of |x| between its neighbours. On every number of the format 1/k, or `cap` where that is less; the same
/// for x and -x; 0 for values beyond the largest number on both sides, below 0 in an unsigned format, and for NaN.
///
/// error: the power within 1e-10 relative, then rounded to float; the same bits on host and device. source: arXiv
/// 2501.17116, whose code gives 0 above 6 only: here it is 0 below -6 too.
struct differentiable_estimator {
  float k = 5, cap = 3;  ///< both finite, k at least 1, cap above 0; {1, cap >= 1} is clipped_straight_through

  template <Format F> LOFT_HOST_DEVICE constexpr float factor(float x) const noexcept {
    if (!detail::is_within<F>(x)) return 0;
    double const inverse_k = exact::quotient(1, detail::widen(k)), exponent = exact::difference(inverse_k, 1);
    double const distance = detail::distance_from_middle<F>(x);
    if (distance == 0 && exponent != 0) return cap;
    double const slope = exact::product(inverse_k, distance == 1 ? 1.0 : detail::power(distance, exponent));
    return slope < detail::widen(cap) ? static_cast<float>(slope) : cap;
  }
};

namespace detail {

template <class E> LOFT_HOST_DEVICE constexpr status check_estimator(E const& estimator) noexcept {
  if constexpr (requires { estimator.k, estimator.cap; }) {
    // By bits: a build may take NaN for a number, and the sign of a number makes its bits large.
    std::uint32_t const k = bit_cast<std::uint32_t>(estimator.k), cap = bit_cast<std::uint32_t>(estimator.cap);
    if (k < bit_cast<std::uint32_t>(1.0f) || k >= float_infinity) return status::invalid_estimator;
    if (cap == 0 || cap >= float_infinity) return status::invalid_estimator;
  }
  return status::ok;
}

/// factors[i] = the estimator's factor for value i of row `r` of blocks, scaled as the encoder scales it, under the
/// scales that codes are made with: not the corrected ones.
template <class O, class T, int Width, class E>
LOFT_HOST_DEVICE constexpr void estimate_factors(block_row<O, T, Width> const& blocks, int r, E const& estimator,
                                                 float* factors) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int alike = factor_cols<format>, cols = format::shape.cols;
  int const count = blocks.count();
  auto const* const scales = blocks.scales();
  tensor_scale const t = blocks.scale_of_tensor();
  float values[Width] = {};
  blocks.read(r, values);
  for (int first = 0; first < count; first += alike) {
    auto const& scale = scales[first / cols];
    int const end = min(first + alike, count);
    if (is_nan_scale<format>(scale)) {
      for (int i = first; i < end; ++i) factors[i] = estimator.template factor<element>(bit_cast<float>(float_nan));
      continue;
    }
    scale_inverse const inverse = inverse_of<format>(scale, t, first % cols);
    for (int i = first; i < end; ++i) {
      float const value = multiplies<O> ? exact::multiply(values[i], inverse.multiplier) : values[i];
      float const scaled = scale_by_power_of_two(value, -inverse.exponent);
      if constexpr (has_alternative<format>) {
        if (is_alternative<format>(scale)) {
          factors[i] = estimator.template factor<typename format::alternative>(
              exact::multiply(scaled, 1.0f / format::alternative_unit));
          continue;
        }
      }
      factors[i] = estimator.template factor<element>(scaled);
    }
  }
}

/// gradient[i] *= factors[i] for `count` elements of a row; where the operand rotates, in the rotated domain:
/// R^T diag(factors) R.
template <class O>
LOFT_HOST_DEVICE constexpr void scale_gradient(matrix_view<float> gradient, std::int64_t row, std::int64_t first,
                                               int count, O const& how, float const* factors) noexcept {
  if constexpr (!rotates<O>) {
    for (int i = 0; i < count; ++i) {
      float& g = gradient(row, first + i);
      g = exact::multiply(g, factors[i]);
    }
  } else {
    constexpr int size = rotation_size<O>;
    for (int run = 0; run < count; run += size) {
      float turned[size];
      for (int i = 0; i < size; ++i) turned[i] = gradient(row, first + run + i);
      how.rotation.apply(turned);
      for (int i = 0; i < size; ++i) turned[i] = exact::multiply(turned[i], factors[run + i]);
      how.rotation.invert(turned);
      for (int i = 0; i < size; ++i) gradient(row, first + run + i) = turned[i];
    }
  }
}

}  // namespace detail

/// Multiplies the gradient of a fake-quantized tensor with the estimator's factors, in place: the gradient of the
/// tensor itself.
///
/// in: `gradient`, any strides that do not overlap, in memory of its own; `values` and `how`, what fake_quantize was
/// called with, so that the scales are the same, rounding seeds included. `range`: the rows to work on. The factor is
/// that of the scaled value which encode sees. With a rotation the estimator acts where the rounding did: the gradient
/// is rotated, multiplied and rotated back; `straight_through` changes nothing, not even by the rotation's rounding.
/// rounds: one product an element, besides the rotation. A scale of 0 makes every scaled value 0. NaN and infinity in
/// the gradient stay what products make of them. error: a status other than ok, with nothing written;
/// overlapping_output also where `gradient` begins where `values` does.
template <Operand O, class T, Estimator E>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status estimate_gradient(matrix_view<float> gradient, matrix_view<T> values,
                                                                  O const& how, E const& estimator,
                                                                  row_range range = {}) noexcept {
  if (status const s = detail::check_apart(values, gradient); s != status::ok) return s;
  if (status const s = detail::check_operand(values.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<typename O::format>(values.rows, range); s != status::ok) return s;
  if (status const s = detail::check_estimator(estimator); s != status::ok) return s;
  if (range.count == 0 || values.cols == 0 || std::is_same_v<E, straight_through>) return status::ok;
  tensor_scale const t = detail::choose_tensor_scale(values, how);
  for (detail::block_walk<O, T> walk{values, range, how, t}; walk.next();) {
    walk.blocks.choose_scales();
    for (int r = 0; r < walk.rows(); ++r) {
      float factors[detail::slice_width<O>];
      detail::estimate_factors(walk.blocks, r, estimator, factors);
      detail::scale_gradient(gradient, walk.row() + r, walk.at.first, walk.at.count, how, factors);
    }
  }
  return status::ok;
}

/// One bit an element: set where clipped_straight_through is 1. Bit c % 8 of byte c / 8 of a row belongs to column c;
/// rows are whole bytes, whose last bits are 0. A forward pass saves it in place of the values, for the backward pass.
template <class Byte> struct basic_clip_mask {
  Byte* bits;  ///< clip_mask_bytes(rows, cols) bytes
  std::int64_t rows, cols;

  [[nodiscard]] LOFT_HOST_DEVICE constexpr bool passes(std::int64_t row, std::int64_t col) const noexcept {
    return (bits[row * detail::ceil_div(cols, 8) + col / 8] >> (col % 8) & 1) != 0;
  }
  template <class B>
    requires(std::is_same_v<B, Byte const> && !std::is_const_v<Byte>)
  LOFT_HOST_DEVICE constexpr operator basic_clip_mask<B>() const noexcept { return {bits, rows, cols}; }
};
/// A mask that is written.
using clip_mask = basic_clip_mask<std::uint8_t>;
/// A mask that is read.
using const_clip_mask = basic_clip_mask<std::uint8_t const>;

/// Bytes of the mask of a [rows, cols] tensor.
LOFT_HOST_DEVICE constexpr std::int64_t clip_mask_bytes(std::int64_t rows, std::int64_t cols) noexcept {
  return rows * detail::ceil_div(cols, 8);
}

namespace detail {

template <class Byte> LOFT_HOST_DEVICE constexpr status check_mask(basic_clip_mask<Byte> mask) noexcept {
  if (status const s = check_extents(mask.rows, mask.cols); s != status::ok) return s;
  return mask.rows != 0 && mask.cols != 0 && mask.bits == nullptr ? status::null_pointer : status::ok;
}

}  // namespace detail

/// Saves which elements quantizing `values` with `how` does not clip.
///
/// in: as estimate_gradient. out: the bytes of the rows of the range, completely. error: a status other than ok, with
/// nothing written.
template <Operand O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status save_clip_mask(matrix_view<T> values, clip_mask mask,
                                                               O const& how = detail::default_operand<O>(),
                                                               row_range range = {}) noexcept {
  if (status const s = detail::check_matrix(values, false); s != status::ok) return s;
  if (values.rows != mask.rows || values.cols != mask.cols) return status::shape_mismatch;
  if (status const s = detail::check_mask(mask); s != status::ok) return s;
  if (status const s = detail::check_operand(values.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<typename O::format>(values.rows, range); s != status::ok) return s;
  if (range.count == 0 || values.cols == 0) return status::ok;
  std::int64_t const row_bytes = detail::ceil_div(values.cols, 8);
  tensor_scale const t = detail::choose_tensor_scale(values, how);
  for (detail::block_walk<O, T> walk{values, range, how, t}; walk.next();) {
    walk.blocks.choose_scales();
    for (int r = 0; r < walk.rows(); ++r) {
      float factors[detail::slice_width<O>];
      detail::estimate_factors(walk.blocks, r, clipped_straight_through{}, factors);
      std::uint8_t* const bytes = mask.bits + (walk.row() + r) * row_bytes;
      std::int64_t const first = walk.at.first;
      if (first == 0)
        for (std::int64_t b = 0; b < row_bytes; ++b) bytes[b] = 0;
      for (std::int64_t c = first; c < first + walk.at.count; ++c)
        if (factors[c - first] != 0) bytes[c / 8] = static_cast<std::uint8_t>(bytes[c / 8] | 1u << (c % 8));
    }
  }
  return status::ok;
}

/// estimate_gradient with clipped_straight_through, from the mask that save_clip_mask wrote, with the same bits.
///
/// in: `how`, of which only the rotation is used. error: a status other than ok, with nothing written.
template <Operand O>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status apply_clip_mask(matrix_view<float> gradient, const_clip_mask mask,
                                                                O const& how = detail::default_operand<O>()) noexcept {
  if (status const s = detail::check_matrix(gradient, true); s != status::ok) return s;
  if (gradient.rows != mask.rows || gradient.cols != mask.cols) return status::shape_mismatch;
  if (status const s = detail::check_mask(mask); s != status::ok) return s;
  if (status const s = detail::check_operand(gradient.cols, how); s != status::ok) return s;
  for (detail::slices<O> at{gradient.rows, gradient.cols, false}; at.next();) {
    for (std::int64_t row = at.row; row < at.end; ++row) {
      float factors[detail::slice_width<O>] = {};
      for (int i = 0; i < at.count; ++i) factors[i] = mask.passes(row, at.first + i) ? 1.0f : 0.0f;
      detail::scale_gradient(gradient, row, at.first, at.count, how, factors);
    }
  }
  return status::ok;
}

}  // namespace loft
