// SPDX-License-Identifier: Apache-2.0
// Norms of many tensors in one launch, and as a by-product of a quantizer: the sums of norm.hpp in its order.
// Source: norm.hpp (norm_order).
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/norm_sums.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/stability/norm.hpp"

namespace loft::gpu {

/// One tensor of a list in device memory: its numbers, how many, and how many blocks of threads the tensors before it
/// have; an empty tensor has one.
template <class T> struct norm_item {
  T const* values;
  std::int64_t count, first_block = 0;
};

template <class T> struct norm_arguments {
  norm_item<T> const* items;
  int count, level;
  norm_partial* out;        ///< one for each tensor
  norm_counters* counters;  ///< likewise
  double* partials;         ///< two for each block
};

/// The item that a block of threads belongs to: the last one that starts at or before it. Each 32 lanes look at 32
/// places of the list, then between two of them.
template <class T>
LOFT_HOST_DEVICE inline int item_of(norm_item<T> const* items, int count, std::int64_t block) noexcept {
  int first = 0;
  while (count > 1) {
    int const apart = (count + norm_tuning::lanes - 1) / norm_tuning::lanes, at = lane_of_thread() * apart;
    bool const before = at < count && items[first + at].first_block <= block;
    int const skipped = (static_cast<int>(sum_of_lanes(before ? 1u : 0u)) - 1) * apart;
    first += skipped;
    count = detail::min(apart, count - skipped);
  }
  return first;
}

/// What a group of lanes has of a tensor.
template <class T> struct norm_share {
  T const* values;    ///< where its first chunk begins
  std::int64_t left;  ///< elements from there to the tensor's end
  std::int64_t block, blocks;

  LOFT_HOST_DEVICE norm_share(norm_item<T> const& item, int level) noexcept {
    block = block_index() - item.first_block;
    blocks = norm_blocks(item.count, level);
    std::int64_t const first = ((block << level) + group_of_thread()) * norm_order::chunk;
    values = item.values + first;
    left = item.count - first;
  }
  /// Its chunks that are whole and can be read in wide words.
  LOFT_HOST_DEVICE int whole(int level) const noexcept {
    if (left < norm_order::chunk || reinterpret_cast<std::uintptr_t>(values) % 16 != 0) return 0;
    std::int64_t const all = (left - norm_order::chunk) / norm_tuning::apart + 1;
    return static_cast<int>(detail::min<std::int64_t>(all, chunks_of_group(level)));
  }
};

/// The sums of a group's whole chunks, finite or not.
template <class T>
LOFT_HOST_DEVICE inline void add_whole_chunks(norm_shared& shared, T const* values, int whole) noexcept {
  constexpr int rounds = norm_tuning::rounds, step = norm_tuning::step, apart = norm_tuning::apart;
  constexpr int ahead = rounds_ahead<T>(norm_tuning::bytes_ahead);
  T const* from = values + lane_of_thread() * norm_tuning::values;
  loaded_fragments<T, norm_tuning::values, ahead> ring;
  if (whole > 0) {
#pragma unroll
    for (int round = 0; round < ahead; ++round) ring.load(round, from + round * step);
  }
#pragma unroll 1
  for (int i = 0; i < whole; ++i, from += apart) {
    norm_lane lane;
#pragma unroll
    for (int round = 0; round < rounds; ++round) {
      lane.add(ring.values(round % ahead));
      int const next = round + ahead;  // of the next chunk, too
      if (next < rounds) ring.load(round % ahead, from + next * step);
      else if (i + 1 < whole) ring.load(round % ahead, from + apart + (next - rounds) * step);
    }
    put_sum(shared, i, sum_of_lanes(detail::norm_tree(lane.sums)));
  }
}

/// The partials of tensors; each block of threads has 2^level chunks of one of them.
template <class T>
__global__ void __launch_bounds__(norm_tuning::threads, blocks_held(sizeof(T) == 4 ? 7 : 8))
    take_norms(norm_arguments<T> const a) {
  __shared__ norm_shared shared;
  int const which = item_of(a.items, a.count, block_index());
  {
    norm_share<T> const own(a.items[which], a.level);
    if (own.block >= own.blocks) return;
    add_whole_chunks(shared, own.values, own.whole(a.level));
  }
  norm_share<T> const own(a.items[which], a.level);  // read again: registers are few
  take_again(shared, a.level, own.values, own.left, own.whole(a.level));
  finish_norm(shared, a.level, own.block, own.blocks, a.partials + 2 * a.items[which].first_block, a.counters + which,
              a.out + which);
}

template <class O, class T> struct norm_by_product {
  row_arguments<O, T, row_major> rows;
  int level;
  norm_partial* out;
  norm_counters* counters;
  double* partials;
};

/// Blocks of threads that a multiprocessor should hold: as many as need no memory for registers.
template <class O, class T>
inline constexpr int blocks_beside = [] {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  return 6;
#else
  return std::is_same_v<T, bf16_t> && !draws_words<O> && !has_tensor_scale<typename O::format> ? 8 : 6;
#endif
}();

/// quantize_rows for one long row, and its sum of squares beside it: each block of threads has 2^level chunks.
template <class O, class T>
__global__ void __launch_bounds__(norm_tuning::threads, blocks_held(blocks_beside<O, T>))
    quantize_rows_with_norm(norm_by_product<O, T> const a) {
  constexpr int count = norm_tuning::values, step = norm_tuning::step, groups = norm_tuning::groups;
  constexpr int ahead = rounds_ahead<T>(norm_tuning::bytes_ahead_beside), batch = ahead * step,
                batches = norm_order::chunk / batch;
  __shared__ norm_shared shared;
  lane_group<lanes_together<O, count>> const group;
  O const how = a.rows.to.operand();
  tensor_scale const t = a.rows.to.scale_of_tensor();
  auto const first = [&] { return ((std::int64_t{block_index()} << a.level) + group_of_thread()) * norm_order::chunk; };
  std::int64_t at = first() + lane_of_thread() * count;
  loaded_fragments<T, count, ahead> ring;
#pragma unroll
  for (int i = 0; i < ahead; ++i)
    if (at + i * step < a.rows.in.cols) ring.load(i, a.rows.in.data + at + i * step);
  norm_lane lane;
#pragma unroll 1
  for (int more = chunks_of_group(a.level) * batches - 1; more >= 0; --more) {
    bool const ends = more % batches == 0;
    int const onward = ends ? (groups - 1) * norm_order::chunk + batch : batch;
    auto const place = static_cast<std::uint64_t>(at);
    auto const left = static_cast<int>(detail::clamp<std::int64_t>(a.rows.in.cols - at, 0, 1 << 30));
    quantize_batch<step>(ring, a.rows.to.view, how, t, 0, place, left, a.rows.in.data + at + onward,
                         more > 0 ? left - onward : 0, lane, group);
    at += onward;
    if (!ends) continue;
    put_sum(shared, chunks_of_group(a.level) - 1 - more / batches, sum_of_lanes(detail::norm_tree(lane.sums)));
    lane = {};
  }
  take_again(shared, a.level, a.rows.in.data + first(), a.rows.in.cols - first(), norm_tuning::most_chunks);
  finish_norm(shared, a.level, block_index(), norm_blocks(a.rows.in.cols, a.level), a.partials, a.counters, a.out);
}

}  // namespace loft::gpu
