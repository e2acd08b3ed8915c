// SPDX-License-Identifier: Apache-2.0
// Values that a lane holds in registers, and the encoder that makes packed words of codes of them, without branches.
// Source: design decisions 7 to 13; the codes are those of elements.hpp, which serves what has no form here.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/branchless.hpp"
#include "loft/array/random_words.hpp"
#include "loft/block/block_values.hpp"
#include "loft/block/elements.hpp"
#include "loft/block/piecewise_linear.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/native/gpu/pairs.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/minifloat.hpp"
#include "loft/number/rounding.hpp"

namespace loft {
namespace detail {

/// `Count` values in the registers of a lane: floats, or pairs of bfloat16 as they lie in memory.
template <class T, int Count> struct lane_values {
  using value_type = T;
  T values[Count];

  LOFT_HOST_DEVICE constexpr float operator[](int i) const noexcept { return to_float(values[i]); }
  /// The largest magnitude of values [first, first + N) as float bits; a NaN is larger than infinity.
  template <int N> LOFT_HOST_DEVICE constexpr std::uint32_t amax(int first) const noexcept {
    float result[2] = {};
    for (int i = 0; i < N; ++i) result[i % 2] = native::larger_magnitude(result[i % 2], (*this)[first + i]);
    return bit_cast<std::uint32_t>(native::larger_magnitude(result[0], result[1]));
  }
  /// |value i| * factor.
  LOFT_HOST_DEVICE constexpr float magnitude_times(int i, float factor) const noexcept {
    return native::multiply_magnitude((*this)[i], factor);
  }
  /// The signs of values i and i + 1 on top of two halves, with other bits below.
  LOFT_HOST_DEVICE constexpr std::uint32_t signs(int i) const noexcept {
    return native::choose_bytes(bit_cast<std::uint32_t>((*this)[i]), bit_cast<std::uint32_t>((*this)[i + 1]), 0x7632);
  }
};
template <int Count> struct lane_values<bf16_t, Count> {
  using value_type = bf16_t;
  std::uint32_t words[Count / 2];

  LOFT_HOST_DEVICE constexpr float operator[](int i) const noexcept {
    return bit_cast<float>(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff'0000u);
  }
  template <int N> LOFT_HOST_DEVICE constexpr std::uint32_t amax(int first) const noexcept {
    std::uint32_t pairs = 0;
    for (int i = 0; i < N / 2; ++i) pairs = native::max_halves(pairs, native::magnitude_pair(words[first / 2 + i]));
    return max(pairs << 16, pairs & 0xffff'0000u);
  }
  LOFT_HOST_DEVICE constexpr float magnitude(int i) const noexcept {
    std::uint32_t const pair = native::magnitude_pair(words[i / 2]);
    return bit_cast<float>(i % 2 == 0 ? pair << 16 : pair & 0xffff'0000u);
  }
  LOFT_HOST_DEVICE constexpr float magnitude_times(int i, float factor) const noexcept {
    return exact::multiply(magnitude(i), factor);
  }
  LOFT_HOST_DEVICE constexpr std::uint32_t signs(int i) const noexcept { return words[i / 2]; }
};

/// The signs of eight neighbours from value `first` on, in the top bits of eight nibbles.
template <int Count>
LOFT_HOST_DEVICE constexpr std::uint32_t nibble_signs(lane_values<bf16_t, Count> const& in, int first) noexcept {
  return gather_halves(in.words + first / 2) & 0x8888'8888u;
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

/// Code i of packed ones, in the top bits of a word with others below; and alone, in the lowest bits.
template <Format F>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr std::uint32_t code_on_top(std::uint32_t const* words,
                                                                            int i) noexcept {
  constexpr int bits = F::spec.bits();
  int const at = i * bits % 32, word = i * bits / 32;
  if (at + bits <= 32) return words[word] << (32 - bits - at);
  return (words[word] >> at | words[word + 1] << (32 - at)) << (32 - bits);
}
template <Format F>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<F> code_in_words(std::uint32_t const* words, int i) noexcept {
  return static_cast<code<F>>(code_on_top<F>(words, i) >> (32 - F::spec.bits()));
}

// ---- any operand

/// What a value of the group of columns from `col` is multiplied with, in order; the second factor is 1 for most.
template <class O>
LOFT_HOST_DEVICE constexpr tensor_scale register_factors(code<typename O::format::scale> const& scale, tensor_scale t,
                                                         int col) noexcept {
  using format = typename O::format;
  if constexpr (is_power_of_two_format<typename format::scale>) {
    int const exponent = static_cast<int>(scale) - format::scale::spec.bias;
    return {t.encode, power_of_two(-exponent)};
  } else {
    return {1.0f, inverse_of<format>(scale, t, col).multiplier};
  }
}

template <class O> using given_rounding_of = given_rounding<rounding_of<O>>;
/// True where the elements are encoded by piecewise_linear.hpp, which knows the operand's rounding.
template <class O>
inline constexpr bool encodes_piecewise =
    is_piecewise_linear<typename O::format::element> && !has_alternative<typename O::format> &&
    (std::is_same_v<given_rounding_of<O>, nearest_even> ||
     (native::has_directed_rounding && known_random_bits<given_rounding_of<O>> != 0 &&
      makes_random_words<rounding_of<O>>));
/// True where the machine converts two elements at once, to nearest even.
template <class O>
inline constexpr bool converts_pairs =
    native::has_pair_encode<typename O::format::element>&& std::is_same_v<rounding_of<O>, nearest_even> &&
    !has_alternative<typename O::format>;

/// Puts a number of `Bits` bits into packed words at bit `at`; the places of it and of those behind it are zero.
template <int Bits>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void put_bits(std::uint32_t* words, int at,
                                                                std::uint32_t number) noexcept {
  words[at / 32] |= number << at % 32;
  if constexpr (32 % Bits != 0)
    if (at % 32 + Bits > 32) words[at / 32 + 1] |= number >> (32 - at % 32);
}

/// The codes of `Count` floats that may differ from what the lane holds, in packed words, by the functions of
/// elements.hpp.
template <class O, int Count, class V>
LOFT_HOST_DEVICE constexpr void encode_words_by_element(V const& in, int first,
                                                        code<typename O::format::scale> const& scale, int col,
                                                        O const& how, tensor_scale t, std::uint64_t index,
                                                        std::uint32_t* out) noexcept {
  using element = typename O::format::element;
  constexpr int bits = element::spec.bits();
  float values[Count] = {};
  for (int i = 0; i < Count; ++i) values[i] = in[first + i];
  using rounding = rounding_of<O>;
  rounding_word<rounding> words[has_random_words<rounding> ? Count : 1] = {};
  fill_rounding_words(how.rounding, index, Count, words);
  code<element> codes[Count] = {};
  constexpr int sharing = min(Count, factor_cols<typename O::format>);
  for (int i = 0; i < Count; i += sharing)
    encode_by_scale<sharing>(values + i, sharing, scale, col + i, how, t, index + static_cast<std::uint64_t>(i),
                             words + (has_random_words<rounding> ? i : 0), codes + i);
  for (int i = 0; i < Count * bits / 32; ++i) out[i] = 0;
  for (int i = 0; i < Count; ++i) put_bits<bits>(out, i * bits, codes[i] & ((1u << bits) - 1));
}

/// encode_words where encodes_piecewise<O>.
template <class O, int Count, class V>
LOFT_HOST_DEVICE constexpr void encode_words_piecewise(V const& in, int first,
                                                       code<typename O::format::scale> const& scale, int col,
                                                       O const& how, tensor_scale t,
                                                       [[maybe_unused]] std::uint64_t index,
                                                       std::uint32_t* out) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int sharing = min(Count, factor_cols<format>);
  bool const is_nan = is_nan_scale<format>(scale);
  constexpr int random_bits = known_random_bits<given_rounding_of<O>>;
  // A power of two is left to the multiply-adds that follow; bfloat16 has its magnitudes already.
  constexpr bool folds = random_bits != 0 && is_power_of_two_format<typename format::scale> && !has_constant<O> &&
                         std::is_same_v<typename V::value_type, bf16_t>;
  auto factors = register_factors<O>(scale, t, col);
  auto const magnitude = [&](int i) {
    if constexpr (folds) return in.magnitude(first + i);
    else if constexpr (has_constant<O>)
      return exact::multiply(in.magnitude_times(first + i, factors.encode), factors.decode);
    else return in.magnitude_times(first + i, factors.decode);
  };
  [[maybe_unused]] auto const random = [&] {
    if constexpr (random_bits != 0) return random_run<random_bits, Count>(how.rounding, index);
    else return 0;
  }();
  for (int i = 0; i < Count; i += 8) {
    if (i != 0 && i % sharing == 0) factors = register_factors<O>(scale, t, col + i);
    float magnitudes[8] = {};
    for (int k = 0; k < 8; ++k) magnitudes[k] = magnitude(i + k);
    if constexpr (random_bits == 0) {
      for (float& each : magnitudes) each = piecewise_linear<element>::nearest(each);
      out[i / 8] = is_nan ? 0u : gather_nibbles(magnitudes) | nibble_signs(in, first + i);
    } else {
      std::uint32_t signs[4] = {};
      for (int k = 0; k < 4; ++k) signs[k] = in.signs(first + i + 2 * k);
      constexpr float quarter = power_of_two(-element::spec.min_exponent() - 2);
      std::uint32_t const codes = stochastic_codes<element, random_bits, is_centred<given_rounding_of<O>>, folds>(
          magnitudes, folds ? exact::multiply(factors.decode, quarter) : quarter, signs,
          random.words + i * random_bits / 32);
      out[i / 8] = is_nan ? 0u : codes;
    }
  }
}

/// The codes of values [first, first + Count) of one block, from its column `col`, in packed words. A NaN scale gives
/// codes 0.
template <class O, int Count, class V>
LOFT_HOST_DEVICE constexpr void encode_words(V const& in, int first, code<typename O::format::scale> const& scale,
                                             int col, O const& how, tensor_scale t, std::uint64_t index,
                                             std::uint32_t* out) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int bits = element::spec.bits(), sharing = min(Count, factor_cols<format>);
  static_assert(Count * bits % 32 == 0, "a lane's codes fill whole words");
  [[maybe_unused]] bool const is_nan = is_nan_scale<format>(scale);
  constexpr bool machine_has_it = converts_pairs<O> && bits == 4;
  if constexpr (!machine_has_it && has_pair_codes<element, typename V::value_type> &&
                is_power_of_two_format<typename format::scale> && !has_constant<O> && encodes_piecewise<O> &&
                known_random_bits<given_rounding_of<O>> == 0) {
    int const exponent = static_cast<int>(scale) - format::scale::spec.bias;
    bool const inside = exponent >= -119 && exponent <= 115;
    if (inside) {
      for (int i = 0; i < Count; i += 8) out[i / 8] = encode_bf16_pairs<element>(in.words + (first + i) / 2, exponent);
      return;
    }
  }
  if constexpr (encodes_piecewise<O> && !machine_has_it) {
    encode_words_piecewise<O, Count>(in, first, scale, col, how, t, index, out);
  } else if constexpr (converts_pairs<O>) {
    for (int i = 0; i < Count * bits / 32; ++i) out[i] = 0;
    auto factors = register_factors<O>(scale, t, col);
    for (int i = 0; i < Count; i += 2) {
      if (i != 0 && i % sharing == 0) factors = register_factors<O>(scale, t, col + i);
      float pair[2] = {in[first + i], in[first + i + 1]};
      for (float& value : pair) {
        if constexpr (has_constant<O>) value = exact::multiply(value, factors.encode);
        value = is_nan ? 0.0f : exact::multiply(value, factors.decode);
      }
      std::uint32_t const codes = native::encode_pair<element>(pair[0], pair[1]);
      if constexpr (bits == 6) put_bits<12>(out, i * bits, (codes & 63u) | (codes >> 8 & 63u) << 6);
      else put_bits<2 * bits>(out, i * bits, codes);
    }
  } else {
    encode_words_by_element<O, Count>(in, first, scale, col, how, t, index, out);
  }
}

}  // namespace detail
}  // namespace loft
