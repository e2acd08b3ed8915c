// SPDX-License-Identifier: Apache-2.0
// How an operand of a product is quantized: the Operand concept, and its model operand<>.
// Source: design section 1, and section 3 for the names.
#ifndef LOFT_BLOCK_OPERAND_HPP
#define LOFT_BLOCK_OPERAND_HPP

#include <concepts>
#include <type_traits>

#include "loft/block/catalogue.hpp"
#include "loft/block/correction.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/block/scale_rule.hpp"
#include "loft/number/rounding.hpp"
#include "loft/rotation/rotation.hpp"

namespace loft {

/// An operand says how a tensor is quantized: the block format, the rule that gives a block its scale, the rounding of
/// the elements, the rotation of the values, and what a NaN or an infinity does to its block. operand<> is its model.
template <class O>
concept Operand = requires(O const how) {
  typename O::format;
  requires BlockFormat<typename O::format>;
  requires ScaleRule < std::remove_cvref_t<decltype(how.rule)>,
  typename O::format > ;
  requires Rounding<std::remove_cvref_t<decltype(how.rounding)>>;
  requires Rotation<std::remove_cvref_t<decltype(how.rotation)>>;
  { O::policy } -> std::convertible_to<nonfinite>;
};

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
  using format = std::remove_const_t<B>;
  static constexpr nonfinite policy = N;
  Rule rule{};
  R rounding{};
  Rotation rotation{};
};

namespace detail {

/// True where nothing has to be said beside the operand's type: no seed, no signs, no amax. Only such an operand is a
/// default.
template <class O>
inline constexpr bool is_stateless = [] {
  if constexpr (Operand<O>)
    return std::is_empty_v<decltype(O::rule)> && std::is_empty_v<decltype(O::rounding)> &&
           std::is_empty_v<decltype(O::rotation)>;
  else return false;
}();

}  // namespace detail
}  // namespace loft

#endif
