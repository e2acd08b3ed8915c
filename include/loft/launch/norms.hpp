// SPDX-License-Identifier: Apache-2.0
// Norms of many tensors in one launch, and as a by-product of a quantizer: the sums of norm.hpp in its order.
// Source: norm.hpp (norm_order).
#ifndef LOFT_LAUNCH_NORMS_HPP
#define LOFT_LAUNCH_NORMS_HPP

#include <cstdint>
#include <type_traits>

#include "loft/launch/grid.hpp"
#include "loft/launch/rows.hpp"
#include "loft/launch/values.hpp"
#include "loft/norm.hpp"

namespace loft::launch {

/// A block of threads has one chunk, in `rounds`; a thread has `Values` neighbouring accumulators.
template <int Values>
struct norm_tuning {
  static constexpr int values = Values, threads = norm_order::accumulators / Values;
  static constexpr int rounds = norm_order::chunk / norm_order::accumulators;
};
/// Norms alone: a thread reads sixteen bytes of 16-bit numbers. Beside a quantizer: what its lanes hold.
using norm_alone = norm_tuning<8>;
using norm_beside = norm_tuning<row_tuning::values>;
static_assert(norm_beside::threads == row_tuning::threads, "a quantizer's block of threads is a norm's, too");

/// The accumulators of one thread, and what it met that is not finite.
template <int Values>
struct norm_lane {
  double sums[Values] = {};
  std::uint32_t nonfinite = 0;

  template <class V>
  LOFT_HOST_DEVICE void add(V const& values) noexcept {
    add(values, values.template amax<Values>(0) < detail::float_infinity);
  }
  /// `all_finite`: true only where all values are; where it is false each of them is looked at.
  template <class V>
  LOFT_HOST_DEVICE void add(V const& values, bool all_finite) noexcept {
    if (all_finite) {
      for (int i = 0; i < Values; ++i) {
        double const value = native::exact_double(values[i]);
        sums[i] = __builtin_fma(value, value, sums[i]);  // the square is exact: as a product and a sum
      }
      return;
    }
    for (int i = 0; i < Values; ++i) {
      bool const finite = detail::magnitude_bits(values[i]) < detail::float_infinity;
      double const value = native::exact_double(finite ? values[i] : 0.0f);
      sums[i] = __builtin_fma(value, value, sums[i]);
      nonfinite += finite ? 0u : 1u;
    }
  }
};

/// Doubles of shared memory: a sum and a count for each 32 lanes, and a flag.
template <class Tuning>
inline constexpr int norm_shared = 2 * Tuning::threads / 32 + 1;

/// The tree over a block's accumulators and the sum of its counts, in thread 0. All threads call.
template <class Tuning>
LOFT_HOST_DEVICE inline norm_partial combine(norm_lane<Tuning::values>& lane, double* shared) noexcept {
  constexpr int width = 32, warps = Tuning::threads / width;
  double sum = detail::norm_tree(lane.sums);
  std::uint32_t count = lane.nonfinite;
  for (int mask = 1; mask < width; mask *= 2) {
    auto const bits = bit_cast<std::uint64_t>(sum);
    std::uint64_t const low = native::exchange(static_cast<std::uint32_t>(bits), mask);
    std::uint64_t const high = native::exchange(static_cast<std::uint32_t>(bits >> 32), mask);
    sum += bit_cast<double>(high << 32 | low);
    count += native::exchange(count, mask);
  }
  if (thread_index() % width == 0) {
    shared[thread_index() / width] = sum;
    shared[warps + thread_index() / width] = static_cast<double>(count);
  }
  sync_threads();
  double sums[warps], counts[warps];
  for (int i = 0; i < warps; ++i) {
    sums[i] = shared[i];
    counts[i] = shared[warps + i];
  }
  return {detail::norm_tree(sums), detail::norm_tree(counts)};
}

/// One tensor of a list in device memory: its numbers, how many chunks the tensors before it have, and how many blocks of
/// threads; an empty tensor has one of each.
template <class T>
struct norm_item {
  T const* values;
  std::int64_t count, first_chunk = 0, first_block = 0;
};

/// The chunks that a block of threads adds up one after the other: several where there are many.
LOFT_HOST_DEVICE constexpr int norm_run(std::int64_t chunks) noexcept {
  return static_cast<int>(detail::clamp<std::int64_t>(chunks / 2048, 1, 4));
}
LOFT_HOST_DEVICE constexpr std::int64_t norm_chunks(std::int64_t count) noexcept {
  return detail::max<std::int64_t>(1, detail::ceil_div(count, norm_order::chunk));
}

template <class T>
struct norm_arguments {
  norm_item<T> const* items;
  int count, run;
  norm_partial* out;     ///< one for each tensor
  norm_partial* chunks;  ///< one for each chunk of all tensors
  std::uint32_t* done;   ///< one for each tensor: chunks that are finished; 0 before and after
};

/// The item that a block of threads belongs to: the last one that starts at or before it. All threads look at some of the
/// list.
template <class T>
LOFT_HOST_DEVICE inline int item_of(norm_item<T> const* items, int count, std::int64_t block, double* shared) noexcept {
  constexpr int width = 32, warps = norm_alone::threads / width;
  auto* const counts = reinterpret_cast<std::uint32_t*>(shared);
  std::uint32_t before = 0;
  for (int i = thread_index(); i < count; i += norm_alone::threads) before += items[i].first_block <= block ? 1u : 0u;
  for (int mask = 1; mask < width; mask *= 2) before += native::exchange(before, mask);
  if (thread_index() % width == 0) counts[thread_index() / width] = before;
  sync_threads();
  before = 0;
  for (int i = 0; i < warps; ++i) before += counts[i];
  sync_threads();
  return static_cast<int>(before) - 1;
}

/// The sum of `count` numbers from `values`, one level of the order, by one block of threads; at most a chunk of them.
template <class Tuning>
LOFT_HOST_DEVICE inline norm_partial sum_level(norm_partial const* values, std::int64_t count,
                                               double* shared) noexcept {
  norm_lane<Tuning::values> lane;
  double counted = 0;
  for (std::int64_t first = thread_index() * Tuning::values; first < count; first += norm_order::accumulators) {
    for (int half = 0; half < Tuning::values; half += 4) {
      norm_partial loaded[4] = {};
      for (int i = 0; i < 4; ++i)
        if (first + half + i < count) loaded[i] = values[first + half + i];
      for (int i = 0; i < 4; ++i) {
        lane.sums[half + i] += loaded[i].sum_of_squares;
        counted += loaded[i].nonfinite;
      }
    }
  }
  lane.nonfinite = static_cast<std::uint32_t>(counted);
  return combine<Tuning>(lane, shared);
}

/// Counts chunks of a tensor as finished, whose sums thread 0 has written; the block that finishes the last ones adds them
/// all up, in the order of the chunks, and leaves `done` at 0. Levels above the first are folded into the chunks' own
/// memory. All threads call.
template <class Tuning>
LOFT_HOST_DEVICE inline void finish_chunks(norm_partial* chunks, std::int64_t finished, std::int64_t count,
                                           std::uint32_t* done, norm_partial* out, double* shared) noexcept {
  auto* const is_last = reinterpret_cast<std::uint32_t*>(shared + norm_shared<Tuning> - 1);
  if (thread_index() == 0) {
    publish();
    auto const before = atomic_add(done, static_cast<std::uint32_t>(finished));
    *is_last = before + static_cast<std::uint32_t>(finished) == static_cast<std::uint32_t>(count) ? 1 : 0;
  }
  sync_threads();
  if (*is_last == 0) return;
  publish();
  for (; count > norm_order::chunk; count = detail::ceil_div(count, norm_order::chunk)) {
    for (std::int64_t i = 0; i < detail::ceil_div(count, norm_order::chunk); ++i) {
      std::int64_t const first = i * norm_order::chunk;
      norm_partial const level =
          sum_level<Tuning>(chunks + first, detail::min<std::int64_t>(norm_order::chunk, count - first), shared);
      sync_threads();
      if (thread_index() == 0) chunks[i] = level;
      sync_threads();
    }
  }
  norm_partial const total = sum_level<Tuning>(chunks, count, shared);
  if (thread_index() == 0) {
    *out = total;
    *done = 0;
  }
}

/// The partials of tensors; each block of threads has `run` chunks of one of them.
template <class T>
__global__ void __launch_bounds__(norm_alone::threads, blocks_held(4)) take_norms(norm_arguments<T> const a) {
  constexpr int count = norm_alone::values, rounds = norm_alone::rounds, step = norm_order::accumulators;
  constexpr int ahead = 4;  // rounds whose loads are on their way
  __shared__ double shared[norm_shared<norm_alone>];
  int const which = a.count == 1 ? 0 : item_of(a.items, a.count, block_index(), shared);
  auto const item = a.items[which];
  std::int64_t const chunks = norm_chunks(item.count), start = (block_index() - item.first_block) * a.run;
  if (start >= chunks) return;
  std::int64_t const end = detail::min(start + a.run, chunks);
  bool const aligned = reinterpret_cast<std::uintptr_t>(item.values) % 16 == 0;
  T const* from = item.values + start * norm_order::chunk + thread_index() * count;
  detail::lane_values<held<T>, count> values[ahead];
  auto const is_whole = [&](std::int64_t chunk) { return aligned && (chunk + 1) * norm_order::chunk <= item.count; };
  auto const load = [&](int round) { values[round % ahead] = load_values<T, count>(from + round * step); };
  if (is_whole(start)) {
#pragma unroll
    for (int round = 0; round < ahead; ++round) load(round);
  }
#pragma unroll 1
  for (std::int64_t chunk = start; chunk < end; ++chunk, from += norm_order::chunk) {
    norm_lane<count> lane;
    if (is_whole(chunk)) {
      bool const more = chunk + 1 < end && is_whole(chunk + 1);  // its first rounds are read on the way
#pragma unroll
      for (int round = 0; round < rounds; ++round) {
        lane.add(values[round % ahead]);
        if (round + ahead < rounds || more) load(round + ahead);
      }
    } else {
      matrix_view<T const> const row{item.values, 1, item.count, item.count};
#pragma unroll 1
      for (int round = 0; round < rounds; ++round) {
        std::int64_t const col = (from - item.values) + round * step;
        int const valid = static_cast<int>(detail::clamp<std::int64_t>(item.count - col, 0, count));
        lane.add(row_values<false, count>(row, 0, col, valid));
      }
    }
    norm_partial const sum = combine<norm_alone>(lane, shared);
    if (thread_index() == 0) a.chunks[item.first_chunk + chunk] = sum;
    sync_threads();
  }
  finish_chunks<norm_alone>(a.chunks + item.first_chunk, end - start, chunks, a.done + which, a.out + which, shared);
}

template <class Operand, class T>
struct norm_by_product {
  row_arguments<Operand, T> rows;
  norm_partial* out;
  norm_partial* chunks;
  std::uint32_t* done;
};

/// quantize_rows for one long row, and the sums of its chunks beside it: each block of threads has one chunk.
template <class Operand, class T>
__global__ void __launch_bounds__(norm_beside::threads, blocks_held(6))
    quantize_rows_with_norm(norm_by_product<Operand, T> const a) {
  using format = typename Operand::format;
  constexpr int count = norm_beside::values, bits = format::element::spec.bits(), cols = format::shape.cols;
  constexpr int lanes = detail::max(1, cols / count), blocks = lane_codes<format, count>::blocks;
  __shared__ double shared[norm_shared<norm_beside>];
  lane_group<lanes_together<Operand, count>> const group;
  Operand how = a.rows.how;
  if (a.rows.from.seed != nullptr) take_seed(how, a.rows.from.seed);
  tensor_scale const t = a.rows.from.scale != nullptr ? *a.rows.from.scale : a.rows.t;
  constexpr int step = norm_order::accumulators;
  std::int64_t const first = std::int64_t{block_index()} * norm_order::chunk + thread_index() * count;
  std::int64_t const end = detail::min(a.rows.cols, first + norm_order::chunk);
  norm_lane<norm_beside::values> lane;
  detail::lane_values<held<T>, count> values{}, next{};
  if (first < a.rows.cols) next = load_values<T, count>(a.rows.data + first);
#pragma unroll 2
  for (int round = 0; round < norm_beside::rounds; ++round) {
    std::int64_t const col = first + round * step;
    values = next;
    next = {};
    if (col + step < end) next = load_values<T, count>(a.rows.data + col + step);
    auto const result = quantize_loaded<Operand, count>(values, count, how, t, static_cast<std::uint64_t>(col), group);
    lane.add(values, !detail::is_nan_scale<format>(result.scales[0]) && Operand::policy == nonfinite::propagate);
    if (col >= a.rows.cols) continue;
    store_words(a.rows.out.codes + col * bits / 8, result.words);
    if (lanes != 1 && group.rank() % lanes != 0) continue;
    for (int b = 0; b < blocks; ++b) a.rows.out.scales[col / cols + b] = result.scales[b];
  }
  norm_partial const sum = combine<norm_beside>(lane, shared);
  if (thread_index() == 0) a.chunks[block_index()] = sum;
  finish_chunks<norm_beside>(a.chunks, 1, detail::ceil_div(a.rows.cols, norm_order::chunk), a.done, a.out, shared);
}

}  // namespace loft::launch

#endif
