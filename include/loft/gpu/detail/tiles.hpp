// SPDX-License-Identifier: Apache-2.0
// The kernel for everything that rows.hpp does not serve: a tile is read once into shared memory, whatever its strides,
// and quantized along its rows, along its columns, or both; blocks of several rows too. Source: design sections 2 and
// 6.
#ifndef LOFT_GPU_DETAIL_TILES_HPP
#define LOFT_GPU_DETAIL_TILES_HPP

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/block_table.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/kept_codes.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/staged_tile.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// Quantizes the lines of a tile whose blocks have one row. The tile begins at row `top` and column `left` of the
/// output. All threads work on all lines, those outside too, because lanes exchange; what is outside is not stored.
template <bool Down, class Layout, class O, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void quantize_lines(staged_tile<T, Rows, Cols> tile, tile_output<O> const& to,
                                            std::int64_t top, std::int64_t left) noexcept {
  using format = typename O::format;
  constexpr int count = tile_values_a_lane<O>, bits = format::element::spec.bits(), cols = format::shape.cols;
  constexpr int lines = Down ? Cols : Rows, length = Down ? Rows : Cols;
  constexpr int lanes = detail::max(1, cols / count), blocks = lane_codes<format, count>::blocks;
  constexpr int width = detail::min(cols, count);
  lane_group<detail::max(1, tile_run<O> / count)> const group;
  O const how = with_seed(to.how, to.from.seed);
  tensor_scale const t = to.from.scale != nullptr ? *to.from.scale : to.t;
  std::int64_t const row_bytes = packed_bytes<typename format::element>(to.out.cols);
  int const lines_inside = static_cast<int>(detail::min<std::int64_t>(lines, to.out.rows - top));
  int const inside = static_cast<int>(detail::min<std::int64_t>(length, to.out.cols - left));
  // Round by round a thread goes down the lines at one place: what is added to its pointers is the same each time.
  constexpr int step = tile_tuning::threads * count / length;
  bool const whole = inside == length && codes_are_wide(to.out.codes, row_bytes);
  auto const [start, first] = part_of<count, length>();
  int const valid = detail::clamp(inside - first, 0, count);
  std::uint8_t* codes = to.out.codes + (top + start) * row_bytes + (left + first) * bits / 8;
  auto index = static_cast<std::uint64_t>((top + start) * to.out.cols + left + first);
  std::int64_t const grid_cols = detail::ceil_div(to.out.cols, cols), col = (left + first) / cols;
  auto* scales = to.out.scales + (top + start) * grid_cols + col;
  // Of short pieces of work, two hide each other's waits.
  [[maybe_unused]] constexpr int together = bits > 6 ? 2 : 1;
#if defined(__clang__)
#pragma unroll 1  // clang does not unroll loops of unknown length in which lanes exchange
#else
#pragma unroll together
#endif
  for (int line = start; line < lines; line += step) {
    auto const values = tile_values<Down, count>(tile, line, first);
    auto const result = quantize_loaded<O, count>(values, valid, how, t, index, group);
    bool const stored = line < lines_inside && valid != 0;
    if (stored) store_codes<bits>(codes, result.words, valid, whole);
    if (stored && (lanes == 1 || group.rank() % lanes == 0)) {
      for (int b = 0; b < blocks; ++b)
        if (b * width < valid) {
          if constexpr (std::is_same_v<Layout, row_major>) scales[b] = result.scales[b];
          else to.out.scales[Layout::index(top + line, col + b, grid_cols)] = result.scales[b];
        }
    }
    codes += step * row_bytes;
    scales += step * grid_cols;
    index += static_cast<std::uint64_t>(step * to.out.cols);
  }
}

/// Phase three: the codes of one direction with the scales of the table, which go to their places too.
/// Kept: the codes are also left in shared memory, from where they are transposed.
template <bool Down, class Layout, bool Kept, class O, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void encode_lines(staged_tile<T, Rows, Cols> tile, block_table<O, Rows, Cols> table,
                                          [[maybe_unused]] kept_codes<O, Rows, Cols> kept,
                                          [[maybe_unused]] held_parts<O, T, Rows> const& mine,
                                          quantized_view<typename O::format> out, O const& how,
                                          tensor_scale t, std::int64_t top, std::int64_t left) noexcept {
  using format = typename O::format;
  constexpr int count = tile_values_a_lane<O>, bits = format::element::spec.bits();
  constexpr int lines = Down ? Cols : Rows, length = Down ? Rows : Cols;
  constexpr int wide = format::shape.cols, tall = format::shape.rows, across = Cols / wide;
  constexpr int part = detail::min(wide, count);
  lane_group<detail::max(1, tile_run<O> / count)> const group;
  std::int64_t const row_bytes = packed_bytes<typename format::element>(out.cols);
  int const lines_inside = static_cast<int>(detail::min<std::int64_t>(lines, out.rows - top));
  int const inside = static_cast<int>(detail::min<std::int64_t>(length, out.cols - left));
  constexpr int step = tile_tuning::threads * count / length;
  bool const whole = inside == length && codes_are_wide(out.codes, row_bytes);
  auto const [start, first] = part_of<count, length>();
  int const valid = detail::clamp(inside - first, 0, count);
  std::uint8_t* codes = out.codes + (top + start) * row_bytes + (left + first) * bits / 8;
  auto index = static_cast<std::uint64_t>((top + start) * out.cols + left + first);
#pragma unroll
  for (int i = 0; i < held_parts<O, T, Rows>::parts; ++i) {
    int const line = start + i * step;
    if (held_parts<O, T, Rows>::of_tile < tile_tuning::threads && line >= lines) break;
    auto const encode = [&, first = first](auto const& values) {
      bool const stored = line < lines_inside && valid != 0;
      std::uint32_t words[count * bits / 32];
      for (int at = 0; at < count; at += part) {
        int const place = (first + at) / wide;
        auto const scale =
            Down ? table.scales[place * across + line / wide] : table.scales[line / tall * across + place];
        detail::encode_words<O, part>(values, at, scale, (first + at) % wide, how, t,
                                            index + static_cast<unsigned>(at), words + at * bits / 32);
        if (stored && (first + at) % wide == 0 && at < valid && (Layout::repeats_rows || line % tall == 0))
          out.scales[detail::scale_index<format, Layout>(top + line, (left + first + at) / wide, out.cols)] = scale;
      }
      if (stored) store_codes<bits>(codes, words, valid, whole);
      if constexpr (Kept) kept.template put<count>(line, first, words);
    };
    auto const prepared = [&](auto const& values) {
      if constexpr (detail::rotates<O> || O::policy == nonfinite::saturate)
        encode(detail::prepare(values, how, group));
      else encode(values);
    };
    if constexpr (Down) prepared(tile_values<true, count>(tile, line, first));
    else prepared(mine.values[i]);
    codes += step * row_bytes;
    index += static_cast<std::uint64_t>(step * out.cols);
  }
}

template <class First, class Second, class T>
struct tile_arguments {
  matrix_view<T const> in;
  First rows_out;
  Second cols_out;
  std::uint32_t tiles_across;
  bool wide;
};

/// True where the transpose's codes are those of the rows: one operand on squares, no random words, whole words of
/// codes.
template <class First, class Second>
inline constexpr bool keeps_codes = [] {
  if constexpr (std::is_void_v<Second> || tile_block_rows<First> == 1) return false;
  else
    return !detail::has_random_words<std::remove_cvref_t<decltype(First{}.rounding)>> &&
           32 % First::format::element::spec.bits() == 0;
}();

/// The shared memory of a tile of so many rows, with what lies behind it.
template <class First, class Second, class T, int Rows>
inline constexpr int tile_bytes = [] {
  using one = typename operand_of<First>::type;
  constexpr int cols = tile_tuning::cols, alone = staged_tile<T, Rows, cols>::bytes;
  if constexpr (tile_block_rows<one> == 1) return alone;
  else {
    bool const keeps = keeps_codes<one, typename operand_of<Second>::type>;
    return alone + block_table<one, Rows, cols>::bytes + (keeps ? kept_codes<one, Rows, cols>::bytes : 0);
  }
}();

/// The rows of a tile where a block of threads may have `Limit` bytes of shared memory.
template <class First, class Second, class T, int Limit>
inline constexpr int tile_rows =
    tile_bytes<First, Second, T, tile_tuning::rows> <= Limit ? tile_tuning::rows : tile_tuning::fewer_rows;

/// The rows of the view that a block of threads has: those of a tile, or of a taller block.
template <class First, int Rows>
inline constexpr int rows_together = detail::max(Rows, tile_block_rows<typename operand_of<First>::type>);

/// Fails to compile where a kernel asks for more shared memory than its target has; the compiler names both numbers.
template <int Bytes, int Limit>
struct shared_memory {
  static_assert(Bytes <= Limit, "the kernel needs more bytes of shared memory (the first number) than the target has");
  static constexpr int bytes = Bytes;
};

/// Writes the codes and scales of a piece, whose values are in the tile and in `mine`, and whose scales are in the
/// table.
template <class Layout, class First, class Second, class T, class O, int Rows, int Cols>
LOFT_HOST_DEVICE inline void encode_piece(tile_arguments<First, Second, T> const& a, staged_tile<T, Rows, Cols> tile,
                                          block_table<O, Rows, Cols> table, std::uint32_t* behind,
                                          held_parts<O, T, Rows> const& mine, O how, tensor_scale t,
                                          std::int64_t top, std::int64_t left) noexcept {
  using two = typename operand_of<Second>::type;
  using element = typename O::format::element;
  constexpr bool keeps = keeps_codes<O, two> && std::is_same_v<Layout, row_major>;
  kept_codes<O, Rows, Cols> kept{};
  kept.data = behind;
  encode_lines<false, Layout, keeps>(tile, table, kept, mine, a.rows_out.out, how, t, top, left);
  if constexpr (!std::is_void_v<two>) {
    if constexpr (keeps) {
      bool const whole = top + Rows <= a.in.rows && left + Cols <= a.in.cols &&
                         codes_are_wide(a.cols_out.out.codes, packed_bytes<element>(a.in.rows));
      if (whole) {
        sync_threads();
        write_transposed(kept, table, a.cols_out.out, left, top);
        return;
      }
    }
    how.rounding = a.cols_out.how.rounding;
    how = with_seed(how, a.cols_out.from.seed);
    encode_lines<true, Layout, false>(tile, table, kept, mine, a.cols_out.out, how, t, left, top);
  }
}

/// Blocks of several rows: their maxima, their scales, and then their codes. A piece after the first is staged here,
/// and all but the last are staged again, because shared memory holds one at a time.
template <class Layout, class First, class Second, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void quantize_tall_blocks(tile_arguments<First, Second, T> const& a,
                                                  staged_tile<T, Rows, Cols> tile, std::int64_t top,
                                                  std::int64_t left) noexcept {
  using one = typename operand_of<First>::type;
  using table_type = block_table<one, Rows, Cols>;
  auto* const behind = reinterpret_cast<unsigned char*>(tile.data) + decltype(tile)::bytes;
  table_type table{};  // filled in below: clang makes a constant of shared addresses that ptxas refuses
  table.maxima = reinterpret_cast<std::uint32_t*>(behind);
  table.scales = reinterpret_cast<typename table_type::scale_code*>(behind + table_type::maxima_bytes);
  one const how = with_seed(a.rows_out.how, a.rows_out.from.seed);
  tensor_scale t = a.rows_out.from.scale != nullptr ? *a.rows_out.from.scale : a.rows_out.t;
  held_parts<one, T, Rows> mine;
  auto const take = [&](int piece) {
    sync_threads();
    stage<tile_tuning::threads>(tile, a.in, top + piece * Rows, left, a.wide);
    sync_threads();
    find_maxima(tile, table, how, mine, piece * Rows);
  };
  find_maxima(tile, table, how, mine, 0);
  for (int piece = 1; piece < table_type::pieces; ++piece) take(piece);
  sync_threads();
  choose_scales(tile, table, how, t, a.in, top, left);
  sync_threads();
  for (int piece = table_type::pieces - 1;; take(piece)) {
    encode_piece<Layout>(a, tile, table, reinterpret_cast<std::uint32_t*>(behind + table_type::bytes), mine, how, t,
                         top + piece * Rows, left);
    if (--piece < 0) return;
  }
}

/// Quantizes one tile of a view along its rows, and with a second output also along its columns. Blocks of several rows
/// are square where there are two outputs, and both have the same operand.
template <class First, class Second, class T, class Layout, int Rows>
__global__ void __launch_bounds__(tile_tuning::threads) quantize_tiles(tile_arguments<First, Second, T> const a) {
  using one = typename operand_of<First>::type;
  using two = typename operand_of<Second>::type;
  static_assert(fits_a_tile<one, two> && (tile_block_rows<one> > 1 || Rows % tile_run<two> == 0),
                "a tile holds whole blocks, runs and groups: launch_any and one_tile_serves look at that before");
  extern __shared__ u32x4 loft_shared[];
  staged_tile<T, Rows, tile_tuning::cols> tile{};
  tile.data = reinterpret_cast<T*>(loft_shared);
  std::uint32_t const down = block_index() / a.tiles_across, across = block_index() - down * a.tiles_across;
  std::int64_t const top = std::int64_t{down} * rows_together<First, Rows>;
  std::int64_t const left = std::int64_t{across} * tile_tuning::cols;
  stage<tile_tuning::threads>(tile, a.in, top, left, a.wide);
  sync_threads();
  if constexpr (tile_block_rows<one> == 1) {
    quantize_lines<false, Layout>(tile, a.rows_out, top, left);
    if constexpr (!std::is_void_v<two>) quantize_lines<true, Layout>(tile, a.cols_out, left, top);
  } else {
    quantize_tall_blocks<Layout>(a, tile, top, left);
  }
}

}  // namespace loft::gpu

#endif
