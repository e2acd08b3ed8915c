// SPDX-License-Identifier: Apache-2.0
// Blocks of several rows in a tile: the maxima of their rows, and the scales that these come to, in shared memory.
// Source: design section 2 (data through one block).
#ifndef LOFT_GPU_DETAIL_BLOCK_TABLE_HPP
#define LOFT_GPU_DETAIL_BLOCK_TABLE_HPP

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/staged_tile.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// The scales of the tile's blocks of several rows, and the maxima of parts of their rows on the way, in shared memory
/// behind the tile. The table is that of whole blocks: `pieces` tiles, one below the other, where one is not so tall.
template <class O, int Rows, int Cols>
struct block_table {
  using format = typename O::format;
  static constexpr int tall = format::shape.rows, wide = format::shape.cols;
  static constexpr int lines = detail::max(Rows, tall), pieces = lines / Rows;
  static constexpr int across = Cols / wide, down = lines / tall;
  static constexpr int part = detail::min(wide, tile_values_a_lane<O>);  ///< columns of a maximum
  using scale_code = code<typename format::scale>;
  static constexpr int maxima_bytes = lines * (Cols / part) * 4;
  static constexpr int bytes = maxima_bytes + (down * across * static_cast<int>(sizeof(scale_code)) + 15) / 16 * 16;

  std::uint32_t* maxima;  ///< [Cols / part][lines]
  scale_code* scales;     ///< [down][across]
};

/// The values of all parts of a tile that a thread has, in registers from the first phase to the last.
template <class O, class T, int Rows>
struct held_parts {
  static constexpr int count = tile_values_a_lane<O>, of_tile = Rows * tile_tuning::cols / count;
  static constexpr int parts = detail::max(1, of_tile / tile_tuning::threads);
  detail::lane_values<held<T>, count> values[parts];
};

/// Phase one for blocks of several rows: the maxima of what the operand sees. With a rotation the row is rotated here
/// and again where it is encoded. `above`: rows of the table above this piece of it.
template <class O, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void find_maxima(staged_tile<T, Rows, Cols> tile, block_table<O, Rows, Cols> table,
                                         O const& how, held_parts<O, T, Rows>& mine, int above) noexcept {
  using table_type = block_table<O, Rows, Cols>;
  constexpr int count = tile_values_a_lane<O>, part = table_type::part;
  lane_group<detail::max(1, tile_run<O> / count)> const group;
  auto const [start, first] = part_of<count, Cols>();
#pragma unroll
  for (int i = 0; i < held_parts<O, T, Rows>::parts; ++i) {
    int const line = start + i * (tile_tuning::threads * count / Cols);
    if (held_parts<O, T, Rows>::of_tile < tile_tuning::threads && line >= Rows) break;
    auto const put = [&, first = first](auto const& values) {
      for (int b = 0; b < count / part; ++b)
        table.maxima[(first / part + b) * table_type::lines + above + line] = values.template amax<part>(b * part);
    };
    mine.values[i] = tile_values<false, count>(tile, line, first);
    if constexpr (detail::rotates<O> || O::policy == nonfinite::saturate)
      put(detail::prepare(mine.values[i], how, group));
    else put(mine.values[i]);
  }
}

/// The error of a candidate over a block of several rows, row by row.
template <class O, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline float block_error(staged_tile<T, Rows, Cols> tile, int first_row, int first_col, int rows,
                                          int valid, code<typename O::format::scale> scale, O const& how,
                                          tensor_scale t, std::uint64_t index, std::int64_t pitch) noexcept {
  constexpr int wide = O::format::shape.cols;
  static_assert(wide % detail::rotation_size<O> == 0, "candidates over tiles: a rotation fits a block");
  float error = 0;
  for (int r = 0; r < rows; ++r) {
    auto const values = detail::prepare(tile_values<false, wide>(tile, first_row + r, first_col), how, one_lane{});
    error =
        detail::add_error(error, values.values, valid, scale, how, t, index + static_cast<std::uint64_t>(r * pitch));
  }
  return error;
}

/// Phase two: the scales. Several lanes share the maxima of a block, and the first of them writes its scale.
template <class O, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void choose_scales(staged_tile<T, Rows, Cols> tile, block_table<O, Rows, Cols> table,
                                           O const& how, tensor_scale t, matrix_view<T const> in, std::int64_t top,
                                           std::int64_t left) noexcept {
  using table_type = block_table<O, Rows, Cols>;
  constexpr int tall = table_type::tall, wide = table_type::wide, across = table_type::across;
  static_assert(!detail::has_statistic<O>, "blocks of several rows: rules that look at the maximum alone");
  static_assert(!detail::has_candidates<O> || table_type::pieces == 1,
                "a scale among candidates: the target's shared memory has no room for the whole block");
  constexpr int blocks = table_type::down * across, lanes = detail::clamp(tile_tuning::threads / blocks, 1, 32);
  lane_group<lanes> const group;
  for (int unit = thread_index(); unit < detail::max(blocks * lanes, 32); unit += tile_tuning::threads) {
    int const b = detail::min(unit / lanes, blocks - 1), row = b / across * tall, col = b % across * wide;
    std::uint32_t amax = 0;
    for (int p = 0; p < wide / table_type::part; ++p)
      for (int r = unit % lanes; r < tall; r += lanes)
        amax = detail::max(amax, table.maxima[(col / table_type::part + p) * table_type::lines + row + r]);
    amax = detail::largest_word<lanes>(amax, group);
    if (unit % lanes != 0 || unit / lanes >= blocks || top + row >= in.rows || left + col >= in.cols) continue;
    detail::scale_chooser<O> chooser{};
    chooser.amax[0] = amax;
    if constexpr (detail::has_candidates<O>) {
      int const rows = static_cast<int>(detail::min<std::int64_t>(tall, in.rows - top - row));
      int const valid = static_cast<int>(detail::min<std::int64_t>(wide, in.cols - left - col));
      auto const index = static_cast<std::uint64_t>((top + row) * in.cols + left + col);
      for (int c = 0; c < detail::candidates<O>; ++c)
        chooser.error[c][0] =
            block_error(tile, row, col, rows, valid, chooser.scale(0, c, how, t), how, t, index, in.cols);
    }
    table.scales[b] = chooser.best(0, how, t);
  }
}

}  // namespace loft::gpu

#endif
