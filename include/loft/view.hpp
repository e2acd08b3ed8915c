// SPDX-License-Identifier: Apache-2.0
// Matrices and quantized tensors in somebody's memory: views, the sizes of their buffers, scale layouts, status.
// Source: design section 3 for the interface; tiled_128x4: the scale layout of block-scaled matrix instructions (PTX
// ISA, tcgen05).
#ifndef LOFT_VIEW_HPP
#define LOFT_VIEW_HPP

#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/block.hpp"
#include "loft/config.hpp"
#include "loft/packed.hpp"

namespace loft {

/// A matrix in somebody's memory: element (r, c) is data[r * row_stride + c * col_stride]. Strides are in elements and
/// may be anything, negative and 0 too, in a view that is read; a transposed view swaps extents and strides.
template <class T>
struct matrix_view {
  T* data;
  std::int64_t rows, cols, row_stride, col_stride = 1;

  LOFT_HOST_DEVICE constexpr T& operator()(std::int64_t row, std::int64_t col) const noexcept {
    return data[row * row_stride + col * col_stride];
  }
  template <class U>
    requires(std::is_same_v<U, T const> && !std::is_const_v<T>)
  LOFT_HOST_DEVICE constexpr operator matrix_view<U>() const noexcept {
    return {data, rows, cols, row_stride, col_stride};
  }
};

/// [rows, cols] -> [cols, rows], the same memory.
template <class T>
LOFT_HOST_DEVICE constexpr matrix_view<T> transposed(matrix_view<T> m) noexcept {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

/// Bytes of the codes of a [rows, cols] tensor: every row is whole bytes.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr std::int64_t codes_bytes(std::int64_t rows, std::int64_t cols) noexcept {
  return rows * packed_bytes<typename B::element>(cols);
}

// Where the scale of a block lies. A layout maps the grid of scales to memory: `extent(rows, cols)` places are needed
// for a grid of that size, and `index(row, col, cols)` is the place of one. Places that no scale has are zero.

/// One row of blocks after the other.
struct row_major {
  static constexpr bool has_padding = false, repeats_rows = false;
  LOFT_HOST_DEVICE static constexpr std::int64_t extent(std::int64_t rows, std::int64_t cols) noexcept {
    return rows * cols;
  }
  LOFT_HOST_DEVICE static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t cols) noexcept {
    return row * cols + col;
  }
};

/// Tiles of 128 rows and 4 scales, 512 bytes each, row-major over tiles; within a tile the place is
/// (row % 32) * 16 + (row / 32) * 4 + col. The hardware reads a scale for every row of the tensor, so the scale of a
/// tile of several rows stands in each of them.
struct tiled_128x4 {
  static constexpr bool has_padding = true, repeats_rows = true;
  LOFT_HOST_DEVICE static constexpr std::int64_t extent(std::int64_t rows, std::int64_t cols) noexcept {
    return detail::ceil_div(rows, 128) * detail::ceil_div(cols, 4) * 512;
  }
  LOFT_HOST_DEVICE static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t cols) noexcept {
    std::int64_t const tile = row / 128 * detail::ceil_div(cols, 4) + col / 4;
    return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
  }
};

/// Scales of a [rows, cols] tensor in a layout: one a block; ragged ends have blocks of their own; padding counts.
template <BlockFormat B, class Layout = row_major>
LOFT_HOST_DEVICE constexpr std::int64_t scale_count(std::int64_t rows, std::int64_t cols) noexcept {
  return Layout::extent(Layout::repeats_rows ? rows : detail::ceil_div(rows, B::shape.rows),
                        detail::ceil_div(cols, B::shape.cols));
}

/// A quantized tensor in somebody's memory: codes_bytes<B>(rows, cols) bytes, scale_count<B>(rows, cols) scales, and
/// for formats with a tensor scale a float, the factor that decoding multiplies with; null where the format has none.
/// quantized_view<B const> reads only, and any quantized_view<B> converts to it.
template <BlockFormat B>
struct quantized_view {
  template <class T>
  using like_b = std::conditional_t<std::is_const_v<B>, T const, T>;

  like_b<std::uint8_t>* codes;
  like_b<code<typename B::scale>>* scales;
  like_b<float>* tensor_scale;
  std::int64_t rows, cols;

  template <class U>
    requires(std::is_same_v<U, B const> && !std::is_const_v<B>)
  LOFT_HOST_DEVICE constexpr operator quantized_view<U>() const noexcept {
    return {codes, scales, tensor_scale, rows, cols};
  }
};

/// Rows [first, first + count) of a tensor, for callers that share its rows out to threads of their own; a count below
/// 0 is all the rest. `first`, and `count` unless it reaches the end, are multiples of the block's rows.
struct row_range {
  std::int64_t first = 0, count = -1;
};

/// What a call found. Everything but `ok` is found before the first write: the outputs are untouched.
enum class status {
  ok,
  null_pointer,
  negative_extent,
  extent_overflow,
  shape_mismatch,
  overlapping_output,
  missing_tensor_scale,
  rotation_does_not_divide,
  invalid_amax,
  invalid_scale,
  invalid_row_range,
};

/// The status as a sentence.
LOFT_HOST_DEVICE constexpr char const* message(status s) noexcept {
  switch (s) {
    case status::ok:
      return "no error";
    case status::null_pointer:
      return "a view with elements has a null pointer";
    case status::negative_extent:
      return "a view has a negative number of rows or columns";
    case status::extent_overflow:
      return "rows times columns do not fit in 64 bits";
    case status::shape_mismatch:
      return "the input and the output differ in rows or columns";
    case status::overlapping_output:
      return "two elements of the output share memory: check its strides";
    case status::missing_tensor_scale:
      return "the format has a tensor scale, and the view has no place for it";
    case status::rotation_does_not_divide:
      return "the number of columns is not a multiple of the rotation's size";
    case status::invalid_amax:
      return "the known amax of the two-level rule is not finite";
    case status::invalid_scale:
      return "the fixed scale is not a positive number that the scale format has";
    case status::invalid_row_range:
      return "the range of rows does not start at a block or leaves the tensor";
  }
  return "unknown status";
}

namespace detail {

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
template <class T>
LOFT_HOST_DEVICE constexpr status check_matrix(matrix_view<T> m, bool written) noexcept {
  if (status const s = check_extents(m.rows, m.cols); s != status::ok) return s;
  if (m.rows == 0 || m.cols == 0) return status::ok;
  if (m.data == nullptr) return status::null_pointer;
  if (written && overlaps_itself(m.rows, m.cols, m.row_stride, m.col_stride)) return status::overlapping_output;
  return status::ok;
}

template <class B>
LOFT_HOST_DEVICE constexpr status check_quantized(quantized_view<B> q) noexcept {
  if (status const s = check_extents(q.rows, q.cols); s != status::ok) return s;
  if (q.rows == 0 || q.cols == 0) return status::ok;
  if (q.codes == nullptr || q.scales == nullptr) return status::null_pointer;
  return has_tensor_scale<B> && q.tensor_scale == nullptr ? status::missing_tensor_scale : status::ok;
}

template <BlockFormat B>
LOFT_HOST_DEVICE constexpr status check_range(std::int64_t rows, row_range& range) noexcept {
  if (range.first < 0 || range.first > rows || range.first % B::shape.rows != 0) return status::invalid_row_range;
  if (range.count < 0) range.count = rows - range.first;
  if (range.count > rows - range.first) return status::invalid_row_range;
  bool const whole_blocks = range.count % B::shape.rows == 0 || range.first + range.count == rows;
  return whole_blocks ? status::ok : status::invalid_row_range;
}

}  // namespace detail
}  // namespace loft

#endif
