// SPDX-License-Identifier: Apache-2.0
// What the bits of one number mean: format_spec, the Format concept, and what follows from a description.
// Source: OCP 8-bit Floating Point (OFP8) 1.0, OCP Microscaling Formats (MX) 1.0 section 5.3, IEEE 754-2019 section 3.3.
#ifndef LOFT_FORMAT_HPP
#define LOFT_FORMAT_HPP

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/config.hpp"

namespace loft {

/// What the top codes mean: none: all are finite; nan: all ones below the sign is NaN; ieee: the top exponent holds
/// infinity and NaNs; fnuz: the code of -0 is the only NaN.
enum class specials { none, nan, ieee, fnuz };

/// A binary floating-point format as a record of facts. Every limit and mask below is derived from it.
///
/// A code is sign, exponent field e, mantissa m, from the top. Its value is (1 + m / 2^mantissa_bits) * 2^(e - bias), and
/// where `has_zero` holds, field 0 is the subnormals m / 2^mantissa_bits * 2^(1 - bias), zero among them; else field 0 is a
/// binade like the others. With `twos_complement` a negative code is the two's complement of its magnitude, which makes
/// the fixed-point integers formats like the rest.
struct format_spec {
  int exponent_bits, mantissa_bits, bias;
  specials special = specials::none;
  bool is_signed = true;
  bool has_zero = true;
  bool twos_complement = false;

  LOFT_HOST_DEVICE constexpr int bits() const noexcept { return (is_signed ? 1 : 0) + exponent_bits + mantissa_bits; }
  LOFT_HOST_DEVICE constexpr std::uint32_t magnitude_mask() const noexcept {
    return (1u << (exponent_bits + mantissa_bits)) - 1;
  }
  LOFT_HOST_DEVICE constexpr std::uint32_t sign_mask() const noexcept { return is_signed ? magnitude_mask() + 1 : 0u; }
  LOFT_HOST_DEVICE constexpr bool has_nan() const noexcept { return special != specials::none; }
  LOFT_HOST_DEVICE constexpr bool has_infinity() const noexcept { return special == specials::ieee; }
  /// The canonical NaN; meaningful where has_nan().
  LOFT_HOST_DEVICE constexpr std::uint32_t nan_code() const noexcept {
    return special == specials::fnuz ? sign_mask() : magnitude_mask();
  }
  /// Meaningful where has_infinity().
  LOFT_HOST_DEVICE constexpr std::uint32_t infinity_code() const noexcept {
    return magnitude_mask() & ~((1u << mantissa_bits) - 1);
  }
  LOFT_HOST_DEVICE constexpr bool is_nan(std::uint32_t code) const noexcept {
    if (special == specials::fnuz) return code == sign_mask();
    if (special == specials::ieee) return (code & magnitude_mask()) > infinity_code();
    return special == specials::nan && (code & magnitude_mask()) == magnitude_mask();
  }
  LOFT_HOST_DEVICE constexpr bool is_infinity(std::uint32_t code) const noexcept {
    return has_infinity() && (code & magnitude_mask()) == infinity_code();
  }
  /// The largest finite magnitude.
  LOFT_HOST_DEVICE constexpr std::uint32_t max_code() const noexcept {
    if (special == specials::ieee) return infinity_code() - 1;
    return special == specials::nan ? magnitude_mask() - 1 : magnitude_mask();
  }
  /// floor(log2) of the least normal and of the largest finite value.
  LOFT_HOST_DEVICE constexpr int min_exponent() const noexcept { return (has_zero ? 1 : 0) - bias; }
  LOFT_HOST_DEVICE constexpr int max_exponent() const noexcept {
    return detail::max(static_cast<int>(max_code() >> mantissa_bits) - bias, min_exponent());
  }

  /// The fields are sound, and every value is a float: decode can be exact.
  LOFT_HOST_DEVICE constexpr bool valid() const noexcept {
    bool const fields = exponent_bits >= 0 && exponent_bits <= 8 && mantissa_bits >= 0 && mantissa_bits <= 15 &&
                        bits() >= 1 && bits() <= 16 && exponent_bits + mantissa_bits >= 1;
    if (!fields) return false;
    bool const top = (special != specials::ieee || (mantissa_bits > 0 && exponent_bits > 0)) &&
                     (special != specials::fnuz || is_signed) && !(twos_complement && special != specials::none);
    bool const low = bias == 127 || (min_exponent() - mantissa_bits >= -126 && bias < 127);
    return top && low && max_exponent() <= 127;
  }
};

/// A format is a named empty struct with a static member `spec`: a format_spec, or another description with these members.
template <class F>
concept Format = requires(std::uint32_t code) {
  { F::spec.bits() } -> std::convertible_to<int>;
  { F::spec.max_code() } -> std::convertible_to<std::uint32_t>;
  { F::spec.has_nan() } -> std::convertible_to<bool>;
  { F::spec.is_nan(code) } -> std::convertible_to<bool>;
  requires F::spec.valid();
};

/// The storage of one code of F: std::uint8_t, or std::uint16_t above 8 bits.
template <Format F>
using code = std::conditional_t<(F::spec.bits() > 8), std::uint16_t, std::uint8_t>;

}  // namespace loft

#endif
