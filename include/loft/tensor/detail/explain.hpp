// SPDX-License-Identifier: Apache-2.0
// What a compiler says about calls of quantize, dequantize, fake_quantize and tensor_amax that cannot be meant.
// Source: design decision 15: misuse that types can show does not compile, with a sentence that says why.
//
// Each function here stands beside the one of its name, takes only what that one does not, and has no body but the
// sentences. Requirements that ask whether a call compiles therefore find that it does.
#pragma once

#include <type_traits>

#include "loft/block/catalogue.hpp"
#include "loft/block/operand.hpp"
#include "loft/core/status.hpp"
#include "loft/tensor/layout.hpp"
#include "loft/tensor/quantized.hpp"
#include "loft/tensor/view.hpp"

namespace loft {
namespace detail {

template <class V> inline constexpr bool is_matrix = false;
template <class T> inline constexpr bool is_matrix<matrix_view<T>> = true;

/// True for matrices that numbers can be written to: of float or of a minifloat.
template <class V> inline constexpr bool is_output = false;
template <class T>
inline constexpr bool is_output<matrix_view<T>> = EncodeSource<T> && !std::is_same_v<T, double> && !std::is_const_v<T>;

template <class V> inline constexpr bool is_quantized = false;
template <class B, class L> inline constexpr bool is_quantized<quantized_view<B, L>> = true;
template <class V> inline constexpr bool is_read_only = false;
template <class B, class L> inline constexpr bool is_read_only<quantized_view<B const, L>> = true;

/// True where Q is a view of a tensor in the format of O; without an operand, of any tensor.
template <class Q, class O> inline constexpr bool holds_format_of = false;
template <class B, class L, class O>
inline constexpr bool holds_format_of<quantized_view<B, L>, O> = [] {
  if constexpr (Operand<O>) return std::is_same_v<std::remove_const_t<B>, typename O::format>;
  else return true;
}();

/// Stands for an operand that is left out, and is never called.
template <class O> LOFT_HOST_DEVICE O const& some_operand() noexcept;

// What the functions beside these take. The types of other libraries are left to the overloads for them.
template <class Out, class O>
inline constexpr bool quantize_takes = (Operand<O> && holds_format_of<Out, O> && !is_read_only<Out>);
template <class In, class Out, class O>
inline constexpr bool dequantize_takes = (Operand<O> && is_quantized<In> && is_output<Out>);
template <class Out, class O> inline constexpr bool fake_quantize_takes = (Operand<O> && is_output<Out>);
template <class V> inline constexpr bool is_view = is_matrix<V> || is_quantized<V>;
template <class In, class Out>
inline constexpr bool is_explained = is_view<In> && (is_view<Out> || std::is_pointer_v<Out>);

template <class O> LOFT_HOST_DEVICE constexpr void explain_operand() noexcept {
  static_assert(!BlockFormat<O>, "this is a block format where an operand belongs: pass operand<format>{}");
  static_assert(!ScaleLayout<O>,
                "this is a layout where an operand belongs: layouts are part of the view's type, quantized_view<B, L>");
  constexpr bool is_known = BlockFormat<O> || ScaleLayout<O> || Operand<O>;
  static_assert(is_known, "this describes no operand; a plan has recipes, a recipe products, a product two operands");
}

/// What a call that reads a matrix and writes a quantized tensor says, or the reverse.
template <class Q, class O> LOFT_HOST_DEVICE constexpr void explain_quantized() noexcept {
  static_assert(is_quantized<Q>,
                "this is no quantized_view, which holds codes and scales: a quantized_tensor gives one with view()");
  static_assert(!is_quantized<Q> || holds_format_of<Q, O>,
                "this quantized_view is of another block format than the operand");
}

}  // namespace detail

template <class O, class T, class Out>
  requires(!detail::quantize_takes<Out, O>)
[[nodiscard]] LOFT_HOST_DEVICE constexpr status quantize(matrix_view<T>, Out const&,
                                                         O const& = detail::some_operand<O>(),
                                                         row_range = {}) noexcept {
  detail::explain_operand<O>();
  detail::explain_quantized<Out, O>();
  static_assert(!detail::is_read_only<Out>, "quantize writes, and this quantized_view only reads: <B>, not <B const>");
  return status::ok;
}

template <class O, class In, class Out>
  requires(detail::is_explained<In, Out> && !detail::dequantize_takes<In, Out, O>)
[[nodiscard]] LOFT_HOST_DEVICE constexpr status dequantize(In const&, Out const&, O const& = detail::some_operand<O>(),
                                                           row_range = {}) noexcept {
  detail::explain_operand<O>();
  detail::explain_quantized<In, O>();
  static_assert(detail::is_output<Out>,
                "dequantize writes a matrix of float or of a minifloat: its output is a matrix_view<float>, or of "
                "bf16_t, fp16_t");
  return status::ok;
}

template <class O, class T, class Out>
  requires(!detail::fake_quantize_takes<Out, O>)
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T>, Out const&,
                                                              O const& = detail::some_operand<O>(),
                                                              row_range = {}) noexcept {
  detail::explain_operand<O>();
  static_assert(detail::is_output<Out>,
                "fake_quantize writes a matrix of float or of a minifloat: its output is a matrix_view<float>, or of "
                "bf16_t, fp16_t");
  return status::ok;
}

template <class O, class T>
  requires(!Operand<O>)
[[nodiscard]] LOFT_HOST_DEVICE constexpr status tensor_amax(matrix_view<T>, O const&, float&) noexcept {
  detail::explain_operand<O>();
  return status::ok;
}

template <class O, class T, class Out, ScaleLayout L>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status quantize(matrix_view<T>, Out const&, O const&, L,
                                                         row_range = {}) noexcept {
  static_assert(!ScaleLayout<L>, "quantize: the layout of scales is part of the view's type, quantized_view<B, L>");
  return status::ok;
}
template <class O, class B, class View, class T, ScaleLayout L>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status dequantize(quantized_view<B, View>, matrix_view<T>, O const&, L,
                                                           row_range = {}) noexcept {
  static_assert(!ScaleLayout<L>, "dequantize: the layout of scales is part of the view's type, quantized_view<B, L>");
  return status::ok;
}

}  // namespace loft
