// SPDX-License-Identifier: Apache-2.0
// Random words that depend on (seed, stream, index) alone: philox4x32 and random_bits.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox4x32).
#pragma once

#include <cstdint>

#include "loft/core/config.hpp"

namespace loft {

/// Two words of 32 bits, the least significant one first: the key of a generator.
struct u32x2 {
  std::uint32_t x, y;
};
/// Four words of 32 bits, the least significant one first: the counter of a generator, and the result of one call.
struct u32x4 {
  std::uint32_t x, y, z, w;
};

/// The counter-based generator Philox4x32. 10 rounds are usual, and 7 pass BigCrush.
/// in: a 128-bit counter and a 64-bit key, least significant word first. out: 128 random bits. error: exact.
template <int Rounds = 10> struct philox4x32 {
  static_assert(Rounds >= 1, "philox4x32 needs at least one round");

  LOFT_HOST_DEVICE constexpr u32x4 operator()(u32x4 counter, u32x2 key) const noexcept {
    for (int round = 0; round < Rounds; ++round) {
      counter = mix(counter, key);
      key = next(key);
    }
    return counter;
  }

  /// The keys of all rounds, for callers that use the same key many times.
  struct schedule {
    u32x2 keys[Rounds];
  };
  LOFT_HOST_DEVICE static constexpr schedule keys_of(u32x2 key) noexcept {
    schedule result{};
    for (u32x2& each : result.keys) {
      each = key;
      key = next(key);
    }
    return result;
  }
  LOFT_HOST_DEVICE constexpr u32x4 operator()(u32x4 counter, schedule const& keys) const noexcept {
    for (u32x2 key : keys.keys) counter = mix(counter, key);
    return counter;
  }

 private:
  LOFT_HOST_DEVICE static constexpr u32x4 mix(u32x4 counter, u32x2 key) noexcept {
    std::uint64_t const a = std::uint64_t{0xd251'1f53u} * counter.x;
    std::uint64_t const b = std::uint64_t{0xcd9e'8d57u} * counter.z;
    return {static_cast<std::uint32_t>(b >> 32) ^ counter.y ^ key.x, static_cast<std::uint32_t>(b),
            static_cast<std::uint32_t>(a >> 32) ^ counter.w ^ key.y, static_cast<std::uint32_t>(a)};
  }
  LOFT_HOST_DEVICE static constexpr u32x2 next(u32x2 key) noexcept {
    return {key.x + 0x9e37'79b9u, key.y + 0xbb67'ae85u};
  }
};

namespace detail {

/// The low and the high word of a number of 64 bits.
LOFT_HOST_DEVICE constexpr u32x2 words_of(std::uint64_t number) noexcept {
  return {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
}

/// The 128 bits of call number `call`. key: that of the generator, or the keys of all its rounds.
template <class G, class Key>
LOFT_HOST_DEVICE constexpr u32x4 counter_words(Key const& key, std::uint64_t stream, std::uint64_t call) noexcept {
  u32x2 const low = words_of(call), high = words_of(stream);
  return G{}({low.x, low.y, high.x, high.y}, key);
}
template <class G>
LOFT_HOST_DEVICE constexpr u32x4 counter_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t call) noexcept {
  return counter_words<G, u32x2>(words_of(seed), stream, call);
}

}  // namespace detail

/// The `Bits` random bits of element `index`.
///
/// One call of the generator serves 128 / Bits neighbours. Its key is `seed`, its counter (index / (128 / Bits),
/// stream), and the element takes slot index % (128 / Bits) of the result, low bits of the low words first. Threads,
/// launch shapes and backends change nothing. error: exact. source: design decision 13.
template <int Bits, class G = philox4x32<10>>
LOFT_HOST_DEVICE constexpr std::uint32_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                     std::uint64_t index) noexcept {
  static_assert(Bits >= 1 && Bits <= 32 && 32 % Bits == 0, "random_bits: Bits must divide 32 (1, 2, 4, 8, 16 or 32)");
  constexpr std::uint64_t slots = 128 / Bits;
  auto const slot = static_cast<std::uint32_t>(index % slots);
  u32x4 const random = detail::counter_words<G>(seed, stream, index / slots);
  std::uint32_t const which = slot * Bits / 32;
  std::uint32_t const word = which < 2 ? (which == 0 ? random.x : random.y) : (which == 2 ? random.z : random.w);
  return Bits == 32 ? word : (word >> (slot * Bits % 32)) & ((std::uint64_t{1} << Bits) - 1);
}

}  // namespace loft
