// SPDX-License-Identifier: Apache-2.0
// Blocks of several rows in a tile: the maxima of their rows, and the scales that these come to, in shared memory.
// Source: design section 2 (data through one block).
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/fragments.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/staged_tile.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// The columns that belong together: a block, a run of the rotation, a group of corrected scales.
template <class O>
inline constexpr int tile_unit = detail::least_common_multiple(detail::least_common_multiple(O::format::shape.cols,
                                                                                             detail::rotation_size<O>),
                                                               detail::correction_group<O>);
template <> inline constexpr int tile_unit<void> = 1;
template <class O> inline constexpr int block_rows = O::format::shape.rows;
template <> inline constexpr int block_rows<void> = 1;

/// The values of a fragment in a tile: sixteen bytes of codes, so that neighbouring threads write whole lines of
/// memory; whole blocks for rules that look at more than a maximum, or measure errors.
template <class O>
inline constexpr int tile_fragment = detail::has_statistic<O> || detail::has_candidates<O>
                                         ? tile_unit<O>
                                         : (O::format::element::spec.bits() > 6 ? 16 : 32);

/// The scales of the tile's blocks of several rows, and the maxima of parts of their rows on the way, in shared memory
/// behind the tile. The table is that of whole blocks: `slabs` tiles, one below the other, where one is not so tall.
template <class O, int Rows, int Cols> struct block_table {
  using format = typename O::format;
  static constexpr int tall = format::shape.rows, wide = format::shape.cols;
  static constexpr int lines = detail::max(Rows, tall), slabs = lines / Rows;
  static constexpr int across = Cols / wide, down = lines / tall;
  static constexpr int part = detail::min(wide, tile_fragment<O>);  ///< columns of a maximum
  using scale_code = code<typename format::scale>;
  static constexpr int maxima_bytes = lines * (Cols / part) * 4;
  static constexpr int bytes = maxima_bytes + (down * across * static_cast<int>(sizeof(scale_code)) + 15) / 16 * 16;

  std::uint32_t* maxima;  ///< [Cols / part][lines]
  scale_code* scales;     ///< [down][across]
};

/// The fragments of a thread's rows of a tile, in registers from the phase that finds maxima to the one that encodes.
template <class O, class T, int Rows> struct kept_fragments {
  static constexpr int count = tile_fragment<O>, of_tile = Rows * tile_tuning::cols / count;
  static constexpr bool is_rotated = false;
  static constexpr int fragments = detail::max(1, of_tile / tile_tuning::threads);
  fragment<T, count> kept[fragments];

  LOFT_HOST_DEVICE fragment<T, count> const& values(int i) const noexcept { return kept[i]; }
  /// True where there is no such line: a tile that has fewer fragments than threads.
  LOFT_HOST_DEVICE static bool is_beyond(int line, int lines) noexcept {
    return of_tile < tile_tuning::threads && line >= lines;
  }
};

/// Phase one for blocks of several rows: the maxima of what the operand sees. With a rotation the row is rotated here
/// and again where it is encoded. `above`: rows of the table above this slab of it.
template <class O, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void find_maxima(staged_tile<T, Rows, Cols> tile, block_table<O, Rows, Cols> table,
                                         O const& how, kept_fragments<O, T, Rows>& mine, int above) noexcept {
  using table_type = block_table<O, Rows, Cols>;
  constexpr int count = tile_fragment<O>, part = table_type::part;
  tile_lines<false, count, T, Rows, Cols> const source{tile};
  lane_group<detail::max(1, tile_unit<O> / count)> const group;
#pragma unroll
  for (int i = 0; i < mine.fragments; ++i) {
    int const line = source.line(i);
    if (mine.is_beyond(line, Rows)) break;
    mine.kept[i] = source.values(i);
    auto const values = prepared_values(mine, i, how, group);
    for (int b = 0; b < count / part; ++b)
      table.maxima[(source.first / part + b) * table_type::lines + above + line] = values.template amax<part>(b * part);
  }
}

/// The error of a scale over a block of several rows, row by row.
template <class O, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline float block_error(staged_tile<T, Rows, Cols> tile, int first_row, int first_col, int rows,
                                          int valid, code<typename O::format::scale> scale, O const& how,
                                          tensor_scale t, std::uint64_t index, std::int64_t pitch) noexcept {
  constexpr int wide = O::format::shape.cols;
  static_assert(wide % detail::rotation_size<O> == 0, "candidates over tiles: a rotation fits a block");
  tile_lines<false, wide, T, Rows, Cols> source{tile};
  source.first = first_col;
  float error = 0;
  for (int r = 0; r < rows; ++r) {
    source.start = first_row + r;
    detail::lane_values<float, wide> values;
    auto const row = prepared_values(source, 0, how, one_lane{});
    for (int i = 0; i < wide; ++i) values.values[i] = row[i];
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
  static_assert(!detail::has_candidates<O> || table_type::slabs == 1,
                "a scale among candidates: the target's shared memory has no room for the whole block");
  constexpr int blocks = table_type::down * across, lanes = detail::clamp(tile_tuning::threads / blocks, 1, 32);
  lane_group<lanes> const group;
  for (int unit = thread_index(); unit < detail::max(blocks * lanes, 32); unit += tile_tuning::threads) {
    int const b = detail::min(unit / lanes, blocks - 1), row = b / across * tall, col = b % across * wide;
    detail::scale_chooser<O> chooser{};
    for (int p = 0; p < wide / table_type::part; ++p)
      for (int r = unit % lanes; r < tall; r += lanes)
        chooser.amax[0] =
            detail::max(chooser.amax[0], table.maxima[(col / table_type::part + p) * table_type::lines + row + r]);
    chooser.amax[0] = detail::largest_word<lanes>(chooser.amax[0], group);
    if (unit % lanes != 0 || unit / lanes >= blocks || top + row >= in.rows || left + col >= in.cols) continue;
    if constexpr (detail::has_candidates<O>) {
      int const rows = static_cast<int>(detail::min<std::int64_t>(tall, in.rows - top - row));
      int const valid = static_cast<int>(detail::min<std::int64_t>(wide, in.cols - left - col));
      auto const index = static_cast<std::uint64_t>((top + row) * in.cols + left + col);
#pragma unroll 1  // one copy of the code that encodes
      for (int c = 0; c < detail::candidates<O>; ++c) {
        auto const scale = chooser.scale(0, c, how, t);
        chooser.compare(0, c, scale, block_error(tile, row, col, rows, valid, scale, how, t, index, in.cols));
      }
    }
    table.scales[b] = chooser.best(0, how, t);
  }
}

}  // namespace loft::gpu
