// SPDX-License-Identifier: Apache-2.0
// Codes of 4 bits in lanes of 16 bits: what such a format can tell apart is so little that the code is looked up.
// Source: convert.hpp, which fills the table; tests/lanes_test.cpp compares the two.
#ifndef LOFT_NATIVE_HALF_CODEC_HPP
#define LOFT_NATIVE_HALF_CODEC_HPP

#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/convert.hpp"
#include "loft/native/lane_codec.hpp"
#include "loft/native/vectors.hpp"

namespace loft::native {

#if LOFT_HAS_HOST_VECTORS

/// Takes the magnitude of a bf16, counted from two binades below F's least code, to an index and on to a code.
///
/// Of the mantissa the m + 1 top bits count, and of the rest only whether it is zero: roundings look at no more. So a
/// float will do as well, cut to 16 bits, if the last of them says whether something was lost.
template <class F, class R>
struct half_encoder {
  static constexpr auto spec = F::spec;
  static constexpr int m = spec.mantissa_bits, below = m + 2, cut = 6 - m;
  static constexpr int origin = (127 + spec.min_exponent() - below) << 7;  // a bf16 with an index of 0
  static constexpr int top =
      (((spec.max_exponent() + 127) << 7) | static_cast<int>((spec.max_code() & ((1u << m) - 1)) << (7 - m))) - origin;
  static constexpr int top_index = 2 * (top >> cut);

  struct table_of_codes {
    alignas(64) std::uint16_t codes[64];
  };
  static constexpr table_of_codes table = [] {
    table_of_codes result{};
    for (int i = 0; i <= top_index; ++i) {
      auto const bits = static_cast<std::uint32_t>(origin + (i / 2 << cut) + i % 2) << 16;
      result.codes[i] = detail::encode_scaled<F, overflow::saturate>(bit_cast<float>(bits), 0, R{}, 0);
    }
    return result;
  }();

  /// `start`: the bf16 that lies at `origin` when it is divided by the scale.
  [[gnu::always_inline]] static u16_pairs encode(u16_pairs bits, i16_pairs start) noexcept {
#if !defined(__clang__)
    i16_pairs const magnitude = __builtin_bit_cast(i16_pairs, bits) & static_cast<std::int16_t>(0x7fff);
    i16_pairs const above = (magnitude > start ? magnitude : start) - start;
    constexpr i16_pairs most = i16_pairs{} + static_cast<std::int16_t>(top);
    u16_pairs const a = __builtin_bit_cast(u16_pairs, above > most ? most : above);
    u16_pairs const index = (a >> cut) + ((a + static_cast<std::uint16_t>((1 << cut) - 1)) >> cut);
    u16_pairs const code =
        __builtin_shuffle(load<u16_pairs>(table.codes), load<u16_pairs>(table.codes + 2 * lanes), index);
    return code | (bits >> (16 - spec.bits()) & static_cast<std::uint16_t>(spec.sign_mask()));
#else
    return bits + __builtin_bit_cast(u16_pairs, start);
#endif
  }
};

/// True where half_encoder<F, R> serves: a shuffle with computed lanes of 16 bits, and a table of 64 codes.
template <class F, class R>
inline constexpr bool has_half_encoder = [] {
#if defined(__AVX512BW__) && !defined(__clang__)
  if constexpr (!has_encode_lanes<F, R> || requires { R::bits; }) return false;
  else if constexpr (F::spec.bits() != 4 || !F::spec.has_negative_zero() || F::spec.mantissa_bits > 5) return false;
  else return half_encoder<F, R>::top_index < 64;
#else
  return false;
#endif
}();

/// Two registers of floats cut to their upper halves: a in the low 16 bits of every 32, b in the high ones.
[[gnu::always_inline]] inline u16_pairs cut_to_halves(f32s a, f32s b) noexcept {
  u32s const x = __builtin_bit_cast(u32s, a), y = __builtin_bit_cast(u32s, b);
  auto const kept = __builtin_bit_cast(u16_pairs, (x >> 16) | (y & 0xffff'0000u));
  auto const next = __builtin_bit_cast(u16_pairs, ((x + 0xffffu) >> 16) | ((y + 0xffffu) & 0xffff'0000u));
  return kept | (next - kept);
}

/// Writes the codes of 4 bits of four registers of floats.
template <class F, class R>
[[gnu::always_inline]] inline void store_looked_up(std::uint8_t* to, f32s a, f32s b, f32s c, f32s d) noexcept {
  using encoder = half_encoder<F, R>;
  constexpr i16_pairs start = i16_pairs{} + static_cast<std::int16_t>(encoder::origin);
  u16_pairs const ac = encoder::encode(cut_to_halves(a, c), start), bd = encoder::encode(cut_to_halves(b, d), start);
  u64s const pairs = __builtin_bit_cast(u64s, ac | (bd << 8));
  half_u32s const bytes = __builtin_convertvector(pairs | (pairs >> 28), half_u32s);
  store(to, sort_bytes<lanes / 2>(__builtin_bit_cast(two_u8s, bytes)));
}

/// Writes four registers of codes of 4 bits in 16-bit lanes.
[[gnu::always_inline]] inline void store_half_codes(std::uint8_t* to, u16_pairs a, u16_pairs b, u16_pairs c,
                                                    u16_pairs d) noexcept {
  u32s const low = __builtin_bit_cast(u32s, a | (b << 8)), high = __builtin_bit_cast(u32s, c | (d << 8));
  u32s const bytes = ((low | (low >> 12)) & 0xffffu) | ((high | (high >> 12)) << 16);
  store(to, sort_bytes<lanes>(__builtin_bit_cast(four_u8s, bytes)));
}

/// encode_groups for bf16, F of 4 bits and multipliers that are powers of two: packed codes of `groups` runs of N
/// values.
template <class F, class R, int N, class T>
inline void encode_halves(T const* values, float const* multipliers, int groups, std::uintptr_t ahead,
                          std::uintptr_t step, std::uint8_t* codes) noexcept {
  using encoder = half_encoder<F, R>;
  constexpr int together = 64, registers = N / (2 * lanes);
  for (int first = 0; first < groups; first += together) {
    int const here = detail::min(together, groups - first);
    std::uint32_t starts[together];  // twice 16 bits
    for (int g = 0; g < here; ++g)
      starts[g] = (static_cast<std::uint32_t>(encoder::origin + (127 << 7)) -
                   (bit_cast<std::uint32_t>(multipliers[first + g]) >> 16)) *
                  0x1'0001u;
    auto const encode = [&](int i) __attribute__((always_inline)) {
      __builtin_prefetch(reinterpret_cast<void const*>(ahead));
      ahead += step;
      return encoder::encode(load<u16_pairs>(values + i * 2 * lanes),
                             __builtin_bit_cast(i16_pairs, u32s{} + starts[i / registers]));
    };
    int i = 0;
    for (; i + 4 <= here * registers; i += 4) {
      u16_pairs four[4];
      for (int k = 0; k < 4; ++k) four[k] = encode(i + k);
      store_half_codes(codes + i * lanes, four[0], four[1], four[2], four[3]);
    }
    for (; i < here * registers; ++i) {
      u32s const pairs = __builtin_bit_cast(u32s, encode(i));
      store(codes + i * lanes, __builtin_convertvector(pairs | (pairs >> 12), u8s));
    }
    values += static_cast<std::int64_t>(here) * N;
    codes += static_cast<std::int64_t>(here) * N / 2;
  }
}

#endif

}  // namespace loft::native

#endif
