// SPDX-License-Identifier: Apache-2.0
// The BlockFormat concept, and what a block format says of its scales beside element, scale and shape.
// Source: OCP MX 1.0 section 5.2; design decisions 7 and 10.
#pragma once

#include <concepts>
#include <cstdint>

#include "loft/array/branchless.hpp"
#include "loft/block/tensor_scale.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/native/gpu/cuda.hpp"
#include "loft/native/gpu/hip.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"

namespace loft {

/// The rows and columns of a block.
struct block_shape {
  int rows, cols;
};

namespace detail {

/// True where a scale format holds powers of two and nothing else, as E8M0 does.
template <Format F> inline constexpr bool is_power_of_two_format = requires {
  requires F::spec.mantissa_bits == 0 && !F::spec.has_zero;
};

/// Neighbours in a row that share one factor: the columns of the block, or fewer where its scale has levels
/// (`factor_cols`).
template <class B>
inline constexpr int factor_cols = [] {
  if constexpr (requires { B::factor_cols; }) return B::factor_cols;
  else return B::shape.cols;
}();

/// True where the scale is a number of a format and not a record with levels.
template <class B> inline constexpr bool plain_scale = requires(code<typename B::scale> c) {
  B::scale::spec.is_nan(c);
};

/// True where a block may have elements of a second format (`alternative`), which the sign of its scale tells.
template <class B> inline constexpr bool has_alternative = requires { typename B::alternative; };

// The words in which a compiler says why a struct is no block format.
template <class B> inline constexpr bool elements_have_at_most_16_bits = B::element::spec.bits() <= 16;
// So that neighbouring blocks never share a byte, nor neighbouring columns that share a factor.
template <class B>
inline constexpr bool rows_fill_whole_bytes =
    factor_cols<B>* B::element::spec.bits() % 8 == 0 && B::shape.cols % factor_cols<B> == 0;
// A power of two acts on the exponent alone, so it has no tensor scale beside it.
template <class B>
inline constexpr bool tensor_scale_goes_with_a_mantissa =
    !(has_tensor_scale<B> && is_power_of_two_format<typename B::scale>);

}  // namespace detail

/// A block format is a struct that names its element format, its scale format and the shape of its blocks. A
/// const-qualified one means the same format, read-only.
///
/// It may also have
///   has_tensor_scale = true: the tensor has a float scale beside those of its blocks;
///   rule, rounding: what it is quantized with when nothing is named;
///   alternative, alternative_unit: a second format of elements, whose numbers count in this unit, for the blocks whose
///     scale has its sign set;
///   factor_cols, factor(scale, col), is_nan_scale, nan_scale, inverse(scale, col): for scales that are records.
template <class B>
concept BlockFormat = requires {
  requires Format<typename B::element>;
  requires Format<typename B::scale>;
  { B::shape } -> std::convertible_to<block_shape>;
  requires B::shape.rows >= 1 && B::shape.cols >= 1;
  requires detail::elements_have_at_most_16_bits<B>;
  requires detail::rows_fill_whole_bytes<B>;
  requires detail::tensor_scale_goes_with_a_mantissa<B>;
};

/// The bits an element costs, its share of the block scale included.
template <BlockFormat B>
inline constexpr double bits_per_element = B::element::spec.bits() +
                                           static_cast<double>(sizeof(code<typename B::scale>) * 8) /
                                               (B::shape.rows * B::shape.cols);

/// True where codes and scales of the transpose are the transposed codes and scales: the blocks are square and share
/// one scale.
template <BlockFormat B>
inline constexpr bool is_transposition_invariant = (B::shape.rows == B::shape.cols) && detail::plain_scale<B>;

namespace detail {

template <class B> LOFT_HOST_DEVICE constexpr bool scale_has_nan() noexcept {
  if constexpr (plain_scale<B>) return B::scale::spec.has_nan();
  else return true;
}
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr bool is_nan_scale(code<typename B::scale> scale) noexcept {
  if constexpr (plain_scale<B>) {
    constexpr auto spec = B::scale::spec;
    return spec.is_nan(scale);
  } else {
    return B::is_nan_scale(scale);
  }
}
template <class B> [[gnu::always_inline]] LOFT_HOST_DEVICE constexpr code<typename B::scale> nan_scale() noexcept {
  if constexpr (plain_scale<B>) {
    constexpr auto spec = B::scale::spec;
    return static_cast<code<typename B::scale>>(spec.nan_code());
  } else {
    return B::nan_scale();
  }
}

/// The sign of the scales of a format with two kinds of elements.
template <class B> inline constexpr std::uint32_t alternative_mask = B::scale::spec.sign_mask();

/// True where the sign of the scale says that the block's elements are of the format's `alternative`.
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr bool is_alternative(code<typename B::scale> scale) noexcept {
  if constexpr (has_alternative<B>) return (scale & alternative_mask<B>) != 0;
  else return false;
}

/// What element codes are multiplied with in decoding, tensor scale apart, in column `col` of the block.
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr float factor_of(code<typename B::scale> scale, int col) noexcept {
  if constexpr (!plain_scale<B>) {
    return B::factor(scale, col);
  } else {
    if constexpr (has_alternative<B>) scale = static_cast<code<typename B::scale>>(scale & ~alternative_mask<B>);
    if constexpr (native::has_pair_decode<typename B::scale>) {
      if (!constant_evaluated()) {
        float factor = 0, unused = 0;
        native::decode_pair<typename B::scale>(scale, factor, unused);
        return factor;
      }
    }
    if constexpr (has_branchless_decode<typename B::scale>) return decode_branchless<typename B::scale>(scale);
    else return decode<typename B::scale>(scale);
  }
}

/// What an element is divided by, ready for use: a power of two as its exponent, any other scale as a multiplier.
struct scale_inverse {
  int exponent;
  float multiplier;
};

/// The inverse of what decoding multiplies with, never of the real number the scale stands for. A scale of 0 makes
/// every element 0, the sign kept.
template <class B>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr scale_inverse inverse_of(code<typename B::scale> scale,
                                                                           tensor_scale t, int col) noexcept {
  if constexpr (requires { B::inverse(scale, col); }) {
    return {0, B::inverse(scale, col)};
  } else if constexpr (is_power_of_two_format<typename B::scale>) {
    return {static_cast<int>(scale) - B::scale::spec.bias, t.encode};
  } else {
    float const factor = factor_of<B>(scale, col);
    float const inverse = exact::reciprocal(exact::multiply(factor, t.decode));
    return {0, magnitude_bits(factor) == 0 ? 0.0f : inverse};
  }
}

}  // namespace detail
}  // namespace loft
