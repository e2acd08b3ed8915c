// SPDX-License-Identifier: Apache-2.0
// The piecewise-linear encoder of formats with few binades, as E2M1: multiply-adds and packed words, without a table.
// Source: design decisions 7 and 13; the codes are those of encode, under the same random words.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/scale_rule.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/native/gpu/pairs.hpp"
#include "loft/number/formats.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/number/random.hpp"
#include "loft/number/rounding.hpp"

namespace loft::detail {

/// True for formats of a sign and a magnitude whose magnitudes span three binades and end in the middle of the last, as
/// E2M1's do: 0 to 2, 2 to 4, 4 to 6 in units of its least normal.
template <Format F> inline constexpr bool is_piecewise_linear = requires {
  requires F::spec.is_signed && !F::spec.twos_complement && F::spec.has_zero && F::spec.mantissa_bits == 1;
  requires F::spec.special == specials::none&& F::spec.max_exponent() == F::spec.min_exponent() + 2;
};

/// The ordinals of F as a function of the magnitude are three straight lines, one for each binade. Each line is a
/// product that is clamped to [0, 1]. Where the next line starts, the sum of the lines before is a whole number, so
/// that every sum is exact except the one that rounds.
template <Format F> struct piecewise_linear {
  static constexpr float step = power_of_two(-F::spec.min_exponent() - 1);
  static constexpr float whole = 0x1p23f;  ///< here the gap between floats is 1: a sum is rounded to an integer

  /// whole + the ordinal of |v|, to nearest even.
  LOFT_HOST_DEVICE static float nearest(float magnitude) noexcept {
    float sum = native::fma(native::fma_saturated(magnitude, step, 0.0f), 4.0f, whole);
    sum = native::fma(native::fma_saturated(magnitude, step, -1.0f), 2.0f, sum);
    return native::fma(native::fma_saturated(magnitude, step, -2.0f), 1.0f, sum);
  }
};

/// Packs eight floats, each of which holds piecewise_linear::whole plus an integer from 0 to 15, into eight nibbles.
LOFT_HOST_DEVICE constexpr std::uint32_t gather_nibbles(float const* ordinals) noexcept {
  // The exponents of the floats are shifted out at the top, except those of the lowest two, which are subtracted.
  std::uint32_t result = bit_cast<std::uint32_t>(ordinals[7]);
  for (int i = 6; i >= 0; --i) result = result * 16 + bit_cast<std::uint32_t>(ordinals[i]);
  return result - (0x4b00'0000u + 0xb000'0000u);
}

/// Packs eight codes into eight nibbles. in: four words, with a code in the top bits of each half.
LOFT_HOST_DEVICE constexpr std::uint32_t gather_halves(std::uint32_t const* codes) noexcept {
  std::uint32_t const first = native::choose_bytes(codes[0], codes[1], 0x7351);
  std::uint32_t const last = native::choose_bytes(codes[2], codes[3], 0x7351);
  std::uint32_t const even = native::choose_bytes(first, last, 0x5410), odd = native::choose_bytes(first, last, 0x7632);
  return native::choose_bits(0x0f0f'0f0fu, even >> 4, odd);
}

// ---- stochastic rounding, by words of 8 or 16 random bits

/// The random bits of each element under a stochastic rounding that this file encodes for, else 0.
template <class R> inline constexpr int known_random_bits = 0;
template <int Bits> inline constexpr int known_random_bits<stochastic_word<Bits>> = Bits == 8 || Bits == 16 ? Bits : 0;
template <int Bits>
inline constexpr int known_random_bits<truncated_stochastic_word<Bits>> = Bits == 8 || Bits == 16 ? Bits : 0;
template <class R> inline constexpr bool is_centred = false;
template <int Bits> inline constexpr bool is_centred<stochastic_word<Bits>> = true;

/// True for roundings whose elements always start where a call of the generator does.
template <class R> inline constexpr bool starts_with_a_call = requires { requires R::starts_with_a_call; };

/// The random bits of `Count` elements from `index` on, as they follow each other: one call of the generator for all of
/// its slots, and one more where `index` is not their multiple.
template <int Bits, int Count> struct random_run {
  static constexpr int slots = 128 / Bits, needed = Count * Bits / 32, calls = (needed + 3) / 4;
  std::uint32_t words[4 * calls + 4] = {};

  template <class R> LOFT_HOST_DEVICE constexpr random_run(R const& rounding, std::uint64_t index) noexcept {
    auto const call = [&](int c) {
      u32x4 random{};
      std::uint64_t const number = index / slots + static_cast<unsigned>(c);
      using generator = typename R::generator;
      if constexpr (requires { rounding.keys; })
        random = counter_words<generator>(rounding.keys, rounding.stream, number);
      else random = counter_words<generator>(rounding.seed, rounding.stream, number);
      words[4 * c] = random.x;
      words[4 * c + 1] = random.y;
      words[4 * c + 2] = random.z;
      words[4 * c + 3] = random.w;
    };
    for (int c = 0; c < calls; ++c) call(c);
    if constexpr (!starts_with_a_call<R> || Count % slots != 0) {
      int const skipped = static_cast<int>(index % slots) * Bits;
      if (skipped == 0) return;
      call(calls);
      for (int step = 2; step >= 1; --step)
        if ((skipped / 32 & step) != 0)
          for (int i = 0; i < 4 * calls + 4 - step; ++i) words[i] = words[i + step];
      if (skipped % 32 != 0)
        for (int i = 0; i < needed; ++i) words[i] = words[i] >> skipped % 32 | words[i + 1] << (32 - skipped % 32);
    }
  }
};

/// The place of a magnitude on the scale of codes: in units of F's least normal and halved, v + max(1/2 - v/2, 0).
/// Below the least normal 1 + v, above it 2v has the fields of a float whose bits are the ordinal and its fraction in
/// one number; this is both. Cutting it to a float keeps every threshold: they lie on a grid that 1/2 - v/2 is rounded
/// to only from the side it is on. in: |x|, and what brings it to v / 4, a power of two. out: a quarter of all that,
/// because then the ordinals in the bits begin at a multiple of 8. `more`: added below the least normal, and just above
/// it.
template <Format F>
LOFT_HOST_DEVICE inline float place_of(float magnitude, float quarter, float minus_eighth, float more) noexcept {
  float const above = native::fma_saturated(magnitude, minus_eighth, 0.125f + more);
  return native::fma_toward_zero(magnitude, quarter, above);
}

/// The codes of eight values under words of `Bits` random bits, signs included, as eight nibbles.
/// `magnitudes`: |x|; `quarter`: what brings them to quarters of F's least normal, a power of two; `signs`: four words
/// whose halves have the sign of an element on top; `random`: eight words of bits as they follow each other, the first
/// in the lowest place. Short: magnitudes in those units have at most 8 significant bits, as bfloat16 has.
template <Format F, int Bits, bool Centred, bool Short>
LOFT_HOST_DEVICE inline std::uint32_t stochastic_codes(float const* magnitudes, float quarter,
                                                       std::uint32_t const* signs,
                                                       std::uint32_t const* random) noexcept {
  // Elements become numbers in the upper bits of 16 or 32: a bit for the sign, three for the ordinal, then the
  // fraction, to which random bits and a half behind them are added. In half precision the fraction has nine bits, just
  // those that decide about a byte and a half; moved up by three, what a lower half loses at its top comes to rest
  // below the random bits of the upper one. Fractions of short magnitudes above the least normal have six bits, and no
  // half changes them.
  constexpr std::uint32_t both = 0x1'0001u;
  constexpr float most = largest<F> / power_of_two(F::spec.min_exponent() + 2);
  constexpr float more = Bits == 8 && Centred && Short ? 0x1p-13f : 0.0f;
  constexpr std::uint32_t half = Centred && more == 0.0f ? both * 8 : 0u;
  float const minus_eighth = exact::multiply(quarter, -0.5f);  // a negation might flush
  std::uint32_t codes[4] = {};
  for (int k = 0; k < 4; ++k) {
    float const low = place_of<F>(magnitudes[2 * k], quarter, minus_eighth, more);
    float const high = place_of<F>(magnitudes[2 * k + 1], quarter, minus_eighth, more);
    std::uint32_t sums = 0;
    if constexpr (Bits == 8) {
      constexpr std::uint32_t largest_places = both * (bit_cast<std::uint32_t>(most / 0x1p112f) >> 13);
      std::uint32_t const places = native::min_halves(native::half_pair_toward_zero(low, high), largest_places);
      std::uint32_t const bytes = native::choose_bytes(random[k / 2], 0u, k % 2 == 0 ? 0x4140u : 0x4342u);
      sums = (places + bytes * 2) * 8 + half;
    } else {
      static_assert(Bits == 16);
      auto const sum = [](float place, std::uint32_t word) {
        return bit_cast<std::uint32_t>(native::smaller(place, most)) * 64 + (word * 0x1000 + (Centred ? 0x800u : 0u));
      };
      sums = native::choose_bytes(sum(low, random[k] & 0xffffu), sum(high, random[k] >> 16), 0x7632);
    }
    codes[k] = native::choose_bits(0x8000'8000u, signs[k], sums);
  }
  return gather_halves(codes);
}

// ---- pairs of bfloat16: codes of nearest even without leaving 16-bit registers

/// True where values of T are encoded to F two at a time, in blocks whose scale is a power of two.
template <Format F, class T> inline constexpr bool has_pair_codes = requires {
  requires std::is_same_v<T, bf16_t> && native::has_bf16_pairs && is_piecewise_linear<F>;
};

/// The codes of eight bfloat16 values, to nearest even, after division by 2^exponent. `exponent`: such that no value's
/// exponent is 120 or more, and its own field is 7 at least.
template <Format F>
LOFT_HOST_DEVICE constexpr std::uint32_t encode_bf16_pairs(std::uint32_t const* words, int exponent) noexcept {
  // |x| + M, where M's last place is the gap of F at |x|: the sum is rounded to F's grid, and its low bits count gaps.
  constexpr int gap = 7 - F::spec.mantissa_bits;
  auto const both = [](int x) { return static_cast<std::uint32_t>(x) * 0x1'0001u; };
  int const field = exponent + 127 + F::spec.min_exponent();
  std::uint32_t const least = both(field << 7);
  std::uint32_t const most = both((exponent << 7) + static_cast<int>(bit_cast<std::uint32_t>(largest<F>) >> 16));
  // Gaps counted, and two ordinals for each binade above the least: the exponent of the sum, moved beside them. One
  // product does both and leaves the ordinal below the sign of each half; what the lower half spills into the upper one
  // stays below that, because a sum has few bits there.
  constexpr std::uint32_t beside = (256 + 4) << 4;
  std::uint32_t const offset = both(2 * (field + gap)) << 12;
  std::uint32_t codes[4] = {};
  for (int i = 0; i < 4; ++i) {
    std::uint32_t const magnitude = native::min_halves(native::magnitude_pair(words[i]), most);
    std::uint32_t const binade = native::max_halves(magnitude & 0x7f80'7f80u, least);
    std::uint32_t const sum = native::fma_bf16_pairs(binade, both((gap + 127) << 7), magnitude);
    codes[i] = native::choose_bits(0x8000'8000u, words[i], sum * beside - offset);
  }
  return gather_halves(codes);
}

}  // namespace loft::detail
