// SPDX-License-Identifier: Apache-2.0
// The host's hooks that know no format but 4 bits: packing, the Hadamard transform, random words. Source: packed.hpp,
// rotation.hpp, random.hpp, whose results these are; tests/array/array_test.cpp compares them.
#ifndef LOFT_NATIVE_HOST_RUNS_HPP
#define LOFT_NATIVE_HOST_RUNS_HPP

#include <cstdint>
#include <utility>

#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"
#include "loft/core/paley.hpp"
#include "loft/native/host/vectors.hpp"

namespace loft::native {

// Each hook does the first part of a run and returns how much of it, 0 where vectors are not to be had.

/// A register of codes of 4 bits to bytes, element 2i in the low nibble, and back, for whole registers.
LOFT_HOST_DEVICE constexpr std::int64_t pack_nibbles([[maybe_unused]] std::uint8_t const* codes,
                                                     [[maybe_unused]] std::int64_t count,
                                                     [[maybe_unused]] std::uint8_t* bytes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return 0;
  using pairs = vector<std::uint16_t, lanes>::type;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    pairs const both = load<pairs>(codes + i) & 0x0f0f;
    store(bytes + i / 2, __builtin_convertvector(both | (both >> 4), u8s));
  }
  return i;
#else
  return 0;
#endif
}
LOFT_HOST_DEVICE constexpr std::int64_t unpack_nibbles([[maybe_unused]] std::uint8_t const* bytes,
                                                       [[maybe_unused]] std::int64_t count,
                                                       [[maybe_unused]] std::uint8_t* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return 0;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    u16s const both = __builtin_convertvector(load<u8s>(bytes + i / 2), u16s);
    store(codes + i, (both & 0x0f) | ((both & 0xf0) << 4));
  }
  return i;
#else
  return 0;
#endif
}

#if LOFT_HAS_HOST_VECTORS

/// Butterflies over the distances of registers 1, 2, 4, ... below `end`.
template <int Count>
[[gnu::always_inline]] inline void butterflies_between(f32s* v, int end) noexcept {
  for (int distance = 1; distance < end; distance *= 2) {
    for (int k = 0; k < Count; ++k) {
      if ((k & distance) != 0) continue;
      f32s const a = v[k], b = v[k + distance];
      v[k] = ungrouped(a + b);
      v[k + distance] = ungrouped(a - b);
    }
  }
}

/// Butterflies over all distances below N, a power of two that is 256 at most, of `Runs` runs of N floats; times `norm`
/// where Scaled. Stage by stage for all runs: the sums of one wait while those of the others are worked on.
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

/// The butterflies over Distance and, where it is below End, over 2 * Distance, of Count floats in memory.
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

/// Registers of numbers for paley_sums.
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

/// The Hadamard transform of hadamard.hpp, or its inverse, of `runs` runs of Outer * Inner floats, where Outer is 1 or
/// the order of a Paley matrix and Inner a power of two. Sums in the order that it says. `to` may be `from`. Returns
/// the runs that are done: all, or none.
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

/// Negates run[i] where bit i % 32 of word_of(i / 32) is set, for whole registers of N floats. Returns true where it
/// was done.
template <int N, class Words>
LOFT_HOST_DEVICE constexpr bool flip_signs([[maybe_unused]] float* run,
                                           [[maybe_unused]] Words const& word_of) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0) {
    if (constant_evaluated()) return false;
    u32s const bits = []<int... I>(lane_list<I...>) { return u32s{(1u << I)...}; }
    (all_lanes{});
    for (int i = 0; i < N; i += lanes) {
      u32s const picked = (u32s{} + (word_of(i / 32) >> i % 32)) & bits;
      store(run + i, load<u32s>(run + i) ^ (__builtin_bit_cast(u32s, picked != 0) & 0x8000'0000u));
    }
    return true;
  }
#endif
  return false;
}

/// The 128-bit outputs of the calls [call, call + count) of Philox4x32, one after the other, for whole registers of
/// calls.
template <int Rounds, class W>
LOFT_HOST_DEVICE constexpr int philox_calls([[maybe_unused]] std::uint64_t seed, [[maybe_unused]] std::uint64_t stream,
                                            [[maybe_unused]] std::uint64_t call, [[maybe_unused]] int count,
                                            [[maybe_unused]] W* words) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return 0;
  constexpr int together = lanes / 2;
  constexpr std::uint64_t low = 0xffff'ffff;
  auto const first = []<int... I>(lane_list<I...>) { return u64s{static_cast<std::uint64_t>(I)...}; };
  int done = 0;
  for (; done + together <= count; done += together) {
    // Every word has 64 bits here, of which the upper half is anything.
    u64s const calls = first(std::make_integer_sequence<int, together>{}) + (call + static_cast<std::uint64_t>(done));
    u64s x = calls, y = calls >> 32, z = u64s{} + stream, w = u64s{} + (stream >> 32);
    std::uint64_t key_x = seed & low, key_y = seed >> 32;
    for (int round = 0; round < Rounds; ++round) {
      u64s const a = (x & low) * std::uint64_t{0xd251'1f53u}, b = (z & low) * std::uint64_t{0xcd9e'8d57u};
      x = (b >> 32) ^ y ^ key_x;
      y = b;
      z = (a >> 32) ^ w ^ key_y;
      w = a;
      key_x = (key_x + 0x9e37'79b9u) & low;
      key_y = (key_y + 0xbb67'ae85u) & low;
    }
    u64s const xy = (x & low) | (y << 32), zw = (z & low) | (w << 32);
    [&]<int... I>(std::integer_sequence<int, I...>) {
      constexpr int half = together / 2, per_call = 16 / static_cast<int>(sizeof(W));
      store(words + per_call * done, __builtin_shufflevector(xy, zw, (I / 2 + I % 2 * together)...));
      store(words + per_call * (done + half), __builtin_shufflevector(xy, zw, (half + I / 2 + I % 2 * together)...));
    }
    (std::make_integer_sequence<int, together>{});
  }
  return done;
#else
  return 0;
#endif
}

}  // namespace loft::native

#endif
