// SPDX-License-Identifier: Apache-2.0
// Where a lane's values come from, and where its codes and scales go: the FragmentSource concept, its model for global
// memory, what every kernel that quantizes does with a fragment, and its outputs.
// Source: design section 2 (data through one block), section 6, decisions 11 and 12.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/block/reseed.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/tensor/quantized.hpp"
#include "loft/tensor/view.hpp"

namespace loft::gpu {

/// A fragment is what one lane holds of a line of an operand: `count` neighbours, as detail::lane_values. A source
/// hands out the fragments of a lane, values(i) one after the other. `is_rotated`: the operand's rotation is done
/// already. The models: loaded_fragments (global memory), tile_lines (rows or columns of a tile in shared memory),
/// kept_fragments (registers, from one phase of a kernel to the next), team_row (a row that a block of threads rotates
/// together).
template <class S>
concept FragmentSource = requires(S const source, int i) {
  { S::count } -> std::convertible_to<int>;
  { S::is_rotated } -> std::convertible_to<bool>;
  source.values(i);
};

/// What registers hold of a number in memory: bfloat16 as it is, a float of all else.
template <class T> using register_number = std::conditional_t<std::is_same_v<T, bf16_t>, bf16_t, float>;
template <class T, int Count> using fragment = detail::lane_values<register_number<T>, Count>;

template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float to_register_float(T x) noexcept {
  if constexpr (std::is_same_v<T, float>) return x;
  else return detail::decode_number<typename T::format>(x.bits());
}

template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t bits_of(T x) noexcept {
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
template <class T, int Count, int N> struct loaded_fragments {
  static constexpr int count = Count;
  static constexpr bool is_rotated = false;
  static constexpr int in_word = 4 / static_cast<int>(sizeof(T)), size = Count / in_word;
  std::uint32_t words[N][size] = {};

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

// ---- outputs

/// True for operands whose rounding or rule draws random words, those of values or those of blocks.
template <class O> inline constexpr bool draws_words = requires(O how) { how.rounding.seed; }
|| requires(O how) { how.rule.seed; };
/// True for those, and for operands whose rotation has random signs: reseed changes them.
template <class O> inline constexpr bool has_seed = draws_words<O> || requires(O how) { how.rotation.seed; };

/// An operand or a rotation with the seed and stream of device memory; `seed` is null where the call gave them.
template <class O> LOFT_HOST_DEVICE inline O with_seed(O how, [[maybe_unused]] std::uint64_t const* seed) noexcept {
  if constexpr (has_seed<O> || requires { how.seed; }) {
    if (seed == nullptr) return how;
    how = reseed(how, seed[0], seed[1]);
    if constexpr (requires { how.rounding.make_keys(); }) how.rounding.make_keys();
  }
  return how;
}

/// A tensor that is quantized to, and how. Pointers into device memory are read when the kernel runs, so that a
/// captured graph can be replayed with other numbers; null says that those of the call hold.
template <class O, ScaleLayout L> struct quantized_output {
  quantized_view<typename O::format, L> view;
  O how;
  tensor_scale t;
  std::uint64_t const* seed = nullptr;  ///< (seed, stream) for reseed
  tensor_scale const* scale = nullptr;

  LOFT_HOST_DEVICE O operand() const noexcept { return with_seed(how, seed); }
  LOFT_HOST_DEVICE tensor_scale scale_of_tensor() const noexcept { return scale != nullptr ? *scale : t; }
};
/// In the place of a second output where there is none.
struct no_output {};

template <class Output> struct operand_of { using type = void; };
template <class O, ScaleLayout L> struct operand_of<quantized_output<O, L>> { using type = O; };

/// Stores the first `count` codes of a fragment; the bits behind them are zero up to the end of the byte. `whole`: all
/// codes are there, at an address that store_words takes.
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
/// True for tensors whose rows of codes start at multiples of 16 bytes.
LOFT_HOST_DEVICE inline bool codes_are_wide(std::uint8_t const* codes, std::int64_t row_bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(codes) % 16 == 0 && row_bytes % 16 == 0;
}

/// Where a lane's fragment goes: `Count` columns from (row, col) on, of which `valid` are in the tensor. Blocks have
/// powers of two for rows and columns, and col is a multiple of Count or of a block.
template <BlockFormat B, ScaleLayout L, int Count> struct output_cursor {
  static constexpr int bits = B::element::spec.bits(), wide = B::shape.cols, tall = B::shape.rows;
  static constexpr int blocks = lane_codes<B, Count>::blocks, part = detail::min(wide, Count);

  quantized_view<B, L> out;
  std::int64_t row, col, row_bytes;
  int valid;
  bool whole;
  std::uint8_t* codes;
  std::uint64_t index;              ///< of the fragment's first value
  code<typename B::scale>* scales;  ///< of the fragment's first block, where rows of scales are a constant apart
  static constexpr bool steps_scales = std::is_same_v<L, row_major> && tall == 1;

  LOFT_HOST_DEVICE output_cursor(quantized_view<B, L> const& view, std::int64_t at_row, std::int64_t at_col,
                                 int values) noexcept
      : out{view},
        row{at_row},
        col{at_col},
        row_bytes{packed_bytes<typename B::element>(view.cols)},
        valid{values},
        whole{values == Count && codes_are_wide(view.codes, row_bytes)},
        codes{view.codes + at_row * row_bytes + at_col * bits / 8},
        index{static_cast<std::uint64_t>(at_row * view.cols + at_col)},
        scales{view.scales + (steps_scales ? grid().place(at_row, at_col / wide) : 0)} {}

  LOFT_HOST_DEVICE detail::scale_grid<B, L> grid() const noexcept { return {out.rows, out.cols}; }

  LOFT_HOST_DEVICE void go_down(int rows) noexcept {
    row += rows;
    codes += rows * row_bytes;
    index += static_cast<std::uint64_t>(rows * out.cols);
    if constexpr (steps_scales) scales += rows * grid().cols;
  }
  /// Stores the codes, and the scale of each block whose first element, or with a layout that repeats rows whose first
  /// column, is in the fragment.
  LOFT_HOST_DEVICE void store(lane_codes<B, Count> const& result) const noexcept {
    store_codes<bits>(codes, result.words, valid, whole);
    if (!L::repeats_rows && static_cast<unsigned>(row) % tall != 0) return;
    if (part < wide && static_cast<unsigned>(col) % wide != 0) return;
    for (int b = 0; b < blocks && b * part < valid; ++b) {
      if constexpr (steps_scales) scales[b] = result.scales[b];
      else out.scales[grid().place(row, col / wide + b)] = result.scales[b];
    }
  }
};

}  // namespace loft::gpu
