// SPDX-License-Identifier: Apache-2.0
// The scale of a block: what is gathered over the values, what a rule makes of it, what elements are divided by.
// Source: design section 2 (data through one block) and decisions 7 to 10. Everything here is detail of block.hpp and
// tensor.hpp.
#ifndef LOFT_BLOCK_BLOCK_SCALE_HPP
#define LOFT_BLOCK_BLOCK_SCALE_HPP

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"
#include "loft/number/convert.hpp"
#include "loft/array/branchless.hpp"
#include "loft/native/host/blocks.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/rotation/rotation.hpp"
#include "loft/number/rounding.hpp"
#include "loft/block/rules.hpp"

namespace loft {

/// What a block does with values that are not finite. propagate: a NaN or an infinity gives the block a NaN scale.
/// saturate: infinities count as the largest finite float; a NaN still gives a NaN scale.
enum class nonfinite { propagate, saturate };

namespace detail {

template <class T>
LOFT_HOST_DEVICE constexpr float to_float(T x) noexcept {
  static_assert(EncodeSource<T> && !std::is_same_v<T, double>,
                "tensors hold float or a minifloat: a block maximum is a float");
  return static_cast<float>(x);
}

/// A value as a block sees it: nonfinite::saturate takes an infinity for the largest finite float.
template <nonfinite N>
LOFT_HOST_DEVICE constexpr float admit(float value) noexcept {
  if (N == nonfinite::saturate && magnitude_bits(value) == float_infinity)
    return bit_cast<float>(bit_cast<std::uint32_t>(value) - 1);
  return value;
}

/// Rotates `count` floats, whole runs one after the other. `to` may be `from`. A sum that overflows is an infinity like
/// one of the input.
template <class O>
LOFT_HOST_DEVICE constexpr void rotate_runs(O const& how, float const* from, int count, float* to) noexcept {
  apply_runs(how.rotation, from, count, to);
  if constexpr (O::policy == nonfinite::saturate)
    for (int i = 0; i < count; ++i) to[i] = admit<O::policy>(to[i]);
}

/// The largest magnitude of `count` values as float bits, which order like the values; a NaN is larger than infinity.
template <int N, class T>
LOFT_HOST_DEVICE constexpr std::uint32_t amax_bits(T const* values, int count) noexcept {
  std::uint32_t result = 0;
  if (count == N && native::amax_groups<N>(values, 1, &result) == 1) return result;
  for_each_index<N>(count, [&](int i) { result = max(result, magnitude_bits(to_float(values[i]))); });
  return result;
}

/// amax[b] = the amax_bits of the values from b * N, for every N of `count` values; the last run may be short.
template <int N, class T>
LOFT_HOST_DEVICE constexpr void amax_of_runs(T const* values, int count, std::uint32_t* amax) noexcept {
  for (int b = native::amax_groups<N>(values, count / N, amax); b * N < count; ++b)
    amax[b] = amax_bits<N>(values + b * N, min(N, count - b * N));
}

// ---- what a block format may define beside element, scale and shape
// ------------------------------------------------------

/// Neighbours in a row that share one factor: the columns of the block, or fewer where its scale has levels
/// (`factor_cols`).
template <class B>
inline constexpr int factor_cols = [] {
  if constexpr (requires { B::factor_cols; }) return B::factor_cols;
  else return B::shape.cols;
}();

/// True where the scale is a number of a format and not a record with levels.
template <class B>
inline constexpr bool plain_scale = requires(code<typename B::scale> c) {
  B::scale::spec.is_nan(c);
};

template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr bool is_nan_scale(code<typename B::scale> scale) noexcept {
  if constexpr (plain_scale<B>) {
    constexpr auto spec = B::scale::spec;
    return spec.is_nan(scale);
  } else {
    return B::is_nan_scale(scale);
  }
}
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<typename B::scale> nan_scale() noexcept {
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
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr bool is_alternative(code<typename B::scale> scale) noexcept {
  if constexpr (requires { typename B::alternative; }) return (scale & alternative_mask<B>) != 0;
  else return false;
}

/// What element codes are multiplied with in decoding, tensor scale apart, in column `col` of the block.
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float factor_of(code<typename B::scale> scale, int col) noexcept {
  if constexpr (!plain_scale<B>) {
    return B::factor(scale, col);
  } else {
    if constexpr (requires { typename B::alternative; })
      scale = static_cast<code<typename B::scale>>(scale & ~alternative_mask<B>);
    if constexpr (native::has_pair_decode<typename B::scale>) {
      if (!constant_evaluated()) {
        float factor = 0, unused = 0;
        native::decode_pair<typename B::scale>(scale, factor, unused);
        return factor;
      }
    }
    if constexpr (has_branchless_decode<typename B::scale>) return decode_branchless<typename B::scale>(scale);
    else return decode<typename B::scale>(scale);
  }
}

/// What an element is divided by, ready for use: the power of two as its exponent, any other scale as a multiplier.
struct scale_inverse {
  int exponent;
  float multiplier;
};

/// The inverse of what decoding multiplies with, never of the real number the scale stands for. A scale of 0 makes
/// every element 0, the sign kept.
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr scale_inverse inverse_of(code<typename B::scale> scale,
                                                                           tensor_scale t, int col) noexcept {
  if constexpr (requires { B::inverse(scale, col); }) {
    return {0, B::inverse(scale, col)};
  } else if constexpr (is_power_of_two_format<typename B::scale>) {
    return {static_cast<int>(scale) - B::scale::spec.bias, t.encode};
  } else {
    float const factor = factor_of<B>(scale, col);
    float const inverse = exact::reciprocal(exact::multiply(factor, t.decode));
    return {0, magnitude_bits(factor) == 0 ? 0.0f : inverse};
  }
}

// ---- statistic and scale
// -------------------------------------------------------------------------------------------------

/// What is gathered over a block before its scale is chosen: the largest magnitude, and what the rule asks for beside
/// it.
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
template <class O>
using statistic_for =
    typename statistic_of<std::remove_cvref_t<decltype(O{}.rule)>, typename O::format>::type;
template <class O>
inline constexpr bool has_statistic = !std::is_same_v<statistic_for<O>, no_statistic>;

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
  LOFT_HOST_DEVICE constexpr float largest() const noexcept {
    std::uint32_t result = 0;  // bits order like magnitudes, and no build flushes them
    for (float group : amax) result = max(result, bit_cast<std::uint32_t>(group));
    return bit_cast<float>(result);
  }
};

template <class Rule>
inline constexpr int rule_candidates = [] {
  if constexpr (requires { Rule::candidates; }) return Rule::candidates;
  else return 1;
}();

/// Ways to encode a block of the operand: the rule's scales, each with the format's element and its alternative.
template <class O>
inline constexpr int candidates = [] {
  constexpr int of_rule = rule_candidates<std::remove_cvref_t<decltype(O{}.rule)>>;
  if constexpr (requires { typename O::format::alternative; }) return 2 * of_rule;
  else return of_rule;
}();
template <class O>
inline constexpr bool has_candidates = candidates<O> != 1;

template <class Rule>
struct error_of {
  using type = squared_error;
};
template <class Rule>
  requires requires { typename Rule::error; }
struct error_of<Rule> {
  using type = typename Rule::error;
};

/// The scale of a block for one candidate; the same for all where the block is not finite. Without branches, as far as
/// the rule has none, so that a loop over blocks can be vectorised.
template <class O>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr auto scale_of(std::uint32_t amax,
                                                                statistic_for<O> const& statistic,
                                                                O const& how, tensor_scale t,
                                                                int candidate) noexcept {
  using format = typename O::format;
  using rule = std::remove_cvref_t<decltype(how.rule)>;
  constexpr int of_rule = rule_candidates<rule>;
  float const finite = bit_cast<float>(min(amax, float_max));
  code<typename format::scale> scale{};
  if constexpr (has_statistic<O>) scale = how.rule.template scale<format>(statistic, t);
  else if constexpr (of_rule > 1) scale = how.rule.template scale<format>(finite, t, candidate % of_rule);
  else scale = how.rule.template scale<format>(finite, t);
  if constexpr (requires { typename format::alternative; })
    if (candidate >= of_rule) scale = static_cast<code<typename format::scale>>(scale | alternative_mask<format>);
  constexpr std::uint32_t most = O::policy == nonfinite::saturate ? float_infinity : float_max;
  if constexpr (plain_scale<format>) return pick(amax > most, nan_scale<format>(), scale);
  else return amax > most ? nan_scale<format>() : scale;
}

}  // namespace detail
}  // namespace loft

#endif
