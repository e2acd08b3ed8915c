// SPDX-License-Identifier: Apache-2.0
// Blocks and arrays in the host's vector registers: largest magnitudes, and conversions of whole runs of values and
// codes. tests/array/array_test.cpp compares every function with the generic code that it replaces.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/core/bits.hpp"
#include "loft/native/host/code_lookup.hpp"
#include "loft/native/host/vector_convert.hpp"
#include "loft/native/host/vectors.hpp"

namespace loft::native {

#if LOFT_HAS_HOST_VECTORS

/// Whether magnitudes are compared two in a lane, as those of 16 bits are.
template <int N, class T> inline constexpr bool compares_pairs = sizeof(T) == 2 && N % (2 * lanes) == 0;
template <int N, class T> using compared = std::conditional_t<compares_pairs<N, T>, i16_pairs, i32s>;

/// A register of magnitudes: the bits of floats, or the codes of values of 16 bits, two in a lane under compares_pairs.
template <int N, class T> [[gnu::always_inline]] inline i32s load_magnitudes(T const* values) noexcept {
  if constexpr (sizeof(T) == 4) return load<i32s>(values) & 0x7fff'ffff;
  else if constexpr (compares_pairs<N, T>) return load<i32s>(values) & 0x7fff'7fff;
  else return __builtin_bit_cast(i32s, widen(load<u16s>(values)) & 0x7fffu);
}

/// The largest magnitude of each lane, for N values.
template <int N, class T> [[gnu::always_inline]] inline i32s largest_lanes(T const* values) noexcept {
  constexpr int step = compares_pairs<N, T> ? 2 * lanes : lanes;
  i32s result = load_magnitudes<N>(values);
  for (int i = step; i < N; i += step) result = larger_lanes<compared<N, T>>(result, load_magnitudes<N>(values + i));
  return result;
}

/// The larger of the two magnitudes that largest_lanes leaves in a lane under compares_pairs.
template <int N, class T> [[gnu::always_inline]] inline i32s one_in_a_lane(i32s magnitudes) noexcept {
  if constexpr (compares_pairs<N, T>) return larger_lanes<i32s>(magnitudes & 0xffff, magnitudes >> 16);
  else return magnitudes;
}

/// The result of one_in_a_lane for values of type T as bits of floats.
template <class T> [[gnu::always_inline]] inline u32s magnitude_bits_of(i32s magnitudes) noexcept {
  u32s const bits = __builtin_bit_cast(u32s, magnitudes);
  if constexpr (sizeof(T) == 4) return bits;
  else return __builtin_bit_cast(u32s, decode_lanes<typename T::format>(bits));
}

/// Writes the codes of a register in `Bits` bits each.
template <int Bits, class C> [[gnu::always_inline]] inline void store_codes(C* to, u32s codes) noexcept {
  static_assert(Bits == 4 || Bits == 8 || Bits == 16);
  if constexpr (Bits == 4) store_packed(to, codes);
  else if constexpr (Bits == 8) store(to, __builtin_convertvector(codes, u8s));
  else store(to, __builtin_convertvector(codes, u16s));
}

/// Writes the codes of four registers, each at most 8 bits wide. They are first put into one register, a byte for each.
template <int Bits, class C>
[[gnu::always_inline]] inline void store_four(C* to, u32s a, u32s b, u32s c, u32s d) noexcept {
#if defined(__AVX2__)
  u32s const mixed = a | (b << 8) | (c << 16) | (d << 24);
  if constexpr (Bits == 4) {
    // Of every two lanes the low one gets four bytes with two codes each.
    u64s const pairs = __builtin_bit_cast(u64s, mixed);
    half_u32s const bytes = __builtin_convertvector(pairs | (pairs >> 28), half_u32s);
    store(to, sort_bytes<lanes / 2>(__builtin_bit_cast(two_u8s, bytes)));
  } else {
    store(to, sort_bytes<lanes>(__builtin_bit_cast(four_u8s, mixed)));
  }
#else
  store_codes<Bits>(to, a);
  store_codes<Bits>(to + lanes * Bits / 8, b);
  store_codes<Bits>(to + 2 * lanes * Bits / 8, c);
  store_codes<Bits>(to + 3 * lanes * Bits / 8, d);
#endif
}

/// Loads two registers of codes of 4 bits into the low bits of each lane. The bits above them are not cleared.
[[gnu::always_inline]] inline void load_nibbles(std::uint8_t const* from, u32s& first, u32s& second) noexcept {
  u32s const even = widen(load<u8s>(from)), odd = even >> 4;
  [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    first = __builtin_shufflevector(even, odd, (I / 2 + I % 2 * lanes)...);
    second = __builtin_shufflevector(even, odd, (lanes / 2 + I / 2 + I % 2 * lanes)...);
  }
  (all_lanes{});
}

/// Loads a register of random words from words[first] on; nothing where R has none.
template <class R, class W>
[[gnu::always_inline]] inline u32s load_random_words([[maybe_unused]] W const* words,
                                                     [[maybe_unused]] int first) noexcept {
  if constexpr (!detail::has_random_words<R>) return u32s{};
  else if constexpr (sizeof(W) == 1) return widen(load<u8s>(words + first));
  else if constexpr (sizeof(W) == 2) return widen(load<u16s>(words + first));
  else return load<u32s>(words + first);
}

// decode_groups and decode_run call the next two functions, because no constant expression may contain a decoder.
template <class F, int N, bool Packed, class C>
[[gnu::always_inline]] inline void decode_all_groups(C const* codes, float const* factors, float second, int groups,
                                                     float* values) noexcept {
  decoder<F> const decode;
  constexpr int registers = N / lanes;
  auto const put = [&](int i, u32s register_of_codes) __attribute__((always_inline)) {
    f32s value = decode(register_of_codes) * factors[i / registers];
#if defined(__FAST_MATH__)
    asm("" : "+m"(value));
#endif
    store(values + i * lanes, value * second);
  };
  int i = 0;
  if constexpr (Packed && F::spec.bits() == 4) {
    for (; i + 2 <= groups * registers; i += 2) {
      u32s low, high;
      load_nibbles(codes + i * (lanes / 2), low, high);
      put(i, low);
      put(i + 1, high);
    }
    if (i == groups * registers) return;
    std::uint8_t last[lanes] = {};
    for (int k = 0; k < lanes / 2; ++k) last[k] = codes[i * (lanes / 2) + k];
    u32s low, high;
    load_nibbles(last, low, high);
    put(i, low);
  } else {
    for (; i < groups * registers; ++i) put(i, widen(load<u8s>(codes + i * lanes)));
  }
}
template <class F, class C>
[[gnu::always_inline]] inline int decode_registers(C const* codes, int count, float* values) noexcept {
  using register_of_codes = std::conditional_t<sizeof(C) == 1, u8s, u16s>;
  decoder<F> const decode;
  int i = 0;
  for (; i + lanes <= count; i += lanes) store(values + i, decode(widen(load<register_of_codes>(codes + i))));
  return i;
}

#endif

// Each function below does the first part of a run and returns how much of it was done: 0 in constant expressions, in
// device code, and for counts and formats that it does not serve.

/// Sets amax[g] to the largest magnitude of the values [g * N, (g + 1) * N), as bits of a float; a NaN is above
/// infinity.
template <int N, class T>
LOFT_HOST_DEVICE constexpr int amax_groups([[maybe_unused]] T const* values, [[maybe_unused]] int groups,
                                           [[maybe_unused]] std::uint32_t* amax) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0 && has_load_values<T>) {
    if (constant_evaluated()) return 0;
    int group = 0;
    for (; group + lanes <= groups; group += lanes, values += lanes * N) {
      i32s v[lanes];
      for (int k = 0; k < lanes; ++k) v[k] = largest_lanes<N>(values + k * N);
      store(amax + group, magnitude_bits_of<T>(one_in_a_lane<N, T>(largest_of_each<compared<N, T>>(v))));
    }
    for (; group < groups; ++group, values += N) {
      i32s const largest = one_in_a_lane<N, T>(largest_lanes<N>(values));
      amax[group] = magnitude_bits_of<T>(i32s{} + largest_lane<lanes>(largest))[0];
    }
    return groups;
  }
#endif
  return 0;
}

/// Sets codes[i] to the code of values[i] * multipliers[i / N], for `groups` runs of N values.
/// in: `words`: a random word for each value, where R looks at them; `ahead`: memory that is read soon, `ahead_bytes`
/// bytes for each value, which is prefetched meanwhile. Packed: codes of 4 bits are written two in a byte. PowersOfTwo:
/// all multipliers are powers of two. Returns how many groups were done.
template <class F, class R, int N, bool Packed, bool PowersOfTwo = false, class T, class W, class C>
LOFT_HOST_DEVICE constexpr int encode_groups([[maybe_unused]] T const* values,
                                             [[maybe_unused]] float const* multipliers, [[maybe_unused]] int groups,
                                             [[maybe_unused]] W const* words, [[maybe_unused]] void const* ahead,
                                             [[maybe_unused]] int ahead_bytes, [[maybe_unused]] C* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0 && (N / lanes <= 2 || N / lanes % 4 == 0) && has_load_values<T> &&
                has_encode_lanes<F, R> && sizeof(C) == 1) {
    if (constant_evaluated()) return 0;
    constexpr int width = Packed ? F::spec.bits() : 8, registers = N / lanes, bytes = lanes * width / 8;
    lines_ahead<T> lines{reinterpret_cast<std::uintptr_t>(ahead), static_cast<std::uintptr_t>(lanes * ahead_bytes)};
    if constexpr (Packed && has_table_encoder<F, R>) {
      if constexpr (PowersOfTwo && has_upper_half<T> && N % (2 * lanes) == 0)
        encode_by_table<F, R, N>(values, multipliers, groups, lines, codes);
      else encode_scaled_by_table<F, R, N>(values, multipliers, groups, lines, codes);
      return groups;
    }
    auto const scaled = [&](int i, float multiplier) __attribute__((always_inline)) {
      lines.fetch(1);
      return load_values(values + i * lanes) * multiplier;
    };
    auto const encode = [&](f32s v, [[maybe_unused]] int i) __attribute__((always_inline)) {
      return encode_lanes<F, R>(v, load_random_words<R>(words, i * lanes));
    };
    constexpr int together = registers % 4 == 0 ? 1 : 4 / registers;  // groups in four registers
    int group = 0;
    for (; group + together <= groups; group += together, multipliers += together) {
      for (int i = 0; i < together * registers; i += 4) {
        f32s v[4];
        for (int k = 0; k < 4; ++k) v[k] = scaled(i + k, multipliers[(i + k) / registers]);
        u32s four[4];
        for (int k = 0; k < 4; ++k) four[k] = encode(v[k], i + k);
        store_four<width>(codes + i * bytes, four[0], four[1], four[2], four[3]);
      }
      values += together * N;
      if constexpr (detail::has_random_words<R>) words += together * N;
      codes += together * registers * bytes;
    }
    for (; group < groups; ++group, ++multipliers) {
      for (int i = 0; i < registers; ++i) store_codes<width>(codes + i * bytes, encode(scaled(i, *multipliers), i));
      values += N;
      if constexpr (detail::has_random_words<R>) words += N;
      codes += registers * bytes;
    }
    return groups;
  }
#endif
  return 0;
}

/// Sets values[i] to the value of codes[i], times factors[i / N], times `second`, each product rounded, for `groups`
/// runs of N codes. Packed: as in encode_groups.
template <class F, int N, bool Packed, class C>
LOFT_HOST_DEVICE constexpr int decode_groups([[maybe_unused]] C const* codes, [[maybe_unused]] float const* factors,
                                             [[maybe_unused]] float second, [[maybe_unused]] int groups,
                                             [[maybe_unused]] float* values) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0 && has_decoder<F> && sizeof(C) == 1) {
    if (constant_evaluated()) return 0;
    decode_all_groups<F, N, Packed>(codes, factors, second, groups, values);
    return groups;
  }
#endif
  return 0;
}

/// Sets codes[i] to encode<F, O>(values[i]) for whole registers of values, NaN and infinity included. Special: O is
/// overflow::special.
template <class F, class R, bool Special, class T, class W, class C>
LOFT_HOST_DEVICE constexpr int encode_run([[maybe_unused]] T const* values, [[maybe_unused]] int count,
                                          [[maybe_unused]] W const* words, [[maybe_unused]] C* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (has_load_values<T> && has_encode_lanes<F, R>) {
    if (constant_evaluated()) return 0;
    int i = 0;
    for (; i + lanes <= count; i += lanes) {
      u32s const random = load_random_words<R>(words, i);
      store_codes<8 * sizeof(C)>(codes + i, encode_all_lanes<F, R, Special>(load_values(values + i), random));
    }
    return i;
  }
#endif
  return 0;
}

/// Sets values[i] to decode<F>(codes[i]) for whole registers of codes. C: a code, or a minifloat<F>.
template <class F, class C>
LOFT_HOST_DEVICE constexpr int decode_run([[maybe_unused]] C const* codes, [[maybe_unused]] int count,
                                          [[maybe_unused]] float* values) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (has_decoder<F>) {
    if (constant_evaluated()) return 0;
    return decode_registers<F>(codes, count, values);
  }
#endif
  return 0;
}

}  // namespace loft::native
