// SPDX-License-Identifier: Apache-2.0
// The host's hooks: what registers of many lanes do for whole runs of values, codes and random words.
// Source: vectors.hpp for the arithmetic. tests/lanes_test.cpp compares every hook with the generic code that it
// replaces.
#ifndef LOFT_NATIVE_HOST_HPP
#define LOFT_NATIVE_HOST_HPP

#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/native/vectors.hpp"

namespace loft::native {

#if LOFT_HAS_HOST_VECTORS

/// The magnitudes of N values, the largest of each lane: float bits, or codes where values are 16 bits wide.
template <int N, class T>
[[gnu::always_inline]] inline i32s largest_lanes(T const* values) noexcept {
  i32s result = {};
  if constexpr (sizeof(T) == 4) {
    for (int i = 0; i < N; i += lanes) {
      i32s const bits = load<i32s>(values + i) & 0x7fff'ffff;
      result = bits > result ? bits : result;
    }
    return result;
  } else if constexpr (N % (2 * lanes) == 0) {
    i16_pairs pairs = {};
    for (int i = 0; i < N; i += 2 * lanes) {
      i16_pairs const bits = load<i16_pairs>(values + i) & static_cast<std::int16_t>(0x7fff);
      pairs = bits > pairs ? bits : pairs;
    }
    i32s const words = __builtin_bit_cast(i32s, pairs), low = words & 0xffff, high = words >> 16;
    return low > high ? low : high;
  } else {
    for (int i = 0; i < N; i += lanes) {
      i32s const bits = __builtin_bit_cast(i32s, widen(load<u16s>(values + i)) & 0x7fffu);
      result = bits > result ? bits : result;
    }
    return result;
  }
}

/// Magnitudes as float bits, from what largest_lanes finds in values of this type.
template <class T>
[[gnu::always_inline]] inline u32s magnitude_bits_of(i32s magnitudes) noexcept {
  u32s const bits = __builtin_bit_cast(u32s, magnitudes);
  if constexpr (sizeof(T) == 4) return bits;
  else return __builtin_bit_cast(u32s, decode_lanes<typename T::format>(bits));
}

/// Writes the codes of a register in `Bits` bits each.
template <int Bits, class C>
[[gnu::always_inline]] inline void store_codes(C* to, u32s codes) noexcept {
  static_assert(Bits == 4 || Bits == 8 || Bits == 16);
  if constexpr (Bits == 4) {
    u64s const pairs = __builtin_bit_cast(u64s, codes);
    store(to, __builtin_convertvector(pairs | (pairs >> 28), half_u8s));
  } else if constexpr (Bits == 8) {
    store(to, __builtin_convertvector(codes, u8s));
  } else {
    store(to, __builtin_convertvector(codes, u16s));
  }
}

/// Writes the codes of four registers, each at most 8 bits wide. They share one register first, a byte for each.
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

/// A register of codes of 4 bits from the bytes that hold them, in the low bits of each lane; above them anything.
[[gnu::always_inline]] inline u32s load_nibbles(std::uint8_t const* from) noexcept {
#if defined(__AVX512F__)
  u64s const bytes = __builtin_convertvector(load<half_u8s>(from), u64s);
#else
  u64s bytes = {};
  for (int i = 0; i < lanes / 2; ++i) bytes[i] = from[i];
#endif
  return __builtin_bit_cast(u32s, bytes | (bytes << 28));
}

/// The words that random bits are kept in.
template <class W>
[[gnu::always_inline]] inline u32s load_words(W const* from) noexcept {
  if constexpr (sizeof(W) == 1) return widen(load<u8s>(from));
  else if constexpr (sizeof(W) == 2) return widen(load<u16s>(from));
  else return load<u32s>(from);
}

// Two bodies of hooks that no constant expression may contain, because a decoder is no literal.
template <class F, int N, bool Packed, class C>
[[gnu::always_inline]] inline void decode_all_groups(C const* codes, float const* factors, float second, int groups,
                                                     float* values) noexcept {
  decoder<F> const decode;
  for (int group = 0; group < groups; ++group) {
    for (int i = group * N; i < (group + 1) * N; i += lanes) {
      u32s register_of_codes;
      if constexpr (Packed && F::spec.bits() == 4) register_of_codes = load_nibbles(codes + i / 2);
      else register_of_codes = widen(load<u8s>(codes + i));
      f32s value = decode(register_of_codes) * factors[group];
#if defined(__FAST_MATH__)
      asm("" : "+m"(value));
#endif
      store(values + i, value * second);
    }
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

// The hooks. Each does the first part of a run and returns how much of it, 0 where vectors are not to be had: in
// constant expressions, on a device, for a count or a format they are not made for.

/// amax[g] = the largest magnitude of the values [g * N, (g + 1) * N) as float bits; a NaN is above infinity.
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
      store(amax + group, magnitude_bits_of<T>(largest_of_each(v)));
    }
    for (; group < groups; ++group, values += N)
      amax[group] = magnitude_bits_of<T>(i32s{} + largest_lane<lanes>(largest_lanes<N>(values)))[0];
    return groups;
  }
#endif
  return 0;
}

/// codes[i] = the code of values[i] * multipliers[i / N], for `groups` runs of N values. `words`: one random word each,
/// where R takes them. Packed: codes of 4 bits, two in a byte. `ahead`: memory that is wanted soon, as much as `count`
/// numbers of `ahead_bytes` bytes: asked for while the lanes are busy. Returns the groups that are done.
template <class F, class R, int N, bool Packed, class T, class W, class C>
LOFT_HOST_DEVICE constexpr int encode_groups([[maybe_unused]] T const* values,
                                             [[maybe_unused]] float const* multipliers, [[maybe_unused]] int groups,
                                             [[maybe_unused]] W const* words, [[maybe_unused]] void const* ahead,
                                             [[maybe_unused]] int ahead_bytes, [[maybe_unused]] C* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0 && (N / lanes <= 2 || N / lanes % 4 == 0) && has_load_values<T> &&
                has_encode_lanes<F, R> && sizeof(C) == 1) {
    if (constant_evaluated()) return 0;
    constexpr int width = Packed ? F::spec.bits() : 8, registers = N / lanes, bytes = lanes * width / 8;
    auto next = reinterpret_cast<std::uintptr_t>(ahead);
    auto const step = static_cast<std::uintptr_t>(lanes * ahead_bytes);
    auto const encode = [&](T const* from, float multiplier, [[maybe_unused]] int i) __attribute__((always_inline)) {
      u32s random = {};
      if constexpr (requires { R::bits; }) random = load_words(words + i * lanes);
      __builtin_prefetch(reinterpret_cast<void const*>(next));
      next += step;
      return encode_lanes<F, R>(load_values(from) * multiplier, random);
    };
    constexpr int together = registers % 4 == 0 ? 1 : 4 / registers;  // groups in four registers
    int group = 0;
    for (; group + together <= groups; group += together, multipliers += together) {
      for (int i = 0; i < together * registers; i += 4) {
        u32s four[4];
        for (int k = 0; k < 4; ++k) four[k] = encode(values + (i + k) * lanes, multipliers[(i + k) / registers], i + k);
        store_four<width>(codes + i * bytes, four[0], four[1], four[2], four[3]);
      }
      values += together * N;
      if constexpr (requires { R::bits; }) words += together * N;
      codes += together * registers * bytes;
    }
    for (; group < groups; ++group, ++multipliers) {
      for (int i = 0; i < registers; ++i)
        store_codes<width>(codes + i * bytes, encode(values + i * lanes, *multipliers, i));
      values += N;
      if constexpr (requires { R::bits; }) words += N;
      codes += registers * bytes;
    }
    return groups;
  }
#endif
  return 0;
}

/// values[i] = the value of codes[i] * factors[i / N], then * second, for `groups` runs of N codes. Packed: as
/// encode_groups.
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

/// codes[i] = encode<F, O>(values[i]) for whole registers of values, NaN and infinity included; Special: O is special.
template <class F, class R, bool Special, class T, class W, class C>
LOFT_HOST_DEVICE constexpr int encode_run([[maybe_unused]] T const* values, [[maybe_unused]] int count,
                                          [[maybe_unused]] W const* words, [[maybe_unused]] C* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (has_load_values<T> && has_encode_lanes<F, R>) {
    if (constant_evaluated()) return 0;
    int i = 0;
    for (; i + lanes <= count; i += lanes) {
      u32s random = {};
      if constexpr (requires { R::bits; }) random = load_words(words + i);
      store_codes<8 * sizeof(C)>(codes + i, encode_all_lanes<F, R, Special>(load_values(values + i), random));
    }
    return i;
  }
#endif
  return 0;
}

/// values[i] = decode<F>(codes[i]) for whole registers of codes. C: a code, or a number of F that consists of one.
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

/// The unnormalised Hadamard transform of N floats, times `norm`; sums in the order of rotation.hpp. Returns N, or 0.
template <int N>
LOFT_HOST_DEVICE constexpr int hadamard_run([[maybe_unused]] float* run, [[maybe_unused]] float norm) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % 16 == 0 && N <= 256) {
    if (constant_evaluated()) return 0;
    constexpr int count = N / lanes;
    f32s v[count];
    for (int k = 0; k < count; ++k) {
      v[k] = butterfly<2>(butterfly<1>(load<f32s>(run + lanes * k)));
      if constexpr (lanes > 4) v[k] = butterfly<4>(v[k]);
      if constexpr (lanes > 8) v[k] = butterfly<8>(v[k]);
    }
    for (int distance = 1; distance < count; distance *= 2) {
      for (int k = 0; k < count; ++k) {
        if ((k & distance) != 0) continue;
        f32s const a = v[k], b = v[k + distance];
        v[k] = a + b;
        v[k + distance] = a - b;
      }
    }
    for (int k = 0; k < count; ++k) store(run + lanes * k, v[k] * norm);
    return N;
  }
#endif
  return 0;
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
