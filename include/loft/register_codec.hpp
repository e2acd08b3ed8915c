// SPDX-License-Identifier: Apache-2.0
// Values that a lane holds in registers, and their codes as packed words, without a byte or a branch on the way.
// Source: design decisions 7 to 13; the codes are those of block_codec.hpp, which serves what has no form here.
#ifndef LOFT_REGISTER_CODEC_HPP
#define LOFT_REGISTER_CODEC_HPP

#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/block_codec.hpp"
#include "loft/block_scale.hpp"
#include "loft/config.hpp"
#include "loft/convert.hpp"
#include "loft/formats.hpp"
#include "loft/lanes.hpp"
#include "loft/minifloat.hpp"
#include "loft/native/cuda.hpp"
#include "loft/native/hip.hpp"
#include "loft/native/native.hpp"
#include "loft/native/pairs.hpp"
#include "loft/random.hpp"
#include "loft/rounding.hpp"

namespace loft {
namespace detail {

/// `Count` values of a lane: floats as they are, 16-bit numbers two in a word as they lie in memory.
template <class T, int Count>
struct lane_values {
  using value_type = T;
  T values[Count];

  LOFT_HOST_DEVICE constexpr float operator[](int i) const noexcept { return to_float(values[i]); }
  /// The largest magnitude of values [first, first + N) as float bits; a NaN is larger than infinity.
  template <int N>
  LOFT_HOST_DEVICE constexpr std::uint32_t amax(int first) const noexcept {
    float result[2] = {};
    for (int i = 0; i < N; ++i) result[i % 2] = native::larger_magnitude(result[i % 2], (*this)[first + i]);
    return bit_cast<std::uint32_t>(native::larger_magnitude(result[0], result[1]));
  }
  /// |value i| * factor.
  LOFT_HOST_DEVICE constexpr float magnitude_times(int i, float factor) const noexcept {
    return native::multiply_magnitude((*this)[i], factor);
  }
};
template <int Count>
struct lane_values<bf16_t, Count> {
  using value_type = bf16_t;
  std::uint32_t words[Count / 2];

  LOFT_HOST_DEVICE constexpr float operator[](int i) const noexcept {
    return bit_cast<float>(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff'0000u);
  }
  template <int N>
  LOFT_HOST_DEVICE constexpr std::uint32_t amax(int first) const noexcept {
    std::uint32_t pairs = 0;
    for (int i = 0; i < N / 2; ++i) pairs = native::max_halves(pairs, native::magnitude_pair(words[first / 2 + i]));
    return max(pairs << 16, pairs & 0xffff'0000u);
  }
  LOFT_HOST_DEVICE constexpr float magnitude_times(int i, float factor) const noexcept {
    std::uint32_t const pair = native::magnitude_pair(words[i / 2]);
    return native::multiply(bit_cast<float>(i % 2 == 0 ? pair << 16 : pair & 0xffff'0000u), factor);
  }
};

/// The signs of eight neighbours in the top bits of eight nibbles.
template <int Count>
LOFT_HOST_DEVICE constexpr std::uint32_t nibble_signs(lane_values<bf16_t, Count> const& in, int first) noexcept {
  std::uint32_t const* const w = in.words + first / 2;
  std::uint32_t const low = native::choose_bytes(w[0], w[1], 0x7351), high = native::choose_bytes(w[2], w[3], 0x7351);
  std::uint32_t const even = native::choose_bytes(low, high, 0x5410), odd = native::choose_bytes(low, high, 0x7632);
  return (even >> 4 & 0x0808'0808u) | (odd & 0x8080'8080u);
}
template <class T, int Count>
LOFT_HOST_DEVICE constexpr std::uint32_t nibble_signs(lane_values<T, Count> const& in, int first) noexcept {
  auto const word = [&](int i) { return bit_cast<std::uint32_t>(in[first + i]); };
  auto const top = [&](int i) {  // the top bytes of every second value from i
    return native::choose_bytes(native::choose_bytes(word(i), word(i + 2), 0x0073),
                                native::choose_bytes(word(i + 4), word(i + 6), 0x0073), 0x5410);
  };
  return (top(0) >> 4 & 0x0808'0808u) | (top(1) & 0x8080'8080u);
}

// ---- the ladder: codes of formats with few binades by multiply-adds alone
// ----------------------------------------------------

/// True for formats of a sign and a magnitude whose magnitudes span three binades and end in the middle of the last, as
/// E2M1's do: 0 to 2, 2 to 4, 4 to 6 in units of its least normal.
template <Format F>
inline constexpr bool has_ladder = requires {
  requires F::spec.is_signed && !F::spec.twos_complement && F::spec.has_zero && F::spec.mantissa_bits == 1;
  requires F::spec.special == specials::none&& F::spec.max_exponent() == F::spec.min_exponent() + 2;
};

/// The roundings that the ladder knows: to nearest even, and by words of 8 or 16 random bits.
template <class R>
inline constexpr int ladder_bits = 0;
template <int Bits>
inline constexpr int ladder_bits<stochastic_word<Bits>> = Bits == 8 || Bits == 16 ? Bits : 0;
template <int Bits>
inline constexpr int ladder_bits<truncated_stochastic_word<Bits>> = Bits == 8 || Bits == 16 ? Bits : 0;
template <class R>
inline constexpr bool is_centred = false;
template <int Bits>
inline constexpr bool is_centred<stochastic_word<Bits>> = true;

/// The ordinals of F as a function of the magnitude are three straight lines, one for each binade. Each line is a product
/// clamped to [0, 1], exact because of that clamp; what was added before is a whole number wherever the next line
/// starts, so each sum is exact but the one that rounds.
template <Format F>
struct ladder {
  static constexpr float step = power_of_two(-F::spec.min_exponent() - 1);
  static constexpr float whole = 0x1p23f;  ///< here the gap between floats is 1: a sum is rounded to an integer

  /// whole + the ordinal of |v|, to nearest even.
  LOFT_HOST_DEVICE static float nearest(float magnitude) noexcept {
    float sum = native::fma(native::fma_saturated(magnitude, step, 0.0f), 4.0f, whole);
    sum = native::fma(native::fma_saturated(magnitude, step, -1.0f), 2.0f, sum);
    return native::fma(native::fma_saturated(magnitude, step, -2.0f), 1.0f, sum);
  }
};

/// What the bits of the least normal, moved as stochastic_position moves them, are made up for with: a top byte.
template <Format F>
inline constexpr std::uint32_t position_base = 0u - bit_cast<std::uint32_t>(1.0f) * 4;

/// The code of |v| under a random word, in the top byte. In units of the least normal: below it 1 + v, above it 2v has the
/// fields of a float whose bits are the ordinal and its fraction in one number, and both are 2v + max(1 - v, 0). Cutting
/// that sum to a float keeps every threshold: they lie on a grid that 1 - v is rounded to only from the side it is on.
/// `word`: position_base, the random word behind its top byte, and where it is centred a half behind that.
template <Format F>
LOFT_HOST_DEVICE constexpr std::uint32_t stochastic_position(float magnitude, std::uint32_t word) noexcept {
  constexpr float one = power_of_two(F::spec.min_exponent()), most = 2 * largest<F>;
  float const above = native::fma_saturated(magnitude, -1.0f / one, 1.0f);
  float const position = native::smaller(native::fma_toward_zero(magnitude, 2.0f / one, above), most / one);
  return bit_cast<std::uint32_t>(position) * 4 + word;  // the ordinal moves from bit 22 to the top byte
}

/// Eight numbers whose top bytes are 0 to 15, as eight nibbles.
LOFT_HOST_DEVICE constexpr std::uint32_t gather_top_bytes(std::uint32_t const* numbers) noexcept {
  auto const four = [&](int i) {  // the top bytes of every second number from i
    return native::choose_bytes(native::choose_bytes(numbers[i], numbers[i + 2], 0x0073),
                                native::choose_bytes(numbers[i + 4], numbers[i + 6], 0x0073), 0x5410);
  };
  return four(0) | four(1) << 4;
}

/// Eight floats that hold whole + (0 to 15) as eight nibbles.
LOFT_HOST_DEVICE constexpr std::uint32_t gather_nibbles(float const* ordinals) noexcept {
  // The exponents of the floats fall off the top, but for what the lowest two leave there.
  std::uint32_t result = bit_cast<std::uint32_t>(ordinals[7]);
  for (int i = 6; i >= 0; --i) result = result * 16 + bit_cast<std::uint32_t>(ordinals[i]);
  return result - (0x4b00'0000u + 0xb000'0000u);
}

/// True for roundings that are only asked for words from a multiple of a call's slots on.
template <class R>
inline constexpr bool starts_with_a_call = requires {
  requires R::starts_with_a_call;
};

/// The random words of `Count` elements from `index` on, as stochastic_position takes them: one call of the generator for
/// all of its slots, and one more where `index` is not their multiple.
template <int Bits, bool Centred, int Count, class R>
LOFT_HOST_DEVICE constexpr void position_words(R const& rounding, std::uint64_t index, std::uint32_t top,
                                               std::uint32_t* words) noexcept {
  constexpr int slots = 128 / Bits, needed = Count * Bits / 32, calls = (needed + 3) / 4;
  constexpr std::uint32_t half = !Centred ? 0u : (Bits == 8 ? 0x8000u : 0x80u);
  std::uint32_t raw[4 * calls + 4] = {};
  auto const call = [&](int c) {
    u32x4 random{};
    std::uint64_t const number = index / slots + static_cast<unsigned>(c);
    using generator = typename R::generator;
    if constexpr (requires { rounding.keys; })
      random = counter_words<generator>(rounding.keys, rounding.stream, number);
    else random = counter_words<generator>(rounding.seed, rounding.stream, number);
    raw[4 * c] = random.x;
    raw[4 * c + 1] = random.y;
    raw[4 * c + 2] = random.z;
    raw[4 * c + 3] = random.w;
  };
  for (int c = 0; c < calls; ++c) call(c);
  if constexpr (!starts_with_a_call<R>) {
    int const skipped = static_cast<int>(index % slots) * Bits;
    if (skipped != 0) {
      call(calls);
      for (int step = 2; step >= 1; --step)
        if ((skipped / 32 & step) != 0)
          for (int i = 0; i < 4 * calls + 4 - step; ++i) raw[i] = raw[i + step];
      if (skipped % 32 != 0)
        for (int i = 0; i < needed; ++i) raw[i] = raw[i] >> skipped % 32 | raw[i + 1] << (32 - skipped % 32);
    }
  }
  for (int i = 0; i < Count; ++i) {
    auto const at = static_cast<std::uint32_t>(i * Bits / 8 % 4);
    // 8 bits: {0, half, word, top}; 16 bits: {half, word, word, top}, from the lowest byte.
    std::uint32_t const selector = Bits == 8 ? 0x7054u | at << 8 : 0x7004u | (at + 1) << 8 | at << 4;
    words[i] = native::choose_bytes(raw[i * Bits / 32], half | top, selector);
  }
}

// ---- pairs of bfloat16: codes of nearest even without leaving 16-bit registers
// ---------------------------------------------------

/// True where values of T in power-of-two blocks of F are encoded as pairs.
template <Format F, class T>
inline constexpr bool has_pair_codes = requires {
  requires std::is_same_v<T, bf16_t> && native::has_bf16_pairs && has_ladder<F>;
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
  // Gaps counted, and two ordinals for each binade above the least: the exponent of the sum, moved beside them. One product
  // does both and leaves the ordinal in the upper byte of each half; what the lower half spills into the upper one stays
  // below that byte, because a sum has few bits there.
  constexpr std::uint32_t beside = 256 + 4;
  std::uint32_t const offset = both(2 * (field + gap)) << 8;
  std::uint32_t ordinals[4] = {};
  for (int i = 0; i < 4; ++i) {
    std::uint32_t const magnitude = native::min_halves(native::magnitude_pair(words[i]), most);
    std::uint32_t const binade = native::max_halves(magnitude & 0x7f80'7f80u, least);
    ordinals[i] = native::fma_bf16_pairs(binade, both((gap + 127) << 7), magnitude) * beside - offset;
  }
  auto const select = [](std::uint32_t mask, std::uint32_t a, std::uint32_t b) { return (a & mask) | (b & ~mask); };
  auto const four = [&](int i) {  // nibbles of elements 2i to 2i + 3 in the bytes 0 and 2
    std::uint32_t const codes = native::choose_bytes(ordinals[i], ordinals[i + 1], 0x7531);
    std::uint32_t const signs = native::choose_bytes(words[i], words[i + 1], 0x7531) >> 4;
    std::uint32_t const bytes = select(0x0808'0808u, signs, codes);
    return select(0x000f'000fu, bytes, bytes >> 4);
  };
  return native::choose_bytes(four(0), four(2), 0x6420);
}

// ---- any operand
// ---------------------------------------------------------------------------------------------------

/// What a value of the group of columns from `col` is multiplied with, in order; the second factor is 1 for most.
template <class Operand>
LOFT_HOST_DEVICE constexpr tensor_scale register_factors(code<typename Operand::format::scale> const& scale,
                                                         tensor_scale t, int col) noexcept {
  using format = typename Operand::format;
  if constexpr (is_power_of_two_format<typename format::scale>) {
    int const exponent = static_cast<int>(scale) - format::scale::spec.bias;
    return {t.encode, power_of_two(-exponent)};
  } else {
    return {1.0f, inverse_of<format>(scale, t, col).multiplier};
  }
}

template <class Operand>
using drawn_rounding = typename drawn<std::remove_cvref_t<decltype(Operand{}.rounding)>>::type;
/// True where the elements have a ladder that knows the operand's rounding.
template <class Operand>
inline constexpr bool climbs = has_ladder<typename Operand::format::element> && !requires {
  typename Operand::format::alternative;
}
&&(std::is_same_v<drawn_rounding<Operand>, nearest_even> ||
   (native::has_directed_rounding && ladder_bits<drawn_rounding<Operand>> != 0 &&
    requires { typename std::remove_cvref_t<decltype(Operand{}.rounding)>::given_word; }));
/// True where the machine converts two elements at once, to nearest even.
template <class Operand>
inline constexpr bool converts_pairs =
    native::has_pair_encode<typename Operand::format::element>&&
        std::is_same_v<std::remove_cvref_t<decltype(Operand{}.rounding)>, nearest_even> &&
    !requires {
  typename Operand::format::alternative;
};

/// The codes of `Count` floats that may differ from what the lane holds, in packed words, by the functions of
/// block_codec.hpp.
template <class Operand, int Count, class V>
LOFT_HOST_DEVICE constexpr void encode_words_by_span(V const& in, int first,
                                                     code<typename Operand::format::scale> const& scale, int col,
                                                     Operand const& how, tensor_scale t, std::uint64_t index,
                                                     std::uint32_t* out) noexcept {
  using element = typename Operand::format::element;
  constexpr int bits = element::spec.bits();
  float values[Count] = {};
  for (int i = 0; i < Count; ++i) values[i] = in[first + i];
  using rounding = std::remove_cvref_t<decltype(how.rounding)>;
  typename word_of<rounding>::type words[has_words<rounding> ? Count : 1] = {};
  draw(how.rounding, index, Count, words);
  code<element> codes[Count] = {};
  constexpr int alike = min(Count, factor_cols<typename Operand::format>);
  for (int i = 0; i < Count; i += alike)
    encode_by_scale<alike>(values + i, alike, scale, col + i, how, t, index + static_cast<std::uint64_t>(i),
                           words + (has_words<rounding> ? i : 0), codes + i);
  std::uint64_t pending = 0;
  int held = 0;
  for (int i = 0; i < Count; ++i) {
    pending |= static_cast<std::uint64_t>(codes[i] & ((1u << bits) - 1)) << held;
    held += bits;
    if (held >= 32) {
      *out++ = static_cast<std::uint32_t>(pending);
      pending >>= 32;
      held -= 32;
    }
  }
}

/// The codes of values [first, first + Count) of one block, from its column `col`, in packed words. A NaN scale gives
/// codes 0.
template <class Operand, int Count, class V>
LOFT_HOST_DEVICE constexpr void encode_words(V const& in, int first, code<typename Operand::format::scale> const& scale,
                                             int col, Operand const& how, tensor_scale t, std::uint64_t index,
                                             std::uint32_t* out) noexcept {
  using format = typename Operand::format;
  using element = typename format::element;
  constexpr int bits = element::spec.bits(), alike = min(Count, factor_cols<format>);
  static_assert(Count * bits % 32 == 0, "a lane's codes fill whole words");
  [[maybe_unused]] bool const is_nan = is_nan_scale<format>(scale);
  constexpr bool machine_has_it = converts_pairs<Operand> && bits == 4;
  if constexpr (!machine_has_it && has_pair_codes<element, typename V::value_type> &&
                is_power_of_two_format<typename format::scale> && !has_constant<Operand> && climbs<Operand> &&
                ladder_bits<drawn_rounding<Operand>> == 0) {
    int const exponent = static_cast<int>(scale) - format::scale::spec.bias;
    bool const inside = exponent >= -119 && exponent <= 115;
    if (inside) {
      for (int i = 0; i < Count; i += 8) out[i / 8] = encode_bf16_pairs<element>(in.words + (first + i) / 2, exponent);
      return;
    }
  }
  if constexpr (climbs<Operand> && !machine_has_it) {
    constexpr int random = ladder_bits<drawn_rounding<Operand>>;
    std::uint32_t words[random == 0 ? 1 : Count] = {};
    if constexpr (random != 0) {
      position_words<random, is_centred<drawn_rounding<Operand>>, Count>(how.rounding, index, position_base<element>,
                                                                         words);
    }
    auto factors = register_factors<Operand>(scale, t, col);
    for (int i = 0; i < Count; i += 8) {
      float magnitudes[8] = {};
      if (i != 0 && i % alike == 0) factors = register_factors<Operand>(scale, t, col + i);
      for (int k = 0; k < 8; ++k) {
        if constexpr (has_constant<Operand>)
          magnitudes[k] = native::multiply(in.magnitude_times(first + i + k, factors.encode), factors.decode);
        else magnitudes[k] = in.magnitude_times(first + i + k, factors.decode);
      }
      std::uint32_t codes = 0;
      if constexpr (random == 0) {
        for (float& each : magnitudes) each = ladder<element>::nearest(each);
        codes = gather_nibbles(magnitudes);
      } else {
        std::uint32_t positions[8] = {};
        for (int k = 0; k < 8; ++k) positions[k] = stochastic_position<element>(magnitudes[k], words[i + k]);
        codes = gather_top_bytes(positions);
      }
      out[i / 8] = is_nan ? 0u : codes | nibble_signs(in, first + i);
    }
  } else if constexpr (converts_pairs<Operand>) {
    for (int i = 0; i < Count * bits / 32; ++i) out[i] = 0;
    auto factors = register_factors<Operand>(scale, t, col);
    for (int i = 0; i < Count; i += 2) {
      if (i != 0 && i % alike == 0) factors = register_factors<Operand>(scale, t, col + i);
      float pair[2] = {in[first + i], in[first + i + 1]};
      for (float& value : pair) {
        if constexpr (has_constant<Operand>) value = native::multiply(value, factors.encode);
        value = is_nan ? 0.0f : native::multiply(value, factors.decode);
      }
      std::uint32_t const codes = native::encode_pair<element>(pair[0], pair[1]);
      if constexpr (bits == 6) {
        std::uint32_t const packed = (codes & 63u) | (codes >> 8 & 63u) << 6;
        int const at = i * bits;
        out[at / 32] |= packed << at % 32;
        if (at % 32 > 20) out[at / 32 + 1] |= packed >> (32 - at % 32);
      } else {
        out[i * bits / 32] |= codes << i * bits % 32;
      }
    }
  } else {
    encode_words_by_span<Operand, Count>(in, first, scale, col, how, t, index, out);
  }
}

}  // namespace detail
}  // namespace loft

#endif
