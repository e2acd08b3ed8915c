// SPDX-License-Identifier: Apache-2.0
// Outlier clamp and compensation: clamp a tensor to its quantiles, quantize that, and keep what was cut off as a sparse
// residual of high precision. Source: arXiv 2501.17116 (OCC, quantile 0.99).
#pragma once

#include <cstdint>

#include "loft/block/operand.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/radix_select.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/tensor/quantize.hpp"
#include "loft/tensor/view.hpp"
#include "loft/train/detail/visit.hpp"

namespace loft {

/// The range that values are clamped to.
struct clamp_range {
  float low, high;

  /// Whether a number lies outside of the range. A NaN does not: it stays NaN, and has no residual.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr bool cuts(float x) const noexcept {
    if (detail::magnitude_bits(x) > detail::float_infinity) return false;
    return detail::order_key(x) < detail::order_key(low) || detail::order_key(x) > detail::order_key(high);
  }
  [[nodiscard]] LOFT_HOST_DEVICE constexpr float clamp(float x) const noexcept {
    if (!cuts(x)) return x;
    return detail::order_key(x) < detail::order_key(low) ? low : high;
  }
  /// x - clamp(x), rounded once; 0 for what is not cut. An infinity that is cut leaves an infinity.
  [[nodiscard]] LOFT_HOST_DEVICE constexpr float residual(float x) const noexcept {
    return cuts(x) ? exact::opaque(exact::subtract(x, clamp(x))) : 0.0f;
  }
};

/// The quantiles of a tensor: the numbers at places floor((1 - q) N) and floor(q N), at most N - 1, of its N elements
/// in ascending order.
///
/// in: any strides; q from 0.5 to 1. NaN is left out, and N counts the others; an infinity is a number beyond all. -0
/// counts as 0. The products are rounded once in double. out: exact, elements of the tensor; without elements -infinity
/// and infinity. Reads the tensor five times, and needs no memory. error: a status other than ok, with nothing written.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status find_clamp_range(matrix_view<T> in, clamp_range& out,
                                                                 double quantile = 0.99) noexcept {
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  constexpr std::uint64_t half = bit_cast<std::uint64_t>(0.5), one = bit_cast<std::uint64_t>(1.0);
  if (bit_cast<std::uint64_t>(quantile) - half > one - half) return status::invalid_quantile;  // NaN and signs too
  auto const visit = [&](auto add) {
    for (std::int64_t row = 0; row < in.rows; ++row) {
      for (std::int64_t col = 0; col < in.cols; ++col) {
        float const x = detail::to_float(in(row, col));
        if (detail::magnitude_bits(x) <= detail::float_infinity) add(detail::order_key(x));
      }
    }
  };
  std::int64_t count = 0;
  visit([&](std::uint32_t) { ++count; });
  float const infinity = bit_cast<float>(detail::float_infinity);
  out = {bit_cast<float>(detail::float_infinity | detail::float_sign), infinity};
  if (count == 0) return status::ok;
  auto const rank_of = [&](double share) {
    auto const place = static_cast<std::int64_t>(exact::product(share, static_cast<double>(count)));
    return detail::min(place, count - 1);
  };
  std::int64_t ranks[] = {rank_of(exact::difference(1, quantile)), rank_of(quantile)};
  std::uint32_t keys[2] = {};
  detail::radix_select(ranks, keys, visit);
  out = {detail::number_of_key(keys[0]), detail::number_of_key(keys[1])};
  return status::ok;
}

namespace detail {

/// Calls f(row, col, x) for the elements that a range cuts, rows and columns in order.
template <class T, class Function>
LOFT_HOST_DEVICE constexpr void visit_cut(matrix_view<T> in, clamp_range range, Function&& f) noexcept {
  for (std::int64_t row = 0; row < in.rows; ++row) {
    for (std::int64_t col = 0; col < in.cols; ++col) {
      float const x = to_float(in(row, col));
      if (range.cuts(x)) f(row, col, x);
    }
  }
}

}  // namespace detail

/// out = clamp(in), exactly. `out` may be `in`. error: a status other than ok, with nothing written.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status clamp_outliers(matrix_view<T> in, clamp_range range,
                                                               matrix_view<float> out) noexcept {
  if (status const s = detail::check_pair(in, out); s != status::ok) return s;
  detail::map_elements(in, out, [&](float x) { return range.clamp(x); });
  return status::ok;
}

/// out = in - clamp(in) as a dense matrix; as clamp_range::residual. `out` may be `in`.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status outlier_residual(matrix_view<T> in, clamp_range range,
                                                                 matrix_view<float> out) noexcept {
  if (status const s = detail::check_pair(in, out); s != status::ok) return s;
  detail::map_elements(in, out, [&](float x) { return range.residual(x); });
  return status::ok;
}

/// One element of a sparse matrix.
struct sparse_element {
  std::int64_t row, col;
  float value;
};

/// The number of elements that a range cuts, which is the length of the list of them.
///
/// in: any strides. out: `count`, exact; NaN is never cut, an empty tensor has none. error: a status other than ok,
/// with nothing written.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status count_outliers(matrix_view<T> in, clamp_range range,
                                                               std::int64_t& count) noexcept {
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  count = 0;
  detail::visit_cut(in, range, [&](std::int64_t, std::int64_t, float) { ++count; });
  return status::ok;
}

/// The residual as a list, rows and columns in order.
///
/// in: room for `capacity` elements. out: `count` of them. error: a
/// status other than ok, buffer_too_small where they do not fit, with nothing written.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status list_outliers(matrix_view<T> in, clamp_range range,
                                                              sparse_element* list, std::int64_t capacity,
                                                              std::int64_t& count) noexcept {
  std::int64_t needed = 0;
  if (status const s = count_outliers(in, range, needed); s != status::ok) return s;
  if (needed > capacity) return status::buffer_too_small;
  if (needed > 0 && list == nullptr) return status::null_pointer;
  count = 0;
  detail::visit_cut(in, range, [&](std::int64_t row, std::int64_t col, float x) {
    list[count++] = {row, col, range.residual(x)};
  });
  return status::ok;
}

/// out += list . other^T: the product of high precision beside that of the clamped operand. [M, K] sparse, [N, K] ->
/// [M, N].
///
/// in: elements within M and K. Each product is rounded to float and then each sum, in the order of the list. error: a
/// status other than ok, shape_mismatch for an element outside, with nothing written.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status add_sparse_product(sparse_element const* list, std::int64_t count,
                                                                   matrix_view<T> other,
                                                                   matrix_view<float> out) noexcept {
  if (status const s = detail::check_matrix(other, false); s != status::ok) return s;
  if (other.rows != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (count < 0) return status::negative_extent;
  if (count > 0 && list == nullptr) return status::null_pointer;
  for (std::int64_t i = 0; i < count; ++i) {
    bool const inside = list[i].row >= 0 && list[i].row < out.rows && list[i].col >= 0 && list[i].col < other.cols;
    if (!inside) return status::shape_mismatch;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t n = 0; n < other.rows; ++n) {
      float& sum = out(list[i].row, n);
      float const term = exact::multiply(list[i].value, detail::to_float(other(n, list[i].col)));
      sum = exact::opaque(exact::add(sum, exact::opaque(term)));
    }
  }
  return status::ok;
}

/// An operand that is clamped to its quantiles before it is quantized, for fake_quantize.
template <Operand O> struct clamped {
  O how{};
  double quantile = 0.99;
  /// The residual is added back in float: what a product with the sparse residual computes with.
  bool compensate = true;
};

/// Q(clamp(X)) + (X - clamp(X)), or without compensation Q(clamp(X)).
///
/// The clamp range is that of the whole tensor. Q is fake_quantize on the clamped tensor, so amax and scales are those
/// of clamped values. rounds: as fake_quantize; the residual once, and its sum once; elements that are not cut are Q's
/// own. NaN makes its block NaN. An infinity beyond the range is clamped like any number; its residual, and so the sum,
/// is infinite. in: `out` is not `in` where the residual is added. error: a status other than ok, with nothing written.
template <class O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out,
                                                              clamped<O> const& how) noexcept {
  if (status const s = how.compensate ? detail::check_apart(in, out) : detail::check_pair(in, out); s != status::ok)
    return s;
  if (status const s = detail::check_operand(in.cols, how.how); s != status::ok) return s;
  clamp_range range{};
  if (status const s = find_clamp_range(in, range, how.quantile); s != status::ok) return s;
  detail::map_elements(in, out, [&](float x) { return range.clamp(x); });
  matrix_view<float const> const cut = out;
  status const s = fake_quantize(cut, out, how.how);
  if (s != status::ok || !how.compensate) return s;
  detail::visit_cut(in, range, [&](std::int64_t row, std::int64_t col, float x) {
    out(row, col) = exact::opaque(exact::add(out(row, col), range.residual(x)));
  });
  return status::ok;
}

}  // namespace loft
