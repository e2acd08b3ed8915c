// SPDX-License-Identifier: Apache-2.0
// The inside of a block: its statistic, its scale, its elements encoded and decoded a run of one row at a time.
// Source: design section 2 (data through one block) and decisions 7 to 10. Everything here is detail of block.hpp and tensor.hpp.
#ifndef LOFT_BLOCK_CODEC_HPP
#define LOFT_BLOCK_CODEC_HPP

#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/convert.hpp"
#include "loft/lanes.hpp"
#include "loft/native/host.hpp"
#include "loft/native/native.hpp"
#include "loft/rounding.hpp"
#include "loft/scaling.hpp"

namespace loft {

/// What a block does with values that are not finite. propagate: a NaN or an infinity gives the block a NaN scale.
/// saturate: infinities count as the largest finite float; a NaN still gives a NaN scale.
enum class nonfinite { propagate, saturate };

/// True for the formats with a float scale for the whole tensor (member `has_tensor_scale`).
template <class B>
inline constexpr bool has_tensor_scale = requires { requires B::has_tensor_scale; };

namespace detail {

template <class T>
LOFT_HOST_DEVICE constexpr float to_float(T x) noexcept {
  static_assert(EncodeSource<T> && !std::is_same_v<T, double>, "tensors hold float or a minifloat: a block maximum is a float");
  return static_cast<float>(x);
}

/// A value as a block sees it: nonfinite::saturate takes an infinity for the largest finite float.
template <nonfinite N>
LOFT_HOST_DEVICE constexpr float admit(float value) noexcept {
  if (N == nonfinite::saturate && magnitude_bits(value) == float_infinity)
    return bit_cast<float>(bit_cast<std::uint32_t>(value) - 1);
  return value;
}

/// The largest magnitude of `count` values as float bits, which order like the values; a NaN is larger than infinity.
template <int N>
LOFT_HOST_DEVICE constexpr std::uint32_t amax_bits(float const* values, int count) noexcept {
  std::uint32_t result = 0;
  if (count == N && native::amax_run<N>(values, result)) return result;
  for_lanes<N>(count, [&](int i) { result = max(result, magnitude_bits(values[i])); });
  return result;
}

// ---- what a block format may define beside element, scale and shape ------------------------------------------------------

/// Neighbours in a row that share one factor: the columns of the block, or fewer where its scale has levels (`factor_cols`).
template <class B>
inline constexpr int factor_cols = [] {
  if constexpr (requires { B::factor_cols; }) return B::factor_cols;
  else return B::shape.cols;
}();

/// True where the scale is a number of a format and not a record with levels.
template <class B>
inline constexpr bool plain_scale = requires(code<typename B::scale> c) { B::scale::spec.is_nan(c); };

template <class B>
LOFT_HOST_DEVICE constexpr bool is_nan_scale(code<typename B::scale> scale) noexcept {
  if constexpr (plain_scale<B>) {
    constexpr auto spec = B::scale::spec;
    return spec.is_nan(scale);
  } else {
    return B::is_nan_scale(scale);
  }
}
template <class B>
LOFT_HOST_DEVICE constexpr code<typename B::scale> nan_scale() noexcept {
  if constexpr (plain_scale<B>) {
    constexpr auto spec = B::scale::spec;
    return static_cast<code<typename B::scale>>(spec.nan_code());
  } else {
    return B::nan_scale();
  }
}

/// The sign of the scales of a format with two kinds of elements.
template <class B>
inline constexpr std::uint32_t alternative_mask = B::scale::spec.sign_mask();

/// True where the sign of the scale says that the block's elements are of the format's `alternative`.
template <class B>
LOFT_HOST_DEVICE constexpr bool is_alternative(code<typename B::scale> scale) noexcept {
  if constexpr (requires { typename B::alternative; }) return (scale & alternative_mask<B>) != 0;
  else return false;
}

/// What element codes are multiplied with in decoding, tensor scale apart, in column `col` of the block.
template <class B>
LOFT_HOST_DEVICE constexpr float factor_of(code<typename B::scale> scale, int col) noexcept {
  if constexpr (!plain_scale<B>) {
    return B::factor(scale, col);
  } else {
    if constexpr (requires { typename B::alternative; })
      scale = static_cast<code<typename B::scale>>(scale & ~alternative_mask<B>);
    if constexpr (has_decode_lane<typename B::scale>) return decode_lane<typename B::scale>(scale);
    else return decode<typename B::scale>(scale);
  }
}

/// What an element is divided by, ready for use: the power of two as its exponent, any other scale as a multiplier.
struct scale_inverse {
  int exponent;
  float multiplier;
};

/// The inverse of what decoding multiplies with, never of the real number the scale stands for. A scale of 0 makes every
/// element 0, the sign kept.
template <class B>
LOFT_HOST_DEVICE constexpr scale_inverse inverse_of(code<typename B::scale> scale, tensor_scale t, int col) noexcept {
  if constexpr (requires { B::inverse(scale, col); }) {
    return {0, B::inverse(scale, col)};
  } else if constexpr (is_power_of_two_format<typename B::scale>) {
    return {static_cast<int>(scale) - B::scale::spec.bias, t.encode};
  } else {
    float const factor = factor_of<B>(scale, col);
    float const inverse = native::divide(1.0f, native::multiply(factor, t.decode));
    return {0, magnitude_bits(factor) == 0 ? 0.0f : bit_cast<float>(min(magnitude_bits(inverse), float_max))};
  }
}

// ---- statistic and scale -------------------------------------------------------------------------------------------------

/// What is gathered over a block before its scale is chosen: the largest magnitude, and what the rule asks for beside it.
struct no_statistic {
  LOFT_HOST_DEVICE constexpr void add(float const*, int) noexcept {}
};
template <class Rule, class B>
struct statistic_of {
  using type = no_statistic;
};
template <class Rule, class B>
  requires requires { typename Rule::template statistic<B>; }
struct statistic_of<Rule, B> {
  using type = typename Rule::template statistic<B>;
};
template <class Operand>
struct gathered {
  std::uint32_t amax = 0;
  [[no_unique_address]] typename statistic_of<std::remove_cvref_t<decltype(Operand{}.rule)>, typename Operand::format>::type statistic{};

  /// Adds `count` values from the first column of one row of the block.
  LOFT_HOST_DEVICE constexpr void add(float const* values, int count) noexcept {
    amax = max(amax, amax_bits<Operand::format::shape.cols>(values, count));
    statistic.add(values, count);
  }
};

/// The largest magnitudes of the runs of G columns of a block, for scales with levels. Not finite: the largest float.
template <int G, int Cols>
struct group_maxima {
  float amax[Cols / G] = {};

  LOFT_HOST_DEVICE constexpr void add(float const* values, int count) noexcept {
    for (int i = 0; i < count; i += G) {
      float& group = amax[i / G];
      group = bit_cast<float>(min(float_max, max(magnitude_bits(group), amax_bits<G>(values + i, min(G, count - i)))));
    }
  }
};

template <class Rule>
inline constexpr int rule_candidates = [] {
  if constexpr (requires { Rule::candidates; }) return Rule::candidates;
  else return 1;
}();

/// Ways to encode a block of the operand: the rule's scales, each with the format's element and its alternative.
template <class Operand>
inline constexpr int candidates = rule_candidates<std::remove_cvref_t<decltype(Operand{}.rule)>> *
                                  (requires { typename Operand::format::alternative; } ? 2 : 1);

template <class Rule>
struct error_of {
  using type = squared_error;
};
template <class Rule>
  requires requires { typename Rule::error; }
struct error_of<Rule> {
  using type = typename Rule::error;
};

/// The scale of a block for one candidate; the same for all where the block is not finite.
template <class Operand>
LOFT_HOST_DEVICE constexpr auto scale_of(gathered<Operand> const& from, Operand const& how, tensor_scale t, int candidate) noexcept {
  using format = typename Operand::format;
  using rule = std::remove_cvref_t<decltype(how.rule)>;
  constexpr int of_rule = rule_candidates<rule>;
  std::uint32_t amax = from.amax;
  if (Operand::policy == nonfinite::saturate && amax == float_infinity) amax = float_max;
  if (amax >= float_infinity) return nan_scale<format>();
  code<typename format::scale> scale{};
  if constexpr (requires { typename rule::template statistic<format>; }) scale = how.rule.template scale<format>(from.statistic, t);
  else if constexpr (of_rule > 1) scale = how.rule.template scale<format>(bit_cast<float>(amax), t, candidate % of_rule);
  else scale = how.rule.template scale<format>(bit_cast<float>(amax), t);
  if constexpr (requires { typename format::alternative; })
    if (candidate >= of_rule) scale = static_cast<code<typename format::scale>>(scale | alternative_mask<format>);
  return scale;
}

// ---- elements ------------------------------------------------------------------------------------------------------------

/// codes[i] = what rounding_of(i) makes of value_of(i) / 2^exponent: the lanes where they serve, else encode itself.
template <Format F, int N, class Values, class Roundings>
LOFT_HOST_DEVICE constexpr void encode_lanes(Values value_of, int count, int exponent, Roundings rounding_of, std::uint64_t index,
                                             code<F>* codes) noexcept {
  if (has_lanes<F> && exponent >= least_lane_scale<F>) {
    for_lanes<N>(count, [&](int i) {
      if constexpr (has_lanes<F>)
        codes[i] = encode_lane<F>(value_of(i), exponent, rounding_of(i), index + static_cast<std::uint64_t>(i));
    });
  } else {
    for (int i = 0; i < count; ++i)
      codes[i] = encode_scaled<F, overflow::saturate>(value_of(i), exponent, rounding_of(i), index + static_cast<std::uint64_t>(i));
  }
}

/// The least power-of-two scale by which float multiplication may divide: subnormal floats, should the build flush them,
/// lie 2^17 below the least code.
template <Format F>
inline constexpr int least_vector_scale = [] {
  if constexpr (has_lanes<F>) return max(-126, -109 - (F::spec.min_exponent() - F::spec.mantissa_bits));
  else return 0;
}();

/// Encodes values that share one factor. F: the format of their codes, times `unit`. `words`: one random word each, or null.
template <Format F, int N, class Operand>
LOFT_HOST_DEVICE constexpr void encode_alike(float const* values, int count, scale_inverse inverse, float unit, Operand const& how,
                                             std::uint64_t index, std::uint32_t const* words, code<F>* codes) noexcept {
  using rounding = std::remove_cvref_t<decltype(how.rounding)>;
  constexpr bool multiplies = !is_power_of_two_format<typename Operand::format::scale> ||
                              requires { std::remove_cvref_t<decltype(how.rule)>::constant; };
  auto const value_of = [&](int i) {
    float value = admit<Operand::policy>(values[i]);
    if constexpr (multiplies) value = native::grouped(value * inverse.multiplier);
    return unit == 1.0f ? value : native::grouped(value * (1.0f / unit));
  };
  if constexpr (requires { typename rounding::given_word; }) {
    encode_lanes<F, N>(value_of, count, inverse.exponent, [&](int i) { return typename rounding::given_word{words[i]}; }, index,
                       codes);
  } else {
    encode_lanes<F, N>(value_of, count, inverse.exponent, [&](int) { return how.rounding; }, index, codes);
  }
}

/// The rounding of one element of a run whose random words are drawn already.
template <class R>
struct drawn {
  using type = R;
};
template <class R>
  requires requires { typename R::given_word; }
struct drawn<R> {
  using type = typename R::given_word;
};

/// The inverse as a multiplier where vectors may use it, else 0: a power of two multiplies exactly while what it takes below
/// the normal floats is far below the least code.
template <class Operand>
LOFT_HOST_DEVICE constexpr float vector_multiplier(code<typename Operand::format::scale> scale, scale_inverse inverse) noexcept {
  using format = typename Operand::format;
  if (is_nan_scale<format>(scale) || is_alternative<format>(scale)) return 0;
  if constexpr (!is_power_of_two_format<typename format::scale>) return inverse.multiplier;
  bool const in_range = inverse.exponent >= least_vector_scale<typename format::element> && inverse.exponent <= 126;
  return in_range ? power_of_two(-inverse.exponent) * inverse.multiplier : 0.0f;
}

/// Encodes `count` neighbours of one row, from the first column of a block, at most Width; their element indices count up from
/// `index`, and `scales` has one entry a block.
template <int Width, class Operand>
LOFT_HOST_DEVICE constexpr void encode_span(float const* values, int count, code<typename Operand::format::scale> const* scales,
                                            Operand const& how, tensor_scale t, std::uint64_t index,
                                            code<typename Operand::format::element>* codes) noexcept {
  using format = typename Operand::format;
  using element = typename format::element;
  using rounding = std::remove_cvref_t<decltype(how.rounding)>;
  constexpr int alike = factor_cols<format>, cols = format::shape.cols;
  constexpr bool random = requires { typename rounding::given_word; };
  std::uint32_t words[random ? Width : 1];
  if constexpr (random)
    fill_random_bits<rounding::bits, typename rounding::generator>(how.rounding.seed, how.rounding.stream, index, count, words);
  scale_inverse inverses[Width / alike];
  float multipliers[Width / alike];
  bool vectors = true;
  for (int i = 0; i < count; i += alike) {
    auto const& scale = scales[i / cols];
    inverses[i / alike] = inverse_of<format>(scale, t, i % cols);
    multipliers[i / alike] = vector_multiplier<Operand>(scale, inverses[i / alike]);
    vectors = vectors && multipliers[i / alike] > 0;
  }
  int const whole = vectors ? count / alike : 0;
  int done = 0;
  if (native::encode_groups<element, typename drawn<rounding>::type, alike>(values, multipliers, whole, words, codes))
    done = whole * alike;
  for (int i = done; i < count; i += alike) {
    auto const& scale = scales[i / cols];
    int const here = min(alike, count - i);
    std::uint64_t const at = index + static_cast<std::uint64_t>(i);
    std::uint32_t const* const random_words = random ? words + i : words;
    if (is_nan_scale<format>(scale)) {
      for (int k = i; k < i + here; ++k) codes[k] = 0;
      continue;
    }
    if constexpr (requires { typename format::alternative; }) {
      if (is_alternative<format>(scale)) {
        encode_alike<typename format::alternative, alike>(values + i, here, inverses[i / alike], format::alternative_unit, how, at,
                                                          random_words, codes + i);
        continue;
      }
    }
    encode_alike<element, alike>(values + i, here, inverses[i / alike], 1.0f, how, at, random_words, codes + i);
  }
}

/// The value of one element in column `col` of its block: code times block scale, exactly for the formats of the standards;
/// then times the tensor's scale or the rule's constant, rounded once.
template <class B>
LOFT_HOST_DEVICE constexpr float decode_element(code<typename B::element> c, code<typename B::scale> scale, int col,
                                                float tensor_decode) noexcept {
  if (is_nan_scale<B>(scale)) return bit_cast<float>(float_nan);
  float element = decode<typename B::element>(c);
  if constexpr (requires { typename B::alternative; })
    if (is_alternative<B>(scale)) element = native::multiply(decode<typename B::alternative>(c), B::alternative_unit);
  float value = 0;
  if constexpr (is_power_of_two_format<typename B::scale>) {
    value = scale_by_power_of_two(element, static_cast<int>(scale) - B::scale::spec.bias);
  } else {
    value = native::multiply(element, factor_of<B>(scale, col));
  }
  return tensor_decode == 1.0f ? value : native::multiply(value, tensor_decode);
}

/// The factor of a run where decoding is one multiplication by it, because no value leaves the normal floats; else 0.
template <class B>
LOFT_HOST_DEVICE constexpr float plain_factor(code<typename B::scale> scale, int col) noexcept {
  using element = typename B::element;
  if (!has_decode_lane<element> || is_nan_scale<B>(scale) || is_alternative<B>(scale)) return 0;
  if constexpr (is_power_of_two_format<typename B::scale> && has_decode_lane<element>) {
    constexpr auto spec = element::spec;
    int const exponent = static_cast<int>(scale) - B::scale::spec.bias;
    bool const normal = exponent >= max(-126, -126 - (spec.min_exponent() - spec.mantissa_bits)) && exponent < 127 - spec.max_exponent();
    return normal ? power_of_two(exponent) : 0.0f;
  }
  return factor_of<B>(scale, col);
}

/// values[i] = decode_element(codes[i], ...) for neighbours in one row, from the first column of a block, at most Width.
template <class B, int Width>
LOFT_HOST_DEVICE constexpr void decode_span(code<typename B::element> const* codes, int count, code<typename B::scale> const* scales,
                                            float tensor_decode, float* values) noexcept {
  using element = typename B::element;
  constexpr int alike = factor_cols<B>, cols = B::shape.cols;
  float factors[Width / alike];
  bool vectors = true;
  for (int i = 0; i < count; i += alike) {
    factors[i / alike] = plain_factor<B>(scales[i / cols], i % cols);
    vectors = vectors && factors[i / alike] > 0;
  }
  int const whole = vectors ? count / alike : 0;
  int done = 0;
  if (native::decode_groups<element, alike>(codes, factors, tensor_decode, whole, values)) done = whole * alike;
  for (int i = done; i < count; ++i) values[i] = decode_element<B>(codes[i], scales[i / cols], i % cols, tensor_decode);
}

/// `total` and the error of encoding these values with this scale, element by element.
template <class Operand>
LOFT_HOST_DEVICE constexpr float add_error(float total, float const* values, int count, code<typename Operand::format::scale> scale,
                                           Operand const& how, tensor_scale t, std::uint64_t index) noexcept {
  using format = typename Operand::format;
  using error = typename error_of<std::remove_cvref_t<decltype(how.rule)>>::type;
  code<typename format::element> codes[format::shape.cols];
  encode_span<format::shape.cols>(values, count, &scale, how, t, index, codes);
  for (int i = 0; i < count; ++i) {
    float const decoded = decode_element<format>(codes[i], scale, i, t.decode);
    total = native::opaque(error::add(total, native::opaque(decoded - admit<Operand::policy>(values[i]))));
  }
  return total;
}

}  // namespace detail
}  // namespace loft

#endif
