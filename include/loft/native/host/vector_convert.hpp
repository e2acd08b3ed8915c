// SPDX-License-Identifier: Apache-2.0
// encode and decode of a register of numbers. Source: the steps are those of array/branchless.hpp and
// number/convert.hpp; tests/array/array_test.cpp compares them.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/core/bits.hpp"
#include "loft/native/host/vectors.hpp"
#include "loft/number/format.hpp"
#include "loft/number/rounding.hpp"

namespace loft::native {

#if LOFT_HAS_HOST_VECTORS

/// Whether a code of F is the upper part of a float, as one of bf16 is: both have the same exponents.
template <class F> inline constexpr bool is_upper_part = requires {
  requires F::spec.exponent_bits == 8 && F::spec.bias == 127 && F::spec.special == specials::ieee&& F::spec.is_signed;
  requires F::spec.bits() <= 16;
};

/// Whether a decoder<F> exists: F has the layout of a float, a sign and a zero, and its values are normal floats,
/// unless its codes are upper parts of floats.
template <class F> inline constexpr bool has_decoder = is_upper_part<F> || requires {
  requires F::spec.exponent_bits >= 1 && F::spec.bits() <= 16 && F::spec.has_zero&& F::spec.is_signed;
  requires F::spec.min_exponent() - F::spec.mantissa_bits >= -100;
};

/// The values of a register of codes.
template <class F> [[gnu::always_inline]] inline f32s decode_lanes(u32s codes) noexcept {
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << 23;
  u32s const sign = (codes << (32 - spec.bits())) & 0x8000'0000u;
  u32s magnitude = codes & spec.magnitude_mask(), bits;
  if constexpr (spec.twos_complement) magnitude = sign != 0u ? spec.sign_mask() - magnitude : magnitude;
  if constexpr (is_upper_part<F>) {
    bits = (magnitude << shift) | sign;
  } else {
    u32s const moved = (magnitude << shift) + rebias;
    auto const subnormal = magnitude < (1u << spec.mantissa_bits);
    constexpr auto least = bit_cast<std::uint32_t>(detail::power_of_two(spec.min_exponent()));
    f32s const value = __builtin_bit_cast(f32s, subnormal ? moved + (1u << 23) : moved) -
                       __builtin_bit_cast(f32s, subnormal ? u32s{} + least : u32s{});
    bits = __builtin_bit_cast(u32s, value) | sign;
    if constexpr (spec.has_infinity()) bits = magnitude == spec.infinity_code() ? sign | detail::float_infinity : bits;
  }
  if constexpr (spec.special == specials::nan || spec.special == specials::ieee) {
    constexpr std::uint32_t last = spec.has_infinity() ? spec.infinity_code() : spec.max_code();
    bits = magnitude > last ? u32s{} + detail::float_nan : bits;
  } else if constexpr (spec.has_nan()) {
    bits = (codes & (spec.sign_mask() | spec.magnitude_mask())) == spec.nan_code() ? u32s{} + detail::float_nan : bits;
  }
  return __builtin_bit_cast(f32s, bits);
}

/// decode_lanes<F> for many registers. Where all values of F fit in one register, they are looked up there.
template <class F> struct decoder {
#if defined(__clang__)
  static constexpr bool looks_up = false;  // clang has no shuffle with computed lanes
#else
  static constexpr bool looks_up = F::spec.bits() <= 4 && lanes == 16;
#endif
  f32s table = {};

  [[gnu::always_inline]] inline decoder() noexcept {
    if constexpr (looks_up) {
      table = [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
        return decode_lanes<F>(u32s{static_cast<std::uint32_t>(I)...});
      }
      (all_lanes{});
    }
  }
  [[gnu::always_inline]] inline f32s operator()(u32s codes) const noexcept {
#if !defined(__clang__)
    if constexpr (looks_up) {
      if constexpr (F::spec.bits() < 4) codes &= F::spec.sign_mask() | F::spec.magnitude_mask();
      return __builtin_shuffle(table, codes);
    } else
#endif
      return decode_lanes<F>(codes);
  }
};

/// Whether load_values takes a T: float, and numbers of 16 bits that have a decoder.
template <class T> inline constexpr bool has_load_values = std::is_same_v<T, float> || requires {
  // Magnitudes of 16 bits are compared as they are: infinity above the numbers, and NaN above it.
  requires sizeof(T) == 2 && has_decoder<typename T::format>;
  requires T::format::spec.special == specials::ieee;
};

/// A register of values as floats. A NaN stays one; its bits need not be the canonical ones.
template <class T> [[gnu::always_inline]] inline f32s load_values(T const* from) noexcept {
  if constexpr (std::is_same_v<T, float>) return load<f32s>(from);
  else if constexpr (is_upper_part<typename T::format>)
    return __builtin_bit_cast(f32s, widen(load<u16s>(from)) << (23 - T::format::spec.mantissa_bits));
  else return decode_lanes<typename T::format>(widen(load<u16s>(from)));
}

/// Roundings that add a number to the fraction and then drop it. `add` is what is added, in units of which `shift` bits
/// make one gap.
template <class R> struct additive {
  static constexpr bool available = false;
  static constexpr int shift = 0;
};
template <> struct additive<nearest_away> {
  static constexpr bool available = true;
  static constexpr int shift = 1;
  [[gnu::always_inline]] static u32s add(u32s) noexcept { return u32s{} + 1u; }
};
template <> struct additive<toward_zero> {
  static constexpr bool available = true;
  static constexpr int shift = 1;
  [[gnu::always_inline]] static u32s add(u32s) noexcept { return u32s{}; }
};
template <int Bits> struct additive<stochastic_word<Bits>> {
  static constexpr bool available = Bits <= 16;
  static constexpr int shift = Bits + 1;
  [[gnu::always_inline]] static u32s add(u32s words) noexcept { return words * 2u + 1u; }
};
template <int Bits> struct additive<truncated_stochastic_word<Bits>> {
  static constexpr bool available = Bits <= 16;
  static constexpr int shift = Bits + 1;
  [[gnu::always_inline]] static u32s add(u32s words) noexcept { return words * 2u; }
};

/// Whether encode_lanes<F, R> exists: F has a decoder, and R is an addition that fits in a word of 32 bits.
template <class F, class R> inline constexpr bool has_encode_lanes = requires {
  requires has_decoder<F>;
  requires F::spec.max_code() >> F::spec.mantissa_bits != 0;
  requires std::is_same_v<R, nearest_even> ||
      (additive<R>::available && additive<R>::shift <= 23 - F::spec.mantissa_bits);
};

/// The magnitudes of codes, rounded from bits of floats that exceed the largest value by one gap at most.
template <class F, class R> [[gnu::always_inline]] inline u32s round_lanes(i32s magnitude, u32s words) noexcept {
  constexpr auto spec = F::spec;
  constexpr int m = spec.mantissa_bits, shift = 23 - m, least = spec.min_exponent();
  constexpr std::uint32_t rebias = is_upper_part<F> ? 0 : static_cast<std::uint32_t>(127 - spec.bias) << m;
  constexpr std::int32_t least_normal = (127 + least) << 23;
  u32s const a = __builtin_bit_cast(u32s, magnitude);
  f32s const value = __builtin_bit_cast(f32s, magnitude);
  u32s normal, subnormal;
  if constexpr (std::is_same_v<R, nearest_even>) {
    // Adding 2^(23 - m) units of a number's binade, the subnormals' at least, rounds it to the units of its code.
    if constexpr (!is_upper_part<F> && m >= 1 && spec.max_exponent() + 1 + 23 - m <= 127) {
      i32s binade = magnitude & 0x7f80'0000;
      binade = binade > least_normal ? binade : i32s{} + least_normal;
      i32s const magic = binade + (shift << 23);
      i32s const units = __builtin_bit_cast(i32s, value + __builtin_bit_cast(f32s, magic)) - magic;
      return __builtin_bit_cast(u32s, units + (binade >> shift) - (least_normal >> shift));
    }
    constexpr float magic = is_upper_part<F> ? 0.0f : detail::power_of_two(detail::min(least - m + 23, 127));
    normal = ((a + ((1u << (shift - 1)) - 1u) + (((a >> shift) ^ rebias) & 1u)) >> shift) - rebias;
    subnormal = __builtin_bit_cast(u32s, value + magic) - bit_cast<std::uint32_t>(magic);
  } else {
    using how = additive<R>;
    constexpr float top = detail::power_of_two(least),
                    to_fixed = detail::power_of_two(detail::min(m - least + how::shift, 127));
    u32s const added = how::add(words);
    normal = ((a + (added << (shift - how::shift))) >> shift) - rebias;
    f32s const fixed = (value > top ? f32s{} + top : value) * to_fixed;
    subnormal = (__builtin_bit_cast(u32s, __builtin_convertvector(fixed, i32s)) + added) >> how::shift;
  }
  if constexpr (is_upper_part<F>) return normal;
  else return magnitude < least_normal ? subnormal : normal;
}

/// Codes of magnitudes with the signs of float bits.
template <class F> [[gnu::always_inline]] inline u32s with_signs(u32s code, u32s bits) noexcept {
  constexpr auto spec = F::spec;
  if constexpr (spec.twos_complement)
    return (bits > 0x7fff'ffffu ? 0u - code : code) & (spec.sign_mask() | spec.magnitude_mask());
  u32s const sign = bits >> (32 - spec.bits()) & spec.sign_mask();
  if constexpr (spec.has_negative_zero()) return code | sign;
  return code == 0u ? code : code | sign;
}

/// The codes of a register of values that are not NaN, saturated. `words`: random words, where R looks at them.
template <class F, class R> [[gnu::always_inline]] inline u32s encode_lanes(f32s v, u32s words) noexcept {
  constexpr auto spec = F::spec;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << spec.mantissa_bits;
  constexpr auto largest = static_cast<std::int32_t>((spec.max_code() + rebias) << (23 - spec.mantissa_bits));
  u32s const bits = __builtin_bit_cast(u32s, v);
  i32s const magnitude = __builtin_bit_cast(i32s, bits & 0x7fff'ffffu);
  return with_signs<F>(round_lanes<F, R>(magnitude > largest ? i32s{} + largest : magnitude, words), bits);
}

/// encode<F, O>, NaN and infinity included; Special: O is overflow::special.
template <class F, class R, bool Special>
[[gnu::always_inline]] inline u32s encode_all_lanes(f32s v, u32s words) noexcept {
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits;
  constexpr bool marks = Special && spec.has_nan(), stops = std::is_same_v<R, toward_zero>;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << spec.mantissa_bits;
  // One gap above the largest value, numbers do not round back to it.
  constexpr auto largest = static_cast<std::int32_t>((spec.max_code() + rebias + (marks && !stops ? 1u : 0u)) << shift);
  u32s const bits = __builtin_bit_cast(u32s, v);
  i32s const magnitude = __builtin_bit_cast(i32s, bits & 0x7fff'ffffu);
  u32s const code = round_lanes<F, R>(magnitude > largest ? i32s{} + largest : magnitude, words);
  u32s result = with_signs<F>(code, bits);
  if constexpr (marks) {
    constexpr std::uint32_t mark = spec.has_infinity() ? spec.infinity_code() : spec.nan_code();
    u32s const marked = (bits >> (32 - spec.bits()) & spec.sign_mask()) | mark;
    if constexpr (stops) result = magnitude == static_cast<std::int32_t>(detail::float_infinity) ? marked : result;
    else result = code > spec.max_code() ? marked : result;
  }
  constexpr std::uint32_t nan = spec.has_nan() ? spec.nan_code() : spec.max_code();
  return magnitude > static_cast<std::int32_t>(detail::float_infinity) ? u32s{} + nan : result;
}

#endif

}  // namespace loft::native
