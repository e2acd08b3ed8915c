// SPDX-License-Identifier: Apache-2.0
// The parts that a tensor is worked on in: views with contiguous rows, copied tile by tile where its rows are strided.
// Source: design decision 11 for ragged ends. Everything here is detail of tensor.hpp.
#ifndef LOFT_TENSOR_STAGING_HPP
#define LOFT_TENSOR_STAGING_HPP

#include <cstdint>
#include <type_traits>

#include "loft/block/correction.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"
#include "loft/tensor/view.hpp"

namespace loft {
namespace detail {

template <class O>
inline constexpr int rotation_size = std::remove_cvref_t<decltype(O{}.rotation)>::size;
template <class O>
inline constexpr bool rotates = rotation_size<O> != 1;

LOFT_HOST_DEVICE constexpr int least_common_multiple(int a, int b) noexcept {
  int result = a;
  while (result % b != 0) result += a;
  return result;
}

/// Columns that are worked on at once: about 1024, so that what is done once a block is done for many; fewer where a
/// block has many rows, so that a band of blocks, about 16384 values, stays in a near cache, and in a thread of a GPU,
/// whose memory is small and set aside for every thread that the chip can hold. No result depends on it.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
inline constexpr int usual_span = 128;
#else
inline constexpr int usual_span = 1024;
#endif

/// The same in whole blocks, whole runs of the rotation, and whole groups of corrected scales.
template <class O>
inline constexpr int span_cols = [] {
  constexpr int least =
      least_common_multiple(least_common_multiple(O::format::shape.cols, rotation_size<O>), correction_group<O>);
  return least * static_cast<int>(ceil_div(min(usual_span, max(128, 16384 / O::format::shape.rows)), least));
}();

/// Rows of a tile of `tile_rows` x span_cols: whole blocks, sixteen rows at least; fewer of very long spans, of a long
/// run of the rotation or a long block, so that a tile finds room on the stack of a thread.
template <class O>
inline constexpr int tile_rows = [] {
  constexpr int tall = O::format::shape.rows, wished = min(16, max(1, (1 << 15) / span_cols<O>));
  return static_cast<int>(ceil_div(wished, tall)) * tall;
}();

/// Memory for a tile, whose rows are padded so that they do not share the sets of a cache.
template <class O, class T>
struct tile {
  static constexpr int pitch = span_cols<O> + 16;
  T values[tile_rows<O> * pitch];

  LOFT_HOST_DEVICE constexpr matrix_view<T> view(std::int64_t rows, std::int64_t cols) noexcept {
    return {values, rows, cols, pitch};
  }
};

/// True where a strided matrix is copied tile by tile. Blocks of many rows under long runs would make tiles too large:
/// there rows are read and written where they are, one span after the other.
template <class O>
inline constexpr bool uses_tiles = !rotates<O> || tile_rows<O> * span_cols<O> <= 1 << 15;

/// Calls write(to) with a place for `count` floats, which then stand in the matrix from element (row, first) on.
template <int Width, class Write>
LOFT_HOST_DEVICE constexpr void write_span(matrix_view<float> out, std::int64_t row, std::int64_t first, int count,
                                           Write&& write) noexcept {
  float span[Width];
  write(static_cast<float*>(span));
  for (int i = 0; i < count; ++i) out(row, first + i) = span[i];
}

/// Copies a matrix column by column, sixteen neighbours of a column at a time: for matrices whose columns are the
/// contiguous direction of one of the two.
template <class From, class To>
LOFT_HOST_DEVICE constexpr void copy_by_columns(matrix_view<From> from, matrix_view<To> to) noexcept {
  for (std::int64_t top = 0; top < from.rows; top += 16)
    for (std::int64_t col = 0; col < from.cols; ++col)
      for (std::int64_t row = top; row < min(from.rows, top + 16); ++row) to(row, col) = from(row, col);
}

/// Where a part of a tensor lies in the whole, which element indices count over.
struct origin {
  std::int64_t row, col, cols;
};

/// Calls f(row, rows, col, cols) for the tiles of a matrix, row by row.
template <class O, class Function>
LOFT_HOST_DEVICE constexpr void for_tiles(std::int64_t rows, std::int64_t cols, Function&& f) noexcept {
  constexpr std::int64_t width = span_cols<O>, height = tile_rows<O>;
  for (std::int64_t row = 0; row < rows; row += height)
    for (std::int64_t col = 0; col < cols; col += width) f(row, min(height, rows - row), col, min(width, cols - col));
}

/// Calls f(part, origin) for parts of a matrix that lies at `at`, with contiguous rows: the matrix itself where its
/// rows are, else copies of its tiles, so that every cache line of a strided matrix is fetched once. Without tiles: the
/// matrix as it is.
template <class O, class T, class Function>
LOFT_HOST_DEVICE constexpr void for_parts(matrix_view<T> in, origin at, Function&& f) noexcept {
  if (in.col_stride == 1 || in.cols == 1) {
    f(matrix_view<T const>{in.data, in.rows, in.cols, in.row_stride}, at);
  } else if constexpr (!uses_tiles<O>) {
    f(matrix_view<T const>{in.data, in.rows, in.cols, in.row_stride, in.col_stride}, at);
  } else {
    tile<O, std::remove_const_t<T>> staged;
    for_tiles<O>(in.rows, in.cols, [&](std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
      auto const part = staged.view(rows, cols);
      copy_by_columns(submatrix(in, row, rows, col, cols), part);
      matrix_view<std::remove_const_t<T> const> const read = part;
      f(read, origin{at.row + row, at.col + col, at.cols});
    });
  }
}

/// Calls f(part, origin) for parts of a matrix that f writes: as for_parts, and a tile is copied out after its call.
template <class O, class Function>
LOFT_HOST_DEVICE constexpr void for_written_parts(matrix_view<float> out, origin at, Function&& f) noexcept {
  if (out.col_stride == 1 || out.cols == 1) {
    f(matrix_view<float>{out.data, out.rows, out.cols, out.row_stride}, at);
  } else if constexpr (!uses_tiles<O>) {
    f(out, at);
  } else {
    tile<O, float> staged;
    for_tiles<O>(out.rows, out.cols, [&](std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
      auto const part = staged.view(rows, cols);
      f(part, origin{at.row + row, at.col + col, at.cols});
      copy_by_columns(part, submatrix(out, row, rows, col, cols));
    });
  }
}

}  // namespace detail
}  // namespace loft

#endif
