// SPDX-License-Identifier: Apache-2.0
// Encodes to 4 bits by a table. The upper 16 bits of a float, and whether the lower ones are all zero, decide the code.
// Source: number/convert.hpp, which fills the table; tests/array/array_test.cpp compares the two.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/native/host/vector_convert.hpp"
#include "loft/native/host/vectors.hpp"
#include "loft/number/convert.hpp"

namespace loft::native {

#if LOFT_HAS_HOST_VECTORS

/// A register of the upper 16 bits of floats: as they are, and as magnitudes, in which the last bits are not all zero
/// where the lower 16 bits were not.
struct upper_halves {
  u16_pairs bits, magnitudes;
};

/// Finds the code of a magnitude in bf16, whose distance from two binades below F's least code makes an index.
///
/// Roundings look at the m + 1 top bits of the mantissa, and of the rest only at whether it is zero. So a float can be
/// cut to 16 bits if the last of these say whether anything was lost.
template <class F, class R> struct table_encoder {
  static constexpr auto spec = F::spec;
  static constexpr int m = spec.mantissa_bits, below = m + 2, cut = 6 - m;
  static constexpr int origin = (127 + spec.min_exponent() - below) << 7;  // a bf16 with an index of 0
  static constexpr int top =
      (((spec.max_exponent() + 127) << 7) | static_cast<int>((spec.max_code() & ((1u << m) - 1)) << (7 - m))) - origin;
  static constexpr int top_index = 2 * (top >> cut);

  struct table_of_codes {
    alignas(64) std::uint8_t codes[64];
  };
  static constexpr table_of_codes table = [] {
    table_of_codes result{};
    for (int i = 0; i <= top_index; ++i) {
      auto const bits = static_cast<std::uint32_t>(origin + (i / 2 << cut) + i % 2) << 16;
      result.codes[i] = detail::encode_scaled<F, overflow::saturate>(bit_cast<float>(bits), 0, R{}, 0);
    }
    return result;
  }();

  /// How far magnitudes lie above `start`, which is `origin` times the scale.
  [[gnu::always_inline]] static u16_pairs above(u16_pairs magnitudes, i16_pairs start) noexcept {
    i16_pairs const bits = __builtin_bit_cast(i16_pairs, magnitudes);
    i16_pairs const most = i16_pairs{} + static_cast<std::int16_t>(top);
    i16_pairs const a = (bits > start ? bits : start) - start;
    return __builtin_bit_cast(u16_pairs, a > most ? most : a);
  }

  /// The codes of two registers: those of a in the low byte of every 16 bits, those of b in the high one. The index of
  /// a magnitude is its distance in units of 2^cut rounded down, plus the same rounded up.
  [[gnu::always_inline]] static four_u8s encode(upper_halves a, i16_pairs start_a, upper_halves b,
                                                i16_pairs start_b) noexcept {
#if !defined(__clang__)
    constexpr std::uint16_t to_next = (1 << cut) - 1, upper = 0xff00;
    auto const bytes = [](u16_pairs x, u16_pairs y) __attribute__((always_inline)) {
      return (x >> cut) | ((y << (8 - cut)) & upper);
    };
    u16_pairs const x = above(a.magnitudes, start_a), y = above(b.magnitudes, start_b);
    u16_pairs const index = bytes(x, y) + bytes(x + to_next, y + to_next);
    four_u8s const found = __builtin_shuffle(load<four_u8s>(table.codes), __builtin_bit_cast(four_u8s, index));
    u16_pairs const signs = (a.bits >> 8) | (b.bits & upper);
    constexpr auto sign = static_cast<std::uint16_t>(spec.sign_mask() * 0x0101u);
    return __builtin_bit_cast(four_u8s, __builtin_bit_cast(u16_pairs, found) | (signs >> (8 - spec.bits()) & sign));
#else
    return __builtin_bit_cast(four_u8s, a.bits + b.bits + __builtin_bit_cast(u16_pairs, start_a + start_b));
#endif
  }
};

/// Whether table_encoder<F, R> can be used: the machine shuffles 64 bytes by computed places, and 64 codes are enough.
template <class F, class R>
inline constexpr bool has_table_encoder = [] {
#if defined(__AVX512VBMI__) && !defined(__clang__)
  if constexpr (!has_encode_lanes<F, R> || detail::has_random_words<R>) return false;
  else if constexpr (F::spec.bits() != 4 || !F::spec.has_negative_zero() || F::spec.mantissa_bits > 5) return false;
  else return table_encoder<F, R>::top_index < 64;
#else
  return false;
#endif
}();

/// The upper halves of two registers of floats, one after the other. What is lost sets bits below Encoder::cut, of
/// which only matters whether all are zero.
template <class Encoder> [[gnu::always_inline]] inline upper_halves cut_to_upper_halves(f32s a, f32s b) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    u16_pairs const x = __builtin_bit_cast(u16_pairs, a), y = __builtin_bit_cast(u16_pairs, b);
    u16_pairs const kept = __builtin_shufflevector(x, y, (2 * I + 1)...);
    u16_pairs const lost = __builtin_shufflevector(x, y, (2 * I)...);
    u16_pairs const some = u16_pairs{} + static_cast<std::uint16_t>((1 << Encoder::cut) - 1);
    return upper_halves{kept, (kept | (lost > some ? some : lost)) & static_cast<std::uint16_t>(0x7fff)};
  }
  (std::make_integer_sequence<int, 2 * lanes>{});
}

/// Whether the upper 16 bits of a T are a bf16: for float and for bf16_t.
template <class T> inline constexpr bool has_upper_half = std::is_same_v<T, float> || requires {
  requires sizeof(T) == 2 && is_upper_part<typename T::format>;
  requires T::format::spec.mantissa_bits == 7;
};

/// The upper halves of 2 * lanes values.
template <class Encoder, class T> [[gnu::always_inline]] inline upper_halves load_upper_halves(T const* from) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return cut_to_upper_halves<Encoder>(load<f32s>(from), load<f32s>(from + lanes));
  } else {
    u16_pairs const bits = load<u16_pairs>(from);
    return {bits, bits & static_cast<std::uint16_t>(0x7fff)};
  }
}

/// Writes a register of codes of 4 bits, two in a byte.
template <class C> [[gnu::always_inline]] inline void store_packed(C* to, u32s codes) noexcept {
  u64s const pairs = __builtin_bit_cast(u64s, codes);
  store(to, __builtin_convertvector(pairs | (pairs >> 28), half_u8s));
}

/// Writes what table_encoder makes of four registers as codes of 4 bits, in the order of the values.
[[gnu::always_inline]] inline void store_table_codes(std::uint8_t* to, four_u8s ab, four_u8s cd) noexcept {
  u32s x = __builtin_bit_cast(u32s, ab), y = __builtin_bit_cast(u32s, cd);
  ab = __builtin_bit_cast(four_u8s, x | (x >> 12));
  cd = __builtin_bit_cast(four_u8s, y | (y >> 12));
  [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    constexpr int two = 2 * lanes;
    store(to, __builtin_shufflevector(ab, cd, (I / two * 2 * two + I % lanes * 4 + I / lanes % 2)...));
  }
  (std::make_integer_sequence<int, 4 * lanes>{});
}

/// Writes the packed codes of `count` registers of upper halves. get(i) gives register i, and start(i) what its
/// magnitudes are counted from.
template <class F, class R, class Get, class Start>
[[gnu::always_inline]] inline void encode_registers_by_table(int count, Get get, Start start,
                                                             std::uint8_t* codes) noexcept {
  using encoder = table_encoder<F, R>;
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    upper_halves h[4];
    for (int k = 0; k < 4; ++k) h[k] = get(i + k);
    four_u8s const ab = encoder::encode(h[0], start(i), h[1], start(i + 1));
    store_table_codes(codes + i * lanes, ab, encoder::encode(h[2], start(i + 2), h[3], start(i + 3)));
  }
  for (; i < count; ++i) {
    upper_halves const h = get(i);
    u32s const pairs = __builtin_bit_cast(u32s, encoder::encode(h, start(i), h, start(i)));
    store(codes + i * lanes, __builtin_convertvector(pairs | (pairs >> 12), u8s));
  }
}

/// Writes the packed codes of `groups` runs of N values of a type with has_upper_half, for multipliers that are powers
/// of two: they change where magnitudes are counted from, and nothing is multiplied. `ahead` steps by a register of
/// floats.
template <class F, class R, int N, class T>
[[gnu::noinline]] inline void encode_by_table(T const* values, float const* multipliers, int groups,
                                              lines_ahead<T> ahead, std::uint8_t* codes) noexcept {
  using encoder = table_encoder<F, R>;
  constexpr int together = 64, registers = N / (2 * lanes), lines = sizeof(T) / 2;
  if (lines == 1) ahead.step *= 2;
  for (int first = 0; first < groups; first += together) {
    int const here = detail::min(together, groups - first);
    std::uint32_t starts[together];  // twice 16 bits
    for (int g = 0; g < here; ++g)
      starts[g] = (static_cast<std::uint32_t>(encoder::origin + (127 << 7)) -
                   (bit_cast<std::uint32_t>(multipliers[first + g]) >> 16)) *
                  0x1'0001u;
    auto const get = [&](int i) __attribute__((always_inline)) {
      ahead.fetch(lines);
      return load_upper_halves<encoder>(values + i * 2 * lanes);
    };
    auto const start = [&](int i) __attribute__((always_inline)) {
      return __builtin_bit_cast(i16_pairs, u32s{} + starts[i / registers]);
    };
    encode_registers_by_table<F, R>(here * registers, get, start, codes);
    values += static_cast<std::int64_t>(here) * N;
    codes += static_cast<std::int64_t>(here) * N / 2;
  }
}

/// Does the same for any values and multipliers.
template <class F, class R, int N, class T>
[[gnu::noinline]] inline void encode_scaled_by_table(T const* values, float const* multipliers, int groups,
                                                     lines_ahead<T> ahead, std::uint8_t* codes) noexcept {
  using encoder = table_encoder<F, R>;
  constexpr int in_group = N / lanes;
  int const registers = groups * in_group;
  auto const scaled = [&](int i) __attribute__((always_inline)) {
    return load_values(values + i * lanes) * multipliers[i / in_group];
  };
  auto const get = [&](int i) __attribute__((always_inline)) {
    ahead.fetch(2);
    return cut_to_upper_halves<encoder>(scaled(2 * i), scaled(2 * i + 1));
  };
  auto const start = [](int) { return i16_pairs{} + static_cast<std::int16_t>(encoder::origin); };
  encode_registers_by_table<F, R>(registers / 2, get, start, codes);
  if (registers % 2 != 0)
    store_packed(codes + (registers - 1) * lanes / 2, encode_lanes<F, R>(scaled(registers - 1), u32s{}));
}

#endif

}  // namespace loft::native
