// SPDX-License-Identifier: Apache-2.0
// What the bits of one number mean: format_spec, the Format concept, and what follows from a description.
// Source: OCP 8-bit Floating Point (OFP8) 1.0, OCP Microscaling Formats (MX) 1.0 section 5.3, IEEE 754-2019 section
// 3.3.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"

namespace loft {

/// What the top codes mean. none: all are finite. nan: all ones below the sign is NaN. ieee: the top exponent holds
/// infinity and NaNs. fnuz: the code of -0 is the only NaN. extended (P3109): the only NaN is the code of -0, or the
/// top code of an unsigned format, and infinity is the largest magnitude that is not NaN.
enum class specials { none, nan, ieee, fnuz, extended };

/// A binary floating-point format as a record of facts, from which every limit and mask below is derived.
///
/// A code consists of sign, exponent field e and mantissa m, from the top. Its value is
/// (1 + m / 2^mantissa_bits) * 2^(e - bias). Where `has_zero` is true, the codes of field 0 are the subnormals
/// m / 2^mantissa_bits * 2^(1 - bias), zero among them; else field 0 is a binade like the others. With
/// `twos_complement` a negative code is the two's complement of its magnitude, which makes fixed-point integers formats
/// like the rest.
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
  LOFT_HOST_DEVICE constexpr bool has_infinity() const noexcept {
    return special == specials::ieee || special == specials::extended;
  }
  LOFT_HOST_DEVICE constexpr bool has_negative_zero() const noexcept {
    return is_signed && has_zero && !twos_complement && !nan_is_negative_zero();
  }
  /// The canonical NaN; meaningful where has_nan().
  LOFT_HOST_DEVICE constexpr std::uint32_t nan_code() const noexcept {
    return nan_is_negative_zero() ? sign_mask() : magnitude_mask();
  }
  /// Meaningful where has_infinity().
  LOFT_HOST_DEVICE constexpr std::uint32_t infinity_code() const noexcept {
    if (special == specials::extended) return is_signed ? magnitude_mask() : magnitude_mask() - 1;
    return magnitude_mask() & ~((1u << mantissa_bits) - 1);
  }
  LOFT_HOST_DEVICE constexpr bool is_nan(std::uint32_t code) const noexcept {
    if (special == specials::ieee) return (code & magnitude_mask()) > infinity_code();
    if (nan_is_negative_zero()) return code == sign_mask();
    return has_nan() && (code & magnitude_mask()) == magnitude_mask();
  }
  LOFT_HOST_DEVICE constexpr bool is_infinity(std::uint32_t code) const noexcept {
    return has_infinity() && (code & magnitude_mask()) == infinity_code();
  }
  /// The largest finite magnitude.
  LOFT_HOST_DEVICE constexpr std::uint32_t max_code() const noexcept {
    if (has_infinity()) return infinity_code() - 1;
    return special == specials::nan ? magnitude_mask() - 1 : magnitude_mask();
  }
  /// floor(log2) of the least normal and of the largest finite value.
  LOFT_HOST_DEVICE constexpr int min_exponent() const noexcept { return (has_zero ? 1 : 0) - bias; }
  LOFT_HOST_DEVICE constexpr int max_exponent() const noexcept {
    int const field = static_cast<int>(max_code() >> mantissa_bits);
    if (field > 0 || !has_zero) return field - bias;
    int log2 = 0;  // all values are subnormal
    while (max_code() >> (log2 + 1) != 0) ++log2;
    return min_exponent() - mantissa_bits + log2;
  }

  // What encode asks of a spec. An ordinal counts magnitudes: 0 is the least, and the next number has the next ordinal.
  LOFT_HOST_DEVICE constexpr std::uint32_t max_ordinal() const noexcept { return max_code(); }
  LOFT_HOST_DEVICE constexpr int mantissa_bits_at(int) const noexcept { return mantissa_bits; }
  /// What a number of this exponent adds to its significand, hidden bit included, to make its ordinal.
  LOFT_HOST_DEVICE constexpr std::uint32_t first_ordinal(int exponent) const noexcept {
    return (static_cast<std::uint32_t>(exponent - min_exponent()) << mantissa_bits) -
           (has_zero ? 0u : 1u << mantissa_bits);
  }
  LOFT_HOST_DEVICE constexpr std::uint32_t with_sign(std::uint32_t ordinal, bool negative) const noexcept {
    if (!negative) return ordinal;
    if (twos_complement) return (0u - ordinal) & (sign_mask() | magnitude_mask());
    return ordinal == 0 && nan_is_negative_zero() ? 0u : ordinal | sign_mask();
  }

  /// Whether the fields are sound and every value is a float, so that decode is exact.
  LOFT_HOST_DEVICE constexpr bool valid() const noexcept {
    bool const fields = exponent_bits >= 0 && exponent_bits <= 8 && mantissa_bits >= 0 && mantissa_bits <= 23 &&
                        exponent_bits + mantissa_bits >= 1 && bits() <= 32;
    if (!fields) return false;
    bool const top = (special != specials::ieee || (mantissa_bits > 0 && exponent_bits > 0)) &&
                     (special != specials::fnuz || is_signed) && !(twos_complement && special != specials::none);
    return top && min_exponent() - mantissa_bits >= -149 && max_exponent() <= 127;
  }

 private:
  LOFT_HOST_DEVICE constexpr bool nan_is_negative_zero() const noexcept {
    return special == specials::fnuz || (special == specials::extended && is_signed);
  }
};

/// HiFloat8, whose codes tell the width of the exponent: numbers near 1 have 3 mantissa bits, those far from it 2, 1 or
/// 0.
///
/// Below the sign stand a prefix (11, 10, 01, 001, 0001 for exponents of 4, 3, 2, 1, 0 bits), the exponent as sign and
/// magnitude without its leading one, and the mantissa. With the prefix 0000, the mantissa m = 1 to 7 is 2^(m - 23),
/// and m = 0 is zero, or NaN under a sign. The largest magnitude, 0x6f, is infinity. source: arXiv 2409.16626 section
/// 2.
struct hifloat8_spec {
  static constexpr bool is_signed = true, has_zero = true, twos_complement = false;
  static constexpr int mantissa_bits = 3;
  static constexpr specials special = specials::extended;

  LOFT_HOST_DEVICE constexpr int bits() const noexcept { return 8; }
  LOFT_HOST_DEVICE constexpr bool valid() const noexcept { return true; }
  LOFT_HOST_DEVICE constexpr std::uint32_t magnitude_mask() const noexcept { return 0x7f; }
  LOFT_HOST_DEVICE constexpr std::uint32_t sign_mask() const noexcept { return 0x80; }
  LOFT_HOST_DEVICE constexpr bool has_nan() const noexcept { return true; }
  LOFT_HOST_DEVICE constexpr bool has_infinity() const noexcept { return true; }
  LOFT_HOST_DEVICE constexpr bool has_negative_zero() const noexcept { return false; }
  LOFT_HOST_DEVICE constexpr std::uint32_t nan_code() const noexcept { return 0x80; }
  LOFT_HOST_DEVICE constexpr std::uint32_t infinity_code() const noexcept {
    return with_sign(max_ordinal() + 1, false);
  }
  LOFT_HOST_DEVICE constexpr std::uint32_t max_code() const noexcept { return with_sign(max_ordinal(), false); }
  LOFT_HOST_DEVICE constexpr bool is_nan(std::uint32_t code) const noexcept { return code == nan_code(); }
  LOFT_HOST_DEVICE constexpr bool is_infinity(std::uint32_t code) const noexcept {
    return (code & 0x7f) == infinity_code();
  }
  LOFT_HOST_DEVICE constexpr int min_exponent() const noexcept { return -22; }
  LOFT_HOST_DEVICE constexpr int max_exponent() const noexcept { return 15; }

  LOFT_HOST_DEVICE constexpr std::uint32_t max_ordinal() const noexcept { return 126; }
  LOFT_HOST_DEVICE constexpr int mantissa_bits_at(int exponent) const noexcept {
    int const size = exponent < 0 ? -exponent : exponent;
    return size < 4 ? 3 : size < 8 ? 2 : size < 16 || exponent > 0 ? 1 : 0;
  }
  LOFT_HOST_DEVICE constexpr std::uint32_t first_ordinal(int exponent) const noexcept {
    int const e = exponent;
    int const first = e < -15  ? e + 23
                      : e < -7 ? 8 + (e + 15) * 2
                      : e < -3 ? 24 + (e + 7) * 4
                      : e < 4  ? 40 + (e + 3) * 8
                      : e < 8  ? 96 + (e - 4) * 4
                               : 112 + (e - 8) * 2;
    return static_cast<std::uint32_t>(first - (1 << mantissa_bits_at(e)));
  }
  /// The exponent of a normal number: the inverse of the counts in first_ordinal.
  LOFT_HOST_DEVICE constexpr int exponent_at(int ordinal) const noexcept {
    return ordinal < 24    ? ordinal / 2 - 19
           : ordinal < 40  ? ordinal / 4 - 13
           : ordinal < 96  ? ordinal / 8 - 8
           : ordinal < 112 ? ordinal / 4 - 20
                           : ordinal / 2 - 48;
  }
  LOFT_HOST_DEVICE constexpr std::uint32_t with_sign(std::uint32_t ordinal, bool negative) const noexcept {
    if (ordinal == 0) return 0;
    std::uint32_t const sign = negative ? sign_mask() : 0u;
    if (ordinal < 8) return sign | ordinal;
    int const exponent = exponent_at(static_cast<int>(ordinal));
    int const width = mantissa_bits_at(exponent);
    std::uint32_t const mantissa = ordinal - first_ordinal(exponent) - (1u << width);
    auto const size = static_cast<std::uint32_t>(exponent < 0 ? -exponent : exponent);
    std::uint32_t const minus = exponent < 0 ? 1u : 0u;
    if (size == 0) return sign | 0b0001'000u | mantissa;
    if (size == 1) return sign | 0b001'0'000u | minus << 3 | mantissa;
    std::uint32_t const prefix = size < 4 ? 1u : size < 8 ? 2u : 3u;
    std::uint32_t const low = size & ((1u << prefix) - 1);  // the exponent without its leading one: `prefix` bits
    return sign | prefix << 5 | minus << 4 | low << width | mantissa;
  }
  /// |value| of a finite code: a significand and the exponent of its last bit.
  LOFT_HOST_DEVICE constexpr detail::unpacked<std::uint32_t> split(std::uint32_t code) const noexcept {
    std::uint32_t const bits = code & 0x7f;
    if (bits < 8) return {bits == 0 ? 0u : 1u, static_cast<int>(bits) - 23, code > 0x80};
    std::uint32_t size = 0, minus = 0;
    if (bits >= 0x20) {
      std::uint32_t const prefix = bits >> 5;
      int const width = prefix == 1 ? 3 : prefix == 2 ? 2 : 1;
      size = 1u << prefix | (bits >> width & ((1u << prefix) - 1));
      minus = bits >> 4 & 1u;
    } else if (bits >= 0x10) {
      size = 1;
      minus = bits >> 3 & 1u;
    }
    int const exponent = minus != 0 ? -static_cast<int>(size) : static_cast<int>(size);
    int const width = mantissa_bits_at(exponent);
    return {1u << width | (bits & ((1u << width) - 1)), exponent - width, code > 0x80};
  }
};

/// A format is a named empty struct with a static member `spec`: a format_spec, or another type with its members.
template <class F>
concept Format = requires {
  { F::spec.bits() } -> std::convertible_to<int>;
  requires F::spec.valid();
};

namespace detail {

template <int Bits>
using code_word =
    std::conditional_t<(Bits > 16), std::uint32_t, std::conditional_t<(Bits > 8), std::uint16_t, std::uint8_t>>;

template <class F> struct code_of { using type = code_word<F::spec.bits()>; };
template <class F>
  requires requires { typename decltype(F::spec)::code_type; }
struct code_of<F> {
  using type = typename decltype(F::spec)::code_type;
};

}  // namespace detail

/// The storage of one code of F: std::uint8_t, std::uint16_t above 8 bits, std::uint32_t above 16.
template <Format F> using code = typename detail::code_of<F>::type;

}  // namespace loft
