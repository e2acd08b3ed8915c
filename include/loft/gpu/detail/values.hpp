// SPDX-License-Identifier: Apache-2.0
// Kernels whose result is numbers: rotate, the largest magnitude of a tensor, its scale; and padding of scales.
// Source: design sections 2 and 6, decisions 10, 12 and 14.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// Threads of a block of the kernels below. A lane of those that write numbers has `values` of them: four words of
/// 16-bit ones.
struct value_tuning {
  static constexpr int threads = 256, values = 8, rounds = 2, decode_rounds = 4, amax_values = 16, amax_rounds = 4;
};

/// Rows of columns for blocks of threads: `chunks` blocks a row. Contiguous rows are one long row.
struct row_grid {
  std::int64_t rows, cols;
  std::uint32_t chunks;
};

/// Writes `count` of eight floats as numbers of type T, with a stride. Wide: all of them, to neighbours, in words.
/// `small`: no value comes near the largest bfloat16.
template <bool Wide, class T>
LOFT_HOST_DEVICE inline void store_numbers(T* to, std::int64_t stride, float const* values, int count,
                                           bool small = false) noexcept {
  if constexpr (Wide) {
    constexpr int in_word = 4 / static_cast<int>(sizeof(T));
    std::uint32_t words[8 / in_word] = {};
    for (int i = 0; i < 8; i += in_word) {
      if constexpr (in_word == 1) words[i] = bit_cast<std::uint32_t>(values[i]);
      else if constexpr (std::is_same_v<T, bf16_t> && native::has_bf16_rounding)
        words[i / 2] = native::bf16_pair(values[i], values[i + 1]);
      else
        for (int k = 0; k < in_word; ++k)
          words[i / in_word] |= static_cast<std::uint32_t>(static_cast<T>(values[i + k]).bits()) << k * 32 / in_word;
    }
    if constexpr (std::is_same_v<T, bf16_t> && native::has_bf16_rounding)
      if (!small)
        for (std::uint32_t& pair : words) pair = native::saturate_bf16_pair(pair);
    store_words(to, words);
  } else {
    for (int i = 0; i < 8; ++i)
      if (i < count) to[i * stride] = static_cast<T>(values[i]);
  }
}

template <class Rotation, class T> struct rotate_arguments {
  matrix_view<T const> in;
  matrix_view<T> out;
  Rotation rotation;
  std::uint64_t const* seed;  ///< as quantized_output has it
  row_grid grid;
};

/// Each lane has eight values of a row, twice, and its neighbours the rest of a run.
template <class Rotation, class T, bool Wide, bool Inverse>
__global__ void __launch_bounds__(value_tuning::threads) rotate_rows(rotate_arguments<Rotation, T> const a) {
  constexpr int count = value_tuning::values, step = value_tuning::threads * count;
  auto const place = place_of_block(a.grid.rows, a.grid.chunks, step * value_tuning::rounds);
  lane_group<detail::max(1, Rotation::size / count)> const group;
  Rotation const rotation = with_seed(a.rotation, a.seed);
  loaded_fragments<T, count, value_tuning::rounds> loads;
  int valid[value_tuning::rounds];
#pragma unroll
  for (int round = 0; round < value_tuning::rounds; ++round) {
    std::int64_t const col = place.col + round * step + thread_index() * count;
    valid[round] = static_cast<int>(detail::clamp<std::int64_t>(a.grid.cols - col, 0, count));
    loads.template load<Wide>(round, a.in, place.row, col, valid[round]);
  }
#pragma unroll
  for (int round = 0; round < value_tuning::rounds; ++round) {
    std::int64_t const col = place.col + round * step + thread_index() * count;
    auto const loaded = loads.values(round);
    float values[count];
    for (int i = 0; i < count; ++i) values[i] = loaded[i];
    if constexpr (Inverse) rotation.template invert_lanes<count>(values, group);
    else rotation.template apply_lanes<count>(values, group);
    if (valid[round] > 0) store_numbers<Wide>(&a.out(place.row, col), a.out.col_stride, values, valid[round]);
  }
}

template <class O, class T> struct amax_arguments {
  matrix_view<T const> in;
  O how;
  std::uint64_t const* seed;  ///< as quantized_output has it
  std::uint32_t* amax;        ///< float bits, 0 before
  row_grid grid;
};

/// The largest finite magnitude after rotation. The bits of magnitudes order like the magnitudes, and the largest of
/// them does not depend on the order of the threads.
template <class O, class T, bool Wide>
__global__ void __launch_bounds__(value_tuning::threads) find_amax(amax_arguments<O, T> const a) {
  constexpr int count = value_tuning::amax_values, rounds = value_tuning::amax_rounds, width = 32;
  constexpr int step = value_tuning::threads * count;
  lane_group<detail::max(1, detail::rotation_size<O> / count)> const group;
  O const how = with_seed(a.how, a.seed);
  auto const place = place_of_block(a.grid.rows, a.grid.chunks, step * rounds);
  loaded_fragments<T, count, rounds> loads;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    std::int64_t const col = place.col + i * step + thread_index() * count;
    int const valid = static_cast<int>(detail::clamp<std::int64_t>(a.grid.cols - col, 0, count));
    loads.template load<Wide>(i, a.in, place.row, col, valid);
  }
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < rounds; ++i) {
    auto const values = prepared_values(loads, i, how, group);
    std::uint32_t const all = values.template amax<count>(0);
    if (all < detail::float_infinity) {
      largest = detail::max(largest, all);
    } else {
      for (int k = 0; k < count; ++k) {
        std::uint32_t const bits = detail::magnitude_bits(values[k]);
        largest = detail::max(largest, bits < detail::float_infinity ? bits : 0u);
      }
    }
  }
  largest = detail::largest_word<width>(largest, lane_group<width>{});
  if (thread_index() % width == 0) atomic_largest(a.amax, largest);
}

/// The tensor's scale from an amax in device memory, for the kernels that come after.
template <class O> __global__ void choose_tensor_scale(float const* amax, tensor_scale* scale, float* decode) {
  if (thread_index() != 0) return;
  float const known =
      bit_cast<float>(detail::min(bit_cast<std::uint32_t>(*amax) & ~detail::float_sign, detail::float_max));
  tensor_scale const t = tensor_scale_for<typename O::format>(known, detail::tensor_range<O>());
  *scale = t;
  *decode = t.decode;
}

/// Writes a number that the host knows to device memory.
template <class Number> __global__ void store_number(Number number, Number* to) {
  if (thread_index() == 0) *to = number;
}

/// Zeroes the places of a layout that belong to no block.
template <class B, class L> __global__ void pad_scales(quantized_view<B, L> out) {
  detail::scale_grid<B, L> const grid{out.rows, out.cols};
  std::int64_t const place = std::int64_t{block_index()} * value_tuning::threads + thread_index();
  std::int64_t const row = place / grid.padded_cols(), col = place % grid.padded_cols();
  if (row < grid.padded_rows() && (row >= grid.rows || col >= grid.cols))
    out.scales[L::index(row, col, grid.rows, grid.cols)] = {};
}

}  // namespace loft::gpu
