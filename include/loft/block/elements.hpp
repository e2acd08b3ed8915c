// SPDX-License-Identifier: Apache-2.0
// The elements of blocks: encoded and decoded a slice of one row at a time, with the scales chosen already.
// Source: design section 2 (data through one block) and decisions 7 to 12.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/branchless.hpp"
#include "loft/array/packing.hpp"
#include "loft/array/random_words.hpp"
#include "loft/block/block_format.hpp"
#include "loft/block/block_values.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/block/rules.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/host/blocks.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/rounding.hpp"

namespace loft {
namespace detail {

/// The least power-of-two scale by which float multiplication may divide: subnormal floats, should the build flush
/// them, lie 2^17 below the least code.
template <Format F>
inline constexpr int least_vector_scale = [] {
  if constexpr (has_float_layout<F>) return max(-126, -109 - (F::spec.min_exponent() - F::spec.mantissa_bits));
  else return 0;
}();

/// Encodes `count` values that share one factor, at most N neighbours from column `col` of their block, with the format
/// that the scale says. A NaN scale makes all codes 0. `words`: one random word each, where the rounding takes words.
template <int N, class O, class T, class W>
LOFT_HOST_DEVICE constexpr void encode_by_scale(T const* values, int count,
                                                code<typename O::format::scale> const& scale, int col, O const& how,
                                                tensor_scale t, std::uint64_t index, [[maybe_unused]] W const* words,
                                                code<typename O::format::element>* codes) noexcept {
  using format = typename O::format;
  if (is_nan_scale<format>(scale)) {
    for (int i = 0; i < count; ++i) codes[i] = 0;
    return;
  }
  scale_inverse const inverse = inverse_of<format>(scale, t, col);
  auto const encode_all = [&]<class F>(F, float unit) {
    // Scales below those of the branchless form belong to tiny values: 2^64 lifts both. What overflows was beyond the
    // largest number before.
    constexpr bool branchless = has_branchless_encode<F, decltype(rounding_at(how.rounding, words, 0))>;
    bool const lift = branchless && inverse.exponent < least_branchless_scale<F>;
    int const exponent = lift ? inverse.exponent + 64 : inverse.exponent;
    for_each_index<branchless ? N : 0>(count, [&](int i) {
      float value = to_float(values[i]);
      if constexpr (multiplies<O>) value = exact::multiply(value, inverse.multiplier);
      if (unit != 1.0f) value = exact::multiply(value, 1.0f / unit);
      auto const rounding = rounding_at(how.rounding, words, i);
      auto const at = index + static_cast<std::uint64_t>(i);
      if constexpr (branchless)
        codes[i] = encode_branchless<F>(lift ? scale_by_power_of_two(value, 64) : value, exponent, rounding, at);
      else codes[i] = encode_scaled<F, overflow::saturate>(value, exponent, rounding, at);
    });
  };
  if constexpr (has_alternative<format>)
    if (is_alternative<format>(scale)) return encode_all(typename format::alternative{}, format::alternative_unit);
  encode_all(typename format::element{}, 1.0f);
}

/// What the values of a group, the neighbours that share a factor, are multiplied with in registers; `inexact` is 1
/// where that would not give the exact results.
struct group_factor {
  float value;
  std::uint32_t inexact;
};

/// The factors of up to `Groups` groups.
template <int Groups> struct group_factors {
  float values[Groups];
  std::uint32_t inexact[Groups], any_inexact;

  /// `factor_at(g)` is that of group g. Inlined everywhere: else a large file has a call a group, and no vectors.
  template <class Function>
  [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void find(int groups, Function&& factor_at) noexcept {
    any_inexact = 0;
    if constexpr (!native::has_host_vectors) return;
    for_each_index<Groups>(
        groups, [&](int g) __attribute__((always_inline)) {
          group_factor const factor = factor_at(g);
          values[g] = factor.value;
          inexact[g] = factor.inexact;
          any_inexact |= factor.inexact;
        });
  }
};

/// The inverse of a scale as a multiplier: a power of two multiplies exactly while what it takes below the normal
/// floats is far below the least code. Without branches for scales that are numbers.
template <class O>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr group_factor encoding_factor(
    code<typename O::format::scale> const& scale, tensor_scale t, int col) noexcept {
  using format = typename O::format;
  int const special = int{is_nan_scale<format>(scale)} | int{is_alternative<format>(scale)};
  if constexpr (is_power_of_two_format<typename format::scale>) {
    int const exponent = static_cast<int>(scale) - format::scale::spec.bias;
    int const outside = int{exponent < least_vector_scale<typename format::element>} | int{exponent > 126} | special;
    float value = bit_cast<float>(static_cast<std::uint32_t>(127 - exponent) << 23);
    if constexpr (has_constant<O>) value *= t.encode;
    return {value, outside != 0 ? 1u : 0u};
  } else {
    return {inverse_of<format>(scale, t, col).multiplier, special != 0 ? 1u : 0u};
  }
}

/// The groups in Width columns.
template <class B, int Width> inline constexpr int groups_in = Width / factor_cols<B>;

/// The factors that whole groups of `count` columns are encoded with, from the first column of a block.
template <class O, int Groups>
LOFT_HOST_DEVICE constexpr void find_factors(int count, code<typename O::format::scale> const* scales, tensor_scale t,
                                             group_factors<Groups>& factors) noexcept {
  constexpr int group = factor_cols<typename O::format>, cols = O::format::shape.cols;
  factors.find(
      count / group, [&](int g) __attribute__((always_inline)) {
        return encoding_factor<O>(scales[g * group / cols], t, g * group % cols);
      });
}

/// Encodes `count` neighbours of one row, from the first column of a block, at most Width; their element indices count
/// up from `index`, and `scales` has one entry a block, `factors` what follows from them. Packed: the codes are packed
/// into bytes, else C is a code. `ahead`: the numbers that will be asked for soon; only a hint.
template <int Width, bool Packed, class O, class T, class C, class A = T>
LOFT_HOST_DEVICE constexpr void encode_slice(T const* values, int count, code<typename O::format::scale> const* scales,
                                             group_factors<groups_in<typename O::format, Width>> const& factors,
                                             O const& how, tensor_scale t, std::uint64_t index, C* out,
                                             A const* ahead = nullptr) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  using rounding = rounding_of<O>;
  constexpr int group = factor_cols<format>, cols = format::shape.cols, bits = element::spec.bits();
  if constexpr (Packed && bits != 4 && bits != 8) {
    code<element> codes[Width];
    encode_slice<Width, false>(values, count, scales, factors, how, t, index, codes, ahead);
    pack<element>(codes, count, out);
  } else {
    constexpr bool random = has_random_words<rounding>;
    rounding_word<rounding> words[random ? Width : 1] = {};
    fill_rounding_words(how.rounding, index, count, words);
    constexpr bool powers_of_two = is_power_of_two_format<typename format::scale> && !has_constant<O>;
    int const done = native::encode_groups<element, given_rounding<rounding>, group, Packed, powers_of_two>(
        values, factors.values, count / group, words, ahead, static_cast<int>(sizeof(A)), out);
    if (done * group == count && factors.any_inexact == 0) return;
    for (int i = 0; i < count; i += group) {
      if (i / group < done && factors.inexact[i / group] == 0) continue;
      int const here = min(group, count - i);
      code<element> unpacked_codes[Packed ? group : 1];
      code<element>* codes = unpacked_codes;
      if constexpr (!Packed) codes = out + i;
      encode_by_scale<group>(values + i, here, scales[i / cols], i % cols, how, t,
                             index + static_cast<std::uint64_t>(i), words + (random ? i : 0), codes);
      if constexpr (Packed) pack<element>(codes, here, out + i * bits / 8);
    }
  }
}

/// The value of one element in column `col` of its block: code times block scale, exactly for the formats of the
/// standards; then times the tensor's scale or the rule's constant, rounded once.
template <class B>
LOFT_HOST_DEVICE constexpr float decode_element(code<typename B::element> c, code<typename B::scale> scale, int col,
                                                float tensor_decode) noexcept {
  if (is_nan_scale<B>(scale)) return bit_cast<float>(float_nan);
  float element = decode_number<typename B::element>(c);
  if constexpr (has_alternative<B>)
    if (is_alternative<B>(scale)) element = exact::multiply(decode<typename B::alternative>(c), B::alternative_unit);
  float value = 0;
  if constexpr (is_power_of_two_format<typename B::scale>) {
    value = scale_by_power_of_two(element, static_cast<int>(scale) - B::scale::spec.bias);
  } else {
    value = exact::multiply(element, factor_of<B>(scale, col));
  }
  return tensor_decode == 1.0f ? value : exact::multiply(value, tensor_decode);
}

/// What the codes of a group are multiplied with in registers: exact where decoding is one multiplication by it,
/// because no value leaves the normal floats.
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr group_factor decoding_factor(code<typename B::scale> const& scale,
                                                                               int col) noexcept {
  using element = typename B::element;
  int const special = int{is_nan_scale<B>(scale)} | int{is_alternative<B>(scale)};
  if constexpr (!has_branchless_decode<element>) {
    return {0, 1};
  } else if constexpr (is_power_of_two_format<typename B::scale>) {
    constexpr auto spec = element::spec;
    constexpr int least = max(-126, -126 - (spec.min_exponent() - spec.mantissa_bits));
    int const exponent = static_cast<int>(scale) - B::scale::spec.bias;
    int const outside = int{exponent < least} | int{exponent >= 127 - spec.max_exponent()} | special;
    return {bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23), outside != 0 ? 1u : 0u};
  } else {
    return {factor_of<B>(scale, col), special != 0 ? 1u : 0u};
  }
}

/// values[i] = decode_element(code i, ...) for neighbours in one row, from the first column of a block, at most Width.
/// Packed: the codes are packed in bytes, else C is a code.
template <class B, int Width, bool Packed, class C>
LOFT_HOST_DEVICE constexpr void decode_slice(C const* in, int count, code<typename B::scale> const* scales,
                                             float tensor_decode, float* values) noexcept {
  using element = typename B::element;
  constexpr int group = factor_cols<B>, cols = B::shape.cols, bits = element::spec.bits();
  if constexpr (Packed && bits != 4 && bits != 8) {
    code<element> codes[Width];
    loft::unpack<element>(in, count, codes);
    decode_slice<B, Width, false>(codes, count, scales, tensor_decode, values);
  } else {
    group_factors<groups_in<B, Width>> factors;
    factors.find(
        count / group, [&](int g) __attribute__((always_inline)) {
          return decoding_factor<B>(scales[g * group / cols], g * group % cols);
        });
    int const done =
        native::decode_groups<element, group, Packed>(in, factors.values, tensor_decode, count / group, values);
    if (done * group == count && factors.any_inexact == 0) return;
    for (int i = 0; i < count; i += group) {
      if (i / group < done && factors.inexact[i / group] == 0) continue;
      int const here = min(group, count - i);
      code<element> unpacked_codes[Packed ? group : 1];
      code<element> const* codes = unpacked_codes;
      if constexpr (Packed) loft::unpack<element>(in + i * bits / 8, here, unpacked_codes);
      else codes = in + i;
      for (int k = 0; k < here; ++k)
        values[i + k] = decode_element<B>(codes[k], scales[i / cols], (i + k) % cols, tensor_decode);
    }
  }
}

/// `total` and the error of encoding these values with this scale, element by element.
template <class O>
LOFT_HOST_DEVICE constexpr float add_error(float total, float const* values, int count,
                                           code<typename O::format::scale> scale, O const& how, tensor_scale t,
                                           std::uint64_t index) noexcept {
  using format = typename O::format;
  using error = typename rule_traits_of<O>::error;
  code<typename format::element> codes[format::shape.cols];
  group_factors<groups_in<format, format::shape.cols>> factors;
  find_factors<O>(count, &scale, t, factors);
  encode_slice<format::shape.cols, false>(values, count, &scale, factors, how, t, index, codes);
  for (int i = 0; i < count; ++i) {
    float const decoded = exact::opaque(decode_element<format>(codes[i], scale, i, t.decode));
    total = exact::opaque(error::add(total, exact::opaque(exact::subtract(decoded, values[i]))));
  }
  return total;
}

}  // namespace detail
}  // namespace loft
