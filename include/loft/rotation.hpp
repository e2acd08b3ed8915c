// SPDX-License-Identifier: Apache-2.0
// Orthogonal maps on a run of values, and their inverses: no_rotation, hadamard, signed_hadamard.
// Source: Sylvester (1867) for the order of H; design decision 14 for the convention y = H (s . x).
#ifndef LOFT_ROTATION_HPP
#define LOFT_ROTATION_HPP

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/lane_group.hpp"
#include "loft/native/host_runs.hpp"
#include "loft/native/native.hpp"

namespace loft {

/// A rotation maps runs of `size` values in place. Laws: invert(apply(x)) is x up to rounding; dot products of two runs
/// that were mapped alike are kept, so both operands of a product use the same rotation.
template <class T>
concept Rotation = requires(T const rotation, float* run) {
  { T::size } -> std::convertible_to<int>;
  rotation.apply(run);
  rotation.invert(run);
  requires T::size >= 1;
};

/// Leaves values as they are.
struct no_rotation {
  static constexpr int size = 1;
  template <class T>
  LOFT_HOST_DEVICE constexpr void apply(T*) const noexcept {}
  template <class T>
  LOFT_HOST_DEVICE constexpr void invert(T*) const noexcept {}
};

namespace detail {

/// 1 / sqrt(n) for a power of two, rounded to nearest: exact for powers of four.
template <class T>
LOFT_HOST_DEVICE constexpr T inverse_sqrt_of_power_of_two(int n) noexcept {
  T result = 1;
  for (; n >= 4; n /= 4) result /= 2;
  return n == 2 ? result * static_cast<T>(0x1.6a09e667f3bcdp-1) : result;  // sqrt(1/2) for the odd powers
}

/// -x, whatever the build flushes: fast arithmetic of GPUs makes a zero of a subnormal that it negates.
template <class T>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T negated(T x) noexcept {
  if constexpr (std::is_same_v<T, float>) return bit_cast<float>(bit_cast<std::uint32_t>(x) ^ float_sign);
  else return -x;
}

/// The stages of the transform from Distance up to distances below `End`. A function each, so that compilers see loops of
/// a known length, and unroll them.
template <int Distance, int End, int Count>
LOFT_HOST_DEVICE constexpr void butterflies(float* values) noexcept {
  if constexpr (Distance < End) {
    for (int pair = 0; pair < Count / 2; ++pair) {
      int const i = pair / Distance * 2 * Distance + pair % Distance;
      float const a = values[i], b = values[i + Distance];
      values[i] = native::add(a, b);
      values[i + Distance] = native::subtract(a, b);
    }
    butterflies<2 * Distance, End, Count>(values);
  }
}

}  // namespace detail

/// The orthonormal Sylvester-Hadamard transform of N values: y_i = 1/sqrt(N) * sum_j (-1)^popcount(i & j) x_j. Its own
/// inverse.
///
/// Butterflies over distances 1, 2, 4, ..., N/2, each a sum and a difference in T, then one product with 1/sqrt(N).
/// That order is part of the result. error: within log2(N) + 1 roundings of the largest partial sum.
template <int N>
struct hadamard {
  static_assert(N >= 1 && (N & (N - 1)) == 0,
                "hadamard<N>: N must be a power of two; a cut-down matrix is no rotation");
  static constexpr int size = N;

  template <class T>
  LOFT_HOST_DEVICE constexpr void apply(T* run) const noexcept {
    constexpr T norm = detail::inverse_sqrt_of_power_of_two<T>(N);
    if constexpr (std::is_same_v<T, float>)
      if (native::hadamard_run<N>(run, norm) == N) return;
    for (int distance = 1; distance < N; distance *= 2) {
      for (int first = 0; first < N; first += 2 * distance) {
        for (int i = first; i < first + distance; ++i) {
          T const a = run[i], b = run[i + distance];
          run[i] = native::add(a, b);
          run[i + distance] = native::subtract(a, b);
        }
      }
    }
    for (int i = 0; i < N; ++i) {
      if constexpr (std::is_same_v<T, float>) run[i] = native::multiply(run[i], norm);
      else run[i] *= norm;
    }
  }
  template <class T>
  LOFT_HOST_DEVICE constexpr void invert(T* run) const noexcept {
    apply(run);
  }

  /// apply for runs that neighbouring lanes hold, `Count` values of float each: the same sums in the same order. Where
  /// Count is larger than N, a lane holds several runs.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void apply_lanes(float* part, G const& group) const noexcept {
    constexpr float norm = detail::inverse_sqrt_of_power_of_two<float>(N);
    constexpr int local = N < Count ? N : Count;
    detail::butterflies<1, local, Count>(part);
    for (int distance = Count; distance < N; distance *= 2) {
      int const mask = distance / Count;
      float const sign = (group.rank() & mask) != 0 ? -1.0f : 1.0f;  // the product is exact: the sum is what is rounded
      for (int i = 0; i < Count; ++i) part[i] = native::fma(part[i], sign, detail::exchange(part[i], mask, group));
    }
    for (int i = 0; i < Count; ++i) part[i] = native::multiply(part[i], norm);
  }
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void invert_lanes(float* part, G const& group) const noexcept {
    apply_lanes<Count>(part, group);
  }
};

/// hadamard<N> after a change of signs: element i of a run is negated first where bit i % 64 of `signs` is set.
template <int N>
struct signed_hadamard {
  static constexpr int size = N;
  std::uint64_t signs = 0;

  template <class T>
  LOFT_HOST_DEVICE constexpr void apply(T* run) const noexcept {
    flip(run);
    hadamard<N>{}.apply(run);
  }
  template <class T>
  LOFT_HOST_DEVICE constexpr void invert(T* run) const noexcept {
    hadamard<N>{}.invert(run);
    flip(run);
  }
  /// As those of hadamard.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void apply_lanes(float* part, G const& group) const noexcept {
    flip_lanes<Count>(part, group);
    hadamard<N>{}.template apply_lanes<Count>(part, group);
  }
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void invert_lanes(float* part, G const& group) const noexcept {
    hadamard<N>{}.template apply_lanes<Count>(part, group);
    flip_lanes<Count>(part, group);
  }

  /// The change of signs alone, on bfloat16 values that lie two in a word.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void flip_pairs(std::uint32_t* pairs, G const& group) const noexcept {
    std::uint64_t const mine = part_of_signs<Count>(group);
    for (int i = 0; i < Count; i += 2) {
      auto const two = static_cast<std::uint32_t>(mine >> i % N % 64);
      pairs[i / 2] ^= (two << 15 & 0x8000u) | (two << 30 & 0x8000'0000u);
    }
  }

 private:
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr std::uint64_t part_of_signs(G const& group) const noexcept {
    if constexpr (N <= Count) {
      return signs;
    } else {
      int const first = group.rank() % (N / Count) * Count % 64;
      return signs >> first | (first == 0 ? 0 : signs << (64 - first));
    }
  }
  /// One word of signs serves the whole part: a shift brings each element's bit to the place of a float's sign.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void flip_lanes(float* part, G const& group) const noexcept {
    std::uint64_t const mine = part_of_signs<Count>(group);
    for (int i = 0; i < Count; ++i) {
      int const bit = i % N % 64;
      auto const word = static_cast<std::uint32_t>(bit < 32 ? mine : mine >> 32);
      part[i] = bit_cast<float>(bit_cast<std::uint32_t>(part[i]) ^ (word << (31 - bit % 32) & detail::float_sign));
    }
  }
  template <class T>
  LOFT_HOST_DEVICE constexpr void flip(T* run) const noexcept {
    for (int i = 0; i < N; ++i) run[i] = (signs >> (i % 64) & 1u) != 0 ? detail::negated(run[i]) : run[i];
  }
};

}  // namespace loft

#endif
