// SPDX-License-Identifier: Apache-2.0
// Views of matrices, transposed views, and ranges of rows.
// Source: design section 3.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/config.hpp"

namespace loft {

/// A non-owning view of a matrix: element (r, c) is data[r * row_stride + c * col_stride]. Strides are in elements;
/// without them rows are contiguous. A view that is read may have any strides, negative ones and 0 too.
template <class T> struct matrix_view {
  T* data;
  std::int64_t rows, cols, row_stride = cols, col_stride = 1;

  LOFT_HOST_DEVICE constexpr T& operator()(std::int64_t row, std::int64_t col) const noexcept {
    return data[row * row_stride + col * col_stride];
  }
  /// A view that writes converts to one that reads.
  template <class U>
    requires(std::is_same_v<U, T const> && !std::is_const_v<T>)
  LOFT_HOST_DEVICE constexpr operator matrix_view<U>() const noexcept {
    return {data, rows, cols, row_stride, col_stride};
  }
};
template <class T> matrix_view(T*, std::int64_t, std::int64_t) -> matrix_view<T>;
template <class T> matrix_view(T*, std::int64_t, std::int64_t, std::int64_t) -> matrix_view<T>;
template <class T> matrix_view(T*, std::int64_t, std::int64_t, std::int64_t, std::int64_t) -> matrix_view<T>;

/// The transpose of a matrix as a view: [rows, cols] -> [cols, rows], element (r, c) of the result is (c, r) of `m`.
/// Nothing is copied.
template <class T> LOFT_HOST_DEVICE constexpr matrix_view<T> transposed(matrix_view<T> m) noexcept {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

/// Rows [first, first + count) of a tensor, for callers that share its rows out to threads of their own; a count below
/// 0 is all the rest. `first`, and `count` unless it reaches the end, are multiples of the block's rows.
struct row_range {
  std::int64_t first = 0, count = -1;
};

namespace detail {

/// Rows [row, row + rows) and columns [col, col + cols) of a matrix.
template <class T>
LOFT_HOST_DEVICE constexpr matrix_view<T> submatrix(matrix_view<T> m, std::int64_t row, std::int64_t rows,
                                                    std::int64_t col, std::int64_t cols) noexcept {
  return {m.data + row * m.row_stride + col * m.col_stride, rows, cols, m.row_stride, m.col_stride};
}

}  // namespace detail
}  // namespace loft
