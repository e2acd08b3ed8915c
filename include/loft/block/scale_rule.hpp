// SPDX-License-Identifier: Apache-2.0
// The ScaleRule concept, what a rule may say of itself, and a block maximum taken apart. Its models are in rules.hpp.
// Source: design section 1; OCP MX 1.0 section 6.3 for power-of-two scales.
#pragma once

#include <concepts>
#include <cstdint>

#include "loft/block/block_format.hpp"
#include "loft/block/tensor_scale.hpp"
#include "loft/core/bits.hpp"
#include "loft/number/format.hpp"

namespace loft {

/// A scale rule gives the code of a block's scale: `scale<B>(amax, t)`, where B is the block format, `amax` the largest
/// finite magnitude of the block, 0 for a block of zeros, and `t` the tensor's scale, 1 where B has none.
///
/// Laws: a block of zeros gets code 0; the result never decodes to NaN or infinity. A rule may also have
///   candidates, and scale<B>(amax, t, candidate): several scales, of which the one with the least error over the
///     block is taken, the first of equals; `error` is how it is measured (squared_error if not said);
///   statistic<B>, and scale<B>(statistic, t): what it wants to know of a block in the place of its maximum;
///   amax: the tensor's amax where it is known, negative where `quantize` has to compute it;
///   ceiling: the largest block scale that a two-level format aims at (the format's largest if not said);
///   shrink: the share of the largest element that is aimed at (1 if not said);
///   constant: a factor of all values that belongs to the rule and is stored nowhere;
///   correction_group, and corrected<B>(scale, factor, index): what is stored in the place of a scale when the codes
///     are made. `factor` is that of the block's group, correction_group neighbours of a row: the sum of x^2 over that
///     of x * q, x the values and q what their codes decode to with the scales they were made with, both in double; 1
///     where one of the sums is not positive and finite. `index` is that of the block's first element.
template <class Rule, class B>
concept ScaleRule = requires(Rule const rule, float amax, tensor_scale t) {
  { rule.template scale<B>(amax, t) } -> std::same_as<code<typename B::scale>>;
}
|| requires(Rule const rule, float amax, tensor_scale t, int candidate) {
  { rule.template scale<B>(amax, t, candidate) } -> std::same_as<code<typename B::scale>>;
}
|| requires(Rule const rule, typename Rule::template statistic<B> const& statistic, tensor_scale t) {
  { rule.template scale<B>(statistic, t) } -> std::same_as<code<typename B::scale>>;
};

/// The sum of the squared differences over a block, in the order of its elements: each square is rounded to float, then
/// each sum.
struct squared_error {
  LOFT_HOST_DEVICE static constexpr float add(float total, float difference) noexcept {
    return exact::add(total, exact::opaque(exact::multiply(difference, difference)));
  }
};

namespace detail {

/// What is gathered over a block whose rule looks at its maximum alone.
struct no_statistic {
  LOFT_HOST_DEVICE constexpr void add(float const*, int) noexcept {}
};

/// What a rule says of itself for blocks of B, and what counts where it says nothing.
template <class Rule, class B> struct rule_traits {
  static constexpr bool has_statistic = requires { typename Rule::template statistic<B>; };
  static constexpr bool has_constant = requires { Rule::constant; };
  static constexpr bool has_amax = requires(Rule rule) { rule.amax; };
  static constexpr int candidates = [] {
    if constexpr (requires { Rule::candidates; }) return Rule::candidates;
    else return 1;
  }();
  static constexpr int correction_group = [] {
    if constexpr (requires { Rule::correction_group; }) return Rule::correction_group;
    else return 1;
  }();
  static constexpr tensor_scale constant = [] {
    if constexpr (has_constant) return Rule::constant;
    else return tensor_scale{};
  }();

  /// The largest element times the largest scale, as far as the rule uses them.
  LOFT_HOST_DEVICE static constexpr float range() noexcept {
    float element = largest<typename B::element>, scale = largest<typename B::scale>;
    if constexpr (requires { Rule::ceiling; }) scale = Rule::ceiling == 0 ? scale : Rule::ceiling;
    if constexpr (requires { Rule::shrink; }) element *= Rule::shrink;
    return element * scale;
  }
  static constexpr auto statistic_type() noexcept {
    if constexpr (has_statistic) return typename Rule::template statistic<B>{};
    else return no_statistic{};
  }
  static constexpr auto error_type() noexcept {
    if constexpr (requires { typename Rule::error; }) return typename Rule::error{};
    else return squared_error{};
  }
  using statistic = decltype(statistic_type());
  using error = decltype(error_type());
};

/// The code of 2^exponent, clamped to the format's range.
template <Format F> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<F> power_of_two_code(int exponent) noexcept {
  static_assert(is_power_of_two_format<F>, "this scale rule gives powers of two: it needs a scale format like e8m0");
  constexpr int most = static_cast<int>(F::spec.max_code());
  return static_cast<code<F>>(min(max(exponent + F::spec.bias, 0), most));
}

/// a or b by masks. A condition becomes a branch where one side looks costly, and then no loop around it is vectorised.
template <class W> LOFT_HOST_DEVICE constexpr W pick(bool first, W a, W b) noexcept {
  W const mask = static_cast<W>(W{0} - static_cast<W>(first));
  return static_cast<W>((a & mask) | (b & static_cast<W>(~mask)));
}

/// Exponent of a block maximum and its significand as a 1.23 fixed-point number. 0 has significand 0 and an exponent so
/// small that every scale is clamped to code 0.
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr unpacked<std::uint32_t> split_amax(float amax) noexcept {
  std::uint32_t const bits = magnitude_bits(amax);
  bool const subnormal = bits < 0x80'0000u;
  // The conversion from integer normalises a subnormal, whatever the build flushes.
  auto const lifted = bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(bits)));
  std::uint32_t const normal = pick(subnormal, lifted, bits);
  return {(normal & 0x7f'ffffu) | (bits != 0 ? 0x80'0000u : 0u),
          static_cast<int>(normal >> 23) - 127 - static_cast<int>(pick(subnormal, 149u, 0u)), false};
}

}  // namespace detail
}  // namespace loft
