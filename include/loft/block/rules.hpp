// SPDX-License-Identifier: Apache-2.0
// From the maximum of a block to its scale: the models of ScaleRule.
// Source: OCP MX 1.0 section 6.3 (floor); arXiv 2607.24953 (ceil); arXiv 2605.09825 (even); arXiv 2509.25149 appendix B
// (two level).
#pragma once

#include <cstdint>

#include "loft/array/branchless.hpp"
#include "loft/block/scale_rule.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/number/random.hpp"
#include "loft/number/rounding.hpp"

namespace loft {
namespace detail {

/// The code of a scale that is not negative, nearest even and saturated: without branches where the format has lanes.
template <Format F> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<F> encode_scale(float value) noexcept {
  if constexpr (native::has_pair_encode<F>)
    if (!constant_evaluated()) return static_cast<code<F>>(native::encode_pair<F>(value, 0.0f) & 0xffu);
  if constexpr (has_float_layout<F> && has_branchless_decode<F> && F::spec.has_zero && F::spec.mantissa_bits < 23)
    return encode_branchless<F>(value, 0, nearest_even{}, 0);
  else return encode<F>(value);
}

}  // namespace detail

/// 2^(floor(log2 amax) - emax), emax the exponent of the element's largest value. Values up to one gap above the
/// largest saturate. source: OCP MX 1.0 section 6.3.
struct ocp_floor {
  template <class B> LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    constexpr int emax = B::element::spec.max_exponent();
    return detail::power_of_two_code<typename B::scale>(parts.exponent - emax);
  }
};

/// The least power of two with amax / scale <= the element's largest value: nothing saturates (the truncation-free
/// rule).
struct ceil_scale {
  template <class B> LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    constexpr auto top = detail::split_amax(largest<typename B::element>);
    int const above = parts.significand > top.significand ? 1 : 0;
    return detail::power_of_two_code<typename B::scale>(parts.exponent - top.exponent + above);
  }
};

/// amax is rounded, half up, to the precision of the element; then as ocp_floor. source: the rule of arXiv 2605.09825.
struct even_scale {
  template <class B> LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    constexpr std::uint32_t half_gap = 1u << (22 - B::element::spec.mantissa_bits);
    int const carried = parts.significand + half_gap >= 1u << 24 ? 1 : 0;
    constexpr int emax = B::element::spec.max_exponent();
    return detail::power_of_two_code<typename B::scale>(parts.exponent - emax + carried);
  }
};

/// log2(amax / largest element) rounded to nearest, decided by comparing squares with 2: exact, no logarithm.
struct nearest_scale {
  template <class B> LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    constexpr auto top = detail::split_amax(largest<typename B::element>);
    // q = significand / top.significand is in (1/2, 2); q >= sqrt 2 goes up, q < sqrt(1/2) goes down.
    std::uint64_t const a = std::uint64_t{parts.significand} * parts.significand;
    std::uint64_t const b = std::uint64_t{top.significand} * top.significand;
    int const nearest = a >= 2 * b ? 1 : (2 * a < b ? -1 : 0);
    return detail::power_of_two_code<typename B::scale>(parts.exponent - top.exponent + nearest);
  }
};

/// ocp_floor times 4/3, so that the largest values saturate less and small ones are finer; the 4/3 is a constant of the
/// rule. source: MR-GPTQ, arXiv 2509.23202.
struct floor_four_thirds {
  static constexpr tensor_scale constant{0.75f, 4.0f / 3.0f};
  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale t) const noexcept {
    return ocp_floor{}.scale<B>(amax, t);
  }
};

/// The same scale for every block that is not all zero, rounded to nearest even in the scale's format.
struct fixed_scale {
  float value = 1;
  template <class B> LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    return detail::magnitude_bits(amax) == 0 ? code<typename B::scale>{0} : encode<typename B::scale>(value);
  }
};

/// amax over the element's largest value, as a quotient rounded to the scale's format: for float block scales.
struct division_scale {
  template <class B> LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    return encode<typename B::scale>(exact::divide(amax, largest<typename B::element>));
  }
};

/// The scales of two-level formats: amax of the block over the element's largest value, in units of the tensor's scale,
/// rounded to nearest even and saturated. source: arXiv 2509.25149 appendix B; design decision 10.
///
/// Ceiling: the largest block scale aimed at, 0 for the format's own. Unbiased: 16/17 of the element's largest value is
/// aimed at, so that a scale rounded down does not make stochastic rounding clip. source: arXiv 2512.02010.
template <int Ceiling, bool Unbiased> struct basic_two_level {
  /// The tensor's amax where it is known (delayed, reduced over ranks, or fixed); negative: `quantize` computes it.
  float amax = -1;

  static constexpr float ceiling = Ceiling;
  static constexpr float shrink = Unbiased ? 16.0f / 17.0f : 1.0f;

  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float block_amax, tensor_scale t) const noexcept {
    constexpr float inverse_largest = 1.0f / (largest<typename B::element> * shrink);
    return detail::encode_scale<typename B::scale>(
        exact::multiply(block_amax, exact::multiply(t.encode, inverse_largest)));
  }
};
/// The default of two-level formats: the tensor's amax becomes the largest element times the largest scale.
using two_level = basic_two_level<0, false>;
/// two_level under a ceiling of 256, as Four Over Six has it.
using two_level_256 = basic_two_level<256, false>;
/// two_level that aims at 16/17 of the largest element, for stochastic rounding.
using unbiased_two_level = basic_two_level<0, true>;
/// Both.
using unbiased_two_level_256 = basic_two_level<256, true>;

/// MS-EDEN: stochastic scales in the place of stochastic codes. Codes are made with the scales of two_level under a
/// ceiling of 256 that aim at 6 / ((17/16) * 0.93), so that a few values are clipped; then the scales of each group are
/// multiplied by sum(x^2) / sum(x * q), q what the codes stand for, and rounded stochastically. So the decoded group
/// has, along the values, their length for its mean; behind a rotation with random signs, of Group or of a part of it,
/// its mean is the values themselves, as far as the rotation makes them alike to normal numbers. Codes: nearest_even.
///
/// Group: the neighbours of a row that share a factor: whole blocks, a power of two. rounds: the factor, and its
/// product with the decoded scale, once each to double; that product goes up iff its fraction of the scale's gap
/// + (w + 1/2) / 2^32 >= 1, w = random_bits<32>(seed, stream, index of the block's first element); saturating. 0 stays
/// 0. source: Quartet II, arXiv 2601.22813. The ceiling there is 255.99: the scale of the tensor's largest block is 256
/// under both, and another differs only where it lies within 4e-5 of a tie.
template <int Group = 128> struct ms_eden {
  static_assert(Group >= 8 && (Group & (Group - 1)) == 0, "ms_eden: a group is a power of two, at least 8");
  float amax = -1;                     ///< as two_level's
  std::uint64_t seed = 0, stream = 0;  ///< of the words that round the scales

  static constexpr int correction_group = Group;
  static constexpr float ceiling = 256;
  static constexpr float shrink = static_cast<float>(16.0 / (17.0 * 0.93));

  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float block_amax, tensor_scale t) const noexcept {
    constexpr float inverse_largest = 1.0f / (largest<typename B::element> * shrink);
    return detail::encode_scale<typename B::scale>(
        exact::multiply(block_amax, exact::multiply(t.encode, inverse_largest)));
  }
  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> corrected(code<typename B::scale> scale, double factor,
                                                               std::uint64_t index) const noexcept {
    double const wanted = exact::product(factor, detail::widen(decode<typename B::scale>(scale)));
    return encode<typename B::scale>(wanted, stochastic_word<32>{random_bits<32>(seed, stream, index)});
  }
};

// How the error of a candidate is measured over a block, beside squared_error: over its elements in order, in float.

/// The sum of the magnitudes of the differences.
struct absolute_error {
  LOFT_HOST_DEVICE static constexpr float add(float total, float difference) noexcept {
    return exact::add(total, bit_cast<float>(detail::magnitude_bits(difference)));
  }
};
/// The largest magnitude of a difference.
struct maximal_error {
  LOFT_HOST_DEVICE static constexpr float add(float total, float difference) noexcept {
    return bit_cast<float>(detail::max(bit_cast<std::uint32_t>(total), detail::magnitude_bits(difference)));
  }
};

/// Four Over Six: two-level scales under a ceiling of 256, and as a second candidate the scale times 1.5, with which
/// the block's maximum becomes 4 in place of 6; taken only when its error is strictly smaller. source: arXiv
/// 2512.02010.
template <class Error = squared_error> struct four_over_six {
  float amax = -1;  ///< as two_level's

  using error = Error;
  static constexpr int candidates = 2;
  static constexpr float ceiling = 256;

  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float block_amax, tensor_scale t,
                                                           int candidate) const noexcept {
    constexpr float inverse_largest = 1.0f / largest<typename B::element>;
    float const six = exact::multiply(block_amax, exact::multiply(t.encode, inverse_largest));
    return detail::encode_scale<typename B::scale>(candidate == 0 ? six : exact::multiply(six, 1.5f));
  }
};

namespace detail {

/// Number, sum and sum of squares of the values of a block. Squares of floats are exact in double.
struct moments {
  double sum = 0, squares = 0;
  std::int64_t count = 0;

  LOFT_HOST_DEVICE constexpr void add(float const* values, int added) noexcept {
    for (int i = 0; i < added; ++i) {
      double const value = detail::widen(values[i]);
      sum = exact::sum(sum, value);
      squares = exact::sum(squares, exact::product(value, value));
    }
    count += added;
  }
};

/// Square root by Newton's iteration, from the exponent halved: a few ulps off at most.
LOFT_HOST_DEVICE constexpr double newton_sqrt(double x) noexcept {
  if (!(x > 0)) return 0;
  double root = bit_cast<double>((bit_cast<std::uint64_t>(x) >> 1) + (std::uint64_t{1023} << 51));
  for (int i = 0; i < 5; ++i) root = (root + x / root) / 2;
  return root;
}

}  // namespace detail

/// The scale from the spread of the block, not its maximum: 2^floor(log2(2.92247856 / 6 * std + 1e-8)), the standard
/// deviation over the block with its mean removed. Values beyond saturate. source: QuEST and Quartet, arXiv 2502.05003,
/// 2505.14669.
struct quest_scale {
  template <class> using statistic = detail::moments;

  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(detail::moments const& m, tensor_scale) const noexcept {
    if (m.squares == 0) return 0;
    double const n = static_cast<double>(m.count), mean = m.sum / n;
    double const variance = exact::difference(exact::quotient(m.squares, n), exact::product(mean, mean));
    double const target = exact::sum(exact::product(2.92247856 / 6, detail::newton_sqrt(variance)), 1e-8);
    return detail::power_of_two_code<typename B::scale>(detail::unpack<std::uint64_t>(target).exponent);
  }
};

}  // namespace loft
