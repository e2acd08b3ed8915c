// SPDX-License-Identifier: Apache-2.0
// The kernel for the usual case: contiguous rows of whole blocks, quantized by lanes that load and store wide words.
// Source: design sections 2 and 6; 32 bytes a lane and no shared memory reach the speed of a copy on Hopper.
#ifndef LOFT_GPU_DETAIL_ROWS_HPP
#define LOFT_GPU_DETAIL_ROWS_HPP

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/block/reseed.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// Threads of a block of the kernels that walk rows, and values that a thread holds at once.
struct row_tuning {
  static constexpr int threads = 128, values = 16, most_values = 32, bytes_ahead = 128;
};

/// True for operands whose rounding or rule draws random words, values' or blocks' own.
template <class O>
inline constexpr bool draws_words = requires(O how) {
  how.rounding.seed;
}
|| requires(O how) { how.rule.seed; };
/// True for those and for rotations with random signs: reseed changes them.
template <class O>
inline constexpr bool has_seed = draws_words<O> || requires(O how) {
  how.rotation.seed;
};

/// The values a lane holds: whole blocks where the rule looks at a whole block; and up to most_values of a run of a
/// rotation, so that few sums cross lanes.
template <class O>
inline constexpr int values_a_lane = [] {
  constexpr int cols = O::format::shape.cols;
  constexpr int wished = detail::rotation_size<O>;
  return detail::has_statistic<O> ? cols : detail::clamp(wished, row_tuning::values, row_tuning::most_values);
}();

/// How many times a lane's values a thread works on, the loads of all first: up to 128 bytes of them.
template <class O, class T>
inline constexpr int rounds_a_thread = detail::clamp(row_tuning::bytes_ahead /
                                                         (values_a_lane<O> * static_cast<int>(sizeof(T))),
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
inline constexpr int lanes_together = detail::max(1, detail::max(detail::max(O::format::shape.cols,
                                                                             detail::rotation_size<O>),
                                                                 detail::correction_group<O>) /
                                                         Count);

/// What a lane works with: bfloat16 as it lies in memory, all else as floats.
template <class T>
using held = std::conditional_t<std::is_same_v<T, bf16_t>, bf16_t, float>;

template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float to_lane_float(T x) noexcept {
  if constexpr (std::is_same_v<T, float>) return x;
  else if constexpr (detail::has_branchless_decode<typename T::format>)
    return detail::decode_branchless<typename T::format>(x.bits());
  else return static_cast<float>(x);
}

/// Values [first, first + N) of a lane from their words in memory.
template <class T, int N, class V>
LOFT_HOST_DEVICE inline void put_words(V& to, int first, std::uint32_t const (&raw)[4]) noexcept {
  constexpr int in_word = N / 4, bits = 32 / in_word;
  for (int i = 0; i < N; ++i) {
    if constexpr (std::is_same_v<T, bf16_t>) to.words[(first + i) / 2] = raw[i / 2];
    else if constexpr (std::is_same_v<T, float>) to.values[first + i] = bit_cast<float>(raw[i]);
    else
      to.values[first + i] =
          to_lane_float(T::from_bits(static_cast<code<typename T::format>>(raw[i / in_word] >> i % in_word * bits)));
  }
}

/// `Count` neighbours in memory. in: an address that is a multiple of 16.
template <class T, int Count>
LOFT_HOST_DEVICE inline detail::lane_values<held<T>, Count> load_values(T const* from) noexcept {
  constexpr int group = 16 / static_cast<int>(sizeof(T));
  detail::lane_values<held<T>, Count> result;
  for (int i = 0; i < Count; i += group) {
    u32x4 const four = load_16(from + i);
    std::uint32_t const raw[4] = {four.x, four.y, four.z, four.w};
    put_words<T, group>(result, i, raw);
  }
  return result;
}

/// Where the seed of an operand and the tensor's scale come from when they are not in the call: device memory, read when
/// the kernel runs, so that a captured graph can be replayed with others.
struct device_inputs {
  std::uint64_t const* seed = nullptr;  ///< (seed, stream) for reseed
  tensor_scale const* scale = nullptr;
};

/// The operand or rotation with the seed in device memory, if there is one.
template <class O>
LOFT_HOST_DEVICE inline O with_seed(O how, [[maybe_unused]] std::uint64_t const* seed) noexcept {
  if constexpr (has_seed<O> || requires { how.seed; }) {
    if (seed == nullptr) return how;
    how = reseed(how, seed[0], seed[1]);
    if constexpr (requires { how.rounding.make_keys(); }) how.rounding.make_keys();
  }
  return how;
}

/// True for operands whose threads take several turns and read the next one's values meanwhile. (Where a rotation needs
/// the registers, too, that is slower.)
template <class O>
inline constexpr bool takes_turns = draws_words<O> && !detail::rotates<O>;

template <class O, class T>
struct row_arguments {
  T const* data;
  std::int64_t rows, cols, row_stride;
  quantized_view<typename O::format> out;
  O how;
  tensor_scale t;
  device_inputs from;
  std::uint32_t chunks = 1;  ///< blocks of threads for a row
  int turns = 1;             ///< rounds_a_thread each
};

/// quantize_prepared of what a lane loaded.
template <class O, int Count, LaneGroup G, class V>
[[gnu::always_inline]] LOFT_HOST_DEVICE inline auto quantize_loaded(V const& values, int valid, O const& how,
                                                                    tensor_scale t, std::uint64_t index,
                                                                    G const& group) noexcept {
  if constexpr (detail::rotates<O> || O::policy == nonfinite::saturate) {
    auto const prepared = detail::prepare(values, how, group);
    return detail::quantize_prepared<O, Count>(prepared, valid, how, t, index, group);
  } else {
    return detail::quantize_prepared<O, Count>(values, valid, how, t, index, group);
  }
}

/// A stochastic rounding of lanes whose generator's keys are made once; on the host they are constants of the launch.
template <class R>
struct keyed {
  static constexpr int bits = R::bits;
  static constexpr bool starts_with_a_call = row_tuning::values % (128 / bits) == 0;  // a lane's values do
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

/// Quantizes a part of one row. A row is a multiple of what the lanes of a group have, so that at its end whole groups
/// are left out. DeviceSeed: the seed is read here; otherwise it is a constant of the launch, and so are all keys made
/// of it.
template <class O, class T, class Layout, bool DeviceSeed>
__global__ void __launch_bounds__(row_tuning::threads) quantize_rows(row_arguments<O, T> const a) {
  using format = typename O::format;
  constexpr int count = values_a_lane<O>, bits = format::element::spec.bits(),
                rounds = rounds_a_thread<O, T>;
  constexpr int lanes = detail::max(1, format::shape.cols / count), blocks = lane_codes<format, count>::blocks;
  constexpr int step = row_tuning::threads * count;
  lane_group<lanes_together<O, count>> const group;
  int const turns = takes_turns<O> ? a.turns : 1, width = rounds * step * turns;
  auto const place = place_of_block(a.rows, a.chunks, width);
  std::int64_t const first = place.col + thread_index() * count;
  O how = a.how;
  if constexpr (DeviceSeed) how = with_seed(how, a.from.seed);
  tensor_scale const t = a.from.scale != nullptr ? *a.from.scale : a.t;
  T const* from = a.data + place.row * a.row_stride + first;
  // Everything is counted from the turn's first place: what is added is constant.
  auto at = static_cast<std::uint64_t>(place.row * a.cols + first);
  auto const work = [&](detail::lane_values<held<T>, count> const& values, int i) {
    auto const result =
        quantize_loaded<O, count>(values, count, how, t, at + static_cast<unsigned>(i * step), group);
    store_words(a.out.codes + at * bits / 8 + i * (step * bits / 8), result.words);
    if (lanes != 1 && group.rank() % lanes != 0) return;
    for (int b = 0; b < blocks; ++b) {
      if constexpr (std::is_same_v<Layout, row_major>) {
        (a.out.scales + at / format::shape.cols)[i * (step / format::shape.cols) + b] = result.scales[b];
      } else {
        auto const col = static_cast<std::int64_t>(at - static_cast<std::uint64_t>(place.row * a.cols)) + i * step;
        a.out.scales[detail::scale_index<format, Layout>(place.row, col / format::shape.cols + b, a.cols)] =
            result.scales[b];
      }
    }
  };
  if (rounds > 1 && place.col + width <= a.cols) {
    detail::lane_values<held<T>, count> values[rounds];
#pragma unroll
    for (int i = 0; i < rounds; ++i) values[i] = load_values<T, count>(from + i * step);
#pragma unroll 1
    for (int turn = 1;; ++turn) {
      from += rounds * step;
#pragma unroll
      for (int i = 0; i < rounds; ++i) {
        work(values[i], i);
        if (turn < turns) values[i] = load_values<T, count>(from + i * step);
      }
      if (turn >= turns) return;
      at += rounds * step;
    }
  }
  // At the end of a row: whole groups of lanes are left out, which then exchange nothing more.
#pragma unroll 1
  for (int i = 0; i < rounds * turns && first + i * step < a.cols; ++i) work(load_values<T, count>(from + i * step), i);
}

}  // namespace loft::gpu

#endif
