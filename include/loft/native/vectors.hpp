// SPDX-License-Identifier: Apache-2.0
// Registers of many lanes in GNU vector types, and the arithmetic of formats in them: no intrinsics, any instruction
// set. Source: lanes.hpp and convert.hpp, whose arithmetic this is; tests/lanes_test.cpp compares them.
#ifndef LOFT_NATIVE_VECTORS_HPP
#define LOFT_NATIVE_VECTORS_HPP

#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/format.hpp"
#include "loft/rounding.hpp"

#if (defined(__GNUC__) || defined(__clang__)) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && !defined(__CUDACC__) && \
    !defined(__HIP__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOFT_HAS_HOST_VECTORS 1
#else
#define LOFT_HAS_HOST_VECTORS 0
#endif

namespace loft::native {

#if LOFT_HAS_HOST_VECTORS

/// Lanes of 32 bits in the machine's registers.
#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

template <class T, int N>
struct vector {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
using f32s = vector<float, lanes>::type;
using u32s = vector<std::uint32_t, lanes>::type;
using i32s = vector<std::int32_t, lanes>::type;
using u16s = vector<std::uint16_t, lanes>::type;
using u8s = vector<std::uint8_t, lanes>::type;
using i16_pairs = vector<std::int16_t, 2 * lanes>::type;  // a register of 16-bit lanes
using u64s = vector<std::uint64_t, lanes / 2>::type;      // a register of 64-bit lanes
using half_u8s = vector<std::uint8_t, lanes / 2>::type;
using two_u8s = vector<std::uint8_t, 2 * lanes>::type;
using four_u8s = vector<std::uint8_t, 4 * lanes>::type;
using half_u32s = vector<std::uint32_t, lanes / 2>::type;
template <int... I>
using lane_list = std::integer_sequence<int, I...>;
using all_lanes = std::make_integer_sequence<int, lanes>;

template <class V, class T>
[[gnu::always_inline]] inline V load(T const* from) noexcept {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
[[gnu::always_inline]] inline void store(T* to, V v) noexcept {
  __builtin_memcpy(to, &v, sizeof v);
}

/// Bytes to words, in the two steps that g++ 12 has instructions for; and 16 bits to words.
[[gnu::always_inline]] inline u32s widen(u8s bytes) noexcept {
  return __builtin_convertvector(__builtin_convertvector(bytes, u16s), u32s);
}
[[gnu::always_inline]] inline u32s widen(u16s halves) noexcept { return __builtin_convertvector(halves, u32s); }
[[gnu::always_inline]] inline u32s widen(u32s words) noexcept { return words; }

/// Groups of four bytes to four runs: all first bytes, all second ones, and so on. First within 128 bits, then across.
template <int Groups, class V>
[[gnu::always_inline]] inline V sort_bytes(V bytes) noexcept {
  V const sorted = [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(bytes, bytes, (I / 16 * 16 + I % 4 * 4 + I % 16 / 4)...);
  }
  (std::make_integer_sequence<int, 4 * Groups>{});
  using words = typename vector<std::uint32_t, Groups>::type;
  words const fours = __builtin_bit_cast(words, sorted);
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    return __builtin_bit_cast(V, __builtin_shufflevector(fours, fours, (I % (Groups / 4) * 4 + I / (Groups / 4))...));
  }
  (std::make_integer_sequence<int, Groups>{});
}

// Two registers are folded by shuffles that stay inside quarters of 128 bits, or move whole quarters: those are cheap.
// Both pairs of functions turn the bits of an element's place: (register, place in the quarter), or (register,
// quarter), by one.

/// Of every quarter the even lanes of a, then those of b; and the odd ones.
[[gnu::always_inline]] inline f32s even_lanes(f32s a, f32s b) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 * 2 + I % 4 / 2 * lanes)...);
  }
  (all_lanes{});
}
[[gnu::always_inline]] inline f32s odd_lanes(f32s a, f32s b) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 * 2 + 1 + I % 4 / 2 * lanes)...);
  }
  (all_lanes{});
}
/// The even quarters of a, then those of b; and the odd ones. For a single quarter: a, and b.
[[gnu::always_inline]] inline f32s even_quarters(f32s a, f32s b) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, (I / 4 * 8 + I % 4)...);
  }
  (all_lanes{});
}
[[gnu::always_inline]] inline f32s odd_quarters(f32s a, f32s b) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, (I / 4 * 8 + 4 + I % 4)...);
  }
  (all_lanes{});
}

/// The largest lane of each of `lanes` registers of non-negative numbers, in their order. Overwrites them.
[[gnu::always_inline]] inline i32s largest_of_each(i32s* v) noexcept {
  auto const largest = [](f32s a, f32s b) __attribute__((always_inline)) {
    i32s const x = __builtin_bit_cast(i32s, a), y = __builtin_bit_cast(i32s, b);
    return __builtin_bit_cast(f32s, x > y ? x : y);
  };
  f32s f[lanes];
  for (int k = 0; k < lanes; ++k) f[k] = __builtin_bit_cast(f32s, v[k]);
  for (int left = lanes / 2; left >= lanes / 4; left /= 2)
    for (int k = 0; k < left; ++k)
      f[k] = largest(even_lanes(f[2 * k], f[2 * k + 1]), odd_lanes(f[2 * k], f[2 * k + 1]));
  for (int left = lanes / 8; left >= 1; left /= 2)
    for (int k = 0; k < left; ++k)
      f[k] = largest(even_quarters(f[2 * k], f[2 * k + 1]), odd_quarters(f[2 * k], f[2 * k + 1]));
  return __builtin_bit_cast(i32s, f[0]);
}

/// The largest lane of non-negative numbers, by halves.
template <int N>
[[gnu::always_inline]] inline std::int32_t largest_lane(typename vector<std::int32_t, N>::type v) noexcept {
  if constexpr (N == 2) {
    return detail::max(v[0], v[1]);
  } else {
    return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
      typename vector<std::int32_t, N / 2>::type const low = __builtin_shufflevector(v, v, I...);
      typename vector<std::int32_t, N / 2>::type const high = __builtin_shufflevector(v, v, (I + N / 2)...);
      return largest_lane<N / 2>(low > high ? low : high);
    }
    (std::make_integer_sequence<int, N / 2>{});
  }
}

/// One stage of the Hadamard transform inside a register: sums and differences over a distance below its lanes.
template <int Distance>
[[gnu::always_inline]] inline f32s butterfly(f32s v) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    f32s const other = __builtin_shufflevector(v, v, (I ^ Distance)...);
    u32s const upper = {((I & Distance) != 0 ? 0x8000'0000u : 0u)...};
    return other + __builtin_bit_cast(f32s, __builtin_bit_cast(u32s, v) ^ upper);
  }
  (all_lanes{});
}

// ---- decoding
// ------------------------------------------------------------------------------------------------------------

/// Formats with the exponents of a float, as bf16: a code is the upper part of a float, subnormals and all.
template <class F>
inline constexpr bool is_upper_part = requires {
  requires F::spec.exponent_bits == 8 && F::spec.bias == 127 && F::spec.special == specials::ieee&& F::spec.is_signed;
  requires F::spec.bits() <= 16;
};

/// True where a decoder<F> exists: float's layout, signed, a zero, and values that are normal floats, or float's own.
template <class F>
inline constexpr bool has_decoder = is_upper_part<F> || requires {
  requires F::spec.exponent_bits >= 1 && F::spec.bits() <= 16 && F::spec.has_zero&& F::spec.is_signed;
  requires F::spec.min_exponent() - F::spec.mantissa_bits >= -100;
};

/// The values of a register of codes.
template <class F>
[[gnu::always_inline]] inline f32s decode_lanes(u32s codes) noexcept {
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

/// decode_lanes<F> for many registers: where all values of F fit in one, they are looked up.
template <class F>
struct decoder {
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

/// True for what load_values takes: float, and numbers of 16 bits that a decoder knows.
template <class T>
inline constexpr bool has_load_values = [] {
  // Magnitudes of 16 bits are compared as they are: infinity above the numbers, and NaN above it.
  if constexpr (requires { typename T::format; })
    return sizeof(T) == 2 && has_decoder<typename T::format> && T::format::spec.special == specials::ieee;
  else return std::is_same_v<T, float>;
}();

/// A register of values as floats. A NaN stays one; its bits need not be the canonical ones.
template <class T>
[[gnu::always_inline]] inline f32s load_values(T const* from) noexcept {
  if constexpr (std::is_same_v<T, float>) return load<f32s>(from);
  else if constexpr (is_upper_part<typename T::format>)
    return __builtin_bit_cast(f32s, widen(load<u16s>(from)) << (23 - T::format::spec.mantissa_bits));
  else return decode_lanes<typename T::format>(widen(load<u16s>(from)));
}

// ---- encoding
// ------------------------------------------------------------------------------------------------------------

/// Roundings that add a number to the fraction and cut: `shift` bits of fraction are compared, and `add` is what is
/// added.
template <class R>
struct additive {
  static constexpr bool available = false;
  static constexpr int shift = 0;
};
template <>
struct additive<nearest_away> {
  static constexpr bool available = true;
  static constexpr int shift = 1;
  [[gnu::always_inline]] static u32s add(u32s) noexcept { return u32s{} + 1u; }
};
template <>
struct additive<toward_zero> {
  static constexpr bool available = true;
  static constexpr int shift = 1;
  [[gnu::always_inline]] static u32s add(u32s) noexcept { return u32s{}; }
};
template <int Bits>
struct additive<stochastic_word<Bits>> {
  static constexpr bool available = Bits <= 16;
  static constexpr int shift = Bits + 1;
  [[gnu::always_inline]] static u32s add(u32s words) noexcept { return words * 2u + 1u; }
};
template <int Bits>
struct additive<truncated_stochastic_word<Bits>> {
  static constexpr bool available = Bits <= 16;
  static constexpr int shift = Bits + 1;
  [[gnu::always_inline]] static u32s add(u32s words) noexcept { return words * 2u; }
};

/// True where encode_lanes<F, R> exists: as for a decoder, and a rounding that is an addition in a word of 32 bits.
template <class F, class R>
inline constexpr bool has_encode_lanes = [] {
  if constexpr (!has_decoder<F>) return false;
  else if constexpr (F::spec.max_code() >> F::spec.mantissa_bits == 0) return false;
  else
    return std::is_same_v<R, nearest_even> ||
           (additive<R>::available && additive<R>::shift <= 23 - F::spec.mantissa_bits);
}();

/// The magnitudes of codes, rounded from the bits of magnitudes that do not exceed the largest value by more than a
/// gap.
template <class F, class R>
[[gnu::always_inline]] inline u32s round_lanes(i32s magnitude, u32s words) noexcept {
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
template <class F>
[[gnu::always_inline]] inline u32s with_signs(u32s code, u32s bits) noexcept {
  constexpr auto spec = F::spec;
  if constexpr (spec.twos_complement)
    return (bits > 0x7fff'ffffu ? 0u - code : code) & (spec.sign_mask() | spec.magnitude_mask());
  u32s const sign = bits >> (32 - spec.bits()) & spec.sign_mask();
  if constexpr (spec.has_negative_zero()) return code | sign;
  return code == 0u ? code : code | sign;
}

/// The codes of a register of values that are not NaN, saturated. `words`: random words, where R takes them.
template <class F, class R>
[[gnu::always_inline]] inline u32s encode_lanes(f32s v, u32s words) noexcept {
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

#endif
