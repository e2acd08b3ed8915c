// SPDX-License-Identifier: Apache-2.0
// From the maximum of a block to its scale: the ScaleRule concept and its models, and the scale of a whole tensor.
// Source: OCP MX 1.0 section 6.3 (floor); arXiv 2607.24953 (ceil); arXiv 2605.09825 (even); arXiv 2509.25149 appendix B (two level).
#ifndef LOFT_SCALING_HPP
#define LOFT_SCALING_HPP

#include <concepts>
#include <cstdint>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/convert.hpp"
#include "loft/format.hpp"
#include "loft/native/native.hpp"

namespace loft {

/// The factor that takes a tensor into the range of its block scales, and its inverse, each rounded to float.
struct tensor_scale {
  float encode = 1, decode = 1;
};

/// The largest finite value of F.
template <Format F>
inline constexpr float largest = loft::decode<F>(static_cast<code<F>>(F::spec.max_code()));

/// A scale rule gives the code of a block's scale: `scale<B>(amax, t)`, where B is the block format, `amax` the largest finite
/// magnitude of the block, 0 for a block of zeros, and `t` the tensor's scale, 1 where B has none.
///
/// Laws: a block of zeros gets code 0; the result never decodes to NaN or infinity.
template <class Rule, class B>
concept ScaleRule = requires(Rule const rule, float amax, tensor_scale t) {
  { rule.template scale<B>(amax, t) } -> std::same_as<code<typename B::scale>>;
};

namespace detail {

/// True where a scale format holds powers of two and nothing else, as E8M0 does.
template <Format F>
inline constexpr bool is_power_of_two_format = F::spec.mantissa_bits == 0 && !F::spec.has_zero;

/// The code of 2^exponent, clamped to the format's range.
template <Format F>
LOFT_HOST_DEVICE constexpr code<F> power_of_two_code(int exponent) noexcept {
  static_assert(is_power_of_two_format<F>, "this scale rule gives powers of two: it needs a scale format like e8m0");
  return static_cast<code<F>>(clamp(exponent + F::spec.bias, 0, static_cast<int>(F::spec.max_code())));
}

/// Exponent of a block maximum and its significand as a 1.23 fixed-point number.
LOFT_HOST_DEVICE constexpr unpacked<std::uint32_t> split_amax(float amax) noexcept {
  auto parts = unpack<std::uint32_t>(amax);
  parts.significand >>= 8;
  return parts;
}

}  // namespace detail

/// 2^(floor(log2 amax) - emax), emax the exponent of the element's largest value. Values up to one gap above the largest
/// saturate. source: OCP MX 1.0 section 6.3.
struct ocp_floor {
  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    if (parts.significand == 0) return 0;
    return detail::power_of_two_code<typename B::scale>(parts.exponent - B::element::spec.max_exponent());
  }
};

/// The least power of two with amax / scale <= the element's largest value: nothing saturates (the truncation-free rule).
struct ceil_scale {
  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    constexpr auto top = detail::split_amax(largest<typename B::element>);
    if (parts.significand == 0) return 0;
    int const above = parts.significand > top.significand ? 1 : 0;
    return detail::power_of_two_code<typename B::scale>(parts.exponent - top.exponent + above);
  }
};

/// amax is rounded, half up, to the precision of the element; then as ocp_floor. source: the rule of arXiv 2605.09825.
struct even_scale {
  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    if (parts.significand == 0) return 0;
    constexpr std::uint32_t half_gap = 1u << (22 - B::element::spec.mantissa_bits);
    int const carried = parts.significand + half_gap >= 1u << 24 ? 1 : 0;
    return detail::power_of_two_code<typename B::scale>(parts.exponent - B::element::spec.max_exponent() + carried);
  }
};

/// log2(amax / largest element) rounded to nearest, decided by comparing squares with 2: exact, no logarithm.
struct nearest_scale {
  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float amax, tensor_scale) const noexcept {
    auto const parts = detail::split_amax(amax);
    constexpr auto top = detail::split_amax(largest<typename B::element>);
    if (parts.significand == 0) return 0;
    // q = significand / top.significand is in (1/2, 2); q >= sqrt 2 goes up, q < sqrt(1/2) goes down.
    std::uint64_t const a = std::uint64_t{parts.significand} * parts.significand;
    std::uint64_t const b = std::uint64_t{top.significand} * top.significand;
    int const nearest = a >= 2 * b ? 1 : (2 * a < b ? -1 : 0);
    return detail::power_of_two_code<typename B::scale>(parts.exponent - top.exponent + nearest);
  }
};

/// The scales of two-level formats: amax of the block over the element's largest value, in units of the tensor's scale,
/// rounded to nearest even and saturated. source: arXiv 2509.25149 appendix B; design decision 10.
struct two_level {
  /// The tensor's amax where it is known (delayed, reduced over ranks, or fixed); negative: `quantize` computes it.
  float amax = -1;

  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float block_amax, tensor_scale t) const noexcept {
    constexpr float inverse_largest = 1.0f / largest<typename B::element>;
    float const exact = native::multiply(block_amax, native::multiply(t.encode, inverse_largest));
    return encode<typename B::scale>(exact);
  }
};

/// s_enc and 1/s_enc for a tensor whose largest finite magnitude is `tensor_amax`: s_enc takes it to the largest element
/// times the largest scale; 1 when it is 0, at most the largest float. in: a finite value >= 0. source: design decision 10.
template <class B>
LOFT_HOST_DEVICE constexpr tensor_scale tensor_scale_for(float tensor_amax) noexcept {
  constexpr float range = largest<typename B::element> * largest<typename B::scale>;
  if (detail::magnitude_bits(tensor_amax) == 0) return {};
  std::uint32_t const quotient = detail::magnitude_bits(native::divide(range, tensor_amax));
  float const encode = bit_cast<float>(detail::min(quotient, detail::float_max));
  return {encode, native::divide(1.0f, encode)};
}

}  // namespace loft

#endif
