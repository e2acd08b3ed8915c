// SPDX-License-Identifier: Apache-2.0
// How an operand of a product is quantized: the Operand concept, and its model operand<>.
// Source: design section 1, and section 3 for the names.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/block/catalogue.hpp"
#include "loft/block/correction.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/block/scale_rule.hpp"
#include "loft/number/rounding.hpp"
#include "loft/rotation/rotation.hpp"

namespace loft {

namespace detail {

template <class O>
concept HasParts = requires(O const how) {
  typename O::format;
  how.rule, how.rounding, how.rotation;
  { O::policy } -> std::convertible_to<nonfinite>;
};
template <class O> inline constexpr bool rule_fits = ScaleRule<rule_of<O>, typename O::format>;

}  // namespace detail

/// An operand says how a tensor is quantized: the block format, the rule that gives a block its scale, the rounding of
/// the elements, the rotation of the values, and what a NaN or an infinity does to its block. operand<> is its model.
template <class O>
concept Operand = detail::HasParts<O> && BlockFormat<typename O::format> && detail::rule_fits<O> &&
    Rounding<detail::rounding_of<O>> && Rotation<detail::rotation_of<O>>;

namespace detail {

/// The members that a scale rule may have beside scale<B>(amax, t); see ScaleRule. Most come in twos, and one without
/// the other is a mistake that nothing else would notice.
template <class Rule, class B> struct rule_members {
  using scale_code = code<typename B::scale>;
  static constexpr bool candidates = requires { Rule::candidates; };
  static constexpr bool scale_of_candidate = requires(Rule const rule, float amax, tensor_scale t, int candidate) {
    rule.template scale<B>(amax, t, candidate);
  };
  static_assert(candidates || !scale_of_candidate,
                "operand: the rule has a scale<B>(amax, t, candidate), but no `candidates`, the number of them");
  static_assert(scale_of_candidate || !candidates,
                "operand: the rule has `candidates`, but no scale<B>(amax, t, candidate) to tell them apart");

  static constexpr bool error = requires { typename Rule::error; };
  static_assert(!error || candidates || has_alternative<B>,
                "operand: the rule has an `error`, but neither it nor the format has `candidates` to compare by it");

  static constexpr bool statistic = requires { typename Rule::template statistic<B>; };
  static constexpr bool scale_of_statistic = requires(Rule const rule, tensor_scale t) {
    rule.template scale<B>(std::declval<typename Rule::template statistic<B> const&>(), t);
  };
  static_assert(scale_of_statistic || !statistic,
                "operand: the rule has a `statistic`, but no scale<B>(statistic, t) that reads it");

  static constexpr bool group = requires { Rule::correction_group; };
  static constexpr bool corrected = requires(Rule const rule, scale_code scale, double factor, std::uint64_t index) {
    rule.template corrected<B>(scale, factor, index);
  };
  static_assert(group || !corrected,
                "operand: the rule has `corrected`, but no `correction_group` that says over how many values");
  static_assert(corrected || !group,
                "operand: the rule has a `correction_group`, but no corrected<B>(scale, factor, index)");

  static constexpr bool bad_constant = requires {
    requires !std::is_same_v<std::remove_cvref_t<decltype(Rule::constant)>, tensor_scale>;
  };
  static_assert(!bad_constant, "operand: the `constant` of a rule is a tensor_scale");

  static constexpr bool are_whole = true;
};

}  // namespace detail

/// How one operand is quantized: its format, and the choices that change what its bits are.
template <BlockFormat B, class Rule = default_rule<B>, Rounding R = default_rounding<B>, class Rotation = no_rotation,
          nonfinite N = nonfinite::propagate>
struct operand {
  static_assert(ScaleRule<Rule, B>, "operand: the rule does not give a scale of this block format");
  static_assert(loft::Rotation<Rotation>, "operand: the rotation needs size, apply and invert");
  static_assert(detail::scale_has_nan<B>(),
                "operand: the scale format needs a NaN, to mark blocks with NaN or infinity");
  static_assert(detail::can_correct<Rule, B>,
                "operand: scales are corrected in whole blocks of one row, each with a plain number for a scale, over "
                "groups of a power of two, at least 8");
  static_assert(detail::rule_members<Rule, B>::are_whole);
  using format = std::remove_const_t<B>;
  static constexpr nonfinite policy = N;
  Rule rule{};
  R rounding{};
  Rotation rotation{};
};

namespace detail {

/// True where the operand's type says all: it has no seed, no signs and no amax.
template <Operand O>
inline constexpr bool is_stateless = (std::is_empty_v<rule_of<O>> && std::is_empty_v<rounding_of<O>> &&
                                      std::is_empty_v<rotation_of<O>>);

/// What a call takes for an operand that is left out. A state has no default: a seed that nobody chose repeats itself
/// from call to call.
template <class O> LOFT_HOST_DEVICE constexpr O default_operand() noexcept {
  static_assert(is_stateless<O>,
                "this operand has a state, as a seed, signs or an amax, and cannot be left out: pass an object, such "
                "as operand<nvfp4>{} where the amax is to be computed");
  return {};
}

}  // namespace detail
}  // namespace loft
