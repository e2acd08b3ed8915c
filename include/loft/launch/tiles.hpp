// SPDX-License-Identifier: Apache-2.0
// The kernel for everything that rows.hpp does not serve: a tile is read once into shared memory, whatever its strides, and
// quantized along its rows, along its columns, or both; blocks of several rows too. Source: design sections 2 and 6.
#ifndef LOFT_LAUNCH_TILES_HPP
#define LOFT_LAUNCH_TILES_HPP

#include <cstdint>
#include <type_traits>

#include "loft/lane_block.hpp"
#include "loft/launch/block_table.hpp"
#include "loft/launch/grid.hpp"
#include "loft/launch/kept_codes.hpp"
#include "loft/launch/rows.hpp"
#include "loft/launch/staged_tile.hpp"
#include "loft/tensor.hpp"

namespace loft::launch {

/// Quantizes the lines of a tile whose blocks have one row. The tile begins at row `top` and column `left` of the output.
/// All threads work on all lines, those outside too, because lanes exchange; what is outside is not stored.
template <bool Down, class Layout, class Operand, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void quantize_lines(staged_tile<T, Rows, Cols> tile, tile_output<Operand> const& to,
                                            std::int64_t top, std::int64_t left) noexcept {
  using format = typename Operand::format;
  constexpr int count = tile_values_a_lane<Operand>, bits = format::element::spec.bits(), cols = format::shape.cols;
  constexpr int lines = Down ? Cols : Rows, length = Down ? Rows : Cols;
  constexpr int lanes = detail::max(1, cols / count), blocks = lane_codes<format, count>::blocks;
  constexpr int width = detail::min(cols, count);
  lane_group<detail::max(1, tile_run<Operand> / count)> const group;
  Operand how = to.how;
  if (to.from.seed != nullptr) take_seed(how, to.from.seed);
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
  [[maybe_unused]] constexpr int together = bits > 6 ? 2 : 1;  // short pieces of work, of which two hide each other's waits
#if defined(__clang__)
#pragma unroll 1  // clang does not unroll loops of unknown length in which lanes exchange
#else
#pragma unroll together
#endif
  for (int line = start; line < lines; line += step) {
    auto const values = tile_values<Down, count>(tile, line, first);
    auto const result = quantize_loaded<Operand, count>(values, valid, how, t, index, group);
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
template <bool Down, class Layout, bool Kept, class Operand, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void encode_lines(staged_tile<T, Rows, Cols> tile, block_table<Operand, Rows, Cols> table,
                                          [[maybe_unused]] kept_codes<Operand::format::element::spec.bits(), Cols> kept,
                                          [[maybe_unused]] held_parts<Operand, T> const& mine,
                                          quantized_view<typename Operand::format> out, Operand const& how,
                                          tensor_scale t, std::int64_t top, std::int64_t left) noexcept {
  using format = typename Operand::format;
  constexpr int count = tile_values_a_lane<Operand>, bits = format::element::spec.bits();
  constexpr int lines = Down ? Cols : Rows, length = Down ? Rows : Cols;
  constexpr int wide = format::shape.cols, tall = format::shape.rows, across = Cols / wide;
  constexpr int part = detail::min(wide, count);
  lane_group<detail::max(1, tile_run<Operand> / count)> const group;
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
  for (int i = 0; i < held_parts<Operand, T>::parts; ++i) {
    int const line = start + i * step;
    auto const encode = [&, first = first](auto const& values) {
      bool const stored = line < lines_inside && valid != 0;
      std::uint32_t words[count * bits / 32];
      for (int at = 0; at < count; at += part) {
        int const place = (first + at) / wide;
        auto const scale =
            Down ? table.scales[place * across + line / wide] : table.scales[line / tall * across + place];
        detail::encode_words<Operand, part>(values, at, scale, (first + at) % wide, how, t,
                                            index + static_cast<unsigned>(at), words + at * bits / 32);
        if (stored && (first + at) % wide == 0 && at < valid && (Layout::repeats_rows || line % tall == 0))
          out.scales[detail::scale_index<format, Layout>(top + line, (left + first + at) / wide, out.cols)] = scale;
      }
      if (stored) store_codes<bits>(codes, words, valid, whole);
      if constexpr (Kept) kept.template put<count>(line, first, words);
    };
    auto const prepared = [&](auto const& values) {
      if constexpr (detail::rotates<Operand> || Operand::policy == nonfinite::saturate)
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

/// True where the transpose's codes are those of the rows: one operand on squares, no random words, whole words of codes.
template <class First, class Second>
inline constexpr bool keeps_codes = [] {
  if constexpr (std::is_void_v<Second> || tile_block_rows<First> == 1) return false;
  else
    return !detail::has_words<std::remove_cvref_t<decltype(First{}.rounding)>> &&
           32 % First::format::element::spec.bits() == 0;
}();

/// The shared memory that the kernel below asks for.
template <class First, class Second, class T>
inline constexpr int tile_bytes = [] {
  using one = typename operand_of<First>::type;
  using tile = staged_tile<T, tile_tuning::rows, tile_tuning::cols>;
  if constexpr (tile_block_rows < one >> 1) {
    using kept = kept_codes<one::format::element::spec.bits(), tile_tuning::cols>;
    int const table = block_table<one, tile_tuning::rows, tile_tuning::cols>::bytes;
    return tile::bytes + table + (keeps_codes<one, typename operand_of<Second>::type> ? kept::bytes : 0);
  } else {
    return tile::bytes;
  }
}();

/// Quantizes one tile of a view along its rows, and with a second output also along its columns. Blocks of several rows
/// are square where there are two outputs, and both have the same operand.
template <class First, class Second, class T, class Layout>
__global__ void __launch_bounds__(tile_tuning::threads) quantize_tiles(tile_arguments<First, Second, T> const a) {
  using one = typename operand_of<First>::type;
  using two = typename operand_of<Second>::type;
  static_assert(fits_a_tile<one, two>, "kernels work on blocks and rotations whose lengths divide 128");
  constexpr int rows = tile_tuning::rows, cols = tile_tuning::cols, threads = tile_tuning::threads;
  extern __shared__ u32x4 loft_shared[];
  staged_tile<T, rows, cols> tile{};
  tile.data = reinterpret_cast<T*>(loft_shared);
  std::uint32_t const down = block_index() / a.tiles_across, across = block_index() - down * a.tiles_across;
  std::int64_t const top = std::int64_t{down} * rows, left = std::int64_t{across} * cols;
  stage<threads>(tile, a.in, top, left, a.wide);
  sync_threads();
  if constexpr (tile_block_rows<one> == 1) {
    quantize_lines<false, Layout>(tile, a.rows_out, top, left);
    if constexpr (!std::is_void_v<two>) quantize_lines<true, Layout>(tile, a.cols_out, left, top);
  } else {
    using table_type = block_table<one, rows, cols>;
    auto* const behind = reinterpret_cast<unsigned char*>(loft_shared) + decltype(tile)::bytes;
    table_type table{};  // filled in below: clang makes a constant of shared addresses that ptxas refuses
    table.maxima = reinterpret_cast<std::uint32_t*>(behind);
    table.scales = reinterpret_cast<typename table_type::scale_code*>(behind + table_type::maxima_bytes);
    one how = a.rows_out.how;
    if (a.rows_out.from.seed != nullptr) take_seed(how, a.rows_out.from.seed);
    tensor_scale t = a.rows_out.from.scale != nullptr ? *a.rows_out.from.scale : a.rows_out.t;
    held_parts<one, T> mine;
    find_maxima(tile, table, how, mine);
    sync_threads();
    choose_scales(tile, table, how, t, a.in, top, left);
    sync_threads();
    constexpr bool keeps = keeps_codes<one, two> && std::is_same_v<Layout, row_major>;
    kept_codes<one::format::element::spec.bits(), cols> kept{};
    kept.data = reinterpret_cast<std::uint32_t*>(behind + table_type::bytes);
    encode_lines<false, Layout, keeps>(tile, table, kept, mine, a.rows_out.out, how, t, top, left);
    if constexpr (!std::is_void_v<two>) {
      if constexpr (keeps) {
        bool const whole = top + rows <= a.in.rows && left + cols <= a.in.cols &&
                           codes_are_wide(a.cols_out.out.codes, packed_bytes<typename one::format::element>(a.in.rows));
        if (whole) {
          sync_threads();
          write_transposed(kept, table, a.cols_out.out, left, top);
          return;
        }
      }
      how.rounding = a.cols_out.how.rounding;
      if (a.cols_out.from.seed != nullptr) take_seed(how, a.cols_out.from.seed);
      encode_lines<true, Layout, false>(tile, table, kept, mine, a.cols_out.out, how, t, left, top);
    }
  }
}

}  // namespace loft::launch

#endif
