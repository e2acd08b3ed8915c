// SPDX-License-Identifier: Apache-2.0
// What lanes, groups of lanes and blocks of threads do of a norm's sum, and how the last block ends it.
// Source: norm.hpp (norm_order).
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/stability/norm.hpp"

namespace loft::gpu {

/// 32 lanes have a chunk of the order by themselves, and after it others: `groups` of them, a block of threads, walk
/// over neighbouring chunks side by side and meet after the last. A lane holds what a lane of quantize_rows holds.
struct norm_tuning {
  static constexpr int lanes = 32, threads = row_tuning::threads, groups = threads / lanes;
  static constexpr int values = row_tuning::values, step = lanes * values, rounds = norm_order::chunk / step;
  static constexpr int apart = groups * norm_order::chunk;  ///< from a group's chunk to its next
  static constexpr int least_level = 2, most_level = 5, most_chunks = 1 << most_level;  ///< of a block of threads
  static constexpr int blocks = 1024, blocks_beside = 2048;  ///< wished for; the last one adds their partials
  static constexpr int bytes_ahead = 128, bytes_ahead_beside = 64;
};
static_assert(1 << norm_tuning::least_level == norm_tuning::groups && norm_tuning::most_chunks <= norm_tuning::lanes,
              "a group has a chunk at least, and a lane the sum of one at most");
static_assert(norm_tuning::values == norm_order::neighbours && norm_order::accumulators == norm_tuning::step / 2,
              "a lane has 16 neighbours at a time, which go to its eight accumulators");

/// Rounds whose loads are on their way while a lane adds.
template <class T> LOFT_HOST_DEVICE constexpr int rounds_ahead(int bytes) noexcept {
  return detail::clamp(bytes / (norm_tuning::values * static_cast<int>(sizeof(T))), 1, norm_tuning::rounds / 2);
}

/// The accumulators of a lane. A sum that is not finite tells of an element that is not: squares of floats never
/// overflow.
struct norm_lane {
  static constexpr int count = norm_tuning::values / 2;
  double sums[count] = {};

  LOFT_HOST_DEVICE void add(int i, float x) noexcept {
    double const value = native::exact_double(x);
    sums[i % count] = __builtin_fma(value, value, sums[i % count]);  // the square is exact: as a product and a sum
  }
  template <class V> LOFT_HOST_DEVICE void add(V const& values) noexcept {
    for (int i = 0; i < norm_tuning::values; ++i) add(i, values[i]);
  }
};

/// The sum over 32 lanes as a tree by neighbours, in all of them.
template <class N> [[gnu::always_inline]] LOFT_HOST_DEVICE inline N sum_of_lanes(N number) noexcept {
  return detail::sum_of_lanes<norm_tuning::lanes>(number, lane_group<norm_tuning::lanes>{});
}

[[gnu::always_inline]] LOFT_HOST_DEVICE inline bool is_finite(double sum) noexcept {
  return bit_cast<std::uint64_t>(sum) << 1 < detail::double_infinity_bits << 1;
}

LOFT_HOST_DEVICE inline int lane_of_thread() noexcept { return thread_index() % norm_tuning::lanes; }
LOFT_HOST_DEVICE inline int group_of_thread() noexcept { return thread_index() / norm_tuning::lanes; }

/// The sum of `count` elements, up to a chunk, wherever they lie and whatever they are; counts what is not finite. 32
/// lanes call: for the end of a tensor, and again for a chunk whose sum was not finite.
template <class T>
LOFT_HOST_DEVICE inline double sum_of_any_chunk(T const* values, std::int64_t count,
                                                std::uint32_t& nonfinite) noexcept {
  constexpr int half = norm_lane::count;
  auto const read = [&](int at) {
    if (at >= count) return 0.0f;
    if constexpr (std::is_same_v<T, bf16_t>) return bit_cast<float>(std::uint32_t{values[at].bits()} << 16);
    else return to_register_float(values[at]);
  };
  norm_lane lane;
  std::uint32_t found = 0;
#pragma unroll 1
  for (int at = lane_of_thread() * norm_tuning::values; at < count;
       at += at % norm_tuning::values == 0 ? half : norm_tuning::step - half) {
    float loaded[half];
#pragma unroll
    for (int i = 0; i < half; ++i) loaded[i] = read(at + i);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      bool const finite = detail::magnitude_bits(loaded[i]) < detail::float_infinity;
      lane.add(i, finite ? loaded[i] : 0.0f);
      found += finite ? 0u : 1u;
    }
  }
  nonfinite += sum_of_lanes(found);
  return sum_of_lanes(detail::norm_tree(lane.sums));
}

LOFT_HOST_DEVICE constexpr std::int64_t norm_chunks(std::int64_t count) noexcept {
  return detail::max<std::int64_t>(1, detail::ceil_div(count, norm_order::chunk));
}
/// A block of threads has 2^level chunks: more where there are many of them.
LOFT_HOST_DEVICE constexpr int norm_level(std::int64_t chunks, int blocks = norm_tuning::blocks) noexcept {
  int level = norm_tuning::least_level;
  while (level < norm_tuning::most_level && chunks >> level > blocks) ++level;
  return level;
}
LOFT_HOST_DEVICE constexpr std::int64_t norm_blocks(std::int64_t count, int level) noexcept {
  return (norm_chunks(count) + (1 << level) - 1) >> level;
}

/// What blocks of threads that work on one tensor share; zero before and after.
struct norm_counters {
  std::uint64_t nonfinite;
  std::uint32_t finished;  ///< blocks
};

/// A thread of the last block adds 2^level partials. They lie `threads` apart, so that threads read beside each other;
/// the places of n blocks are below 2 n.
LOFT_HOST_DEVICE constexpr int partial_level(std::int64_t blocks) noexcept {
  int level = 0;
  while ((std::int64_t{norm_tuning::threads} << level) < blocks) ++level;
  return level;
}
LOFT_HOST_DEVICE constexpr std::int64_t place_of_partial(std::int64_t block, int level) noexcept {
  return (block & ((std::int64_t{1} << level) - 1)) * norm_tuning::threads + (block >> level);
}

/// Shared memory of a block of threads: the sums of its chunks, then of its groups; what is not finite; the last block.
struct norm_shared {
  double sums[norm_tuning::most_chunks];
  std::uint32_t nonfinite[norm_tuning::groups], is_last;
};

LOFT_HOST_DEVICE constexpr int chunks_of_group(int level) noexcept { return 1 << level >> norm_tuning::least_level; }

/// The sum of a group's chunk number `i`, which its lanes have.
LOFT_HOST_DEVICE inline void put_sum(norm_shared& shared, int i, double sum) noexcept {
  if (lane_of_thread() == 0) shared.sums[i * norm_tuning::groups + group_of_thread()] = sum;
}

/// Adds a group's chunks from number `from` on, and those before it whose sum is not finite, with a look at each
/// element. `values`: where the first chunk begins; `left`: elements from there to the tensor's end. All threads call.
template <class T>
LOFT_HOST_DEVICE inline void take_again(norm_shared& shared, int level, T const* values, std::int64_t left,
                                        int from) noexcept {
  sync_threads();
  std::uint32_t nonfinite = 0;
#pragma unroll 1
  for (int i = 0; i < chunks_of_group(level); ++i, values += norm_tuning::apart, left -= norm_tuning::apart) {
    if (i < from && is_finite(shared.sums[i * norm_tuning::groups + group_of_thread()])) continue;
    put_sum(shared, i, sum_of_any_chunk(values, detail::min<std::int64_t>(left, norm_order::chunk), nonfinite));
  }
  if (lane_of_thread() == 0) shared.nonfinite[group_of_thread()] = nonfinite;
}

/// The sum of up to 16 partials of a thread's column, all loaded at once.
LOFT_HOST_DEVICE inline double sum_of_column(double const* column, std::int64_t count) noexcept {
  double values[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) values[i] = i < count ? column[i * norm_tuning::threads] : 0.0;
  return detail::norm_tree(values);
}

/// The sum of the partials of all blocks, by the threads of one. They are used up.
LOFT_HOST_DEVICE inline double sum_of_partials(double* partials, std::int64_t count, norm_shared& shared) noexcept {
  double* const column = partials + thread_index();
  std::int64_t const each = std::int64_t{1} << partial_level(count);
  std::int64_t own = detail::clamp<std::int64_t>(count - thread_index() * each, 0, each);
#pragma unroll 1
  for (; own > 16; own = (own + 15) / 16) {
#pragma unroll 1
    for (std::int64_t i = 0; i < own; i += 16)
      column[i / 16 * norm_tuning::threads] = sum_of_column(column + i * norm_tuning::threads, own - i);
  }
  double const sum = sum_of_lanes(sum_of_column(column, own));
  if (lane_of_thread() == 0) shared.sums[group_of_thread()] = sum;
  sync_threads();
  double groups[norm_tuning::groups];
  for (int i = 0; i < norm_tuning::groups; ++i) groups[i] = shared.sums[i];
  return detail::norm_tree(groups);
}

/// Block `block` of the `blocks` of a tensor has the sums of its 2^level chunks in shared memory. The block that comes
/// last adds up those of all and leaves the counters at 0. All threads call.
LOFT_HOST_DEVICE inline void finish_norm(norm_shared& shared, int level, std::int64_t block, std::int64_t blocks,
                                         double* partials, norm_counters* counters, norm_partial* out) noexcept {
  sync_threads();
  double sum = sum_of_lanes(lane_of_thread() >> level == 0 ? shared.sums[lane_of_thread()] : 0.0);
  std::uint64_t nonfinite = 0;
  for (std::uint32_t const found : shared.nonfinite) nonfinite += found;
  if (blocks > 1) {
    if (thread_index() == 0) {
      partials[place_of_partial(block, partial_level(blocks))] = sum;
      if (nonfinite != 0) atomic_add(&counters->nonfinite, nonfinite);
      publish();
      shared.is_last = atomic_add(&counters->finished, 1u) + 1 == static_cast<std::uint32_t>(blocks) ? 1 : 0;
    }
    sync_threads();
    if (shared.is_last == 0) return;
    publish();
    sum = sum_of_partials(partials, blocks, shared);
    nonfinite = 0;
    if (thread_index() == 0) {
      nonfinite = atomic_add(&counters->nonfinite, std::uint64_t{0});
      *counters = {};
    }
  }
  if (thread_index() == 0) *out = {sum, static_cast<double>(nonfinite)};
}

}  // namespace loft::gpu
