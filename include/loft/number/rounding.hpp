// SPDX-License-Identifier: Apache-2.0
// How the bits that a format has no room for are rounded: the Rounding concept and its models.
// Source: IEEE 754-2019 section 4.3; round to odd: Boldo and Melquiond, IEEE TC 57(4), 2008; stochastic: design
// decision 13.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/number/random.hpp"

namespace loft {

/// A rounding is a struct with one pure function template, `up<W>(lower, fraction, negative, index)`, which says
/// whether the magnitude goes to the code above `lower`. `fraction` is the exact distance to `lower` in units of the
/// gap, as a binary fraction that fills its word W: one half is the top bit alone. Its lowest bit is also set where
/// anything below that bit is not zero.
///
/// Law: up(.., 0, ..) is false, so that an exact value stays. A rounding may also have `stops_at_max(negative)`, which
/// says whether a finite value beyond the largest finite one becomes that one, whatever `overflow` says.
template <class R>
concept Rounding = requires(R const rounding, std::uint32_t lower, std::uint32_t fraction, bool negative,
                            std::uint64_t index) {
  { rounding.template up<std::uint32_t>(lower, fraction, negative, index) } -> std::same_as<bool>;
};

namespace detail {

template <class W> inline constexpr W half = static_cast<W>(W{1} << (word_bits<W> - 1));

template <class R> LOFT_HOST_DEVICE constexpr bool stops_at_max(R const& rounding, bool negative) noexcept {
  if constexpr (requires { rounding.stops_at_max(negative); }) return rounding.stops_at_max(negative);
  return false;
}

}  // namespace detail

/// To the nearest value, ties to the even code.
struct nearest_even {
  template <class W>
  LOFT_HOST_DEVICE constexpr bool up(std::uint32_t lower, W fraction, bool, std::uint64_t) const noexcept {
    return fraction > detail::half<W> - (lower & 1u);
  }
};

/// To the nearest value, ties away from zero.
struct nearest_away {
  template <class W> LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W fraction, bool, std::uint64_t) const noexcept {
    return fraction >= detail::half<W>;
  }
};

/// To the nearest value, ties towards plus infinity on both sides of zero, as comparing `x < threshold` rounds them.
/// source: the FP4 quantizer of arXiv 2501.17116.
struct nearest_upward {
  template <class W>
  LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W fraction, bool negative, std::uint64_t) const noexcept {
    return fraction > detail::half<W> - (negative ? 0u : 1u);
  }
};

/// To the next smaller magnitude: the bits are dropped.
struct toward_zero {
  template <class W> LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W, bool, std::uint64_t) const noexcept {
    return false;
  }
  LOFT_HOST_DEVICE constexpr bool stops_at_max(bool) const noexcept { return true; }
};

/// To the next larger magnitude.
struct away_from_zero {
  template <class W> LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W fraction, bool, std::uint64_t) const noexcept {
    return fraction != 0;
  }
};

/// Towards plus infinity.
struct upward {
  template <class W>
  LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W fraction, bool negative, std::uint64_t) const noexcept {
    return fraction != 0 && !negative;
  }
  LOFT_HOST_DEVICE constexpr bool stops_at_max(bool negative) const noexcept { return negative; }
};

/// Towards minus infinity.
struct downward {
  template <class W>
  LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W fraction, bool negative, std::uint64_t) const noexcept {
    return fraction != 0 && negative;
  }
  LOFT_HOST_DEVICE constexpr bool stops_at_max(bool negative) const noexcept { return !negative; }
};

/// An inexact value goes to the neighbour with the odd code, so that a second rounding sees that bits were lost.
struct to_odd {
  template <class W>
  LOFT_HOST_DEVICE constexpr bool up(std::uint32_t lower, W fraction, bool, std::uint64_t) const noexcept {
    return fraction != 0 && (lower & 1u) == 0;
  }
  LOFT_HOST_DEVICE constexpr bool stops_at_max(bool) const noexcept { return true; }
};

/// Stochastic rounding by a given random word of 1 to 32 bits.
///
/// The magnitude goes up if and only if fraction + (word + 1/2) / 2^Bits >= 1. An exact value never moves, and the mean
/// error over all words and fractions is zero. Bits of `word` above the lowest `Bits` are ignored.
template <int Bits> struct stochastic_word {
  static_assert(Bits >= 1 && Bits <= 32, "stochastic_word: Bits must be from 1 to 32");
  static constexpr int bits = Bits;
  std::uint32_t word = 0;

  template <class W> LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W fraction, bool, std::uint64_t) const noexcept {
    static_assert(Bits < detail::word_bits<W>, "the fraction must hold one bit more than the random word");
    constexpr auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << Bits) - 1);
    W const doubled = static_cast<W>(static_cast<W>(word & mask) * 2 + 1);
    return fraction >= static_cast<W>(W{0} - static_cast<W>(doubled << (detail::word_bits<W> - Bits - 1)));
  }
};

/// As stochastic_word without the half, as hardware rounds: the magnitude goes up if and only if
/// fraction + word / 2^Bits >= 1. The mean is low by 1/2^(Bits + 1) of a gap.
template <int Bits> struct truncated_stochastic_word {
  static_assert(Bits >= 1 && Bits <= 32, "truncated_stochastic_word: Bits must be from 1 to 32");
  static constexpr int bits = Bits;
  std::uint32_t word = 0;

  template <class W> LOFT_HOST_DEVICE constexpr bool up(std::uint32_t, W fraction, bool, std::uint64_t) const noexcept {
    constexpr auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << Bits) - 1);
    W const bits_given = static_cast<W>(word & mask);
    return bits_given != 0 &&
           fraction >= static_cast<W>(W{0} - static_cast<W>(bits_given << (detail::word_bits<W> - Bits)));
  }
};

/// Rounds each element as Word, which is stochastic_word or truncated_stochastic_word, with the random word
/// random_bits<Word::bits, Generator>(seed, stream, index).
template <class Word, class Generator> struct basic_stochastic {
  static constexpr int bits = Word::bits;
  using generator = Generator;
  using given_word = Word;
  std::uint64_t seed = 0, stream = 0;

  template <class W>
  LOFT_HOST_DEVICE constexpr bool up(std::uint32_t lower, W fraction, bool negative,
                                     std::uint64_t index) const noexcept {
    return Word{random_bits<bits, Generator>(seed, stream, index)}.up(lower, fraction, negative, index);
  }
};

/// Stochastic rounding without bias, as in stochastic<8>{seed, stream}. Bits: 1, 2, 4, 8, 16 or 32.
template <int Bits = 16, class Generator = philox4x32<10>>
using stochastic = basic_stochastic<stochastic_word<Bits>, Generator>;

/// As stochastic, with the words of truncated_stochastic_word.
template <int Bits = 16, class Generator = philox4x32<10>>
using truncated_stochastic = basic_stochastic<truncated_stochastic_word<Bits>, Generator>;

namespace detail {

/// Whether R looks at a random word for each element. The words of many elements can then be made at once.
template <class R> inline constexpr bool has_random_words = requires { R::bits; };
/// Whether R makes the random word of an element from the element's index.
template <class R> inline constexpr bool makes_random_words = requires { typename R::given_word; };

/// The word in which R compares fractions of a T: that of T, or 64 bits where a random word would not fit.
template <class R, class T> struct fraction_word { using type = typename ieee<T>::word; };
template <class R, class T>
  requires(R::bits > 30)
struct fraction_word<R, T> {
  using type = std::uint64_t;
};

}  // namespace detail
}  // namespace loft
