// SPDX-License-Identifier: Apache-2.0
// One operand of a product as rows of exact elements and factors: the OperandRows concept and its models.
// Source: design section 2 for what decodes to what; elements stay apart from their factors, because a product of both
// in a narrow format would round most of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/array/branchless.hpp"
#include "loft/array/packing.hpp"
#include "loft/block/operand.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/status.hpp"
#include "loft/tensor/block_walk.hpp"
#include "loft/tensor/quantized.hpp"
#include "loft/tensor/view.hpp"

namespace loft {

/// Rows [rows, cols] of one operand of a product, along the dimension that is summed over. The value of element
/// (row, col) is element(row, col) * factor(row, col) * tensor_factor(), where the element is a float, exactly, and the
/// factors are doubles. `factor_cols` neighbours from a multiple of it share a factor, 0: a whole row does.
/// `check` says what is wrong with the memory before anything is read; tensor_factor is asked for where there are
/// elements. A model may have load(row, first, count, values), which writes `count` elements at once.
template <class S>
concept OperandRows = requires(S const s, std::int64_t n) {
  requires S::factor_cols >= 0;
  { s.rows() } -> std::same_as<std::int64_t>;
  { s.cols() } -> std::same_as<std::int64_t>;
  { s.check() } -> std::same_as<status>;
  { s.element(n, n) } -> std::same_as<float>;
  { s.factor(n, n) } -> std::same_as<double>;
  { s.tensor_factor() } -> std::same_as<double>;
};

namespace detail {

/// Code `col` of a row of packed codes.
template <Format F> LOFT_HOST_DEVICE constexpr code<F> code_at(std::uint8_t const* row, std::int64_t col) noexcept {
  constexpr int width = F::spec.bits();
  std::int64_t const bit = col * width;
  int const shift = static_cast<int>(bit % 8);
  std::uint32_t held = 0;
  for (int have = 0; have < shift + width; have += 8)
    held |= static_cast<std::uint32_t>(row[bit / 8 + have / 8]) << have;
  return static_cast<code<F>>(held >> shift & ((1u << width) - 1));
}

}  // namespace detail

/// The rows of a quantized tensor. `constant`: a factor of all values that belongs to the rule and is stored nowhere.
/// What a format multiplies its codes with beside the scale, as if4's 6/7, is part of the factor, exactly.
template <BlockFormat B, ScaleLayout L = row_major> struct quantized_rows {
  using format = std::remove_const_t<B>;
  using element_format = typename format::element;
  static constexpr int factor_cols = detail::factor_cols<format>;

  quantized_view<format const, L> view;
  float constant = 1;

  LOFT_HOST_DEVICE constexpr std::int64_t rows() const noexcept { return view.rows; }
  LOFT_HOST_DEVICE constexpr std::int64_t cols() const noexcept { return view.cols; }
  LOFT_HOST_DEVICE constexpr status check() const noexcept { return detail::check_quantized(view); }

  LOFT_HOST_DEVICE constexpr float element(std::int64_t row, std::int64_t col) const noexcept {
    code<element_format> const c = detail::code_at<element_format>(codes_of(row), col);
    if constexpr (requires { typename format::alternative; })
      if (detail::is_alternative<format>(scale(row, col)))
        return detail::decode_number<typename format::alternative>(c);
    return detail::decode_number<element_format>(c);
  }
  LOFT_HOST_DEVICE constexpr double factor(std::int64_t row, std::int64_t col) const noexcept {
    code<typename format::scale> const& s = scale(row, col);
    // Opaque, for builds that take NaN for impossible.
    if (detail::is_nan_scale<format>(s)) return exact::opaque(bit_cast<double>(std::uint64_t{0x7ff8'0000'0000'0000}));
    int const within = static_cast<int>(col % format::shape.cols);
    if constexpr (detail::is_power_of_two_format<typename format::scale>) {
      return bit_cast<double>(static_cast<std::uint64_t>(1023 + int{s} - format::scale::spec.bias) << 52);
    } else if constexpr (!detail::plain_scale<format>) {
      return detail::widen(format::factor(s, within));  // read where it lies: a copy would not fit into registers
    } else {
      double const value = detail::widen(detail::factor_of<format>(s, within));
      if constexpr (requires { typename format::alternative; })
        if (detail::is_alternative<format>(s)) return exact::product(value, detail::widen(format::alternative_unit));
      return value;
    }
  }
  LOFT_HOST_DEVICE constexpr double tensor_factor() const noexcept {
    if constexpr (has_tensor_scale<format>) return detail::widen(*view.tensor_scale);
    else return detail::widen(constant);
  }
  /// in: `first` is a multiple of 8, so that its code starts a byte.
  LOFT_HOST_DEVICE constexpr void load(std::int64_t row, std::int64_t first, std::int64_t count,
                                       float* values) const noexcept {
    if constexpr (requires { typename format::alternative; }) {
      for (std::int64_t i = 0; i < count; ++i) values[i] = element(row, first + i);
    } else {
      constexpr int width = 64;
      code<element_format> codes[width];
      for (std::int64_t i = 0; i < count; i += width) {
        int const here = static_cast<int>(detail::min<std::int64_t>(width, count - i));
        unpack<element_format>(codes_of(row) + packed_bytes<element_format>(first + i), here, codes);
        detail::for_each_index<width>(here,
                                      [&](int k) { values[i + k] = detail::decode_number<element_format>(codes[k]); });
      }
    }
  }

 private:
  LOFT_HOST_DEVICE constexpr std::uint8_t const* codes_of(std::int64_t row) const noexcept {
    return view.codes + row * packed_bytes<element_format>(view.cols);
  }
  LOFT_HOST_DEVICE constexpr code<typename format::scale> const& scale(std::int64_t row,
                                                                       std::int64_t col) const noexcept {
    return view.scales[detail::scale_grid<format, L>{view.rows, view.cols}.place(row, col / format::shape.cols)];
  }
};

/// The rows of a matrix that is not quantized, of float or a minifloat, in any strides.
template <class T> struct plain_rows {
  static constexpr int factor_cols = 0;

  matrix_view<T const> view;

  LOFT_HOST_DEVICE constexpr std::int64_t rows() const noexcept { return view.rows; }
  LOFT_HOST_DEVICE constexpr std::int64_t cols() const noexcept { return view.cols; }
  LOFT_HOST_DEVICE constexpr status check() const noexcept { return detail::check_matrix(view, false); }
  LOFT_HOST_DEVICE constexpr float element(std::int64_t row, std::int64_t col) const noexcept {
    return detail::to_float(view(row, col));
  }
  LOFT_HOST_DEVICE constexpr double factor(std::int64_t, std::int64_t) const noexcept { return 1; }
  LOFT_HOST_DEVICE constexpr double tensor_factor() const noexcept { return 1; }
};

/// The rows of what a product takes: of a quantized tensor, of a matrix, or rows themselves.
template <BlockFormat B, ScaleLayout L>
LOFT_HOST_DEVICE constexpr quantized_rows<std::remove_const_t<B>, L> rows_of(quantized_view<B, L> view) noexcept {
  return {view};
}
/// A tensor as it was quantized by `how`: needed only where the rule has a constant, as floor_four_thirds does. A
/// rotation is not undone: see matmul.
template <Operand O, BlockFormat B, ScaleLayout L>
LOFT_HOST_DEVICE constexpr quantized_rows<std::remove_const_t<B>, L> rows_of(quantized_view<B, L> view,
                                                                             O const&) noexcept {
  static_assert(std::is_same_v<std::remove_const_t<B>, typename O::format>,
                "rows_of: the operand describes another block format");
  return {view, detail::constant_of<O>().decode};
}
/// A matrix that is not quantized.
template <class T> LOFT_HOST_DEVICE constexpr plain_rows<std::remove_const_t<T>> rows_of(matrix_view<T> view) noexcept {
  return {view};
}
/// Rows of a type of the caller's own.
template <OperandRows S> LOFT_HOST_DEVICE constexpr S rows_of(S const& rows) noexcept { return rows; }

namespace detail {

/// Where the elements of an operand start; a null pointer where there are none, or rows of one's own do not say.
template <OperandRows Rows> LOFT_HOST_DEVICE constexpr void const* start_of(Rows const& from) noexcept {
  if (from.rows() == 0 || from.cols() == 0) return nullptr;
  if constexpr (requires { static_cast<void const*>(from.view.data); }) return from.view.data;
  else if constexpr (requires { static_cast<void const*>(from.view.codes); }) return from.view.codes;
  else return nullptr;
}

/// values[i] = element(row, first + i) for i < count; `first` is a multiple of 8.
template <OperandRows Rows>
LOFT_HOST_DEVICE constexpr void load_elements(Rows const& from, std::int64_t row, std::int64_t first,
                                              std::int64_t count, float* values) noexcept {
  if constexpr (requires { from.load(row, first, count, values); }) {
    from.load(row, first, count, values);
  } else {
    for (std::int64_t i = 0; i < count; ++i) values[i] = from.element(row, first + i);
  }
}

}  // namespace detail
}  // namespace loft
