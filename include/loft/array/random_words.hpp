// SPDX-License-Identifier: Apache-2.0
// The random words of a run of elements, made for many of them at once.
// Source: number/random.hpp, whose words these are; tests/array/array_test.cpp compares them.
#pragma once

#include <cstdint>

#include "loft/core/bits.hpp"
#include "loft/native/host/random.hpp"
#include "loft/number/format.hpp"
#include "loft/number/random.hpp"
#include "loft/number/rounding.hpp"

namespace loft::detail {

/// What holds the random word of one element; a byte where R has none.
template <class R> inline constexpr int random_bits_of = 8;
template <class R>
  requires has_random_words<R>
inline constexpr int random_bits_of<R> = R::bits;
template <class R> using rounding_word = code_word<random_bits_of<R>>;

/// The rounds of a generator that native::philox_calls computes, else 0.
template <class G> inline constexpr int philox_rounds = 0;
template <int Rounds> inline constexpr int philox_rounds<philox4x32<Rounds>> = Rounds;

/// words[i] = random_bits<Bits, G>(seed, stream, index + i) for i < count, with one call of the generator for all its
/// slots.
template <int Bits, class G>
LOFT_HOST_DEVICE constexpr void fill_random_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t index,
                                                  int count, code_word<Bits>* words) noexcept {
  constexpr int slots = 128 / Bits, per_word = 32 / Bits;
  constexpr auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << Bits) - 1);
  int slot = static_cast<int>(index % slots);
  std::uint64_t call = index / slots;
  for (int i = 0; i < count; slot = 0, ++call) {
    // Words of whole bytes are the bytes of the calls as they come.
    if constexpr (Bits >= 8 && philox_rounds < G >> 0) {
      if (slot == 0) {
        int const calls = native::philox_calls<philox_rounds<G>>(seed, stream, call, (count - i) / slots, words + i);
        call += static_cast<std::uint64_t>(calls);
        i += calls * slots;
        if (i == count) return;
      }
    }
    u32x4 const random = counter_words<G>(seed, stream, call);
    std::uint32_t const parts[4] = {random.x, random.y, random.z, random.w};
    for (; slot < slots && i < count; ++slot, ++i)
      words[i] = static_cast<code_word<Bits>>((parts[slot / per_word] >> (slot % per_word * Bits)) & mask);
  }
}

/// The random words of `count` elements from `index` on, where R looks at such words.
template <class R>
LOFT_HOST_DEVICE constexpr void fill_rounding_words([[maybe_unused]] R const& rounding,
                                                    [[maybe_unused]] std::uint64_t index, [[maybe_unused]] int count,
                                                    [[maybe_unused]] rounding_word<R>* words) noexcept {
  if constexpr (makes_random_words<R>) {
    fill_random_words<R::bits, typename R::generator>(rounding.seed, rounding.stream, index, count, words);
  } else if constexpr (has_random_words<R>) {
    constexpr auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << R::bits) - 1);
    for (int i = 0; i < count; ++i) words[i] = static_cast<rounding_word<R>>(rounding.word & mask);
  }
}

/// The rounding of element i, whose random word is words[i] where R makes such words.
template <class R, class W>
LOFT_HOST_DEVICE constexpr auto rounding_at([[maybe_unused]] R const& rounding, [[maybe_unused]] W const* words,
                                            [[maybe_unused]] int i) noexcept {
  if constexpr (makes_random_words<R>) return typename R::given_word{words[i]};
  else return rounding;
}

/// The rounding of an element whose random word is made already: R itself where it makes no words.
template <class R> using given_rounding = decltype(rounding_at(R{}, static_cast<std::uint8_t const*>(nullptr), 0));

}  // namespace loft::detail
