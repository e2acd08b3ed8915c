// SPDX-License-Identifier: Apache-2.0
// A tile of a matrix in shared memory: read once, whatever its strides, and handed to lanes along its rows or its
// columns. Source: design section 6, decision 11.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/fragments.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/tensor/view.hpp"

namespace loft::gpu {

/// Rows and columns of a tile: whole blocks and runs of both outputs, and whole sectors of memory in both directions.
/// fewer_rows: where shared memory has no room for more; blocks that are taller are staged slab by slab.
struct tile_tuning {
  static constexpr int threads = 256, rows = 128, cols = 128, fewer_rows = 64;
};

/// A tile in shared memory, in groups of sixteen bytes. Rows of 16-bit numbers end with a group more, so that
/// neighbouring rows lie in different banks. The place of a group in its row is the same for `swizzle` neighbouring
/// rows, and differs for the next ones, so that one column of them lies in different banks, too.
template <class T, int Rows, int Cols> struct staged_tile {
  static constexpr int group = 16 / static_cast<int>(sizeof(T)), swizzle = 16;
  static constexpr int pitch = Cols + (sizeof(T) == 2 ? group : 0);
  static constexpr int bytes = Rows * pitch * static_cast<int>(sizeof(T));
  T* data;

  LOFT_HOST_DEVICE T* group_at(int row, int col) const noexcept {
    auto const r = static_cast<unsigned>(row), c = static_cast<unsigned>(col);
    return data + r * pitch + (c / group ^ r / swizzle % 8) * group;
  }
  LOFT_HOST_DEVICE T& at(int row, int col) const noexcept {
    return group_at(row, col)[static_cast<unsigned>(col) % group];
  }
};

/// Sixteen bytes as numbers.
template <class T> struct alignas(16) quad { T values[16 / sizeof(T)]; };

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

/// Value i of a fragment; of a pair of bfloat16 the first one comes first.
template <class T, class V> LOFT_HOST_DEVICE inline void put_value(V& to, int i, T number) noexcept {
  if constexpr (!std::is_same_v<T, bf16_t>) to.values[i] = to_register_float(number);
  else if (i % 2 == 0) to.words[i / 2] = number.bits();
  else to.words[i / 2] = native::choose_bytes(to.words[i / 2], number.bits(), 0x5410);
}

/// The fragments of a thread in a tile: `Count` neighbours of its rows, or with Down of its columns, always at the same
/// place of a line, and `step` lines apart. Neighbouring threads have neighbouring fragments, whose codes and scales
/// are neighbours in memory.
template <bool Down, int Count, class T, int Rows, int Cols> struct tile_lines {
  static constexpr int count = Count, lines = Down ? Cols : Rows, length = Down ? Rows : Cols;
  static constexpr bool is_rotated = false;
  static constexpr int step = tile_tuning::threads * Count / length;
  staged_tile<T, Rows, Cols> tile;
  int start, first;  ///< the first line, and the place of the fragments in theirs

  LOFT_HOST_DEVICE explicit tile_lines(staged_tile<T, Rows, Cols> of) noexcept : tile{of} {
    constexpr unsigned in_line = length / Count;
    auto const unit = static_cast<unsigned>(thread_index());
    start = static_cast<int>(unit / in_line);
    first = static_cast<int>(unit % in_line * Count);
  }
  LOFT_HOST_DEVICE int line(int i) const noexcept { return start + i * step; }

  LOFT_HOST_DEVICE fragment<T, Count> values(int i) const noexcept {
    constexpr int group = staged_tile<T, Rows, Cols>::group, swizzle = staged_tile<T, Rows, Cols>::swizzle;
    fragment<T, Count> result;
    if constexpr (!Down && Count % group == 0 && sizeof(T) > 1) {
      for (int k = 0; k < Count; k += group) {
        u32x4 const four = *reinterpret_cast<u32x4 const*>(tile.group_at(line(i), first + k));
        std::uint32_t const raw[4] = {four.x, four.y, four.z, four.w};
        put_words<T, group, Count>(result, k, raw);
      }
    } else if constexpr (Down && Count % swizzle == 0) {
      // One address for rows that are a constant apart.
      for (int top = 0; top < Count; top += swizzle) {
        T const* const column = &tile.at(first + top, line(i));
        for (int k = 0; k < swizzle; ++k) put_value(result, top + k, column[k * staged_tile<T, Rows, Cols>::pitch]);
      }
    } else {
      for (int k = 0; k < Count; ++k)
        put_value(result, k, Down ? tile.at(first + k, line(i)) : tile.at(line(i), first + k));
    }
    return result;
  }
};

}  // namespace loft::gpu
