// SPDX-License-Identifier: Apache-2.0
// encode and decode: one generic algorithm for every format.
// Source: OCP OFP8 1.0 section 5, OCP MX 1.0 section 5.3, IEEE 754-2019 section 4.3; design decisions 1 to 6.
#ifndef LOFT_CONVERT_HPP
#define LOFT_CONVERT_HPP

#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/format.hpp"
#include "loft/formats.hpp"
#include "loft/rounding.hpp"

namespace loft {

/// What becomes of a value beyond the largest finite one: that one, or the format's infinity, else NaN, else that one.
enum class overflow { saturate, special };

namespace detail {

/// The code with this magnitude and sign. FNUZ and two's complement have no -0.
template <Format F>
LOFT_HOST_DEVICE constexpr code<F> with_sign(std::uint32_t magnitude, bool negative) noexcept {
  constexpr auto spec = F::spec;
  std::uint32_t code_bits = magnitude;
  if constexpr (spec.twos_complement) code_bits = negative ? (0u - magnitude) & (spec.sign_mask() | spec.magnitude_mask()) : magnitude;
  else if (negative && !(spec.special == specials::fnuz && magnitude == 0)) code_bits |= spec.sign_mask();
  return static_cast<code<F>>(code_bits);
}

/// The magnitude for a value beyond the largest finite one.
template <Format F, overflow O>
LOFT_HOST_DEVICE constexpr std::uint32_t overflow_magnitude() noexcept {
  constexpr auto spec = F::spec;
  if (O == overflow::special && spec.has_infinity()) return spec.infinity_code();
  if (O == overflow::special && spec.has_nan()) return spec.nan_code();
  return spec.max_code();
}

/// The magnitude code of a finite number, rounded as if the exponent had no upper end.
template <Format F, class W, Rounding R>
LOFT_HOST_DEVICE constexpr std::uint32_t round_to_code(unpacked<W> number, R const& rounding, std::uint64_t index) noexcept {
  constexpr auto spec = F::spec;
  constexpr int mantissa_bits = spec.mantissa_bits, least = spec.min_exponent();
  // 1. Without zero and subnormals, nothing lies below the least code.
  if (!spec.has_zero && (number.exponent < least || number.significand == 0)) return 0;
  // 2. Below the least normal the gap stops shrinking: the number counts in the exponent of the least normal.
  int const exponent = max(number.exponent, least);
  // 3. Split the significand at the target's last bit: what is kept, and the fraction of a gap that is dropped.
  int const dropped_bits = word_bits<W> - 1 - mantissa_bits + (exponent - number.exponent);
  bool const some_kept = dropped_bits < word_bits<W>;
  W const kept = some_kept ? static_cast<W>(number.significand >> dropped_bits) : W{0};
  W const fraction = some_kept ? static_cast<W>(number.significand << (word_bits<W> - dropped_bits))
                               : shift_right_sticky(number.significand, dropped_bits - word_bits<W>);
  // 4. Exponent field and mantissa in one number: the hidden bit of `kept` raises the field from 0 to 1 (from nothing
  //    where field 0 is a binade itself), and a carry out of the mantissa moves to the next binade by itself.
  std::uint32_t const field_below = static_cast<std::uint32_t>(exponent - least) << mantissa_bits;
  std::uint32_t const lower = field_below + static_cast<std::uint32_t>(kept) - (spec.has_zero ? 0u : 1u << mantissa_bits);
  // 5. Round.
  return lower + (rounding.up(lower, fraction, number.negative, index) ? 1u : 0u);
}

/// encode of x * 2^-scale, where that product is not rounded: the scale acts on the exponent.
template <Format F, overflow O, Rounding R, class T>
LOFT_HOST_DEVICE constexpr code<F> encode_scaled(T x, int scale, R const& rounding, std::uint64_t index) noexcept {
  constexpr auto spec = F::spec;
  using word = typename ieee<T>::word;
  constexpr word sign = word{1} << (word_bits<word> - 1);
  constexpr word infinity = static_cast<word>((sign - 1) << ieee<T>::mantissa_bits) & (sign - 1);
  word const bits = bit_cast<word>(x);
  word const magnitude = bits & static_cast<word>(~sign);
  bool const negative = bits != magnitude;
  // NaN; then what an unsigned format does not have (its -0 is 0).
  if (magnitude > infinity) return static_cast<code<F>>(spec.has_nan() ? spec.nan_code() : spec.max_code());
  if (!spec.is_signed && negative)
    return static_cast<code<F>>(O == overflow::special && spec.has_nan() && magnitude != 0 ? spec.nan_code() : 0u);
  if (magnitude == infinity) return with_sign<F>(overflow_magnitude<F, O>(), negative);
  auto number = unpack<typename fraction_word<R, T>::type>(x);
  number.exponent -= scale;
  std::uint32_t rounded = round_to_code<F>(number, rounding, index);
  if (rounded > spec.max_code())
    rounded = stops_at_max(rounding, negative) ? spec.max_code() : overflow_magnitude<F, O>();
  return with_sign<F>(rounded, negative);
}

}  // namespace detail

template <Format F>
class minifloat;

/// What `encode` takes: float, double, or any minifloat.
template <class T>
concept EncodeSource = std::is_same_v<T, float> || std::is_same_v<T, double> || requires(T x) { typename T::format; x.bits(); };

/// The code of F nearest to `x` in the sense of `rounding`.
///
/// in: a number; `index` is the element's index, which only stochastic rounding looks at.
/// rounds: once, from the value itself, whatever the source type. error: at most half a gap for the nearest modes, less
/// than one gap for the others. NaN: the canonical NaN, or the code of +max in a format without NaN. Infinity and values that
/// round beyond the largest finite one: as `O` says. -0 and negative underflow keep the sign where the format has -0.
/// Unsigned formats: a negative value gives the least code, or NaN under `special`. source: design decisions 1 to 6.
template <Format F, overflow O = overflow::saturate, Rounding R = nearest_even, class T>
LOFT_HOST_DEVICE constexpr code<F> encode(T x, R rounding = {}, std::uint64_t index = 0) noexcept {
  static_assert(EncodeSource<T>, "encode takes a float, a double or a minifloat: convert an integer yourself, to say how it rounds");
  if constexpr (std::is_floating_point_v<T>) return detail::encode_scaled<F, O>(x, 0, rounding, index);
  else return detail::encode_scaled<F, O>(static_cast<float>(x), 0, rounding, index);
}

/// The value of a code. Exact: every value of a format is a float. Bits of `code` above the format's width are ignored.
/// NaN codes give the quiet NaN 0x7fc00000. source: the format's own, see formats.hpp.
template <Format F>
LOFT_HOST_DEVICE constexpr float decode(code<F> c) noexcept {
  constexpr auto spec = F::spec;
  constexpr int shift = 23 - spec.mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - spec.bias) << 23, one_field = 1u << 23;
  std::uint32_t const bits = c & (spec.sign_mask() | spec.magnitude_mask());
  if (spec.is_nan(bits)) return bit_cast<float>(detail::float_nan);
  bool const negative = (bits & spec.sign_mask()) != 0;
  std::uint32_t const sign = negative ? detail::float_sign : 0u;
  if (spec.is_infinity(bits)) return bit_cast<float>(sign | detail::float_infinity);
  std::uint32_t magnitude = bits & spec.magnitude_mask();
  if (spec.twos_complement && negative) magnitude = spec.sign_mask() - magnitude;
  // The fields move to a float's places. Above field 0 that is all.
  std::uint32_t const moved = (magnitude << shift) + rebias;
  if (magnitude >> spec.mantissa_bits != 0) return bit_cast<float>(sign | moved);
  if constexpr (spec.has_zero) {
    // Subnormals. A float has them at the same place if the bias is its own; else 2^least is the hidden bit they lack.
    if constexpr (rebias == 0) return bit_cast<float>(sign | moved);
    float const value = bit_cast<float>(moved + one_field) - detail::power_of_two(spec.min_exponent());
    return bit_cast<float>(sign | bit_cast<std::uint32_t>(value));
  } else {
    // An ordinary binade, below the least normal float if the bias is a float's own.
    return bit_cast<float>(sign | (rebias == 0 ? (moved | one_field) >> 1 : moved));
  }
}

}  // namespace loft

#endif
