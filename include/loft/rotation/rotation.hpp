// SPDX-License-Identifier: Apache-2.0
// Orthogonal maps on a run of values, and their inverses: no_rotation, hadamard, signed_hadamard, random_hadamard.
// Source: hadamard.hpp; design decisions 13 and 14 for random signs and for the convention y = H (s . x).
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/native/gpu/lane_group.hpp"
#include "loft/native/host/rotation.hpp"
#include "loft/number/random.hpp"
#include "loft/rotation/hadamard.hpp"

namespace loft {

/// A rotation maps runs of `size` values in place. Laws, both up to rounding: invert(apply(x)) is x; and the dot
/// product of two runs is that of their images, so that both operands of a product use the same rotation.
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
  template <class T> LOFT_HOST_DEVICE constexpr void apply(T*) const noexcept {}
  template <class T> LOFT_HOST_DEVICE constexpr void invert(T*) const noexcept {}
};

namespace detail {

/// Negates element i of a run of N where bit i % 32 of sign_word(i / 32) is set.
template <int N, class T, class Words> LOFT_HOST_DEVICE constexpr void flip(T* run, Words const& sign_word) noexcept {
  if constexpr (std::is_same_v<T, float>)
    if (native::flip_signs<N>(run, sign_word)) return;
  for (int i = 0; i < N; ++i) run[i] = (sign_word(i / 32) >> i % 32 & 1u) != 0 ? negated(run[i]) : run[i];
}

/// Negates value i of the `Count` values of a lane, which start at a multiple of Count, or of N, in a run, where bit
/// i % N % 64 of `mine` is set. A shift brings each bit to the place of a float's sign.
template <int N, int Count> LOFT_HOST_DEVICE constexpr void flip_lane(float* part, std::uint64_t mine) noexcept {
  for (int i = 0; i < Count; ++i) {
    int const bit = i % N % 64;
    auto const word = static_cast<std::uint32_t>(bit < 32 ? mine : mine >> 32);
    part[i] = bit_cast<float>(bit_cast<std::uint32_t>(part[i]) ^ (word << (31 - bit % 32) & float_sign));
  }
}
/// flip_lane for bfloat16 values that lie two in a word.
template <int N, int Count>
LOFT_HOST_DEVICE constexpr void flip_pairs(std::uint32_t* pairs, std::uint64_t mine) noexcept {
  for (int i = 0; i < Count; i += 2) {
    auto const two = static_cast<std::uint32_t>(mine >> i % N % 64);
    pairs[i / 2] ^= (two << 15 & 0x8000u) | (two << 30 & 0x8000'0000u);
  }
}
/// flip for `Count` values, whole runs of N, that a team of threads has at team_place(i).
template <int N, int Count, ThreadTeam Team, class Words>
LOFT_HOST_DEVICE constexpr void flip_team(float* values, Words const& sign_word, Team const& team) noexcept {
  constexpr int words = (N + 31) / 32;
  for (int unit = team.rank(); unit < Count / N * words; unit += Team::size) {
    int const run = unit / words, which = unit % words;
    std::uint32_t const word = sign_word(which);
    for (int i = 0; i < min(32, N - which * 32); ++i) {
      float& value = values[team_place(run * N + which * 32 + i)];
      value = bit_cast<float>(bit_cast<std::uint32_t>(value) ^ (word << (31 - i) & float_sign));
    }
  }
  team.sync();
}

/// Where the values of a lane start in their run, which is longer than Count.
template <int N, int Count, LaneGroup G> LOFT_HOST_DEVICE constexpr int start_in_run(G const& group) noexcept {
  return group.rank() % (N / Count) * Count;
}

}  // namespace detail

/// hadamard<N> of runs in which element i is negated first where bit i % 64 of `signs` is set.
template <int N> struct signed_hadamard {
  static constexpr int size = N;
  std::uint64_t signs = 0;

  template <class T> LOFT_HOST_DEVICE constexpr void apply(T* run) const noexcept {
    flip(run);
    hadamard<N>{}.apply(run);
  }
  template <class T> LOFT_HOST_DEVICE constexpr void invert(T* run) const noexcept {
    hadamard<N>{}.invert(run);
    flip(run);
  }
  /// As in hadamard.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void apply_lanes(float* part, G const& group) const noexcept {
    detail::flip_lane<N, Count>(part, part_of_signs<Count>(group));
    hadamard<N>{}.template apply_lanes<Count>(part, group);
  }
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void invert_lanes(float* part, G const& group) const noexcept {
    hadamard<N>{}.template invert_lanes<Count>(part, group);
    detail::flip_lane<N, Count>(part, part_of_signs<Count>(group));
  }
  template <int Count, ThreadTeam Team>
  LOFT_HOST_DEVICE constexpr void apply_team(float* values, Team const& team) const noexcept {
    detail::flip_team<N, Count>(values, words(), team);
    hadamard<N>{}.template apply_team<Count>(values, team);
  }
  template <int Count, ThreadTeam Team>
  LOFT_HOST_DEVICE constexpr void invert_team(float* values, Team const& team) const noexcept {
    hadamard<N>{}.template invert_team<Count>(values, team);
    detail::flip_team<N, Count>(values, words(), team);
  }

  /// The change of signs alone, on bfloat16 values that lie two in a word.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void flip_pairs(std::uint32_t* pairs, G const& group) const noexcept {
    detail::flip_pairs<N, Count>(pairs, part_of_signs<Count>(group));
  }

 private:
  LOFT_HOST_DEVICE constexpr auto words() const noexcept {
    return [bits = signs](int which) { return static_cast<std::uint32_t>(which % 2 == 0 ? bits : bits >> 32); };
  }
  template <class T> LOFT_HOST_DEVICE constexpr void flip(T* run) const noexcept { detail::flip<N>(run, words()); }
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr std::uint64_t part_of_signs(G const& group) const noexcept {
    if constexpr (N <= Count) {
      return signs;
    } else {
      int const first = detail::start_in_run<N, Count>(group) % 64;
      return signs >> first | (first == 0 ? 0 : signs << (64 - first));
    }
  }
};

/// hadamard<N> of runs in which element i is negated first where random_bits<1>(seed, stream, i) is 1. All runs have
/// the same signs. A trainer leaves `stream` at 0, or sets it to its step, which gives each step its own signs.
template <int N> struct random_hadamard {
  static constexpr int size = N;
  std::uint64_t seed = 0, stream = 0;

  /// The signs of all runs, made once: element i has bit i % 32 of word i / 32, which is set where it is negated.
  struct run_signs {
    std::uint32_t words[(N + 31) / 32];

    template <class T> LOFT_HOST_DEVICE constexpr void flip(T* run) const noexcept {
      detail::flip<N>(run, [this](int which) { return words[which]; });
    }
  };
  LOFT_HOST_DEVICE constexpr run_signs signs_of_run() const noexcept {
    run_signs result{};
    for (int first = 0; first < (N + 31) / 32; first += 4) {
      u32x4 const random = call(first / 4);
      std::uint32_t const four[4] = {random.x, random.y, random.z, random.w};
      for (int i = 0; i < 4 && first + i < (N + 31) / 32; ++i) result.words[first + i] = four[i];
    }
    return result;
  }

  template <class T> LOFT_HOST_DEVICE constexpr void apply(T* run) const noexcept {
    signs_of_run().flip(run);
    hadamard<N>{}.apply(run);
  }
  template <class T> LOFT_HOST_DEVICE constexpr void invert(T* run) const noexcept {
    hadamard<N>{}.invert(run);
    signs_of_run().flip(run);
  }
  /// apply and invert for `count` floats, whole runs, with signs that are made once. `to` may be `from`.
  LOFT_HOST_DEVICE constexpr void apply_runs(float const* from, int count, float* to) const noexcept {
    run_signs const signs = signs_of_run();
    if (from != to)
      for (int i = 0; i < count; ++i) to[i] = from[i];
    for (int i = 0; i < count; i += N) signs.flip(to + i);
    hadamard<N>{}.apply_runs(to, count, to);
  }
  LOFT_HOST_DEVICE constexpr void invert_runs(float* values, int count) const noexcept {
    run_signs const signs = signs_of_run();
    for (int i = 0; i < count; i += N) {
      hadamard<N>{}.invert(values + i);
      signs.flip(values + i);
    }
  }
  /// As in hadamard.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void apply_lanes(float* part, G const& group) const noexcept {
    flip_lanes<Count>(part, group);
    hadamard<N>{}.template apply_lanes<Count>(part, group);
  }
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void invert_lanes(float* part, G const& group) const noexcept {
    hadamard<N>{}.template invert_lanes<Count>(part, group);
    flip_lanes<Count>(part, group);
  }
  template <int Count, ThreadTeam Team>
  LOFT_HOST_DEVICE constexpr void apply_team(float* values, Team const& team) const noexcept {
    flip_team<Count>(values, team);
    hadamard<N>{}.template apply_team<Count>(values, team);
  }
  template <int Count, ThreadTeam Team>
  LOFT_HOST_DEVICE constexpr void invert_team(float* values, Team const& team) const noexcept {
    hadamard<N>{}.template invert_team<Count>(values, team);
    flip_team<Count>(values, team);
  }

  /// The change of signs alone, on bfloat16 values that lie two in a word, of which a lane has 64 at most.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void flip_pairs(std::uint32_t* pairs, G const& group) const noexcept {
    static_assert(Count <= 64 && (N % Count == 0 || Count % N == 0));
    detail::flip_pairs<N, Count>(pairs, part_of_signs<Count>(group));
  }

 private:
  LOFT_HOST_DEVICE constexpr u32x4 call(int number) const noexcept {
    return detail::counter_words<philox4x32<10>>(seed, stream, static_cast<std::uint64_t>(number));
  }
  /// The signs of the elements of a run from `first`, a multiple of 16, on: of 64 of them, or of all that there are.
  LOFT_HOST_DEVICE constexpr std::uint64_t signs_from(int first) const noexcept {
    u32x4 const random = call(first / 128);
    std::uint64_t const low = random.x | std::uint64_t{random.y} << 32, high = random.z | std::uint64_t{random.w} << 32;
    int const away = first % 128;
    if (away >= 64) return high >> (away - 64);
    return low >> away | (away == 0 ? 0 : high << (64 - away));
  }
  /// The signs of at most 64 values of a lane, which lie in the 128 bits of one call.
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr std::uint64_t part_of_signs([[maybe_unused]] G const& group) const noexcept {
    if constexpr (N <= Count) return signs_from(0);
    else return signs_from(detail::start_in_run<N, Count>(group));
  }
  template <int Count, LaneGroup G>
  LOFT_HOST_DEVICE constexpr void flip_lanes(float* part, [[maybe_unused]] G const& group) const noexcept {
    if constexpr (Count <= 64 && (N <= 64 || N % Count == 0)) {
      detail::flip_lane<N, Count>(part, part_of_signs<Count>(group));
    } else if constexpr (Count % N == 0) {
      run_signs const signs = signs_of_run();
      for (int i = 0; i < Count; i += N) signs.flip(part + i);
    } else {
      static_assert(N % Count == 0 && Count % 64 == 0);
      for (int i = 0; i < Count; i += 64)
        detail::flip_lane<N, 64>(part + i, signs_from(detail::start_in_run<N, Count>(group) + i));
    }
  }
  template <int Count, ThreadTeam Team>
  LOFT_HOST_DEVICE constexpr void flip_team(float* values, Team const& team) const noexcept {
    detail::flip_team<N, Count>(
        values, [this](int which) { return static_cast<std::uint32_t>(signs_from(which * 32)); }, team);
  }
};

namespace detail {

/// Applies a rotation to `count` floats, whole runs one after the other, by its own apply_runs where it has one. `to`
/// may be `from`.
template <Rotation R>
LOFT_HOST_DEVICE constexpr void apply_runs(R const& rotation, float const* from, int count, float* to) noexcept {
  if constexpr (requires { rotation.apply_runs(from, count, to); }) {
    rotation.apply_runs(from, count, to);
  } else {
    if (from != to)
      for (int i = 0; i < count; ++i) to[i] = from[i];
    for (int i = 0; i < count; i += R::size) rotation.apply(to + i);
  }
}
/// Undoes a rotation of `count` floats in place, by its own invert_runs where it has one.
template <Rotation R>
LOFT_HOST_DEVICE constexpr void invert_runs(R const& rotation, float* values, int count) noexcept {
  if constexpr (requires { rotation.invert_runs(values, count); }) rotation.invert_runs(values, count);
  else
    for (int i = 0; i < count; i += R::size) rotation.invert(values + i);
}

}  // namespace detail
}  // namespace loft
