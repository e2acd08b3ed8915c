// SPDX-License-Identifier: Apache-2.0
// What every call asks of its matrices before it writes anything.
// Source: design decision 15.
#pragma once

#include <cstdint>

#include "loft/block/catalogue.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/status.hpp"
#include "loft/tensor/view.hpp"

namespace loft::detail {

LOFT_HOST_DEVICE constexpr status check_extents(std::int64_t rows, std::int64_t cols) noexcept {
  constexpr std::int64_t limit = std::int64_t{1} << 58;  // room for the bits of an element
  if (rows < 0 || cols < 0) return status::negative_extent;
  if (cols != 0 && rows > limit / cols) return status::extent_overflow;
  return status::ok;
}

LOFT_HOST_DEVICE constexpr bool overlaps_itself(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                                                std::int64_t col_stride) noexcept {
  auto const size = [](std::int64_t stride) {  // |stride|, of the least number too
    auto const bits = static_cast<std::uint64_t>(stride);
    return stride < 0 ? 0 - bits : bits;
  };
  std::uint64_t const a = size(row_stride), b = size(col_stride);
  if ((rows > 1 && a == 0) || (cols > 1 && b == 0)) return true;
  if (rows <= 1 || cols <= 1) return false;
  // i * a == j * b has its least solution at j = a / gcd, i = b / gcd.
  std::uint64_t divisor = a, rest = b;
  while (rest != 0) {
    std::uint64_t const next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return a / divisor < static_cast<std::uint64_t>(cols) && b / divisor < static_cast<std::uint64_t>(rows);
}

/// What every entry point asks of a matrix.
template <class T> LOFT_HOST_DEVICE constexpr status check_matrix(matrix_view<T> m, bool written) noexcept {
  if (status const s = check_extents(m.rows, m.cols); s != status::ok) return s;
  if (m.rows == 0 || m.cols == 0) return status::ok;
  if (m.data == nullptr) return status::null_pointer;
  if (written && overlaps_itself(m.rows, m.cols, m.row_stride, m.col_stride)) return status::overlapping_output;
  return status::ok;
}

/// What a call asks that reads one matrix and writes another of its shape.
template <class T, class U>
LOFT_HOST_DEVICE constexpr status check_pair(matrix_view<T> in, matrix_view<U> out) noexcept {
  if (status const s = check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  return check_matrix(out, true);
}
/// As check_pair for calls that read `in` again after they wrote `out`.
template <class T, class U>
LOFT_HOST_DEVICE constexpr status check_apart(matrix_view<T> in, matrix_view<U> out) noexcept {
  if (status const s = check_pair(in, out); s != status::ok) return s;
  bool const shared = static_cast<void const*>(in.data) == static_cast<void const*>(out.data);
  return shared && in.rows != 0 && in.cols != 0 ? status::overlapping_output : status::ok;
}

template <BlockFormat B> LOFT_HOST_DEVICE constexpr status check_range(std::int64_t rows, row_range& range) noexcept {
  if (range.first < 0 || range.first > rows || range.first % B::shape.rows != 0) return status::invalid_row_range;
  if (range.count < 0) range.count = rows - range.first;
  if (range.count > rows - range.first) return status::invalid_row_range;
  bool const whole_blocks = range.count % B::shape.rows == 0 || range.first + range.count == rows;
  return whole_blocks ? status::ok : status::invalid_row_range;
}

}  // namespace loft::detail
