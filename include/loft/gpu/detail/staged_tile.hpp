// SPDX-License-Identifier: Apache-2.0
// A tile of a matrix in shared memory: read once, whatever its strides, and handed to lanes along its rows or its
// columns. Source: design section 6, decision 11.
#ifndef LOFT_GPU_DETAIL_STAGED_TILE_HPP
#define LOFT_GPU_DETAIL_STAGED_TILE_HPP

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// One of the two things that a tile is quantized to: along the rows of the view, or along its columns, which is the
/// quantized transpose. Nothing: no second output.
template <class O>
struct tile_output {
  quantized_view<typename O::format> out;
  O how;
  tensor_scale t;
  device_inputs from;
};
struct nothing {};

template <class Output>
struct operand_of {
  using type = void;
};
template <class O>
struct operand_of<tile_output<O>> {
  using type = O;
};

/// The columns that belong together: a block, a run of the rotation, a group of corrected scales.
template <class O>
inline constexpr int tile_run = detail::least_common_multiple(
    detail::least_common_multiple(O::format::shape.cols, detail::rotation_size<O>),
    detail::correction_group<O>);
template <>
inline constexpr int tile_run<void> = 1;
template <class O>
inline constexpr int tile_block_rows = O::format::shape.rows;
template <>
inline constexpr int tile_block_rows<void> = 1;

/// The values that a thread works on at once: sixteen bytes of codes, so that neighbouring threads write whole lines of
/// memory; whole blocks for rules that look at more than a maximum, or measure errors.
template <class O>
inline constexpr int tile_values_a_lane = detail::has_statistic<O> || detail::has_candidates<O>
                                              ? tile_run<O>
                                              : (O::format::element::spec.bits() > 6 ? 16 : 32);

/// Rows and columns of a tile: whole blocks and runs of both outputs, and whole sectors of memory in both directions.
/// fewer_rows: where shared memory has no room for more; blocks that are taller are staged piece by piece.
struct tile_tuning {
  static constexpr int threads = 256, rows = 128, cols = 128, fewer_rows = 64;
};
template <class First, class Second>
inline constexpr bool fits_a_tile =
    tile_tuning::cols % tile_run<First> == 0 && tile_tuning::rows % tile_run<Second> == 0 &&
    tile_tuning::rows % tile_block_rows<First> == 0;

/// A part of a line of a tile, for one thread. Neighbouring threads have neighbouring parts, whose codes and scales are
/// neighbours in memory.
struct tile_part {
  int line, first;
};
template <int Count, int Length>
LOFT_HOST_DEVICE inline tile_part part_of() noexcept {
  constexpr unsigned pieces = Length / Count;
  auto const unit = static_cast<unsigned>(thread_index());
  return {static_cast<int>(unit / pieces), static_cast<int>(unit % pieces * Count)};
}

/// A tile in shared memory, in groups of sixteen bytes. Rows of 16-bit numbers end with a group more, so that
/// neighbouring rows lie in different banks; the place of a group in its row depends on the band of rows, so that the
/// same column of neighbouring bands does, too, and is the same for all rows of a band.
template <class T, int Rows, int Cols>
struct staged_tile {
  static constexpr int group = 16 / static_cast<int>(sizeof(T)), band = 16;
  static constexpr int pitch = Cols + (sizeof(T) == 2 ? group : 0);
  static constexpr int bytes = Rows * pitch * static_cast<int>(sizeof(T));
  T* data;

  LOFT_HOST_DEVICE T* group_at(int row, int col) const noexcept {
    auto const r = static_cast<unsigned>(row), c = static_cast<unsigned>(col);
    return data + r * pitch + (c / group ^ r / band % 8) * group;
  }
  LOFT_HOST_DEVICE T& at(int row, int col) const noexcept {
    return group_at(row, col)[static_cast<unsigned>(col) % group];
  }
};

/// Sixteen bytes as numbers.
template <class T>
struct alignas(16) quad {
  T values[16 / sizeof(T)];
};

/// Copies a tile of `in` whose first element is (row, col); what lies outside of `in` becomes zero. `wide`: sixteen
/// bytes can be read at once along the contiguous direction.
template <int Threads, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline void stage(staged_tile<T, Rows, Cols> tile, matrix_view<T const> in, std::int64_t row,
                                   std::int64_t col, bool wide) noexcept {
  constexpr int group = staged_tile<T, Rows, Cols>::group, groups = Rows * Cols / group / Threads;
  T const* const from = in.data + row * in.row_stride + col * in.col_stride;
  bool const whole = row + Rows <= in.rows && col + Cols <= in.cols;
  if (wide && whole && in.col_stride == 1) {
#pragma unroll 8
    for (int k = 0; k < groups; ++k) {
      int const i = k * Threads + thread_index(), r = i / (Cols / group), c = i % (Cols / group) * group;
      *reinterpret_cast<u32x4*>(tile.group_at(r, c)) = load_16(from + r * in.row_stride + c);
    }
    return;
  }
  if (wide && whole) {
#pragma unroll 2
    for (int k = 0; k < groups; ++k) {
      // Neighbouring threads read neighbouring rows, which are contiguous here.
      int const i = k * Threads + thread_index(), r = i % (Rows / group) * group, c = i / (Rows / group);
      auto const numbers = bit_cast<quad<T>>(load_16(from + c * in.col_stride + r));
      for (int n = 0; n < group; ++n) tile.at(r + n, c) = numbers.values[n];
    }
    return;
  }
  bool const along_rows = in.row_stride == 1;
  for (int i = thread_index(); i < Rows * Cols; i += Threads) {
    int const r = along_rows ? i % Rows : i / Cols, c = along_rows ? i / Rows : i % Cols;
    bool const inside = row + r < in.rows && col + c < in.cols;
    tile.at(r, c) = inside ? from[r * in.row_stride + c * in.col_stride] : T{};
  }
}

/// Value i of a lane; of a pair of bfloat16 the first one comes first.
template <class T, class V>
LOFT_HOST_DEVICE inline void store_number(V& to, int i, T number) noexcept {
  if constexpr (!std::is_same_v<T, bf16_t>) to.values[i] = to_lane_float(number);
  else if (i % 2 == 0) to.words[i / 2] = number.bits();
  else to.words[i / 2] = native::choose_bytes(to.words[i / 2], number.bits(), 0x5410);
}

/// `Count` values of a line from `first` on: a row of the tile, or with Down a column.
template <bool Down, int Count, class T, int Rows, int Cols>
LOFT_HOST_DEVICE inline detail::lane_values<held<T>, Count> tile_values(staged_tile<T, Rows, Cols> tile, int line,
                                                                        int first) noexcept {
  constexpr int group = staged_tile<T, Rows, Cols>::group;
  detail::lane_values<held<T>, Count> result;
  if constexpr (!Down && Count % group == 0 && sizeof(T) > 1) {
    for (int i = 0; i < Count; i += group) {
      u32x4 const four = *reinterpret_cast<u32x4 const*>(tile.group_at(line, first + i));
      std::uint32_t const raw[4] = {four.x, four.y, four.z, four.w};
      put_words<T, group>(result, i, raw);
    }
  } else if constexpr (Down && Count % staged_tile<T, Rows, Cols>::band == 0) {
    // One address for each band, whose rows are a constant apart.
    constexpr int band = staged_tile<T, Rows, Cols>::band, pitch = staged_tile<T, Rows, Cols>::pitch;
    for (int top = 0; top < Count; top += band) {
      T const* const column = &tile.at(first + top, line);
      for (int i = 0; i < band; ++i) store_number(result, top + i, column[i * pitch]);
    }
  } else {
    for (int i = 0; i < Count; ++i) store_number(result, i, Down ? tile.at(first + i, line) : tile.at(line, first + i));
  }
  return result;
}

/// Stores the first `count` codes of a lane's words; the bits behind them are zero up to the end of the byte. `whole`:
/// all codes are there, at multiples of 16 bytes.
template <int Bits, int N>
LOFT_HOST_DEVICE inline void store_codes(std::uint8_t* to, std::uint32_t const (&words)[N], int count,
                                         bool whole) noexcept {
  if (whole) {
    store_words(to, words);
    return;
  }
  int bytes = (count * Bits + 7) / 8;
  for (int i = 0; i < N; ++i) {
    std::uint32_t word = words[i];
    for (int k = 0; k < 4 && bytes > 0; ++k, --bytes, word >>= 8) *to++ = static_cast<std::uint8_t>(word);
  }
}

/// What store_codes asks of a tensor: rows whose codes start at multiples of 16 bytes.
inline bool LOFT_HOST_DEVICE codes_are_wide(std::uint8_t const* codes, std::int64_t row_bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(codes) % 16 == 0 && row_bytes % 16 == 0;
}

}  // namespace loft::gpu

#endif
