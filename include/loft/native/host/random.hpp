// SPDX-License-Identifier: Apache-2.0
// Computes many calls of Philox4x32 in the host's vector registers. number/random.hpp has the generator and its source.
#pragma once

#include <cstdint>
#include <utility>

#include "loft/core/bits.hpp"
#include "loft/native/host/vectors.hpp"

namespace loft::native {

/// Writes the outputs of the calls `call`, `call + 1`, ... of Philox4x32, 128 bits each, for the first of `count`
/// calls, as many as fill whole registers. Returns how many calls were done: 0 where vectors are not to be had.
template <int Rounds, class W>
LOFT_HOST_DEVICE constexpr int philox_calls([[maybe_unused]] std::uint64_t seed, [[maybe_unused]] std::uint64_t stream,
                                            [[maybe_unused]] std::uint64_t call, [[maybe_unused]] int count,
                                            [[maybe_unused]] W* words) noexcept {
#if LOFT_HAS_HOST_VECTORS
  if (constant_evaluated()) return 0;
  constexpr int together = lanes / 2;
  constexpr std::uint64_t low = 0xffff'ffff;
  auto const first = []<int... I>(lane_list<I...>) { return u64s{static_cast<std::uint64_t>(I)...}; };
  int done = 0;
  for (; done + together <= count; done += together) {
    // Every word has 64 bits here, of which the upper half is anything.
    u64s const calls = first(std::make_integer_sequence<int, together>{}) + (call + static_cast<std::uint64_t>(done));
    u64s x = calls, y = calls >> 32, z = u64s{} + stream, w = u64s{} + (stream >> 32);
    std::uint64_t key_x = seed & low, key_y = seed >> 32;
    for (int round = 0; round < Rounds; ++round) {
      u64s const a = (x & low) * std::uint64_t{0xd251'1f53u}, b = (z & low) * std::uint64_t{0xcd9e'8d57u};
      x = (b >> 32) ^ y ^ key_x;
      y = b;
      z = (a >> 32) ^ w ^ key_y;
      w = a;
      key_x = (key_x + 0x9e37'79b9u) & low;
      key_y = (key_y + 0xbb67'ae85u) & low;
    }
    u64s const xy = (x & low) | (y << 32), zw = (z & low) | (w << 32);
    [&]<int... I>(std::integer_sequence<int, I...>) {
      constexpr int half = together / 2, per_call = 16 / static_cast<int>(sizeof(W));
      store(words + per_call * done, __builtin_shufflevector(xy, zw, (I / 2 + I % 2 * together)...));
      store(words + per_call * (done + half), __builtin_shufflevector(xy, zw, (half + I / 2 + I % 2 * together)...));
    }
    (std::make_integer_sequence<int, together>{});
  }
  return done;
#else
  return 0;
#endif
}

}  // namespace loft::native
