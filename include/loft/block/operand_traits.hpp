// SPDX-License-Identifier: Apache-2.0
// What follows from the parts of an operand: names for everything that other code asks of its format, rule and
// rotation.
// Source: design section 2 (data through one block).
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/block_format.hpp"
#include "loft/block/scale_rule.hpp"
#include "loft/block/tensor_scale.hpp"
#include "loft/core/bits.hpp"

namespace loft {

/// What a block does with values that are not finite. propagate: a NaN or an infinity gives the block a NaN scale.
/// saturate: infinities count as the largest finite float; a NaN still gives a NaN scale.
enum class nonfinite { propagate, saturate };

namespace detail {

template <class O> using rule_of = std::remove_cvref_t<decltype(O::rule)>;
template <class O> using rounding_of = std::remove_cvref_t<decltype(O::rounding)>;
template <class O> using rotation_of = std::remove_cvref_t<decltype(O::rotation)>;
template <class O> using rule_traits_of = rule_traits<rule_of<O>, typename O::format>;

/// The values of a run that the operand rotates together; 1 where it does not rotate.
template <class O> inline constexpr int rotation_size = rotation_of<O>::size;
template <class O> inline constexpr bool rotates = rotation_size<O> != 1;

/// What is gathered over a block before its scale is chosen, beside its largest magnitude.
template <class O> using statistic_for = typename rule_traits_of<O>::statistic;
template <class O> inline constexpr bool has_statistic = rule_traits_of<O>::has_statistic;

/// The ways to encode a block: the rule's scales, each with the format's element and with its alternative.
template <class O>
inline constexpr int candidates = rule_traits_of<O>::candidates*(has_alternative<typename O::format> ? 2 : 1);
template <class O> inline constexpr bool has_candidates = candidates<O> != 1;

/// The factor that belongs to the rule and is stored nowhere.
template <class O> inline constexpr bool has_constant = rule_traits_of<O>::has_constant;
template <class O> LOFT_HOST_DEVICE constexpr tensor_scale constant_of() noexcept {
  constexpr tensor_scale constant = rule_traits_of<O>::constant;
  return constant;
}

/// The neighbours of a row whose scales the rule corrects together; 1 where it corrects none.
template <class O> inline constexpr int correction_group = rule_traits_of<O>::correction_group;
template <class O> inline constexpr bool corrects = correction_group<O> != 1;

/// True where an element is multiplied by a float before it is encoded: a power of two acts on its exponent instead.
template <class O>
inline constexpr bool multiplies = !is_power_of_two_format<typename O::format::scale> || has_constant<O>;

/// The range that the tensor's scale aims at.
template <class O> LOFT_HOST_DEVICE constexpr float tensor_range() noexcept { return rule_traits_of<O>::range(); }
/// True where the rule holds the tensor's amax.
template <class O> LOFT_HOST_DEVICE constexpr bool knows_amax([[maybe_unused]] O const& how) noexcept {
  if constexpr (rule_traits_of<O>::has_amax) return (bit_cast<std::uint32_t>(how.rule.amax) & float_sign) == 0;
  else return false;
}
/// The tensor's scale for an amax, or where the format has none the rule's constant.
template <class O> LOFT_HOST_DEVICE constexpr tensor_scale scale_for_amax([[maybe_unused]] float amax) noexcept {
  if constexpr (has_tensor_scale<typename O::format>)
    return tensor_scale_for<typename O::format>(amax, tensor_range<O>());
  else return constant_of<O>();
}

}  // namespace detail
}  // namespace loft
