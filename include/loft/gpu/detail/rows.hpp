// SPDX-License-Identifier: Apache-2.0
// The kernel for the usual case: rows of whole blocks, quantized by lanes that load and store wide words.
// Source: design sections 2 and 6; 32 bytes a lane and no shared memory reach the speed of a copy on Hopper.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/fragments.hpp"
#include "loft/gpu/detail/grid.hpp"

namespace loft::gpu {

/// Threads of a block of the kernels that walk rows, the values of a fragment, and the bytes that a thread loads ahead.
struct row_tuning {
  static constexpr int threads = 128, values = 16, most_values = 32, bytes_ahead = 128;
};

/// The values of a fragment: whole blocks where the rule looks at a whole block; up to most_values of a run of a
/// rotation, so that few sums cross lanes.
template <class O>
inline constexpr int row_fragment = [] {
  constexpr int wished = detail::rotation_size<O>;
  return detail::has_statistic<O> ? O::format::shape.cols
                                  : detail::clamp(wished, row_tuning::values, row_tuning::most_values);
}();

/// The fragments that a thread loads before it works on the first.
template <class O, class T>
inline constexpr int fragments_ahead = detail::clamp(row_tuning::bytes_ahead /
                                                         (row_fragment<O> * static_cast<int>(sizeof(T))),
                                                     1, 4);

/// The row and the first column of a block of threads that has `width` columns, where a row has `chunks` such blocks.
struct place_in_rows {
  std::int64_t row, col;
};
LOFT_HOST_DEVICE inline place_in_rows place_of_block(std::int64_t rows, std::uint32_t chunks, int width) noexcept {
  std::uint32_t const row = rows == 1 ? 0u : block_index() / chunks;
  return {row, std::int64_t{block_index() - row * chunks} * width};
}

/// The lanes that have to work together: on a block, on a run of the rotation, or on a group of corrected scales.
template <class O, int Count>
inline constexpr int lanes_together = detail::max(
    1, detail::max(detail::max(O::format::shape.cols, detail::rotation_size<O>), detail::correction_group<O>) / Count);

/// A stochastic rounding of lanes whose generator's keys are made once; on the host they are constants of the launch.
template <class R> struct keyed {
  static constexpr int bits = R::bits;
  static constexpr bool starts_with_a_call = row_tuning::values % (128 / bits) == 0;  // a fragment does
  using generator = typename R::generator;
  using given_word = typename R::given_word;
  std::uint64_t seed, stream;
  typename generator::schedule keys;

  LOFT_HOST_DEVICE constexpr void make_keys() noexcept { keys = generator::keys_of(detail::words_of(seed)); }

  template <class W>
  LOFT_HOST_DEVICE constexpr bool up(std::uint32_t lower, W fraction, bool negative,
                                     std::uint64_t index) const noexcept {
    return R{seed, stream}.up(lower, fraction, negative, index);
  }
};

/// The operand with the keys of its rounding, where its generator has some.
template <class B, class Rule, class R, class Rotation, nonfinite N>
constexpr auto with_keys(operand<B, Rule, R, Rotation, N> const& how) noexcept {
  if constexpr (requires {
                  typename R::generator::schedule;
                  how.rounding.seed;
                }) {
    auto const keys = R::generator::keys_of(detail::words_of(how.rounding.seed));
    return operand<B, Rule, keyed<R>, Rotation, N>{
        how.rule, {how.rounding.seed, how.rounding.stream, keys}, how.rotation};
  } else {
    return how;
  }
}

/// True for operands whose threads take several turns and load the values of the next one meanwhile. Where a rotation
/// needs the registers, too, that is slower.
template <class O> inline constexpr bool takes_turns = draws_words<O> && !detail::rotates<O>;

template <class O, class T, ScaleLayout L> struct row_arguments {
  matrix_view<T const> in;
  quantized_output<O, L> to;
  std::uint32_t chunks = 1;  ///< blocks of threads for a row
  int turns = 1;             ///< of fragments_ahead fragments each
};

/// Stores a fragment that begins `offset` values behind element `at` of a tensor whose rows are whole bytes of codes;
/// `row` is the row that it lies in. What is constant of `offset` is added to pointers as a constant.
template <class O, ScaleLayout L, int Count, LaneGroup G>
[[gnu::always_inline]] LOFT_HOST_DEVICE inline void store_in_row(quantized_view<typename O::format, L> const& out,
                                                                 std::int64_t row, std::uint64_t at, int offset,
                                                                 lane_codes<typename O::format, Count> const& result,
                                                                 G const& group) noexcept {
  using format = typename O::format;
  constexpr int bits = format::element::spec.bits(), cols = format::shape.cols;
  constexpr int lanes = detail::max(1, cols / Count), blocks = lane_codes<format, Count>::blocks;
  store_words(out.codes + at * bits / 8 + offset * bits / 8, result.words);
  if (lanes != 1 && group.rank() % lanes != 0) return;
  for (int b = 0; b < blocks; ++b) {
    if constexpr (std::is_same_v<L, row_major>) {
      (out.scales + at / cols)[offset / cols + b] = result.scales[b];
    } else {
      auto const col = static_cast<std::int64_t>(at - static_cast<std::uint64_t>(row * out.cols)) + offset;
      detail::scale_grid<format, L> const grid{out.rows, out.cols};
      out.scales[grid.place(row, col / cols + b)] = result.scales[b];
    }
  }
}

/// What a kernel does with the values of a fragment beside quantizing them: here nothing; norm_lane adds their squares.
struct no_sink {
  template <class V> LOFT_HOST_DEVICE void add(V const&) noexcept {}
};
/// More values than a batch has.
inline constexpr int all_of_batch = 1 << 30;

/// Quantizes the loaded fragments of a row, `Step` values apart from element `at` on, stores those that begin before
/// `left`, and loads the next ones in their place: those from `next` on that begin before `next_left`.
template <int Step, class O, ScaleLayout L, class T, int Count, int N, class Sink, LaneGroup G>
[[gnu::always_inline]] LOFT_HOST_DEVICE inline void quantize_batch(loaded_fragments<T, Count, N>& loads,
                                                                   quantized_view<typename O::format, L> const& out,
                                                                   O const& how, tensor_scale t, std::int64_t row,
                                                                   std::uint64_t at, int left, T const* next,
                                                                   int next_left, Sink& sink, G const& group) noexcept {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    auto const result = quantize_fragment(loads, i, Count, how, t, at + static_cast<unsigned>(i * Step), group);
    sink.add(loads.values(i));
    if (i * Step < left) store_in_row<O>(out, row, at, i * Step, result, group);
    if constexpr (!std::is_same_v<Sink, no_sink>) loads.clear(i);  // what is beyond the end counts as zeros
    if (i * Step < next_left) loads.load(i, next + i * Step);
  }
}

/// Quantizes fragments of one row. A row is a multiple of what the lanes of a group have, so that at its end whole
/// groups are left out. DeviceSeed: the seed is read here; otherwise it is a constant of the launch, and so are all
/// keys made of it.
template <class O, class T, class L, bool DeviceSeed>
__global__ void __launch_bounds__(row_tuning::threads) quantize_rows(row_arguments<O, T, L> const a) {
  constexpr int count = row_fragment<O>, ahead = fragments_ahead<O, T>, step = row_tuning::threads * count;
  lane_group<lanes_together<O, count>> const group;
  int const turns = takes_turns<O> ? a.turns : 1, width = ahead * step * turns;
  auto const place = place_of_block(a.in.rows, a.chunks, width);
  std::int64_t const first = place.col + thread_index() * count;
  O how = a.to.how;
  if constexpr (DeviceSeed) how = a.to.operand();
  tensor_scale const t = a.to.scale_of_tensor();
  T const* from = a.in.data + place.row * a.in.row_stride + first;
  // Everything is counted from the turn's first place: what is added is constant.
  auto at = static_cast<std::uint64_t>(place.row * a.in.cols + first);
  no_sink sink;
  if (ahead > 1 && place.col + width <= a.in.cols) {
    loaded_fragments<T, count, ahead> loads;
#pragma unroll
    for (int i = 0; i < ahead; ++i) loads.load(i, from + i * step);
#pragma unroll 1
    for (int turn = 1;; ++turn) {
      from += ahead * step;
      quantize_batch<step>(loads, a.to.view, how, t, place.row, at, all_of_batch, from, turn < turns ? all_of_batch : 0,
                           sink, group);
      if (turn >= turns) return;
      at += ahead * step;
    }
  }
  // At the end of a row: whole groups of lanes are left out, which then exchange nothing more.
#pragma unroll 1
  for (int i = 0; i < ahead * turns && first + i * step < a.in.cols; ++i) {
    loaded_fragments<T, count, 1> loads;
    loads.load(0, from + i * step);
    quantize_batch<step>(loads, a.to.view, how, t, place.row, at + static_cast<unsigned>(i * step), all_of_batch, from,
                         0, sink, group);
  }
}

}  // namespace loft::gpu
