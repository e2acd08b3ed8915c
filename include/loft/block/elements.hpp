// SPDX-License-Identifier: Apache-2.0
// The elements of blocks: encoded and decoded a run of one row at a time, with the scales chosen already.
// Source: design section 2 (data through one block) and decisions 7 to 12. Everything here is detail of block.hpp and
// tensor.hpp.
#ifndef LOFT_BLOCK_ELEMENTS_HPP
#define LOFT_BLOCK_ELEMENTS_HPP

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/block/block_scale.hpp"
#include "loft/core/config.hpp"
#include "loft/number/convert.hpp"
#include "loft/array/branchless.hpp"
#include "loft/array/random_words.hpp"
#include "loft/native/host/blocks.hpp"
#include "loft/core/exact.hpp"
#include "loft/array/packing.hpp"
#include "loft/number/rounding.hpp"
#include "loft/block/rules.hpp"

namespace loft {
namespace detail {

/// codes[i] = what rounding_of(i) makes of value_of(i) / 2^exponent: the lanes where they serve, else encode itself.
template <Format F, int N, class Values, class Roundings>
LOFT_HOST_DEVICE constexpr void encode_lanes(Values value_of, int count, int exponent, Roundings rounding_of,
                                             std::uint64_t index, code<F>* codes) noexcept {
  if constexpr (has_branchless_encode<F, decltype(rounding_of(0))>) {
    // Scales below those of the lanes belong to tiny values: 2^64 lifts both. What overflows was beyond the largest
    // number before.
    bool const tiny = exponent < least_branchless_scale<F>;
    int const lifted = tiny ? exponent + 64 : exponent;
    for_each_index<N>(count, [&](int i) {
      float const value = value_of(i);
      codes[i] = encode_branchless<F>(tiny ? scale_by_power_of_two(value, 64) : value, lifted, rounding_of(i),
                                index + static_cast<std::uint64_t>(i));
    });
  } else {
    for (int i = 0; i < count; ++i)
      codes[i] = encode_scaled<F, overflow::saturate>(value_of(i), exponent, rounding_of(i),
                                                      index + static_cast<std::uint64_t>(i));
  }
}

/// The least power-of-two scale by which float multiplication may divide: subnormal floats, should the build flush
/// them, lie 2^17 below the least code.
template <Format F>
inline constexpr int least_vector_scale = [] {
  if constexpr (has_float_layout<F>) return max(-126, -109 - (F::spec.min_exponent() - F::spec.mantissa_bits));
  else return 0;
}();

/// True where a factor belongs to the rule, beside the scale.
template <class O>
inline constexpr bool has_constant = requires {
  std::remove_cvref_t<decltype(O{}.rule)>::constant;
};

/// Encodes values that share one factor. F: the format of their codes, times `unit`. `words`: one random word each, or
/// null.
template <Format F, int N, class O, class T, class W>
LOFT_HOST_DEVICE constexpr void encode_alike(T const* values, int count, scale_inverse inverse, float unit,
                                             O const& how, std::uint64_t index, [[maybe_unused]] W const* words,
                                             code<F>* codes) noexcept {
  constexpr bool multiplies = !is_power_of_two_format<typename O::format::scale> || has_constant<O>;
  auto const value_of = [&](int i) {
    float value = to_float(values[i]);
    if constexpr (multiplies) value = exact::multiply(value, inverse.multiplier);
    return unit == 1.0f ? value : exact::multiply(value, 1.0f / unit);
  };
  encode_lanes<F, N>(
      value_of, count, inverse.exponent, [&](int i) { return rounding_at(how.rounding, words, i); }, index, codes);
}

/// Encodes a run that shares one factor, at most N values, in column `col` of its block, with the format that its scale
/// says.
template <int N, class O, class T, class W>
LOFT_HOST_DEVICE constexpr void encode_by_scale(T const* values, int count,
                                                code<typename O::format::scale> const& scale, int col,
                                                O const& how, tensor_scale t, std::uint64_t index, W const* words,
                                                code<typename O::format::element>* codes) noexcept {
  using format = typename O::format;
  if (is_nan_scale<format>(scale)) {
    for (int i = 0; i < count; ++i) codes[i] = 0;
    return;
  }
  scale_inverse const inverse = inverse_of<format>(scale, t, col);
  if constexpr (requires { typename format::alternative; }) {
    if (is_alternative<format>(scale)) {
      encode_alike<typename format::alternative, N>(values, count, inverse, format::alternative_unit, how, index, words,
                                                    codes);
      return;
    }
  }
  encode_alike<typename format::element, N>(values, count, inverse, 1.0f, how, index, words, codes);
}

/// What the values of a run are multiplied with in registers; `refused` is 1 where that would not give the exact codes.
struct run_factor {
  float value;
  std::uint32_t refused;
};

/// The inverse of a scale as a multiplier: a power of two multiplies exactly while what it takes below the normal
/// floats is far below the least code. Without branches for scales that are numbers.
template <class O>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr run_factor encoding_factor(
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

/// The factors of the runs of a span, at most Width columns.
template <int Width, class O>
struct run_factors {
  static constexpr int alike = factor_cols<typename O::format>;
  float values[Width / alike] = {};
  std::uint32_t refused[Width / alike] = {}, any_refused = 0;

  LOFT_HOST_DEVICE constexpr run_factors(int count, code<typename O::format::scale> const* scales,
                                         tensor_scale t) noexcept {
    constexpr int cols = O::format::shape.cols;
    // Inlined everywhere: else a large file has a call a run here, and no vectors.
    auto const find = [&](int g) __attribute__((always_inline)) {
      auto const factor = encoding_factor<O>(scales[g * alike / cols], t, g * alike % cols);
      values[g] = factor.value;
      refused[g] = factor.refused;
      any_refused |= factor.refused;
    };
    for_each_index<Width / alike>(count / alike, find);
  }
};

/// Encodes `count` neighbours of one row, from the first column of a block, at most Width; their element indices count
/// up from `index`, and `scales` has one entry a block, `factors` what follows from them. Packed: the codes are packed
/// into bytes, else C is a code. `ahead`: the numbers that will be asked for soon; only a hint.
template <int Width, bool Packed, class O, class T, class C, class A = T>
LOFT_HOST_DEVICE constexpr void encode_span(T const* values, int count,
                                            code<typename O::format::scale> const* scales,
                                            run_factors<Width, O> const& factors, O const& how,
                                            tensor_scale t, std::uint64_t index, C* out,
                                            A const* ahead = nullptr) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  using rounding = std::remove_cvref_t<decltype(how.rounding)>;
  constexpr int alike = factor_cols<format>, cols = format::shape.cols, bits = element::spec.bits();
  if constexpr (Packed && bits != 4 && bits != 8) {
    code<element> codes[Width];
    encode_span<Width, false>(values, count, scales, factors, how, t, index, codes, ahead);
    pack<element>(codes, count, out);
  } else {
    constexpr bool random = has_random_words<rounding>;
    rounding_word<rounding> words[random ? Width : 1] = {};
    fill_rounding_words(how.rounding, index, count, words);
    constexpr bool powers_of_two = is_power_of_two_format<typename format::scale> && !has_constant<O>;
    int const done = native::encode_groups<element, given_rounding<rounding>, alike, Packed, powers_of_two>(
        values, factors.values, count / alike, words, ahead, static_cast<int>(sizeof(A)), out);
    if (done * alike == count && factors.any_refused == 0) return;
    for (int i = 0; i < count; i += alike) {
      if (i / alike < done && factors.refused[i / alike] == 0) continue;
      int const here = min(alike, count - i);
      code<element> unpacked_codes[Packed ? alike : 1];
      code<element>* codes = unpacked_codes;
      if constexpr (!Packed) codes = out + i;
      encode_by_scale<alike>(values + i, here, scales[i / cols], i % cols, how, t,
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
  float element = 0;
  if constexpr (has_branchless_decode<typename B::element>) element = decode_branchless<typename B::element>(c);
  else element = decode<typename B::element>(c);
  if constexpr (requires { typename B::alternative; })
    if (is_alternative<B>(scale)) element = exact::multiply(decode<typename B::alternative>(c), B::alternative_unit);
  float value = 0;
  if constexpr (is_power_of_two_format<typename B::scale>) {
    value = scale_by_power_of_two(element, static_cast<int>(scale) - B::scale::spec.bias);
  } else {
    value = exact::multiply(element, factor_of<B>(scale, col));
  }
  return tensor_decode == 1.0f ? value : exact::multiply(value, tensor_decode);
}

/// The factor of a run in registers: not refused where decoding is one multiplication by it, because no value leaves
/// the normal floats.
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr run_factor decoding_factor(code<typename B::scale> const& scale,
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
LOFT_HOST_DEVICE constexpr void decode_span(C const* in, int count, code<typename B::scale> const* scales,
                                            float tensor_decode, float* values) noexcept {
  using element = typename B::element;
  constexpr int alike = factor_cols<B>, cols = B::shape.cols, bits = element::spec.bits();
  if constexpr (Packed && bits != 4 && bits != 8) {
    code<element> codes[Width];
    loft::unpack<element>(in, count, codes);
    decode_span<B, Width, false>(codes, count, scales, tensor_decode, values);
  } else {
    float factors[Width / alike] = {};
    std::uint32_t refused[Width / alike] = {}, any_refused = 0;
    int const groups = count / alike;
    auto const find_factor = [&](int g) __attribute__((always_inline)) {  // as in run_factors
      auto const factor = decoding_factor<B>(scales[g * alike / cols], g * alike % cols);
      factors[g] = factor.value;
      refused[g] = factor.refused;
      any_refused |= factor.refused;
    };
    for_each_index<Width / alike>(groups, find_factor);
    int const done = native::decode_groups<element, alike, Packed>(in, factors, tensor_decode, groups, values);
    if (done * alike == count && any_refused == 0) return;
    for (int i = 0; i < count; i += alike) {
      if (i / alike < done && refused[i / alike] == 0) continue;
      int const here = min(alike, count - i);
      code<element> unpacked_codes[Packed ? alike : 1];
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
                                           code<typename O::format::scale> scale, O const& how,
                                           tensor_scale t, std::uint64_t index) noexcept {
  using format = typename O::format;
  using error = typename error_of<std::remove_cvref_t<decltype(how.rule)>>::type;
  code<typename format::element> codes[format::shape.cols];
  run_factors<format::shape.cols, O> const factors{count, &scale, t};
  encode_span<format::shape.cols, false>(values, count, &scale, factors, how, t, index, codes);
  for (int i = 0; i < count; ++i) {
    float const decoded = exact::opaque(decode_element<format>(codes[i], scale, i, t.decode));
    total = exact::opaque(error::add(total, exact::opaque(exact::subtract(decoded, values[i]))));
  }
  return total;
}

/// a < b for errors, which are not negative: as bits, so that no build flushes them. A NaN is less than nothing.
LOFT_HOST_DEVICE constexpr bool is_less_error(float a, float b) noexcept {
  return bit_cast<std::uint32_t>(a) < bit_cast<std::uint32_t>(b);
}

/// scales[b] = the scale of the candidate with the least error over block b, of `blocks` <= Blocks; the first of
/// equals. `scale_for(b, candidate)` is that scale, and `visit(f)` calls f(b, values, count, index) for every row of
/// every block, the rows of a block in order; see add_error for the last three.
template <int Blocks, class O, class Scales, class Visit>
LOFT_HOST_DEVICE constexpr void choose_by_error(int blocks, Scales scale_for, Visit visit, O const& how,
                                                tensor_scale t,
                                                code<typename O::format::scale>* scales) noexcept {
  float least[Blocks] = {};
  for (int candidate = 0; candidate < candidates<O>; ++candidate) {
    float error[Blocks] = {};
    visit([&](int b, float const* values, int count, std::uint64_t index) {
      error[b] = add_error(error[b], values, count, scale_for(b, candidate), how, t, index);
    });
    for (int b = 0; b < blocks; ++b) {
      if (candidate != 0 && !is_less_error(error[b], least[b])) continue;
      least[b] = error[b];
      scales[b] = scale_for(b, candidate);
    }
  }
}

}  // namespace detail
}  // namespace loft

#endif
