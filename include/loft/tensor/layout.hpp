// SPDX-License-Identifier: Apache-2.0
// Where the scale of a block lies in memory: the ScaleLayout concept, row_major, col_major and tiled_128x4.
// Source: design decision 12; tiled_128x4: the scale layout of block-scaled matrix instructions (PTX ISA, tcgen05).
#pragma once

#include <concepts>
#include <cstdint>

#include "loft/block/catalogue.hpp"
#include "loft/core/bits.hpp"

namespace loft {

/// A layout maps the grid of scales, which has a row and a column for each row and column of blocks, to places in
/// memory.
///
/// `index(row, col, rows, cols)` is the place of the scale in `row` and `col` of a grid of `rows` x `cols` scales. The
/// grid is padded to whole tiles of tile_rows x tile_cols places. `repeats_rows` says that the grid has a row for every
/// row of the tensor instead, and that the scale of a block of several rows stands in each of them.
/// Laws: places of the padded grid are different, and below its size. A quantizer writes zeros where no block is.
template <class L>
concept ScaleLayout = requires(std::int64_t n) {
  requires L::tile_rows >= 1 && L::tile_cols >= 1;
  { L::repeats_rows } -> std::convertible_to<bool>;
  { L::index(n, n, n, n) } -> std::same_as<std::int64_t>;
};

/// One row of the grid after the other.
struct row_major {
  static constexpr std::int64_t tile_rows = 1, tile_cols = 1;
  static constexpr bool repeats_rows = false;
  LOFT_HOST_DEVICE static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t,
                                                       std::int64_t cols) noexcept {
    return row * cols + col;
  }
};

/// One column of the grid after the other.
struct col_major {
  static constexpr std::int64_t tile_rows = 1, tile_cols = 1;
  static constexpr bool repeats_rows = false;
  LOFT_HOST_DEVICE static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t rows,
                                                       std::int64_t) noexcept {
    return col * rows + row;
  }
};

/// Tiles of 128 rows and 4 columns, 512 places each, row-major over tiles; the place within a tile is
/// (row % 32) * 16 + (row / 32) * 4 + col. The hardware reads a scale for every row of the tensor, so the scale of a
/// block of several rows stands in each of them.
struct tiled_128x4 {
  static constexpr std::int64_t tile_rows = 128, tile_cols = 4;
  static constexpr bool repeats_rows = true;
  LOFT_HOST_DEVICE static constexpr std::int64_t index(std::int64_t row, std::int64_t col, std::int64_t,
                                                       std::int64_t cols) noexcept {
    std::int64_t const tile = row / 128 * detail::ceil_div(cols, 4) + col / 4;
    return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
  }
};

namespace detail {

/// The grid of the scales of a [rows, cols] tensor: its extents, and those of the padded grid.
template <class B, ScaleLayout L> struct scale_grid {
  std::int64_t rows, cols;

  LOFT_HOST_DEVICE constexpr scale_grid(std::int64_t tensor_rows, std::int64_t tensor_cols) noexcept
      : rows{L::repeats_rows ? tensor_rows : ceil_div(tensor_rows, B::shape.rows)},
        cols{ceil_div(tensor_cols, B::shape.cols)} {}

  LOFT_HOST_DEVICE constexpr std::int64_t padded_rows() const noexcept {
    return ceil_div(rows, L::tile_rows) * L::tile_rows;
  }
  LOFT_HOST_DEVICE constexpr std::int64_t padded_cols() const noexcept {
    return ceil_div(cols, L::tile_cols) * L::tile_cols;
  }
  static constexpr bool is_padded = L::tile_rows != 1 || L::tile_cols != 1;

  /// The row of the grid for row `row` of the tensor.
  LOFT_HOST_DEVICE static constexpr std::int64_t row_of(std::int64_t row) noexcept {
    return L::repeats_rows ? row : row / B::shape.rows;
  }
  /// The place of the scale of the block in row `row` of the tensor and column `block_col` of the grid.
  LOFT_HOST_DEVICE constexpr std::int64_t place(std::int64_t row, std::int64_t block_col) const noexcept {
    return L::index(row_of(row), block_col, rows, cols);
  }
};

}  // namespace detail
}  // namespace loft
