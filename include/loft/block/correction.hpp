// SPDX-License-Identifier: Apache-2.0
// Scales that are corrected once the codes are made, for groups of blocks together: the hook of a rule, applied.
// Source: scale_rule.hpp for the hook; Quartet II, arXiv 2601.22813.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/block_values.hpp"
#include "loft/block/elements.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/block/scale_rule.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"

namespace loft {
namespace detail {

/// The sums of x^2 and x * q over values x that decode to q * (the tensor's scale). Products of floats are exact in
/// double. The order: each eight neighbours one after the other, then a binary tree over the eights of the group; what
/// a short group lacks counts as zeros. So lanes with any whole number of eights find the same bits.
struct correction_sums {
  static constexpr int run = 8;
  double squares = 0, products = 0;

  LOFT_HOST_DEVICE constexpr void add(float value, float decoded) noexcept {
    double const x = widen(value);
    squares = exact::sum(squares, exact::product(x, x));
    products = exact::sum(products, exact::product(x, widen(decoded)));
  }
  LOFT_HOST_DEVICE constexpr void add(correction_sums const& other) noexcept {
    squares = exact::sum(squares, other.squares);
    products = exact::sum(products, other.products);
  }
  /// By bits, because NaN and infinity are numbers like others to some builds.
  LOFT_HOST_DEVICE constexpr double factor(float tensor_decode) const noexcept {
    double const whole = exact::product(products, widen(tensor_decode));
    auto const is_usable = [](double sum) {
      return bit_cast<std::uint64_t>(sum) - 1 < (std::uint64_t{0x7ff} << 52) - 1;
    };
    return is_usable(squares) && is_usable(whole) ? exact::quotient(squares, whole) : 1.0;
  }
};

/// sums[0] = the sum of all Count, by a binary tree over neighbours.
template <int Count> LOFT_HOST_DEVICE constexpr void add_as_tree(correction_sums* sums) noexcept {
  for (int distance = 1; distance < Count; distance *= 2)
    for (int i = 0; i < Count; i += 2 * distance) sums[i].add(sums[i + distance]);
}

/// True where the rule corrects no scales, or can correct those of B.
template <class Rule, class B>
inline constexpr bool can_correct = [] {
  if constexpr (requires { Rule::correction_group; }) {
    constexpr int group = Rule::correction_group;
    constexpr bool whole_blocks = B::shape.rows == 1 && group % B::shape.cols == 0;
    constexpr bool is_tree = group >= correction_sums::run && (group & (group - 1)) == 0;
    return plain_scale<B> && !has_alternative<B> && whole_blocks && is_tree;
  } else {
    return true;
  }
}();

/// The scale that is stored for a block; a NaN stays.
template <class O>
LOFT_HOST_DEVICE constexpr auto corrected_scale(code<typename O::format::scale> scale, double factor, O const& how,
                                                std::uint64_t index) noexcept {
  using format = typename O::format;
  return is_nan_scale<format>(scale) ? scale : how.rule.template corrected<format>(scale, factor, index);
}

/// stored[b] = the corrected scale of block b of `count` neighbours of one row, at most Width, from the first column of
/// a group; see encode_slice for the rest.
template <int Width, class O, class T>
LOFT_HOST_DEVICE constexpr void correct_scales(T const* values, int count,
                                               code<typename O::format::scale> const* scales,
                                               group_factors<groups_in<typename O::format, Width>> const& factors,
                                               O const& how, tensor_scale t, std::uint64_t index,
                                               code<typename O::format::scale>* stored) noexcept {
  using format = typename O::format;
  constexpr int group = correction_group<O>, run = correction_sums::run, cols = format::shape.cols;
  code<typename format::element> codes[Width];
  float decoded[Width];
  encode_slice<Width, false>(values, count, scales, factors, how, t, index, codes);
  decode_slice<format, Width, false>(codes, count, scales, 1.0f, decoded);
  for (int first = 0; first < count; first += group) {
    int const end = min(first + group, count);
    correction_sums sums[group / run] = {};
    for (int i = first; i < end; ++i) sums[(i - first) / run].add(to_float(values[i]), decoded[i]);
    add_as_tree<group / run>(sums);
    double const factor = sums[0].factor(t.decode);
    for (int i = first; i < end; i += cols)
      stored[i / cols] = corrected_scale(scales[i / cols], factor, how, index + static_cast<std::uint64_t>(i));
  }
}

}  // namespace detail
}  // namespace loft
