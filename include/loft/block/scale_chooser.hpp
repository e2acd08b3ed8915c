// SPDX-License-Identifier: Apache-2.0
// The scales of blocks: from their maxima and statistics, and of candidates the one with the least error.
// Source: design section 2 (data through one block) and decisions 7 to 10.
#pragma once

#include <cstdint>

#include "loft/block/block_format.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/block/scale_rule.hpp"
#include "loft/core/bits.hpp"

namespace loft::detail {

/// What is known of up to `Blocks` blocks while their scales are chosen. Whoever has the values fills in the maxima and
/// statistics, and of rules with candidates tells the error of each candidate over each block, in order.
template <class O, int Blocks = 1> struct scale_chooser {
  using format = typename O::format;
  using scale_code = code<typename format::scale>;

  std::uint32_t amax[Blocks] = {};  ///< the largest magnitudes as float bits; a NaN is above infinity
  statistic_for<O> statistic[Blocks] = {};
  std::uint32_t least[Blocks] = {};  ///< the least error so far, as float bits
  scale_code chosen[Blocks] = {};    ///< and its scale

  /// The scale of block `b` for one candidate; the NaN scale where the block is not finite. Without branches, as far as
  /// the rule has none, so that a loop over blocks can be vectorised.
  [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr scale_code scale(int b, int candidate, O const& how,
                                                                     tensor_scale t) const noexcept {
    constexpr int of_rule = rule_traits_of<O>::candidates;
    float const finite = bit_cast<float>(min(amax[b], float_max));
    scale_code result{};
    if constexpr (has_statistic<O>) result = how.rule.template scale<format>(statistic[b], t);
    else if constexpr (of_rule > 1) result = how.rule.template scale<format>(finite, t, candidate % of_rule);
    else result = how.rule.template scale<format>(finite, t);
    if constexpr (has_alternative<format>)
      if (candidate >= of_rule) result = static_cast<scale_code>(result | alternative_mask<format>);
    constexpr std::uint32_t most = O::policy == nonfinite::saturate ? float_infinity : float_max;
    if constexpr (plain_scale<format>) return pick(amax[b] > most, nan_scale<format>(), result);
    else return amax[b] > most ? nan_scale<format>() : result;
  }

  /// Takes in the error of a candidate over block `b`, and keeps the first one of the least error. Errors are not
  /// negative and compare as bits, so that no build flushes them; a NaN is less than nothing.
  LOFT_HOST_DEVICE constexpr void compare(int b, int candidate, scale_code of_candidate, float error) noexcept {
    std::uint32_t const bits = bit_cast<std::uint32_t>(error);
    if (candidate != 0 && bits >= least[b]) return;
    least[b] = bits;
    chosen[b] = of_candidate;
  }
  /// The scale of block `b`, once all of its candidates have been compared.
  LOFT_HOST_DEVICE constexpr scale_code best(int b, O const& how, tensor_scale t) const noexcept {
    if constexpr (has_candidates<O>) return chosen[b];
    else return scale(b, 0, how, t);
  }
};

}  // namespace loft::detail
