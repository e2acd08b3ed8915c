// SPDX-License-Identifier: Apache-2.0
// The orthonormal Hadamard transform of runs, hadamard<N>, by one thread, by lanes, or by a team of threads.
// Source: Sylvester (1867) for powers of two; Paley (1933) for the orders 12, 20 and 28, see core/paley.hpp.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/paley.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/device.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/native/gpu/lane_group.hpp"
#include "loft/native/host/rotation.hpp"

namespace loft {

/// A team of `size` threads that work on the same memory, of which this is number `rank()`. All of them call `sync()`
/// together, and then each sees what the others wrote before.
template <class T>
concept ThreadTeam = requires(T const team) {
  { T::size } -> std::convertible_to<int>;
  { team.rank() } -> std::same_as<int>;
  team.sync();
};

namespace detail {

/// The order of the Paley matrix in hadamard<n>: 12, 20 or 28 where n is one of these times a power of two, 1 where n
/// is a power of two, and 0 where hadamard<n> does not exist.
LOFT_HOST_DEVICE constexpr int outer_order(int n) noexcept {
  if (n < 1 || n > 4096) return 0;
  int odd = n;
  while (odd % 2 == 0) odd /= 2;
  if (odd == 1) return 1;
  return (odd == 3 || odd == 5 || odd == 7) && n % 4 == 0 ? 4 * odd : 0;
}

/// 1 / sqrt(n), rounded to nearest: exact for powers of four. in: an order of hadamard<N>.
template <class T> LOFT_HOST_DEVICE constexpr T inverse_sqrt_of_order(int n) noexcept {
  T result = 1;
  for (; n % 16 == 0 || n == 4 || n == 8; n /= 4) result /= 2;
  // What is left, or twice a Paley order: the constants round to the nearest float as to the nearest double.
  switch (n) {
    case 2:
      return result * static_cast<T>(0x1.6a09e667f3bcdp-1);
    case 12:
      return result * static_cast<T>(0x1.279a74590331cp-2);
    case 24:
      return result * static_cast<T>(0x1.a20bd700c2c3ep-3);
    case 20:
      return result * static_cast<T>(0x1.c9f25c5bfedd9p-3);
    case 40:
      return result * static_cast<T>(0x1.43d136248490fp-3);
    case 28:
      return result * static_cast<T>(0x1.83091e6a7f7e7p-3);
    case 56:
      return result * static_cast<T>(0x1.11acee560242ap-3);
    default:
      return result;
  }
}

/// -x in every build. Fast arithmetic of GPUs would make a zero of a subnormal that it negates.
template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T negated(T x) noexcept {
  if constexpr (std::is_same_v<T, float>) return bit_cast<float>(bit_cast<std::uint32_t>(x) ^ float_sign);
  else return -x;
}

/// The arithmetic of paley_sums on numbers, which no build regroups.
struct number_arithmetic {
  template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE static constexpr T once(T x) noexcept {
    if constexpr (std::is_same_v<T, float>) return exact::grouped(x);
    else if constexpr (std::is_same_v<T, double>) return exact::opaque(x);
    else return x;
  }
  template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE static constexpr T negated(T x) noexcept {
    return detail::negated(x);
  }
  template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE static constexpr T add(T a, T b) noexcept {
    return once(exact::add(a, b));
  }
  template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE static constexpr T subtract(T a, T b) noexcept {
    return once(exact::subtract(a, b));
  }
};

template <class T> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr T times_norm(T x, T norm) noexcept {
  if constexpr (std::is_same_v<T, float>) return exact::multiply(x, norm);
  else return x * norm;
}

/// The stages of the transform from Distance up to distances below `End`. Each is a function of its own, so that
/// compilers see a loop of known length, and unroll it.
template <int Distance, int End, int Count> LOFT_HOST_DEVICE constexpr void butterflies(float* values) noexcept {
  if constexpr (Distance < End) {
    for (int pair = 0; pair < Count / 2; ++pair) {
      int const i = pair / Distance * 2 * Distance + pair % Distance;
      float const a = values[i], b = values[i + Distance];
      values[i] = number_arithmetic::add(a, b);
      values[i + Distance] = number_arithmetic::subtract(a, b);
    }
    butterflies<2 * Distance, End, Count>(values);
  }
}

/// Where a team of threads has value i in its memory, and how many floats it needs for `count` values. One place in 33
/// stays empty, so that values at distances of powers of two lie in different banks.
LOFT_HOST_DEVICE constexpr int team_place(int i) noexcept { return i + i / 32; }
LOFT_HOST_DEVICE constexpr int team_floats(int count) noexcept { return count + (count + 31) / 32; }

/// The place of number i of a column: in a run that starts at `first`, of a thread or of a team.
struct own_places {
  int first;
  LOFT_HOST_DEVICE constexpr int operator()(int i) const noexcept { return first + i; }
};
struct team_places {
  int first;
  LOFT_HOST_DEVICE constexpr int operator()(int i) const noexcept { return team_place(first + i); }
};

/// P_M, or its transpose, times one column of M numbers that are `inner` apart, then times `norm`. Number i is at
/// values[place(i)].
template <int M, bool Transposed, class T, class Place>
LOFT_HOST_DEVICE constexpr void paley_column(T* values, int inner, T norm, Place place) noexcept {
  T column[M] = {};
  auto const take = [&](int row) { column[row] = values[place(row * inner)]; };
  native::unrolled<M>(take);
  paley_sums<number_arithmetic, M, Transposed>(
      column, [&](int row, T sum) { values[place(row * inner)] = times_norm(sum, norm); });
}

/// The stages from Distance up to distances below `End` by a team of threads, each with up to 16 values at once; times
/// `norm` after the last one where Scaled.
template <int Distance, int End, int Count, bool Scaled, ThreadTeam Team>
LOFT_HOST_DEVICE constexpr void team_butterflies(float* values, float norm, Team const& team) noexcept {
  if constexpr (Distance < End) {
    constexpr int radix = min(16, End / Distance);
    constexpr bool last = Distance * radix == End && Scaled;
    for (int unit = team.rank(); unit < Count / radix; unit += Team::size) {
      int const first = unit / Distance * (Distance * radix) + unit % Distance;
      float v[radix] = {};
      auto const take = [&](int i) { v[i] = values[team_place(first + i * Distance)]; };
      auto const put = [&](int i) {
        values[team_place(first + i * Distance)] = last ? exact::multiply(v[i], norm) : v[i];
      };
      native::unrolled<radix>(take);
      butterflies<1, radix, radix>(v);
      native::unrolled<radix>(put);
    }
    team.sync();
    team_butterflies<Distance * radix, End, Count, Scaled>(values, norm, team);
  }
}

}  // namespace detail

/// The orthonormal Hadamard transform of N values, N a power of two, or 12, 20 or 28 times one, at most 4096: y = H x,
/// H = (P (x) S) / sqrt(N), where S is Sylvester's matrix of order `inner`, S_ij = (-1)^popcount(i & j), and P is 1, or
/// Paley's matrix of order `outer`: element b * inner + a of a run is in row b of P and row a of S. The inverse is the
/// transpose: for powers of two, and 28 times them, the transform itself.
///
/// First come butterflies over distances 1, 2, 4, ..., inner/2, each a sum and a difference in T; then, where outer is
/// not 1, the `outer` terms of each sum over b, added in the order of b; then one product with 1/sqrt(N). That order is
/// part of the result. error: at most log2(inner) + outer + 1 roundings of the largest partial sum, of which one is
/// that of the constant 1/sqrt(N).
template <int N> struct hadamard {
  static_assert(detail::outer_order(N) != 0,
                "hadamard<N>: N must be a power of two, or 12, 20 or 28 times one, and at most 4096; "
                "a cut-down matrix is no rotation");
  static constexpr int size = N;
  static constexpr int outer = detail::max(1, detail::outer_order(N)), inner = N / outer;

  template <class T> LOFT_HOST_DEVICE constexpr void apply(T* run) const noexcept { map<false>(run); }
  template <class T> LOFT_HOST_DEVICE constexpr void invert(T* run) const noexcept { map<transposes>(run); }

  /// apply for `count` floats, whole runs one after the other. `to` may be `from`.
  LOFT_HOST_DEVICE constexpr void apply_runs(float const* from, int count, float* to) const noexcept {
    constexpr float norm = detail::inverse_sqrt_of_order<float>(N);
    int done = N * native::hadamard_runs<outer, inner, false>(from, count / N, norm, to);
    for (; done < count; done += N) {
      if (from != to)
        for (int i = done; i < done + N; ++i) to[i] = from[i];
      apply(to + done);
    }
  }

  /// apply for runs that neighbouring lanes hold, `Count` values of float each: the same sums in the same order. Where
  /// Count is larger than N, a lane holds several runs; where N is no power of two, a lane holds whole ones.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void apply_lanes(float* part, G const& group) const noexcept {
    map_lanes<Count, false>(part, group);
  }
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void invert_lanes(float* part, G const& group) const noexcept {
    map_lanes<Count, transposes>(part, group);
  }

  /// apply for `Count` values, whole runs, in memory that a team of threads shares, value i at detail::team_place(i):
  /// the same sums in the same order. Before the call all threads see the values, and after it they see the result.
  template <int Count, ThreadTeam Team>
  LOFT_HOST_DEVICE constexpr void apply_team(float* values, Team const& team) const noexcept {
    map_team<Count, false>(values, team);
  }
  template <int Count, ThreadTeam Team>
  LOFT_HOST_DEVICE constexpr void invert_team(float* values, Team const& team) const noexcept {
    map_team<Count, transposes>(values, team);
  }

 private:
  static constexpr bool transposes = outer != 1 && !detail::is_symmetric_paley<outer>;

  template <bool Transposed, class T> LOFT_HOST_DEVICE static constexpr void map(T* run) noexcept {
    constexpr T norm = detail::inverse_sqrt_of_order<T>(N);
    if constexpr (std::is_same_v<T, float>)
      if (native::hadamard_runs<outer, inner, Transposed>(run, 1, norm, run) == 1) return;
    for (int distance = 1; distance < inner; distance *= 2) {
      for (int first = 0; first < N; first += 2 * distance) {
        for (int i = first; i < first + distance; ++i) {
          T const a = run[i], b = run[i + distance];
          run[i] = detail::number_arithmetic::add(a, b);
          run[i + distance] = detail::number_arithmetic::subtract(a, b);
        }
      }
    }
    if constexpr (outer == 1)
      for (int i = 0; i < N; ++i) run[i] = detail::times_norm(run[i], norm);
    else
      for (int a = 0; a < inner; ++a) detail::paley_column<outer, Transposed>(run, inner, norm, detail::own_places{a});
  }

  template <int Count, bool Transposed, LaneGroup G>
  LOFT_HOST_DEVICE static constexpr void map_lanes(float* part, [[maybe_unused]] G const& group) noexcept {
    constexpr float norm = detail::inverse_sqrt_of_order<float>(N);
    if constexpr (outer != 1) {
      static_assert(Count % N == 0,
                    "hadamard<N>::apply_lanes: where N is no power of two, a lane holds whole runs; see apply_team");
      detail::butterflies<1, inner, Count>(part);
      for (int first = 0; first < Count; first += N)
        for (int a = 0; a < inner; ++a)
          detail::paley_column<outer, Transposed>(part, inner, norm, detail::own_places{first + a});
    } else {
      constexpr int local = N < Count ? N : Count;
      detail::butterflies<1, local, Count>(part);
      for (int distance = Count; distance < N; distance *= 2) {
        int const mask = distance / Count;
        float const sign = (group.rank() & mask) != 0 ? -1.0f : 1.0f;  // an exact product: only the sum is rounded
        for (int i = 0; i < Count; ++i) part[i] = native::fma(part[i], sign, detail::exchange(part[i], mask, group));
      }
      for (int i = 0; i < Count; ++i) part[i] = exact::multiply(part[i], norm);
    }
  }

  template <int Count, bool Transposed, ThreadTeam Team>
  LOFT_HOST_DEVICE static constexpr void map_team(float* values, Team const& team) noexcept {
    static_assert(Count % N == 0, "hadamard<N>::apply_team: whole runs");
    constexpr float norm = detail::inverse_sqrt_of_order<float>(N);
    detail::team_butterflies<1, inner, Count, outer == 1>(values, norm, team);
    if constexpr (outer != 1) {
      for (int column = team.rank(); column < Count / outer; column += Team::size) {
        int const first = column / inner * N + column % inner;
        detail::paley_column<outer, Transposed>(values, inner, norm, detail::team_places{first});
      }
      team.sync();
    }
  }
};

}  // namespace loft
