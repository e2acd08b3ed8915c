// SPDX-License-Identifier: Apache-2.0
// Rotates runs of floats in the host's vector registers: the Hadamard transform and changes of signs.
// tests/array/array_test.cpp compares them with the generic code of the folder rotation, which gives the same bits.
#pragma once

#include <cstdint>
#include <utility>

#include "loft/core/bits.hpp"
#include "loft/core/paley.hpp"
#include "loft/native/host/vectors.hpp"

namespace loft::native {

#if LOFT_HAS_HOST_VECTORS

/// Butterflies between registers that are 1, 2, 4, ... apart, below `end`.
template <int Count> [[gnu::always_inline]] inline void butterflies_between(f32s* v, int end) noexcept {
  for (int distance = 1; distance < end; distance *= 2) {
    for (int k = 0; k < Count; ++k) {
      if ((k & distance) != 0) continue;
      f32s const a = v[k], b = v[k + distance];
      v[k] = ungrouped(a + b);
      v[k + distance] = ungrouped(a - b);
    }
  }
}

/// Butterflies over all distances below N, a power of two up to 256, of `Runs` runs of N floats; times `norm` where
/// Scaled. Each stage is done for all runs before the next one, so that sums of one run need not wait for each other.
template <int N, int Runs, bool Scaled>
[[gnu::always_inline]] inline void butterflies_in_registers(float const* from, [[maybe_unused]] float norm,
                                                            float* to) noexcept {
  constexpr int count = Runs * N / lanes;
  f32s v[count];
  for (int k = 0; k < count; ++k) v[k] = load<f32s>(from + lanes * k);
  for (int k = 0; k < count; ++k) v[k] = butterfly<1>(v[k]);
  for (int k = 0; k < count; ++k) v[k] = butterfly<2>(v[k]);
  if constexpr (lanes > 4)
    for (int k = 0; k < count; ++k) v[k] = butterfly<4>(v[k]);
  if constexpr (lanes > 8)
    for (int k = 0; k < count; ++k) v[k] = butterfly<8>(v[k]);
  butterflies_between<count>(v, N / lanes);
  for (int k = 0; k < count; ++k) {
    if constexpr (Scaled) store(to + lanes * k, fenced(v[k] * norm));
    else store(to + lanes * k, v[k]);
  }
}

/// Butterflies over Distance, 2 * Distance, ... below End, of Count floats in memory, two stages at a time.
template <int Distance, int End, int Count, bool Scaled>
inline void butterflies_in_memory(float* values, [[maybe_unused]] float norm) noexcept {
  constexpr int radix = 2 * Distance < End ? 4 : 2, step = radix * Distance;
  for (int first = 0; first < Count; first += step) {
    for (int i = first; i < first + Distance; i += lanes) {
      f32s v[radix];
      for (int k = 0; k < radix; ++k) v[k] = load<f32s>(values + i + k * Distance);
      butterflies_between<radix>(v, radix);
      for (int k = 0; k < radix; ++k) {
        if constexpr (Scaled && step == End) store(values + i + k * Distance, fenced(v[k] * norm));
        else store(values + i + k * Distance, v[k]);
      }
    }
  }
  if constexpr (step < End) butterflies_in_memory<step, End, Count, Scaled>(values, norm);
}

/// The arithmetic of paley_sums on registers.
struct register_arithmetic {
  [[gnu::always_inline]] static f32s negated(f32s x) noexcept {
    return __builtin_bit_cast(f32s, __builtin_bit_cast(u32s, x) ^ 0x8000'0000u);
  }
  [[gnu::always_inline]] static f32s add(f32s a, f32s b) noexcept { return ungrouped(a + b); }
  [[gnu::always_inline]] static f32s subtract(f32s a, f32s b) noexcept { return ungrouped(a - b); }
};

/// P_M, or its transpose, times all columns of the [M, inner] matrix `values`, whose rows are whole registers; then
/// times `norm`.
template <int M, bool Transposed>
[[gnu::noinline]] inline void multiply_by_paley(float* values, int inner, float norm) noexcept {
  for (int col = 0; col < inner; col += lanes) {
    f32s v[M];
    for (int row = 0; row < M; ++row) v[row] = load<f32s>(values + row * inner + col);
    detail::paley_sums<register_arithmetic, M, Transposed>(
        v, [&](int row, f32s sum) { store(values + row * inner + col, fenced(sum * norm)); });
  }
}

#endif

/// The Hadamard transform of rotation/hadamard.hpp, or its inverse, of `runs` runs of Outer * Inner floats, where Outer
/// is 1 or the order of a Paley matrix and Inner a power of two. Its sums are in the order that is told there. `to` may
/// be `from`. Returns the runs that are done: all, or none where vectors are not to be had.
template <int Outer, int Inner, bool Inverse>
LOFT_HOST_DEVICE constexpr int hadamard_runs([[maybe_unused]] float const* from, [[maybe_unused]] int runs,
                                             [[maybe_unused]] float norm, [[maybe_unused]] float* to) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (Outer == 1 ? Inner % 16 == 0 : Inner % lanes == 0) {
    if (constant_evaluated()) return 0;
    constexpr int size = Outer * Inner, part = detail::min(Inner, 256);
    constexpr int together = size <= 2 * lanes ? 4 * lanes / size : 1;
    int run = 0;
    if constexpr (together > 1)
      for (; run + together <= runs; run += together)
        butterflies_in_registers<part, together, true>(from + run * size, norm, to + run * size);
    for (; run < runs; ++run) {
      for (int first = run * size; first < (run + 1) * size; first += part)
        butterflies_in_registers<part, 1, part == size>(from + first, norm, to + first);
      if constexpr (part < Inner) butterflies_in_memory<part, Inner, size, Outer == 1>(to + run * size, norm);
      if constexpr (Outer != 1)
        multiply_by_paley<Outer, Inverse && !detail::is_symmetric_paley<Outer>>(to + run * size, Inner, norm);
    }
    return runs;
  }
#endif
  return 0;
}

/// Negates run[i] where bit i % 32 of sign_word(i / 32) is set, for a run of N floats. Returns whether it was done,
/// which needs vectors and runs of whole registers.
template <int N, class Words>
LOFT_HOST_DEVICE constexpr bool flip_signs([[maybe_unused]] float* run,
                                           [[maybe_unused]] Words const& sign_word) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0) {
    if (constant_evaluated()) return false;
    u32s const bits = []<int... I>(lane_list<I...>) { return u32s{(1u << I)...}; }
    (all_lanes{});
    for (int i = 0; i < N; i += lanes) {
      u32s const picked = (u32s{} + (sign_word(i / 32) >> i % 32)) & bits;
      store(run + i, load<u32s>(run + i) ^ (__builtin_bit_cast(u32s, picked != 0) & 0x8000'0000u));
    }
    return true;
  }
#endif
  return false;
}

}  // namespace loft::native
