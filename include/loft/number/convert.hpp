// SPDX-License-Identifier: Apache-2.0
// encode and decode: one generic algorithm for every format.
// Source: OCP OFP8 1.0 section 5, OCP MX 1.0 section 5.3, IEEE 754-2019 section 4.3; design decisions 1 to 6.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/number/format.hpp"
#include "loft/number/formats.hpp"
#include "loft/number/rounding.hpp"

namespace loft {

/// What a value beyond the largest finite value of a format becomes. saturate: the largest finite value. special: the
/// format's infinity; NaN where it has no infinity; the largest finite value where it has neither.
enum class overflow { saturate, special };

namespace detail {

/// The code of the number with this ordinal and sign.
template <Format F>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<F> with_sign(std::uint32_t ordinal, bool negative) noexcept {
  constexpr auto spec = F::spec;
  return static_cast<code<F>>(spec.with_sign(ordinal, negative));
}

/// The code of a value beyond the largest finite one.
template <Format F, overflow O> LOFT_HOST_DEVICE constexpr code<F> overflow_code(bool negative) noexcept {
  constexpr auto spec = F::spec;
  if (O == overflow::special && spec.has_infinity())
    return static_cast<code<F>>(spec.infinity_code() | (negative ? spec.sign_mask() : 0u));
  if (O == overflow::special && spec.has_nan())
    return static_cast<code<F>>(spec.nan_code() | (negative ? spec.sign_mask() : 0u));
  return with_sign<F>(spec.max_ordinal(), negative);
}

/// The ordinal of a finite number's magnitude, rounded as if the exponent had no upper end.
template <Format F, class W, Rounding R>
LOFT_HOST_DEVICE constexpr std::uint32_t round_to_ordinal(unpacked<W> number, R const& rounding,
                                                          std::uint64_t index) noexcept {
  constexpr auto spec = F::spec;
  constexpr int least = spec.min_exponent();
  // 1. Without zero and subnormals, nothing lies below the least code.
  if (!spec.has_zero && (number.exponent < least || number.significand == 0)) return 0;
  // 2. Below the least normal the gap stops shrinking: the number counts in the exponent of the least normal.
  int const exponent = max(number.exponent, least);
  // 3. Split the significand at the target's last bit: what is kept, and the fraction of a gap that is dropped.
  int const dropped_bits = word_bits<W> - 1 - spec.mantissa_bits_at(exponent) + (exponent - number.exponent);
  bool const some_kept = dropped_bits < word_bits<W>;
  W const kept = some_kept ? static_cast<W>(number.significand >> dropped_bits) : W{0};
  W const fraction = some_kept ? static_cast<W>(number.significand << (word_bits<W> - dropped_bits))
                               : shift_right_sticky(number.significand, dropped_bits - word_bits<W>);
  // 4. Exponent and mantissa in one number, so that a carry out of the mantissa moves to the next binade by itself. The
  //    binade above the largest number stands for all that lie beyond it.
  std::uint32_t const lower =
      spec.first_ordinal(min(exponent, max(spec.max_exponent() + 1, least))) + static_cast<std::uint32_t>(kept);
  // 5. Round.
  return lower + (rounding.up(lower, fraction, number.negative, index) ? 1u : 0u);
}

/// encode of x * 2^-scale. The product itself is not rounded, because the scale acts on the exponent.
template <Format F, overflow O, Rounding R, class T>
LOFT_HOST_DEVICE constexpr code<F> encode_scaled(T x, int scale, R const& rounding, std::uint64_t index) noexcept {
  constexpr auto spec = F::spec;
  using word = typename ieee<T>::word;
  constexpr word sign = word{1} << (word_bits<word> - 1);
  constexpr word infinity = static_cast<word>((sign - 1) << ieee<T>::mantissa_bits) & (sign - 1);
  word const bits = bit_cast<word>(x);
  word const magnitude = bits & static_cast<word>(~sign);
  bool const negative = bits != magnitude;
  // NaN comes first, then what an unsigned format does not have; its -0 is 0.
  if (magnitude > infinity) return static_cast<code<F>>(spec.has_nan() ? spec.nan_code() : spec.max_code());
  if (!spec.is_signed && negative)
    return static_cast<code<F>>(O == overflow::special && spec.has_nan() && magnitude != 0 ? spec.nan_code() : 0u);
  if (magnitude == infinity) return overflow_code<F, O>(negative);
  auto number = unpack<typename fraction_word<R, T>::type>(x);
  number.exponent -= scale;
  std::uint32_t const ordinal = round_to_ordinal<F>(number, rounding, index);
  if (ordinal <= spec.max_ordinal()) return with_sign<F>(ordinal, negative);
  return stops_at_max(rounding, negative) ? with_sign<F>(spec.max_ordinal(), negative) : overflow_code<F, O>(negative);
}

/// |value| of a finite code. Exact.
template <Format F> LOFT_HOST_DEVICE constexpr float decode_magnitude(std::uint32_t bits, bool negative) noexcept {
  constexpr auto spec = F::spec;
  if constexpr (requires { spec.split(bits); }) {
    auto const parts = spec.split(bits);
    return scale_by_power_of_two(static_cast<float>(static_cast<std::int32_t>(parts.significand)), parts.exponent);
  } else {
    std::uint32_t magnitude = bits & spec.magnitude_mask();
    if (spec.twos_complement && negative) magnitude = spec.sign_mask() - magnitude;
    std::uint32_t const field = magnitude >> spec.mantissa_bits;
    if constexpr (spec.min_exponent() - spec.mantissa_bits >= -126) {
      // All values are normal floats: the fields move to a float's places, and 2^least is the hidden bit that
      // subnormals lack.
      std::uint32_t const moved =
          (magnitude << (23 - spec.mantissa_bits)) + (static_cast<std::uint32_t>(127 - spec.bias) << 23);
      if (field != 0 || !spec.has_zero) return bit_cast<float>(moved);
      return bit_cast<float>(moved + (1u << 23)) - power_of_two(spec.min_exponent());
    } else if constexpr (spec.bias == 127 && spec.has_zero) {
      // The exponents are those of a float, the subnormal ones too.
      return bit_cast<float>(magnitude << (23 - spec.mantissa_bits));
    } else {
      std::uint32_t const hidden = field != 0 || !spec.has_zero ? 1u << spec.mantissa_bits : 0u;
      std::uint32_t const significand = hidden | (magnitude & ((1u << spec.mantissa_bits) - 1));
      int const exponent = max(static_cast<int>(field), spec.has_zero ? 1 : 0) - spec.bias - spec.mantissa_bits;
      return scale_by_power_of_two(static_cast<float>(static_cast<std::int32_t>(significand)), exponent);
    }
  }
}

}  // namespace detail

template <Format F> class minifloat;

/// What `encode` takes: float, double, or any minifloat.
template <class T>
concept EncodeSource = std::is_same_v<T, float> || std::is_same_v<T, double> || requires(T x) {
  typename T::format;
  x.bits();
};

/// The code of the value of F to which `rounding` takes `x`.
///
/// in: a number; `index`: the element's index, at which only stochastic rounding looks.
/// rounds: once, from the value itself, whatever the source type. error: at most half a gap for the nearest modes, less
/// than one gap for the others. A NaN becomes the canonical NaN, or the code of +max in a format without NaN. Infinity
/// and values that round beyond the largest finite one become what `O` says. -0, and a negative value that rounds to 0,
/// keep their sign where the format has -0. In an unsigned format a negative value becomes the least code, or NaN under
/// `special`. source: design decisions 1 to 6.
template <Format F, overflow O = overflow::saturate, Rounding R = nearest_even, class T>
LOFT_HOST_DEVICE constexpr code<F> encode(T x, R rounding = {}, std::uint64_t index = 0) noexcept {
  static_assert(EncodeSource<T>,
                "encode takes a float, a double or a minifloat: convert an integer yourself, to say how it rounds");
  if constexpr (std::is_floating_point_v<T>) return detail::encode_scaled<F, O>(x, 0, rounding, index);
  else return detail::encode_scaled<F, O>(static_cast<float>(x), 0, rounding, index);
}

/// The value of a code. error: exact, because every value of a format is a float. Bits of `c` above the format's width
/// are ignored. A NaN becomes the quiet NaN 0x7fc00000. source: that of the format, see formats.hpp.
template <Format F> LOFT_HOST_DEVICE constexpr float decode(code<F> c) noexcept {
  constexpr auto spec = F::spec;
  std::uint32_t const bits = c & (spec.sign_mask() | spec.magnitude_mask());
  if (spec.is_nan(bits)) return bit_cast<float>(detail::float_nan);
  bool const negative = (bits & spec.sign_mask()) != 0;
  std::uint32_t const sign = negative ? detail::float_sign : 0u;
  if (spec.is_infinity(bits)) return bit_cast<float>(sign | detail::float_infinity);
  return bit_cast<float>(sign | bit_cast<std::uint32_t>(detail::decode_magnitude<F>(bits, negative)));
}

}  // namespace loft
