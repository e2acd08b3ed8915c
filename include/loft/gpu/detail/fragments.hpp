// SPDX-License-Identifier: Apache-2.0
// Where a lane's values come from: the FragmentSource concept, its model for global memory, and what every kernel that
// quantizes does with a fragment. Source: design section 2 (data through one block) and section 6.
#ifndef LOFT_GPU_DETAIL_FRAGMENTS_HPP
#define LOFT_GPU_DETAIL_FRAGMENTS_HPP

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/tensor/view.hpp"

namespace loft::gpu {

/// A fragment is what one lane holds of a line of an operand: `count` neighbours, as detail::lane_values. A source hands
/// out the fragments of a lane, values(i) one after the other. `is_rotated`: the operand's rotation is done already.
/// The models: loaded_fragments (global memory), tile_lines (rows or columns of a tile in shared memory), kept_fragments
/// (registers, from one phase of a kernel to the next), team_row (a row that a block of threads rotates together).
template <class S>
concept FragmentSource = requires(S const source, int i) {
  { S::count } -> std::convertible_to<int>;
  { S::is_rotated } -> std::convertible_to<bool>;
  source.values(i);
};

/// What registers hold of a number in memory: bfloat16 as it is, a float of all else.
template <class T>
using register_number = std::conditional_t<std::is_same_v<T, bf16_t>, bf16_t, float>;
template <class T, int Count>
using fragment = detail::lane_values<register_number<T>, Count>;

template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float to_register_float(T x) noexcept {
  if constexpr (std::is_same_v<T, float>) return x;
  else return detail::decode_number<typename T::format>(x.bits());
}

template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t bits_of(T x) noexcept {
  if constexpr (std::is_same_v<T, float>) return bit_cast<std::uint32_t>(x);
  else return x.bits();
}

/// Values [first, first + N) of a fragment from the words that they fill in memory.
template <class T, int N, int Count>
LOFT_HOST_DEVICE inline void put_words(fragment<T, Count>& to, int first, std::uint32_t const* words) noexcept {
  constexpr int in_word = 4 / static_cast<int>(sizeof(T)), bits = 32 / in_word;
  for (int i = 0; i < N; ++i) {
    std::uint32_t const word = words[i / in_word];
    if constexpr (std::is_same_v<T, bf16_t>) to.words[(first + i) / 2] = word;
    else if constexpr (std::is_same_v<T, float>) to.values[first + i] = bit_cast<float>(word);
    else
      to.values[first + i] =
          to_register_float(T::from_bits(static_cast<code<typename T::format>>(word >> i % in_word * bits)));
  }
}

/// Up to N fragments of a row in global memory, as words while their loads are on their way.
template <class T, int Count, int N>
struct loaded_fragments {
  static constexpr int count = Count;
  static constexpr bool is_rotated = false;
  static constexpr int in_word = 4 / static_cast<int>(sizeof(T)), size = Count / in_word;
  std::uint32_t words[N][size];

  /// in: an address that is a multiple of 16.
  [[gnu::always_inline]] LOFT_HOST_DEVICE void load(int i, T const* from) noexcept {
    for (int k = 0; k < size; k += 4) {
      u32x4 const four = load_16(from + k * in_word);
      words[i][k] = four.x, words[i][k + 1] = four.y, words[i][k + 2] = four.z, words[i][k + 3] = four.w;
    }
  }
  /// The first `valid` values from (row, col) on, and zeros behind them. Wide: all or none, at a multiple of 16 bytes.
  template <bool Wide>
  LOFT_HOST_DEVICE void load(int i, matrix_view<T const> in, std::int64_t row, std::int64_t col, int valid) noexcept {
    clear(i);
    if constexpr (Wide) {
      if (valid > 0) load(i, &in(row, col));
    } else {
      for (int k = 0; k < Count; ++k)
        if (k < valid) words[i][k / in_word] |= bits_of(in(row, col + k)) << k % in_word * (32 / in_word);
    }
  }
  [[gnu::always_inline]] LOFT_HOST_DEVICE void clear(int i) noexcept {
    for (std::uint32_t& word : words[i]) word = 0;
  }
  [[gnu::always_inline]] LOFT_HOST_DEVICE fragment<T, Count> values(int i) const noexcept {
    fragment<T, Count> result;
    put_words<T, Count, Count>(result, 0, words[i]);
    return result;
  }
};

/// Fragment i as the operand sees it: rotated, and without what is not finite where the operand says so.
template <class O, FragmentSource S, LaneGroup G>
[[gnu::always_inline]] LOFT_HOST_DEVICE inline auto prepared_values(S const& source, int i, O const& how,
                                                                    G const& group) noexcept {
  if constexpr (S::is_rotated) return source.values(i);
  else return detail::prepare(source.values(i), how, group);
}

/// The codes and scales of fragment i, of which `valid` values are in the tensor; `index` is that of the first.
template <class O, FragmentSource S, LaneGroup G>
[[gnu::always_inline]] LOFT_HOST_DEVICE inline lane_codes<typename O::format, S::count> quantize_fragment(
    S const& source, int i, int valid, O const& how, tensor_scale t, std::uint64_t index, G const& group) noexcept {
  auto const values = prepared_values(source, i, how, group);
  return detail::quantize_prepared<O, S::count>(values, valid, how, t, index, group);
}

}  // namespace loft::gpu

#endif
