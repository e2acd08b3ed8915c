// SPDX-License-Identifier: Apache-2.0
// Blocks that share a scale: the BlockFormat concept, the catalogue of block formats, operand<>, and quantize_block.
// Source: OCP MX 1.0 section 5.2 and 6.3; NVFP4: arXiv 2509.25149 section 2; design decisions 7, 8 and 10.
#ifndef LOFT_BLOCK_HPP
#define LOFT_BLOCK_HPP

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/config.hpp"
#include "loft/convert.hpp"
#include "loft/formats.hpp"
#include "loft/lanes.hpp"
#include "loft/minifloat.hpp"
#include "loft/rotation.hpp"
#include "loft/rounding.hpp"
#include "loft/scaling.hpp"

namespace loft {

struct block_shape {
  int rows, cols;
};

/// A block format is a struct that names its element format, its scale format and the shape of its blocks; `two_level` is
/// its default rule where `has_tensor_scale` is true, see below. A const-qualified one means the same format, read-only.
template <class B>
concept BlockFormat = requires {
  requires Format<typename B::element>;
  requires Format<typename B::scale>;
  { B::shape } -> std::convertible_to<block_shape>;
  requires B::shape.rows >= 1 && B::shape.cols >= 1;
  // A block's row fills whole bytes, so that neighbouring blocks never share one.
  requires B::shape.cols * B::element::spec.bits() % 8 == 0;
};

/// True for the formats with a float scale for the whole tensor (member `has_tensor_scale`).
template <class B>
inline constexpr bool has_tensor_scale = requires { requires B::has_tensor_scale; };

// The catalogue. OCP MX formats: 32 elements share a power of two.
struct mxfp4 { using element = e2m1; using scale = e8m0; static constexpr block_shape shape{1, 32}; };
struct mxfp8_e4m3 { using element = e4m3; using scale = e8m0; static constexpr block_shape shape{1, 32}; };
struct mxfp8_e5m2 { using element = e5m2; using scale = e8m0; static constexpr block_shape shape{1, 32}; };

// NVFP4: 16 elements share an E4M3 scale, and the tensor has a float.
struct nvfp4 {
  using element = e2m1;
  using scale = ue4m3;
  static constexpr block_shape shape{1, 16};
  static constexpr bool has_tensor_scale = true;
};

/// The format B on N x N tiles. Codes and scales of the transpose are the transposed codes and scales.
template <BlockFormat B, int N>
struct square {
  using element = typename B::element;
  using scale = typename B::scale;
  static constexpr block_shape shape{N, N};
  static constexpr bool has_tensor_scale = loft::has_tensor_scale<B>;
};

/// Every block format of the catalogue.
using all_block_formats = type_list<mxfp4, mxfp8_e4m3, mxfp8_e5m2, nvfp4>;

/// Bits an element costs, its share of the block scale included.
template <BlockFormat B>
inline constexpr double bits_per_element =
    B::element::spec.bits() + static_cast<double>(sizeof(code<typename B::scale>) * 8) / (B::shape.rows * B::shape.cols);

/// The rule a block format is quantized with when none is named: ocp_floor for power-of-two scales, two_level for others.
template <BlockFormat B>
using default_rule = std::conditional_t<detail::is_power_of_two_format<typename B::scale>, ocp_floor, two_level>;

/// What a block does with values that are not finite. propagate: a NaN or an infinity gives the block a NaN scale.
/// saturate: infinities count as the largest finite float; a NaN still gives a NaN scale.
enum class nonfinite { propagate, saturate };

/// How one operand is quantized: its format, and the choices that change what its bits are.
template <BlockFormat B, class Rule = default_rule<B>, Rounding R = nearest_even, class Rotation = no_rotation,
          nonfinite N = nonfinite::propagate>
struct operand {
  static_assert(ScaleRule<Rule, B>, "operand: the rule does not give a scale of this block format");
  static_assert(loft::Rotation<Rotation>, "operand: the rotation needs size, apply and invert");
  static_assert(B::scale::spec.has_nan(), "operand: the scale format needs a NaN, to mark blocks with NaN or infinity");
  using format = std::remove_const_t<B>;
  static constexpr nonfinite policy = N;
  Rule rule{};
  R rounding{};
  Rotation rotation{};
};

/// One block, unpacked: a code an element in row-major order, and the scale they share.
template <BlockFormat B>
struct block {
  code<typename B::element> codes[B::shape.rows * B::shape.cols];
  code<typename B::scale> scale;
};

namespace detail {

template <class T>
LOFT_HOST_DEVICE constexpr float to_float(T x) noexcept {
  static_assert(std::is_same_v<T, float> || (EncodeSource<T> && !std::is_same_v<T, double>),
                "tensors hold float or a minifloat: a block maximum is a float");
  return static_cast<float>(x);
}

/// The largest magnitude of `count` values as float bits, which order like the values; a NaN is larger than infinity.
template <int N>
LOFT_HOST_DEVICE constexpr std::uint32_t amax_bits(float const* values, int count) noexcept {
  std::uint32_t result = 0;
  for_lanes<N>(count, [&](int i) { result = max(result, magnitude_bits(values[i])); });
  return result;
}

/// A value as a block sees it: nonfinite::saturate takes an infinity for the largest finite float.
template <nonfinite N>
LOFT_HOST_DEVICE constexpr float admit(float value) noexcept {
  if (N == nonfinite::saturate && magnitude_bits(value) == float_infinity)
    return bit_cast<float>(bit_cast<std::uint32_t>(value) - 1);
  return value;
}

/// The scale of a block from the largest magnitude of its values.
template <class Operand>
LOFT_HOST_DEVICE constexpr auto scale_of(std::uint32_t amax, Operand const& how, tensor_scale t) noexcept {
  using scale = typename Operand::format::scale;
  if (Operand::policy == nonfinite::saturate && amax == float_infinity) amax = float_max;
  if (amax >= float_infinity) return static_cast<code<scale>>(scale::spec.nan_code());
  return how.rule.template scale<typename Operand::format>(bit_cast<float>(amax), t);
}

/// What an element is divided by, ready for use: the power of two as its exponent, any other scale as a multiplier.
struct scale_inverse {
  int exponent;
  float multiplier;
};

/// The inverse of a scale, from its code: what decoding will multiply with, never the real number the code stands for.
/// A scale of 0 makes every element 0, the sign kept.
template <Format F>
LOFT_HOST_DEVICE constexpr scale_inverse invert_scale(code<F> scale, tensor_scale t) noexcept {
  if constexpr (is_power_of_two_format<F>) return {static_cast<int>(scale) - F::spec.bias, 1.0f};
  float const value = decode<F>(scale);
  if (magnitude_bits(value) == 0) return {0, 0.0f};
  float const inverse = native::divide(1.0f, native::multiply(value, t.decode));
  return {0, bit_cast<float>(min(magnitude_bits(inverse), float_max))};
}

/// codes[i] = what rounding_of(i) makes of values[i] over the scale: the lanes where they serve, else encode itself.
template <Format F, int N, class Values, class Roundings>
LOFT_HOST_DEVICE constexpr void encode_lanes(Values value_of, int count, int exponent, Roundings rounding_of, std::uint64_t index,
                                             code<F>* codes) noexcept {
  if (exponent >= least_lane_scale<F>) {
    for_lanes<N>(count, [&](int i) {
      codes[i] = encode_lane<F>(value_of(i), exponent, rounding_of(i), index + static_cast<std::uint64_t>(i));
    });
  } else {
    for (int i = 0; i < count; ++i)
      codes[i] = encode_scaled<F, overflow::saturate>(value_of(i), exponent, rounding_of(i), index + static_cast<std::uint64_t>(i));
  }
}

/// Encodes `count` neighbours of one row of a block, whose element indices count up from `index`.
template <class Operand>
LOFT_HOST_DEVICE constexpr void encode_run(float const* values, int count, code<typename Operand::format::scale> scale,
                                           Operand const& how, tensor_scale t, std::uint64_t index,
                                           code<typename Operand::format::element>* codes) noexcept {
  using format = typename Operand::format;
  using element = typename format::element;
  using rounding = std::remove_cvref_t<decltype(how.rounding)>;
  if (format::scale::spec.is_nan(scale)) {
    for (int i = 0; i < count; ++i) codes[i] = 0;
    return;
  }
  auto const inverse = invert_scale<typename format::scale>(scale, t);
  auto const value_of = [&](int i) {
    float const value = admit<Operand::policy>(values[i]);
    return is_power_of_two_format<typename format::scale> ? value : value * inverse.multiplier;
  };
  if constexpr (requires { typename rounding::given_word; }) {
    std::uint32_t words[format::shape.cols];
    fill_random_bits<rounding::bits, typename rounding::generator>(how.rounding.seed, how.rounding.stream, index, count, words);
    encode_lanes<element, format::shape.cols>(value_of, count, inverse.exponent,
                          [&](int i) { return typename rounding::given_word{words[i]}; }, index, codes);
  } else {
    encode_lanes<element, format::shape.cols>(value_of, count, inverse.exponent, [&](int) { return how.rounding; }, index, codes);
  }
}

/// The value of one element: code times block scale exactly, then times the tensor's scale, rounded once.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr float decode_element(code<typename B::element> c, code<typename B::scale> scale,
                                                float tensor_decode) noexcept {
  float const element = decode<typename B::element>(c);
  float value = 0;
  if constexpr (is_power_of_two_format<typename B::scale>) {
    if (B::scale::spec.is_nan(scale)) return bit_cast<float>(float_nan);
    value = scale_by_power_of_two(element, static_cast<int>(scale) - B::scale::spec.bias);
  } else {
    value = native::multiply(element, decode<typename B::scale>(scale));
  }
  return has_tensor_scale<B> ? native::multiply(value, tensor_decode) : value;
}

/// values[i] = decode_element(codes[i], ...) for one row of a block.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr void decode_run(code<typename B::element> const* codes, int count, code<typename B::scale> scale,
                                           float tensor_decode, float* values) noexcept {
  using element = typename B::element;
  constexpr auto spec = element::spec;
  // Where no value leaves the normal floats, decoding is one multiplication by the scale.
  constexpr bool simple = spec.bias < 127;
  constexpr int least = -126 - (spec.min_exponent() - spec.mantissa_bits), most = 127 - spec.max_exponent() - 1;
  int const exponent = static_cast<int>(scale) - B::scale::spec.bias;
  bool const in_range = !is_power_of_two_format<typename B::scale> || (exponent >= least && exponent <= most);
  if (simple && in_range && !B::scale::spec.is_nan(scale)) {
    float const factor = decode<typename B::scale>(scale);
    for_lanes<B::shape.cols>(count, [&](int i) {
      float const value = native::opaque(decode_lane<element>(codes[i]) * factor);
      values[i] = has_tensor_scale<B> ? value * tensor_decode : value;
    });
  } else {
    for (int i = 0; i < count; ++i) values[i] = decode_element<B>(codes[i], scale, tensor_decode);
  }
}

}  // namespace detail

/// Quantizes one block: what a kernel calls with values in registers. Knows nothing of threads, allocates nothing.
///
/// in: `count` values in row-major order, `count` <= rows * cols; the missing ones count as zeros. `t`: the tensor's scale, 1
/// where the format has none. `first_index`: the tensor index of the first value; the next row's is `row_pitch` further.
/// out: codes and scale; codes of missing values are 0. rounds: once an element, after the division by the decoded scale,
/// which is exact for power-of-two scales and one float multiplication for others. A NaN or an infinity: see `nonfinite`.
/// A rotation must fit the block: its size divides the block's columns, and `count`. source: design section 2, decisions 7 to 10.
template <class Operand, class T>
LOFT_HOST_DEVICE constexpr block<typename Operand::format> quantize_block(
    T const* values, int count, Operand const& how, tensor_scale t = {}, std::uint64_t first_index = 0,
    std::int64_t row_pitch = Operand::format::shape.cols) noexcept {
  using format = typename Operand::format;
  constexpr int cols = format::shape.cols, rows = format::shape.rows, size = decltype(how.rotation)::size;
  static_assert(cols % size == 0, "quantize_block: a rotation longer than the block's rows is applied to the run before");
  float work[rows * cols] = {};
  for (int i = 0; i < count; ++i) work[i] = detail::admit<Operand::policy>(detail::to_float(values[i]));
  if constexpr (size > 1)
    for (int i = 0; i < count; i += size) how.rotation.apply(work + i);
  block<format> result{};
  result.scale = detail::scale_of(detail::amax_bits<rows * cols>(work, count), how, t);
  for (int first = 0; first < count; first += cols)
    detail::encode_run(work + first, detail::min(cols, count - first), result.scale, how, t,
                       first_index + static_cast<std::uint64_t>(first / cols * row_pitch), result.codes + first);
  return result;
}

}  // namespace loft

#endif
