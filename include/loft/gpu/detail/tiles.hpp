// SPDX-License-Identifier: Apache-2.0
// The kernel for everything that rows.hpp does not serve: a tile is read once into shared memory, whatever its strides,
// and quantized along its rows, along its columns, or both; blocks of several rows too. Source: design sections 2 and
// 6.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/block_table.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/staged_tile.hpp"
#include "loft/gpu/detail/transposed_codes.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// True where tiles hold whole blocks, runs and groups of corrected scales of these operands; void: no second one.
template <class First, class Second>
inline constexpr bool fits_a_tile =
    tile_tuning::cols % tile_unit<First> == 0 && tile_tuning::rows % tile_unit<Second> == 0 &&
    tile_tuning::rows % block_rows<First> == 0;

/// Where the first of a thread's fragments goes, for a tile that begins at row `top` and column `left` of the output.
template <class Lines, class B, ScaleLayout L>
LOFT_HOST_DEVICE inline output_cursor<B, L, Lines::count> cursor_of(Lines const& lines, quantized_view<B, L> const& out,
                                                                    std::int64_t top, std::int64_t left) noexcept {
  int const inside = static_cast<int>(detail::min<std::int64_t>(lines.length, out.cols - left));
  return {out, top + lines.start, left + lines.first, detail::clamp(inside - lines.first, 0, lines.count)};
}

/// Quantizes the lines of a tile whose blocks have one row. The tile begins at row `top` and column `left` of the
/// output. All threads work on all lines, those outside too, because lanes exchange; what is outside is not stored.
/// Inlined everywhere: else clang 22 leaves a copy of some operands in local memory.
template <bool Down, class O, ScaleLayout L, class T, int Rows, int Cols>
[[gnu::always_inline]] LOFT_HOST_DEVICE inline void quantize_lines(staged_tile<T, Rows, Cols> tile,
                                                                   quantized_output<O, L> const& to, std::int64_t top,
                                                                   std::int64_t left) noexcept {
  constexpr int count = tile_fragment<O>;
  tile_lines<Down, count, T, Rows, Cols> source{tile};
  lane_group<detail::max(1, tile_unit<O> / count)> const group;
  O const how = to.operand();
  tensor_scale const t = to.scale_of_tensor();
  int const lines_inside = static_cast<int>(detail::min<std::int64_t>(source.lines, to.view.rows - top));
  auto at = cursor_of(source, to.view, top, left);
  // Two short iterations side by side hide each other's waits.
  [[maybe_unused]] constexpr int together = O::format::element::spec.bits() > 6 ? 2 : 1;
#if defined(__clang__)
#pragma unroll 1  // clang does not unroll loops of unknown length in which lanes exchange
#else
#pragma unroll together
#endif
  for (; source.start < source.lines; source.start += source.step) {
    auto const result = quantize_fragment(source, 0, at.valid, how, t, at.index, group);
    if (source.start < lines_inside && at.valid != 0) at.store(result);
    at.go_down(source.step);
  }
}

/// Phase three: the codes of one direction with the scales of the table, which go to their places too. With `waiting`
/// the codes are also left in shared memory, from where they are transposed.
template <bool Transposes, FragmentSource S, class O, ScaleLayout L, class T, bool Down, int Count, int Rows, int Cols>
LOFT_HOST_DEVICE inline void encode_lines(S const& source, tile_lines<Down, Count, T, Rows, Cols> const& lines,
                                          block_table<O, Rows, Cols> table,
                                          [[maybe_unused]] transposed_codes<O, Rows, Cols> waiting,
                                          quantized_view<typename O::format, L> out, O const& how, tensor_scale t,
                                          std::int64_t top, std::int64_t left) noexcept {
  using table_type = block_table<O, Rows, Cols>;
  using kept = kept_fragments<O, T, Rows>;
  constexpr int wide = table_type::wide, tall = table_type::tall, part = detail::min(wide, Count);
  lane_group<detail::max(1, tile_unit<O> / Count)> const group;
  int const lines_inside = static_cast<int>(detail::min<std::int64_t>(lines.lines, out.rows - top));
  auto at = cursor_of(lines, out, top, left);
#pragma unroll
  for (int i = 0; i < kept::fragments; ++i) {
    int const line = lines.line(i);
    if (kept::is_beyond(line, lines.lines)) break;
    auto const values = prepared_values(source, i, how, group);
    auto const scale_for = [&](int b) __attribute__((always_inline)) {
      int const place = (lines.first + b * part) / wide;
      return Down ? table.scales[place * table_type::across + line / wide]
                  : table.scales[line / tall * table_type::across + place];
    };
    auto const result =
        detail::encode_prepared<O, Count>(values, Count < wide ? lines.first % wide : 0, how, t, at.index, scale_for);
    if (line < lines_inside && at.valid != 0) at.store(result);
    if constexpr (Transposes) waiting.template put<Count>(line, lines.first, result.words);
    at.go_down(lines.step);
  }
}

template <class First, class Second, class T> struct tile_arguments {
  matrix_view<T const> in;
  First rows_out;
  Second cols_out;
  std::uint32_t tiles_across;
  bool wide;
};

/// True where the transpose is made of the rows' codes: one operand on squares, no random words, whole words of codes,
/// and scales that are stored once.
template <class First, class Second> inline constexpr bool transposes_codes = false;
template <class O, ScaleLayout Rows, ScaleLayout Cols>
inline constexpr bool transposes_codes<quantized_output<O, Rows>, quantized_output<O, Cols>> =
    block_rows<O> > 1 && !Cols::repeats_rows && !detail::has_random_words<detail::rounding_of<O>> &&
    32 % O::format::element::spec.bits() == 0;

/// The shared memory of a tile of so many rows, with what lies behind it.
template <class First, class Second, class T, int Rows>
inline constexpr int tile_bytes = [] {
  using one = typename operand_of<First>::type;
  constexpr int cols = tile_tuning::cols, alone = staged_tile<T, Rows, cols>::bytes;
  constexpr bool transposes = transposes_codes<First, Second>;
  if constexpr (block_rows<one> == 1) return alone;
  else return alone + block_table<one, Rows, cols>::bytes + (transposes ? transposed_codes<one, Rows, cols>::bytes : 0);
}();

/// The rows of a tile where a block of threads may have `Limit` bytes of shared memory.
template <class First, class Second, class T, int Limit>
inline constexpr int tile_rows =
    tile_bytes<First, Second, T, tile_tuning::rows> <= Limit ? tile_tuning::rows : tile_tuning::fewer_rows;

/// The rows of the view that a block of threads has: those of a tile, or of a taller block.
template <class First, int Rows>
inline constexpr int rows_together = detail::max(Rows, block_rows<typename operand_of<First>::type>);

/// Fails to compile where a kernel asks for more shared memory than its target has; the compiler names both numbers.
template <int Bytes, int Limit> struct shared_memory {
  static_assert(Bytes <= Limit, "the kernel needs more bytes of shared memory (the first number) than the target has");
  static constexpr int bytes = Bytes;
};

/// Writes the codes and scales of a slab, whose values are in the tile and in `mine`, and whose scales are in the
/// table.
template <class First, class Second, class T, class O, int Rows, int Cols>
LOFT_HOST_DEVICE inline void encode_slab(tile_arguments<First, Second, T> const& a, staged_tile<T, Rows, Cols> tile,
                                         block_table<O, Rows, Cols> table, std::uint32_t* behind,
                                         kept_fragments<O, T, Rows> const& mine, O how, tensor_scale t,
                                         std::int64_t top, std::int64_t left) noexcept {
  constexpr int count = tile_fragment<O>;
  constexpr bool transposes = transposes_codes<First, Second>;
  transposed_codes<O, Rows, Cols> waiting{};
  waiting.data = behind;
  tile_lines<false, count, T, Rows, Cols> const rows{tile};
  encode_lines<transposes>(mine, rows, table, waiting, a.rows_out.view, how, t, top, left);
  if constexpr (!std::is_same_v<Second, no_output>) {
    auto const& out = a.cols_out.view;
    if constexpr (transposes) {
      bool const whole = top + Rows <= a.in.rows && left + Cols <= a.in.cols &&
                         codes_are_wide(out.codes, packed_bytes<typename O::format::element>(a.in.rows));
      if (whole) {
        sync_threads();
        write_transposed(waiting, table, out, left, top);
        return;
      }
    }
    how.rounding = a.cols_out.how.rounding;
    how = with_seed(how, a.cols_out.seed);
    tile_lines<true, count, T, Rows, Cols> const columns{tile};
    encode_lines<false>(columns, columns, table, waiting, out, how, t, left, top);
  }
}

/// Blocks of several rows: their maxima, their scales, and then their codes. A slab after the first is staged here, and
/// all but the last are staged again, because shared memory holds one at a time.
template <class First, class Second, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void quantize_tall_blocks(tile_arguments<First, Second, T> const& a,
                                                  staged_tile<T, Rows, Cols> tile, std::int64_t top,
                                                  std::int64_t left) noexcept {
  using one = typename operand_of<First>::type;
  using table_type = block_table<one, Rows, Cols>;
  auto* const behind = reinterpret_cast<unsigned char*>(tile.data) + decltype(tile)::bytes;
  table_type table{};  // filled in below: clang makes a constant of shared addresses that ptxas refuses
  table.maxima = reinterpret_cast<std::uint32_t*>(behind);
  table.scales = reinterpret_cast<typename table_type::scale_code*>(behind + table_type::maxima_bytes);
  one const how = a.rows_out.operand();
  tensor_scale const t = a.rows_out.scale_of_tensor();
  kept_fragments<one, T, Rows> mine;
  auto const take = [&](int slab) {
    sync_threads();
    stage<tile_tuning::threads>(tile, a.in, top + slab * Rows, left, a.wide);
    sync_threads();
    find_maxima(tile, table, how, mine, slab * Rows);
  };
  find_maxima(tile, table, how, mine, 0);
  for (int slab = 1; slab < table_type::slabs; ++slab) take(slab);
  sync_threads();
  choose_scales(tile, table, how, t, a.in, top, left);
  sync_threads();
  for (int slab = table_type::slabs - 1;; take(slab)) {
    encode_slab(a, tile, table, reinterpret_cast<std::uint32_t*>(behind + table_type::bytes), mine, how, t,
                top + slab * Rows, left);
    if (--slab < 0) return;
  }
}

/// Quantizes one tile of a view along its rows, and with a second output also along its columns. Blocks of several rows
/// are square where there are two outputs, and both have the same operand.
template <class First, class Second, class T, int Rows>
__global__ void __launch_bounds__(tile_tuning::threads) quantize_tiles(tile_arguments<First, Second, T> const a) {
  using one = typename operand_of<First>::type;
  using two = typename operand_of<Second>::type;
  static_assert(fits_a_tile<one, two> && (block_rows<one> > 1 || Rows % tile_unit<two> == 0),
                "a tile holds whole blocks, runs and groups: launch_any and one_tile_serves look at that before");
  extern __shared__ u32x4 loft_shared[];
  staged_tile<T, Rows, tile_tuning::cols> tile{};
  tile.data = reinterpret_cast<T*>(loft_shared);
  std::uint32_t const down = block_index() / a.tiles_across, across = block_index() - down * a.tiles_across;
  std::int64_t const top = std::int64_t{down} * rows_together<First, Rows>;
  std::int64_t const left = std::int64_t{across} * tile_tuning::cols;
  stage<tile_tuning::threads>(tile, a.in, top, left, a.wide);
  sync_threads();
  if constexpr (block_rows<one> == 1) {
    quantize_lines<false>(tile, a.rows_out, top, left);
    if constexpr (!std::is_void_v<two>) quantize_lines<true>(tile, a.cols_out, left, top);
  } else {
    quantize_tall_blocks(a, tile, top, left);
  }
}

}  // namespace loft::gpu
