// SPDX-License-Identifier: Apache-2.0
// The codes of square blocks turned into those of the transpose, in registers and shared memory, without encoding
// twice. Source: design section 3: codes and scales of the transpose of square blocks are the transposed ones.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/block_table.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/staged_tile.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// A staging buffer in shared memory for the codes of a tile, from which they are written as columns. It holds squares
/// of 8 x 8 nibbles or 4 x 4 bytes; the words of one column of squares lie in different banks.
template <class O, int Rows, int Cols> struct transposed_codes {
  static constexpr int side = 32 / O::format::element::spec.bits(), pitch = Cols / side;
  static constexpr int bytes = Rows * pitch * 4;
  std::uint32_t* data;

  LOFT_HOST_DEVICE std::uint32_t& at(unsigned line, unsigned word) const noexcept {
    return data[line * pitch + (word ^ line / side % 16)];
  }
  template <int Count> LOFT_HOST_DEVICE void put(int line, int first, std::uint32_t const* words) const noexcept {
    for (int i = 0; i < Count / side; ++i)
      at(static_cast<unsigned>(line), static_cast<unsigned>(first / side + i)) = words[i];
  }
};

/// Transposes a square of nibbles or bytes: word i has row i before and column i after.
template <int Bits> LOFT_HOST_DEVICE constexpr void transpose_square(std::uint32_t* words) noexcept {
  constexpr int side = 32 / Bits;
  auto const both = [&](int distance, auto exchange) {
    for (int i = 0; i < side; ++i)
      if ((i & distance) == 0) exchange(words[i], words[i + distance]);
  };
  both(side / 2, [](std::uint32_t& a, std::uint32_t& b) {
    std::uint32_t const low = native::choose_bytes(a, b, 0x5410);
    b = native::choose_bytes(a, b, 0x7632);
    a = low;
  });
  both(side / 4, [](std::uint32_t& a, std::uint32_t& b) {
    std::uint32_t const low = native::choose_bytes(a, b, 0x6240);
    b = native::choose_bytes(a, b, 0x7351);
    a = low;
  });
  if constexpr (Bits == 4)
    both(1, [](std::uint32_t& a, std::uint32_t& b) {
      std::uint32_t const low = (a & 0x0f0f'0f0fu) | (b << 4 & 0xf0f0'f0f0u);
      b = (a >> 4 & 0x0f0f'0f0fu) | (b & 0xf0f0'f0f0u);
      a = low;
    });
}

/// From `Side` words in each of four neighbouring lanes, which are rows of words, to Side / 4 columns of four words in
/// each: word 4 i + k becomes word (Side / 4) lane + i of lane k. All lanes call.
template <int Side> LOFT_HOST_DEVICE inline void gather_columns(std::uint32_t* words) noexcept {
  int const lane = native::lane_index() % 4;
  // Lanes two apart, then neighbours, each keep one half of what they have and give the other.
  std::uint32_t halves[Side];
  bool const high = (lane & 2) != 0;
  for (int i = 0; i < Side / 2; ++i) {
    std::uint32_t const keep = high ? words[Side / 2 + i] : words[i];
    std::uint32_t const got = native::exchange(high ? words[i] : words[Side / 2 + i], 2);
    halves[2 * i] = high ? got : keep;  // the lower lane's word first
    halves[2 * i + 1] = high ? keep : got;
  }
  bool const odd = (lane & 1) != 0;
  for (int i = 0; i < Side / 4; ++i) {
    for (int k = 0; k < 2; ++k) {
      std::uint32_t const low = halves[2 * i + k], up = halves[2 * (Side / 4 + i) + k];
      std::uint32_t const keep = odd ? up : low, got = native::exchange(odd ? low : up, 1);
      words[4 * i + 2 * k] = odd ? got : keep;
      words[4 * i + 2 * k + 1] = odd ? keep : got;
    }
  }
}

/// The codes and scales of the transpose of a whole tile from those of its rows, whose scales stand once. A
/// thread has one square at a time, its neighbours those below, so that they write neighbours.
template <class O, ScaleLayout L, int Rows, int Cols>
LOFT_HOST_DEVICE inline void write_transposed(transposed_codes<O, Rows, Cols> waiting, block_table<O, Rows, Cols> table,
                                              quantized_view<typename O::format, L> out, std::int64_t top,
                                              std::int64_t left) noexcept {
  using format = typename O::format;
  constexpr int bits = format::element::spec.bits(), side = 32 / bits, down = Rows / side;
  constexpr int wide = format::shape.cols, across = Cols / wide, along = detail::max(1, Rows / wide);
  std::int64_t const row_bytes = packed_bytes<typename format::element>(out.cols);
  for (int unit = thread_index(); unit < down * (Cols / side); unit += tile_tuning::threads) {
    int const below = unit % down, beside = unit / down;
    std::uint32_t words[side];
    for (int i = 0; i < side; ++i)
      words[i] = waiting.at(static_cast<unsigned>(below * side + i), static_cast<unsigned>(beside));
    transpose_square<bits>(words);
    // Four neighbours bring the words of one column together: side / 4 columns for each of them.
    gather_columns<side>(words);
    std::uint8_t* const to = out.codes + (top + beside * side + unit % 4 * (side / 4)) * row_bytes +
                             (left + below / 4 * 4 * side) * bits / 8;
    for (int i = 0; i < side / 4; ++i) {
      std::uint32_t const column[4] = {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
      store_words(to + i * row_bytes, column);
    }
  }
  detail::scale_grid<format, L> const grid{out.rows, out.cols};
  for (int i = thread_index(); i < across * along; i += tile_tuning::threads) {
    int const line = i / along * wide, place = i % along;
    out.scales[grid.place(top + line, left / wide + place)] = table.scales[place * across + line / wide];
  }
}

}  // namespace loft::gpu
