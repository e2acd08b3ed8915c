// SPDX-License-Identifier: Apache-2.0
// The order in which a matrix is worked on, and buffers for tiles of matrices whose rows are not contiguous.
// Source: design decision 11 for ragged ends. No result depends on anything here.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/operand_traits.hpp"
#include "loft/core/bits.hpp"
#include "loft/tensor/view.hpp"

namespace loft::detail {

/// The columns that are worked on at once: about 1024, so that what is done once a block is done for many; fewer where
/// a block has many rows, so that about 16384 values stay in a near cache, and in a thread of a GPU, whose memory is
/// small and set aside for every thread that the chip can hold.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
inline constexpr int usual_width = 128;
#else
inline constexpr int usual_width = 1024;
#endif

/// The same in whole blocks, whole runs of the rotation, and whole groups of corrected scales.
template <class O>
inline constexpr int slice_width = [] {
  constexpr int least =
      least_common_multiple(least_common_multiple(O::format::shape.cols, rotation_size<O>), correction_group<O>);
  return least * static_cast<int>(ceil_div(min(usual_width, max(128, 16384 / O::format::shape.rows)), least));
}();

/// The rows of a tile: whole blocks, sixteen rows at least; fewer of very long slices, of a long run of the rotation or
/// a long block, so that a tile finds room on the stack of a thread.
template <class O>
inline constexpr int tile_height = [] {
  constexpr int tall = O::format::shape.rows, wished = min(16, max(1, (1 << 15) / slice_width<O>));
  return static_cast<int>(ceil_div(wished, tall)) * tall;
}();

/// True where a matrix whose rows are not contiguous is copied tile by tile, so that each of its cache lines is fetched
/// once. Blocks of many rows under long runs would make tiles too large: their rows are read and written where they
/// are.
template <class O> inline constexpr bool stages_tiles = !rotates<O> || tile_height<O> * slice_width<O> <= 1 << 15;

template <class T> LOFT_HOST_DEVICE constexpr bool has_contiguous_rows(matrix_view<T> m) noexcept {
  return m.col_stride == 1 || m.cols == 1;
}

/// The slices of a matrix in order: `rows` x slice_width elements, of which the last ones are short. They lie in tiles
/// of `height` rows and one slice; tiles follow each other along the rows of the matrix, and the slices of a tile down
/// it.
template <class O> class slices {
 public:
  std::int64_t row = 0, end = 0;  ///< the rows of the slice: those of one row of blocks
  std::int64_t first = 0;         ///< its first column
  int count = 0;                  ///< its columns

  LOFT_HOST_DEVICE constexpr slices(std::int64_t rows, std::int64_t cols, bool tiles) noexcept
      : rows_{rows}, cols_{cols}, height_{tiles ? tile_height<O> : O::format::shape.rows} {}

  /// Moves to the next slice, the first one at the first call; false behind the last.
  LOFT_HOST_DEVICE constexpr bool next() noexcept {
    row = end;
    if (row >= tile_end_) {
      if (count != 0) first += width;
      if (first >= cols_) {
        first = 0;
        top_ = tile_end_;
      }
      if (top_ >= rows_ || cols_ == 0) return false;
      row = top_;
      tile_end_ = min(top_ + height_, rows_);
      count = static_cast<int>(min<std::int64_t>(width, cols_ - first));
    }
    end = min<std::int64_t>(row + O::format::shape.rows, rows_);
    return true;
  }
  LOFT_HOST_DEVICE constexpr bool starts_tile() const noexcept { return row == top_; }
  LOFT_HOST_DEVICE constexpr bool ends_tile() const noexcept { return end == tile_end_; }
  /// The tile of the slice, in a matrix.
  template <class T> LOFT_HOST_DEVICE constexpr matrix_view<T> tile_of(matrix_view<T> m) const noexcept {
    return submatrix(m, top_, tile_end_ - top_, first, count);
  }
  LOFT_HOST_DEVICE constexpr std::int64_t row_in_tile() const noexcept { return row - top_; }

 private:
  static constexpr std::int64_t width = slice_width<O>;
  std::int64_t rows_, cols_, height_, top_ = 0, tile_end_ = 0;
};

/// Copies a matrix column by column, sixteen neighbours of a column at a time: for matrices whose columns are the
/// contiguous direction of one of the two.
template <class From, class To>
LOFT_HOST_DEVICE constexpr void copy_by_columns(matrix_view<From> from, matrix_view<To> to) noexcept {
  for (std::int64_t top = 0; top < from.rows; top += 16)
    for (std::int64_t col = 0; col < from.cols; ++col)
      for (std::int64_t row = top; row < min(from.rows, top + 16); ++row)
        to(row, col) = static_cast<To>(from(row, col));
}

/// A buffer for one tile, whose rows are padded so that they do not share the sets of a cache.
template <class O, class T> struct staged_tile {
  static constexpr int pitch = slice_width<O> + 16;
  T values[stages_tiles<O> ? tile_height<O> * pitch : 1];

  LOFT_HOST_DEVICE constexpr matrix_view<T> view(std::int64_t rows, std::int64_t cols) noexcept {
    return {values, rows, cols, pitch};
  }
};

/// Where decoded rows of floats are written before they are in the matrix: its own rows where it holds contiguous
/// floats, else a tile that is copied there when it is full, or where tiles would be too large a buffer of one row.
template <class O, class T> class output_rows {
 public:
  LOFT_HOST_DEVICE constexpr explicit output_rows(matrix_view<T> out) noexcept
      : out_{out}, direct_{std::is_same_v<T, float> && has_contiguous_rows(out)} {}

  /// True where the rows are written tile by tile.
  LOFT_HOST_DEVICE constexpr bool uses_tiles() const noexcept { return !direct_ && stages_tiles<O>; }
  /// The place for row `row` of the slice's columns.
  LOFT_HOST_DEVICE constexpr float* place(slices<O> const& at, std::int64_t row) noexcept {
    if constexpr (std::is_same_v<T, float>)
      if (direct_) return &out_(row, at.first);
    return stages_tiles<O> ? tile_.values + (row - at.row + at.row_in_tile()) * tile_.pitch : line_;
  }
  /// Row `row` has been written.
  LOFT_HOST_DEVICE constexpr void finish_row(slices<O> const& at, std::int64_t row) noexcept {
    if (direct_ || stages_tiles<O>) return;
    for (int i = 0; i < at.count; ++i) out_(row, at.first + i) = static_cast<T>(line_[i]);
  }
  /// All rows of the slice have been written.
  LOFT_HOST_DEVICE constexpr void finish_slice(slices<O> const& at) noexcept {
    if (!uses_tiles() || !at.ends_tile()) return;
    matrix_view<T> const to = at.tile_of(out_);
    matrix_view<float> const from = tile_.view(to.rows, to.cols);
    if (!has_contiguous_rows(to)) return copy_by_columns(from, to);
    for (std::int64_t row = 0; row < to.rows; ++row)
      for (std::int64_t col = 0; col < to.cols; ++col) to(row, col) = static_cast<T>(from(row, col));
  }

 private:
  matrix_view<T> out_;
  bool direct_;
  staged_tile<O, float> tile_;
  float line_[stages_tiles<O> ? 1 : slice_width<O>];
};

}  // namespace loft::detail
