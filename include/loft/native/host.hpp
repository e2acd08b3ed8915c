// SPDX-License-Identifier: Apache-2.0
// Many lanes at once on the host, in GNU vector types: no intrinsics, any instruction set. Equal to the lanes of lanes.hpp.
// Source: lanes.hpp, whose arithmetic this is; tests/lanes_test.cpp compares the two.
#ifndef LOFT_NATIVE_HOST_HPP
#define LOFT_NATIVE_HOST_HPP

#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/format.hpp"
#include "loft/rounding.hpp"

#if (defined(__GNUC__) || defined(__clang__)) && !defined(__CUDACC__) && !defined(__HIP__)
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
using u16x8 = vector<std::uint16_t, 8>::type;
using u8x8 = vector<std::uint8_t, 8>::type;
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

/// Bytes to words, in the two steps that g++ 12 has instructions for.
[[gnu::always_inline]] inline u32s widen(u8s bytes) noexcept {
  return __builtin_convertvector(__builtin_convertvector(bytes, u16s), u32s);
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
    }(std::make_integer_sequence<int, N / 2>{});
  }
}

/// The largest magnitude of N values as float bits.
template <int N>
[[gnu::always_inline]] inline std::uint32_t amax_bits(float const* values) noexcept {
  i32s result = {};
  for (int i = 0; i < N; i += lanes) {
    i32s const bits = load<i32s>(values + i) & 0x7fff'ffff;
    result = bits > result ? bits : result;
  }
  return static_cast<std::uint32_t>(largest_lane<lanes>(result));
}

/// Roundings that add a number to the fraction and cut: `shift` bits of fraction are compared, and `add` is what is added.
template <class R>
struct additive {
  static constexpr bool available = false;
};
template <>
struct additive<nearest_away> {
  static constexpr bool available = true, takes_words = false;
  static constexpr int shift = 1;
  [[gnu::always_inline]] static u32s add(u32s) noexcept { return u32s{} + 1u; }
};
template <>
struct additive<toward_zero> {
  static constexpr bool available = true, takes_words = false;
  static constexpr int shift = 1;
  [[gnu::always_inline]] static u32s add(u32s) noexcept { return u32s{}; }
};
template <int Bits>
struct additive<stochastic_word<Bits>> {
  static constexpr bool available = Bits <= 16, takes_words = true;
  static constexpr int shift = Bits + 1;
  [[gnu::always_inline]] static u32s add(u32s words) noexcept { return words * 2u + 1u; }
};
template <int Bits>
struct additive<truncated_stochastic_word<Bits>> {
  static constexpr bool available = Bits <= 16, takes_words = true;
  static constexpr int shift = Bits + 1;
  [[gnu::always_inline]] static u32s add(u32s words) noexcept { return words * 2u; }
};

/// True where encode_lanes<F, R> exists.
template <class F, class R>
inline constexpr bool has_encode_lanes = requires {
  requires F::spec.exponent_bits >= 1 && F::spec.bits() <= 8 && F::spec.has_zero && F::spec.is_signed;
  requires F::spec.min_exponent() - F::spec.mantissa_bits >= -100;
  requires additive<R>::available || std::is_same_v<R, nearest_even>;
};

/// The codes of a register of values that are not NaN, saturated. `words`: random words, where R takes them.
template <class F, class R>
[[gnu::always_inline]] inline u32s encode_lanes(f32s v, u32s words) noexcept {
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits, least = spec.min_exponent();
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << spec.mantissa_bits;
  constexpr auto max_bits = static_cast<std::int32_t>(((spec.max_code() + rebias) << shift));
  constexpr auto normal_bits = static_cast<std::int32_t>(127 + least) << 23;
  u32s const bits = __builtin_bit_cast(u32s, v);
  i32s const magnitude = __builtin_bit_cast(i32s, bits & 0x7fff'ffffu);
  i32s const clamped = magnitude < max_bits ? magnitude : i32s{} + max_bits;
  u32s const a = __builtin_bit_cast(u32s, clamped);
  f32s const value = __builtin_bit_cast(f32s, clamped);
  u32s normal, subnormal;
  if constexpr (std::is_same_v<R, nearest_even>) {
    // Adding 2^(least - mantissa_bits + 23) leaves the subnormal code in the last bits, rounded by the addition itself.
    constexpr float magic = detail::power_of_two(least - spec.mantissa_bits + 23);
    normal = ((a + ((1u << (shift - 1)) - 1u) + (((a >> shift) ^ rebias) & 1u)) >> shift) - rebias;
    subnormal = __builtin_bit_cast(u32s, value + magic) - bit_cast<std::uint32_t>(magic);
  } else {
    using how = additive<R>;
    constexpr float to_fixed = detail::power_of_two(spec.mantissa_bits - least + how::shift);
    u32s const added = how::add(words);
    normal = ((a + (added << (shift - how::shift))) >> shift) - rebias;
    f32s const fixed = (value < detail::power_of_two(least) ? value : f32s{}) * to_fixed;
    subnormal = (__builtin_bit_cast(u32s, __builtin_convertvector(fixed, i32s)) + added) >> how::shift;
  }
  u32s const code = clamped < normal_bits ? subnormal : normal;
  if constexpr (spec.twos_complement) return (bits > 0x7fff'ffffu ? 0u - code : code) & (spec.sign_mask() | spec.magnitude_mask());
  u32s const sign = bits >> (32 - spec.bits()) & spec.sign_mask();
  if constexpr (spec.has_negative_zero()) return code | sign;
  return code == 0u ? code : code | sign;
}

/// The values of a register of codes.
template <class F>
[[gnu::always_inline]] inline f32s decode_lanes(u32s codes) noexcept {
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << 23;
  u32s const sign = (codes << (32 - spec.bits())) & 0x8000'0000u;
  u32s magnitude = codes & spec.magnitude_mask();
  if constexpr (spec.twos_complement) magnitude = sign != 0u ? spec.sign_mask() - magnitude : magnitude;
  u32s const moved = (magnitude << shift) + rebias;
  auto const subnormal = magnitude < (1u << spec.mantissa_bits);
  f32s const value = __builtin_bit_cast(f32s, subnormal ? moved + (1u << 23) : moved) -
                       __builtin_bit_cast(f32s, subnormal ? u32s{} + bit_cast<std::uint32_t>(detail::power_of_two(spec.min_exponent())) : u32s{});
  u32s bits = __builtin_bit_cast(u32s, value) | sign;
  if constexpr (spec.has_infinity()) bits = magnitude == spec.infinity_code() ? sign | detail::float_infinity : bits;
  if constexpr (spec.special == specials::nan || spec.special == specials::ieee)
    bits = magnitude > (spec.has_infinity() ? spec.infinity_code() : spec.max_code()) ? u32s{} + detail::float_nan : bits;
  else if constexpr (spec.has_nan()) bits = codes == spec.nan_code() ? u32s{} + detail::float_nan : bits;
  return __builtin_bit_cast(f32s, bits);
}

/// One stage of the Hadamard transform inside a register: sums and differences over a distance below its lanes.
template <int Distance>
[[gnu::always_inline]] inline f32s butterfly(f32s v) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    f32s const other = __builtin_shufflevector(v, v, (I ^ Distance)...);
    u32s const upper = {((I & Distance) != 0 ? 0x8000'0000u : 0u)...};
    return other + __builtin_bit_cast(f32s, __builtin_bit_cast(u32s, v) ^ upper);
  }(all_lanes{});
}

#endif

// The hooks. Each does the work and returns true, or returns false where vectors are not to be had: in constant expressions,
// on a device, for a count or a format they are not made for.

/// `amax` = the largest magnitude of N values, as float bits.
template <int N>
LOFT_HOST_DEVICE constexpr bool amax_run([[maybe_unused]] float const* values, [[maybe_unused]] std::uint32_t& amax) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0) {
    if (constant_evaluated()) return false;
    amax = amax_bits<N>(values);
    return true;
  }
#endif
  return false;
}

/// codes[i] = the code of values[i] * multipliers[i / N], for `groups` runs of N values. `words`: one random word each, where R
/// takes them.
template <class F, class R, int N, class C>
LOFT_HOST_DEVICE constexpr bool encode_groups([[maybe_unused]] float const* values, [[maybe_unused]] float const* multipliers,
                                              [[maybe_unused]] int groups, [[maybe_unused]] std::uint32_t const* words,
                                              [[maybe_unused]] C* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0 && has_encode_lanes<F, R>) {
    if (constant_evaluated()) return false;
    for (int group = 0; group < groups; ++group) {
      for (int i = group * N; i < (group + 1) * N; i += lanes) {
        u32s random = {};
        if constexpr (requires { R::bits; }) random = load<u32s>(words + i);
        store(codes + i, __builtin_convertvector(encode_lanes<F, R>(load<f32s>(values + i) * multipliers[group], random), u8s));
      }
    }
    return true;
  }
#endif
  return false;
}

/// values[i] = the value of codes[i] * factors[i / N], then * second, for `groups` runs of N codes.
template <class F, int N, class C>
LOFT_HOST_DEVICE constexpr bool decode_groups([[maybe_unused]] C const* codes, [[maybe_unused]] float const* factors,
                                              [[maybe_unused]] float second, [[maybe_unused]] int groups,
                                              [[maybe_unused]] float* values) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % lanes == 0 && has_encode_lanes<F, nearest_even>) {
    if (constant_evaluated()) return false;
    for (int group = 0; group < groups; ++group) {
      for (int i = group * N; i < (group + 1) * N; i += lanes) {
        f32s value = decode_lanes<F>(widen(load<u8s>(codes + i))) * factors[group];
#if defined(__FAST_MATH__)
        asm("" : "+m"(value));
#endif
        store(values + i, value * second);
      }
    }
    return true;
  }
#endif
  return false;
}

/// 16 codes of 4 bits to 8 bytes, element 2i in the low nibble; and back.
LOFT_HOST_DEVICE constexpr bool pack_nibbles([[maybe_unused]] std::uint8_t const* codes, [[maybe_unused]] std::uint8_t* bytes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return false;
  u16x8 const pairs = load<u16x8>(codes) & 0x0f0f;
  store(bytes, __builtin_convertvector(pairs | (pairs >> 4), u8x8));
  return true;
#else
  return false;
#endif
}
LOFT_HOST_DEVICE constexpr bool unpack_nibbles([[maybe_unused]] std::uint8_t const* bytes, [[maybe_unused]] std::uint8_t* codes) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return false;
  u16x8 const pairs = __builtin_convertvector(load<u8x8>(bytes), u16x8);
  store(codes, (pairs & 0x0f) | ((pairs & 0xf0) << 4));
  return true;
#else
  return false;
#endif
}

/// The unnormalised Hadamard transform of N floats, times `norm`; sums in the order of rotation.hpp.
template <int N>
LOFT_HOST_DEVICE constexpr bool hadamard_run([[maybe_unused]] float* run, [[maybe_unused]] float norm) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if constexpr (N % 16 == 0 && N <= 256) {
    if (constant_evaluated()) return false;
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
    return true;
  }
#endif
  return false;
}

}  // namespace loft::native

#endif
