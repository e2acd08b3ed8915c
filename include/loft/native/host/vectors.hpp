// SPDX-License-Identifier: Apache-2.0
// The host's vector registers as GNU vector types, and functions that move their lanes. No intrinsics: they compile for
// any instruction set.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/core/bits.hpp"

#if !defined(__CUDACC__) && !defined(__HIP__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOFT_HAS_HOST_VECTORS 1
#else
#define LOFT_HAS_HOST_VECTORS 0
#endif

namespace loft::native {

/// True where this pass has registers of many lanes: the functions of native/host do nothing elsewhere.
inline constexpr bool has_host_vectors = LOFT_HAS_HOST_VECTORS != 0;

#if LOFT_HAS_HOST_VECTORS

/// Lanes of 32 bits in the machine's registers.
#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

template <class T, int N> struct vector { typedef T type __attribute__((vector_size(sizeof(T) * N))); };
using f32s = vector<float, lanes>::type;
using u32s = vector<std::uint32_t, lanes>::type;
using i32s = vector<std::int32_t, lanes>::type;
using u16s = vector<std::uint16_t, lanes>::type;
using u8s = vector<std::uint8_t, lanes>::type;
using i16_pairs = vector<std::int16_t, 2 * lanes>::type;  // registers of 16-bit lanes
using u16_pairs = vector<std::uint16_t, 2 * lanes>::type;
using u64s = vector<std::uint64_t, lanes / 2>::type;  // a register of 64-bit lanes
using half_u8s = vector<std::uint8_t, lanes / 2>::type;
using two_u8s = vector<std::uint8_t, 2 * lanes>::type;
using four_u8s = vector<std::uint8_t, 4 * lanes>::type;
using half_u32s = vector<std::uint32_t, lanes / 2>::type;
template <int... I> using lane_list = std::integer_sequence<int, I...>;
using all_lanes = std::make_integer_sequence<int, lanes>;

template <class V, class T> [[gnu::always_inline]] inline V load(T const* from) noexcept {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T> [[gnu::always_inline]] inline void store(T* to, V v) noexcept {
  __builtin_memcpy(to, &v, sizeof v);
}

/// Prefetches memory that is read soon, line by line. Floats are brought to the second cache, which waits for more
/// lines at once than the first; values of 16 bits, of which there are half as many lines, are brought to the first.
template <class T> struct lines_ahead {
  std::uintptr_t next, step;

  [[gnu::always_inline]] inline void fetch(int lines) noexcept {
    for (int line = 0; line < lines; ++line, next += step)
      __builtin_prefetch(reinterpret_cast<void const*>(next), 0, sizeof(T) == 4 ? 2 : 3);
  }
};

/// Widens lanes to words. Bytes take the two steps for which g++ 12 has instructions.
[[gnu::always_inline]] inline u32s widen(u8s bytes) noexcept {
  return __builtin_convertvector(__builtin_convertvector(bytes, u16s), u32s);
}
[[gnu::always_inline]] inline u32s widen(u16s halves) noexcept { return __builtin_convertvector(halves, u32s); }
[[gnu::always_inline]] inline u32s widen(u32s words) noexcept { return words; }

/// Sorts groups of four bytes into four runs: all first bytes, all second ones, and so on; within 128 bits first.
template <int Groups, class V> [[gnu::always_inline]] inline V sort_bytes(V bytes) noexcept {
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

// Two registers are folded by the shuffles that are cheap: those inside quarters of 128 bits, and those of whole
// quarters.

/// Lane i of the result is lane place(i) of a and b, one after the other. Place: a lambda of its own for each call.
template <class Place> [[gnu::always_inline]] inline f32s shuffled(f32s a, f32s b, Place) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, Place{}(I)...);
  }
  (all_lanes{});
}

/// In every quarter, the even lanes of a and then those of b; and the odd ones.
[[gnu::always_inline]] inline f32s even_lanes(f32s a, f32s b) noexcept {
  return shuffled(a, b, [](int i) { return i / 4 * 4 + i % 2 * 2 + i % 4 / 2 * lanes; });
}
[[gnu::always_inline]] inline f32s odd_lanes(f32s a, f32s b) noexcept {
  return shuffled(a, b, [](int i) { return i / 4 * 4 + i % 2 * 2 + 1 + i % 4 / 2 * lanes; });
}
/// The even quarters of a and then those of b; and the odd ones. Of registers with one quarter: a, and b.
[[gnu::always_inline]] inline f32s even_quarters(f32s a, f32s b) noexcept {
  return shuffled(a, b, [](int i) { return i / 4 * 8 + i % 4; });
}
[[gnu::always_inline]] inline f32s odd_quarters(f32s a, f32s b) noexcept {
  return shuffled(a, b, [](int i) { return i / 4 * 8 + 4 + i % 4; });
}

/// The larger of two numbers, lane by lane. V: the type of the numbers in the registers, none of which is negative.
template <class V> [[gnu::always_inline]] inline i32s larger_lanes(i32s a, i32s b) noexcept {
  V const x = __builtin_bit_cast(V, a), y = __builtin_bit_cast(V, b);
  return __builtin_bit_cast(i32s, x > y ? x : y);
}

/// The largest number of each of `lanes` registers, in the order of the registers, which are overwritten. V: as in
/// larger_lanes; of numbers of 16 bits two stay in each lane.
template <class V> [[gnu::always_inline]] inline i32s largest_of_each(i32s* v) noexcept {
  auto const fold = [](i32s a, i32s b, auto even, auto odd) __attribute__((always_inline)) {
    f32s const x = __builtin_bit_cast(f32s, a), y = __builtin_bit_cast(f32s, b);
    return larger_lanes<V>(__builtin_bit_cast(i32s, even(x, y)), __builtin_bit_cast(i32s, odd(x, y)));
  };
  for (int left = lanes / 2; left >= lanes / 4; left /= 2)
    for (int k = 0; k < left; ++k) v[k] = fold(v[2 * k], v[2 * k + 1], even_lanes, odd_lanes);
  for (int left = lanes / 8; left >= 1; left /= 2)
    for (int k = 0; k < left; ++k) v[k] = fold(v[2 * k], v[2 * k + 1], even_quarters, odd_quarters);
  return v[0];
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

/// `v`, opaque as by exact::opaque: sums that follow are not fused with a product that `v` is, nor regrouped.
[[gnu::always_inline]] inline f32s fenced(f32s v) noexcept {
#if defined(__SSE__)
  asm("" : "+x"(v));
#else
  asm("" : "+m"(v));
#endif
  return v;
}
/// `v`, opaque in builds that may regroup sums, as by exact::grouped.
[[gnu::always_inline]] inline f32s ungrouped(f32s v) noexcept {
#if defined(__FAST_MATH__)
  return fenced(v);
#else
  return v;
#endif
}

/// One stage of the Hadamard transform inside a register: sums and differences of lanes that are Distance apart. The
/// products are exact, so that it does not matter whether sums are fused with them.
template <int Distance> [[gnu::always_inline]] inline f32s butterfly(f32s v) noexcept {
  return [&]<int... I>(lane_list<I...>) __attribute__((always_inline)) {
    f32s const sign = {((I & Distance) != 0 ? -1.0f : 1.0f)...}, given = ungrouped(v);
    return ungrouped(__builtin_shufflevector(given, given, (I ^ Distance)...) + given * sign);
  }
  (all_lanes{});
}

#endif

}  // namespace loft::native
