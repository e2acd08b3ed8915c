// SPDX-License-Identifier: Apache-2.0
// Lanes that hold a run of values together: the LaneGroup concept and its models, one_lane and lane_group.
// Source: design section 6. Nothing here knows how many lanes a warp or a wave has.
#pragma once

#include <concepts>
#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/native/gpu/pairs.hpp"

namespace loft {

/// A group of `size` lanes, a power of two, each with a part of the same run: lane `rank()` has the part that starts at
/// rank() * (values a lane). `exchange(word, mask)` gives the word that the lane of rank `rank() ^ mask` passes at the
/// same call; all lanes of the group, and of the groups that run with it, make the same calls.
template <class G>
concept LaneGroup = requires(G const group, std::uint32_t word) {
  { G::size } -> std::convertible_to<int>;
  { group.rank() } -> std::same_as<int>;
  { group.exchange(word, 1) } -> std::same_as<std::uint32_t>;
};

/// A lane that holds the whole run.
struct one_lane {
  static constexpr int size = 1;
  LOFT_HOST_DEVICE constexpr int rank() const noexcept { return 0; }
  LOFT_HOST_DEVICE constexpr std::uint32_t exchange(std::uint32_t word, int) const noexcept { return word; }
};

/// `Lanes` neighbours of a warp or a wave, the first of which has a multiple of `Lanes` for its number. Device code
/// only.
template <int Lanes> struct lane_group {
  static_assert(Lanes >= 1 && Lanes <= 32 && (Lanes & (Lanes - 1)) == 0,
                "lane_group: a power of two up to 32, so that it fits every warp and wave");
  static constexpr int size = Lanes;
  LOFT_HOST_DEVICE int rank() const noexcept { return native::lane_index() % Lanes; }
  LOFT_HOST_DEVICE std::uint32_t exchange(std::uint32_t word, int mask) const noexcept {
    return native::exchange(word, mask);
  }
};

namespace detail {

/// The largest word of `Lanes` neighbours, in all of them.
template <int Lanes, LaneGroup G>
LOFT_HOST_DEVICE constexpr std::uint32_t largest_word(std::uint32_t word, G const& group) noexcept {
  for (int mask = 1; mask < Lanes; mask *= 2) word = max(word, group.exchange(word, mask));
  return word;
}

/// The number of 32 or 64 bits that the lane of rank `rank() ^ mask` passes at the same call.
template <class N, LaneGroup G> LOFT_HOST_DEVICE constexpr N exchange(N number, int mask, G const& group) noexcept {
  if constexpr (sizeof(N) == 4) {
    return bit_cast<N>(group.exchange(bit_cast<std::uint32_t>(number), mask));
  } else {
    auto const words = bit_cast<std::uint64_t>(number);
    std::uint32_t const low = group.exchange(static_cast<std::uint32_t>(words), mask);
    std::uint32_t const high = group.exchange(static_cast<std::uint32_t>(words >> 32), mask);
    return bit_cast<N>(std::uint64_t{high} << 32 | low);
  }
}

/// The sum of the numbers of `Lanes` neighbours, in all of them: a binary tree, whose two sides are added in either
/// order.
template <int Lanes, class N, LaneGroup G>
LOFT_HOST_DEVICE constexpr N sum_of_lanes(N number, G const& group) noexcept {
  for (int mask = 1; mask < Lanes; mask *= 2) number += exchange(number, mask, group);
  return number;
}

}  // namespace detail
}  // namespace loft
