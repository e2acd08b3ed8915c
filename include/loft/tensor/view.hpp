// SPDX-License-Identifier: Apache-2.0
// Matrices and quantized tensors in somebody's memory: views, the sizes of their buffers, scale layouts.
// Source: design section 3 for the interface; tiled_128x4: the scale layout of block-scaled matrix instructions (PTX
// ISA, tcgen05).
#ifndef LOFT_TENSOR_VIEW_HPP
#define LOFT_TENSOR_VIEW_HPP

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/block/quantize_block.hpp"
#include "loft/core/config.hpp"
#include "loft/array/packing.hpp"
#include "loft/core/status.hpp"

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

/// The transpose of a matrix as a view: [rows, cols] -> [cols, rows], element (r, c) of the result is (c, r) of `m`.
/// Nothing is copied.
template <class T>
LOFT_HOST_DEVICE constexpr matrix_view<T> transposed(matrix_view<T> m) noexcept {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

/// Bytes of the codes of a [rows, cols] tensor: every row is whole bytes.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr std::int64_t codes_bytes(std::int64_t rows, std::int64_t cols) noexcept {
  return rows * packed_bytes<typename B::element>(cols);
}

/// Where the scale of a block lies: a map from the grid of scales to memory.
///
/// The grid is covered by tiles of tile_rows x tile_cols places, row-major over tiles, so that a layout needs whole
/// tiles of memory; `index(row, col, cols)` is the place of the scale in `row` and `col` of a grid with `cols` columns.
/// `repeats_rows`: the grid has a row for every row of the tensor, not of blocks, and the scale of a block of several
/// rows stands in each of them.
/// Laws: places are below the extent, and no two positions in whole tiles share one. Places without a scale are zero.
template <class L>
concept ScaleLayout = requires(std::int64_t n) {
  requires L::tile_rows >= 1 && L::tile_cols >= 1;
  { L::repeats_rows } -> std::convertible_to<bool>;
  { L::index(n, n, n) } -> std::same_as<std::int64_t>;
};

/// One row of blocks after the other.
struct row_major {
  static constexpr std::int64_t tile_rows = 1, tile_cols = 1;
  static constexpr bool repeats_rows = false;
  LOFT_HOST_DEVICE static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t cols) noexcept {
    return row * cols + col;
  }
};

/// Tiles of 128 rows and 4 scales, 512 bytes each, row-major over tiles; within a tile the place is
/// (row % 32) * 16 + (row / 32) * 4 + col. The hardware reads a scale for every row of the tensor, so the scale of a
/// tile of several rows stands in each of them.
struct tiled_128x4 {
  static constexpr std::int64_t tile_rows = 128, tile_cols = 4;
  static constexpr bool repeats_rows = true;
  LOFT_HOST_DEVICE static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t cols) noexcept {
    std::int64_t const tile = row / 128 * detail::ceil_div(cols, 4) + col / 4;
    return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
  }
};

namespace detail {

LOFT_HOST_DEVICE constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) noexcept {
  return ceil_div(n, step) * step;
}

/// The row of the scales' grid that the blocks with row `row` of the tensor are in.
template <class B, ScaleLayout Layout>
LOFT_HOST_DEVICE constexpr std::int64_t scale_row(std::int64_t row) noexcept {
  return Layout::repeats_rows ? row : row / B::shape.rows;
}

}  // namespace detail

/// Scales of a [rows, cols] tensor in a layout: one a block; ragged ends have blocks of their own; padding counts.
template <BlockFormat B, ScaleLayout Layout = row_major>
LOFT_HOST_DEVICE constexpr std::int64_t scale_count(std::int64_t rows, std::int64_t cols) noexcept {
  std::int64_t const grid_rows = Layout::repeats_rows ? rows : detail::ceil_div(rows, B::shape.rows);
  return detail::round_up(grid_rows, Layout::tile_rows) *
         detail::round_up(detail::ceil_div(cols, B::shape.cols), Layout::tile_cols);
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

/// What a call asks that reads one matrix and writes another of its shape.
template <class T>
LOFT_HOST_DEVICE constexpr status check_pair(matrix_view<T> in, matrix_view<float> out) noexcept {
  if (status const s = check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  return check_matrix(out, true);
}
/// As check_pair for calls that read `in` again after they wrote `out`.
template <class T>
LOFT_HOST_DEVICE constexpr status check_apart(matrix_view<T> in, matrix_view<float> out) noexcept {
  if (status const s = check_pair(in, out); s != status::ok) return s;
  bool const shared = static_cast<void const*>(in.data) == static_cast<void const*>(out.data);
  return shared && in.rows != 0 && in.cols != 0 ? status::overlapping_output : status::ok;
}

/// Calls f(row, col) for the elements of tile number `tile` of a matrix, in row-major order. Tiles of height x width
/// elements, 0 for the whole extent, are counted row by row; the last ones are short.
template <class Function>
LOFT_HOST_DEVICE constexpr void visit_tile(std::int64_t rows, std::int64_t cols, std::int64_t height,
                                           std::int64_t width, std::int64_t tile, Function&& f) noexcept {
  std::int64_t const tall = height == 0 ? rows : height, wide = width == 0 ? cols : width;
  std::int64_t const across = ceil_div(cols, wide), top = tile / across * tall, left = tile % across * wide;
  for (std::int64_t row = top; row < min(rows, top + tall); ++row)
    for (std::int64_t col = left; col < min(cols, left + wide); ++col) f(row, col);
}

/// out = f(in), element by element; `out` may be `in`.
template <class T, class Function>
LOFT_HOST_DEVICE constexpr void map_elements(matrix_view<T> in, matrix_view<float> out, Function&& f) noexcept {
  for (std::int64_t row = 0; row < in.rows; ++row)
    for (std::int64_t col = 0; col < in.cols; ++col) out(row, col) = f(to_float(in(row, col)));
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
