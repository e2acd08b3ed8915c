// SPDX-License-Identifier: Apache-2.0
// The scales of blocks: from their maxima and statistics, and where a rule has candidates, from the errors of these.
// Source: design section 2 (data through one block) and decisions 7 to 10.
#ifndef LOFT_BLOCK_SCALE_CHOOSER_HPP
#define LOFT_BLOCK_SCALE_CHOOSER_HPP

#include <cstdint>

#include "loft/block/block_format.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/block/scale_rule.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"

namespace loft::detail {

/// What is known of up to `Blocks` blocks while their scales are chosen. Whoever has the values fills in the maxima and
/// statistics, and of rules with candidates the error of each over each block.
template <class O, int Blocks = 1>
struct scale_chooser {
  using format = typename O::format;
  using scale_code = code<typename format::scale>;

  std::uint32_t amax[Blocks] = {};  ///< the largest magnitudes as float bits; a NaN is above infinity
  statistic_for<O> statistic[Blocks] = {};
  float error[candidates<O>][Blocks] = {};

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

  /// The scale of the candidate with the least error over block `b`, the first of equals. Errors are not negative and
  /// compare as bits, so that no build flushes them; a NaN is less than nothing.
  LOFT_HOST_DEVICE constexpr scale_code best(int b, O const& how, tensor_scale t) const noexcept {
    scale_code result = scale(b, 0, how, t);
    if constexpr (has_candidates<O>) {
      std::uint32_t least = bit_cast<std::uint32_t>(error[0][b]);
      for (int candidate = 1; candidate < candidates<O>; ++candidate) {
        std::uint32_t const other = bit_cast<std::uint32_t>(error[candidate][b]);
        if (other >= least) continue;
        least = other;
        result = scale(b, candidate, how, t);
      }
    }
    return result;
  }
};

}  // namespace loft::detail

#endif
