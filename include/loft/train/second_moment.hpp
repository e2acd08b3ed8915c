// SPDX-License-Identifier: Apache-2.0
// AdamW's second moments in 4 bits: unsigned elements in blocks, stored as their roots or as they are, never 0 where
// the moment was not. Source: arXiv 2607.04422 (second moments are heavy-tailed, and fragile as denominators).
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/packing.hpp"
#include "loft/block/quantize_block.hpp"
#include "loft/block/rules.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/math.hpp"
#include "loft/number/formats.hpp"
#include "loft/tensor/block_walk.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/layout.hpp"
#include "loft/tensor/quantized.hpp"
#include "loft/tensor/view.hpp"

namespace loft {

/// 32 numbers that are not negative share the least power of two under which none saturates; 4.25 bits an element.
///
/// Measured on 2^18 moments whose logarithm is normal with a deviation of 2, stored as roots: 1 / sqrt(v) errs by 9.6 %
/// on average, 11.7 % root mean square. Other elements of 4 bits in its place, as mean errors: unsigned E2M2 16 %,
/// powers of two (E4M0) 19 %, unsigned integers 26 %, and a signed E2M1 31 %.
struct mx_moment4 {
  using element = ue3m1;
  using scale = e8m0;
  using rule = ceil_scale;
  static constexpr block_shape shape{1, 32};
};

/// two_level that gives a block whose scale would underflow to 0 the least one, if it holds more than zeros.
struct nonzero_two_level {
  float amax = -1;  ///< as two_level's

  template <class B>
  LOFT_HOST_DEVICE constexpr code<typename B::scale> scale(float block_amax, tensor_scale t) const noexcept {
    auto const plain = two_level{}.scale<B>(block_amax, t);
    return detail::magnitude_bits(block_amax) == 0 ? plain : detail::max<code<typename B::scale>>(plain, 1);
  }
};

/// 16 numbers that are not negative share an E4M3 scale, and the tensor has a float; 4.5 bits an element. 1 / sqrt(v)
/// errs by 8.9 % on average on the data of mx_moment4, 10.8 % root mean square.
struct nv_moment4 {
  using element = ue3m1;
  using scale = ue4m3;
  using rule = nonzero_two_level;
  static constexpr block_shape shape{1, 16};
  static constexpr bool has_tensor_scale = true;
};

/// root: sqrt(v) is stored, and what is loaded is the stored number squared: half the binades, so that a block reaches
/// twice as far down. direct: v itself is stored, which stochastic rounding leaves without bias.
enum class moment_storage { root, direct };

/// How second moments are stored, for store_second_moment and load_second_moment.
template <Operand O = operand<mx_moment4>, moment_storage S = moment_storage::root> struct second_moment {
  static_assert(!O::format::element::spec.is_signed && O::format::element::spec.has_zero,
                "second_moment: the block format needs elements without a sign, and a zero");
  static_assert(O::format::shape.rows == 1 && decltype(O{}.rotation)::size == 1,
                "second_moment: blocks are runs of one row, and nothing rotates");
  O how{};
  /// A moment that is not 0 and would get code 0 gets code 1: a denominator is never 0 where it was not. It adds a bias
  /// to the smallest moments of a block, so direct storage without bias turns it off.
  bool round_up_from_zero = true;
};

namespace detail {

/// The number that is stored for a moment. NaN stays, and infinity unless the policy makes it the largest float; what
/// is below 0 is no moment, and counts as 0.
template <moment_storage S, nonfinite N> LOFT_HOST_DEVICE constexpr float stored_moment(float moment) noexcept {
  float const v = apply_nonfinite<N>(moment);
  std::uint32_t const bits = bit_cast<std::uint32_t>(v);
  if (magnitude_bits(v) < float_infinity && bits >= float_sign) return 0;
  return S == moment_storage::root ? square_root_of_float(v) : v;
}

template <class O, moment_storage S, class T>
LOFT_HOST_DEVICE constexpr tensor_scale moment_scale(matrix_view<T> v, second_moment<O, S> const& how) noexcept {
  if (!has_tensor_scale<typename O::format> || knows_amax(how.how)) {
    if constexpr (rule_traits_of<O>::has_amax) return scale_for_amax<O>(how.how.rule.amax);
    else return scale_for_amax<O>(0);
  }
  std::uint32_t amax = 0;  // both storages keep the order of moments
  for (std::int64_t row = 0; row < v.rows; ++row) {
    for (std::int64_t col = 0; col < v.cols; ++col) {
      std::uint32_t const bits = bit_cast<std::uint32_t>(apply_nonfinite<O::policy>(to_float(v(row, col))));
      amax = max(amax, bits < float_infinity ? bits : 0u);
    }
  }
  return scale_for_amax<O>(stored_moment<S, O::policy>(bit_cast<float>(amax)));
}

}  // namespace detail

/// Stores second moments: [rows, cols] -> codes, scales, tensor scale, in the row-major layout of quantize.
///
/// in: floats or minifloats, any strides. out: as quantize; blocks along the columns. rounds: the root once in float,
/// then as quantize_block with the element index row * cols + col. A moment that is not 0 gets code 1 at least, see
/// second_moment. -0 and negative numbers are stored as 0; a NaN or an infinity makes its block NaN, and under
/// nonfinite::saturate infinity is the largest float, in the amax too, and -infinity 0. A known amax in the rule is
/// that of the stored numbers. error: a status other than ok, with nothing written.
template <Operand O, moment_storage S, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status store_second_moment(matrix_view<T> v,
                                                                    quantized_view<typename O::format> out,
                                                                    second_moment<O, S> const& how) noexcept {
  using format = typename O::format;
  constexpr int width = format::shape.cols;
  if (status const s = detail::check_matrix(v, false); s != status::ok) return s;
  if (v.rows != out.rows || v.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_quantized(out); s != status::ok) return s;
  if (status const s = detail::check_operand(v.cols, how.how); s != status::ok) return s;
  if (v.rows == 0 || v.cols == 0) return status::ok;
  tensor_scale const t = detail::moment_scale(v, how);
  if constexpr (has_tensor_scale<format>) *out.tensor_scale = t.decode;
  std::int64_t const row_bytes = packed_bytes<typename format::element>(v.cols);
  for (std::int64_t row = 0; row < v.rows; ++row) {
    for (std::int64_t first = 0; first < v.cols; first += width) {
      int const count = static_cast<int>(detail::min<std::int64_t>(width, v.cols - first));
      float values[width];
      for (int i = 0; i < count; ++i)
        values[i] = detail::stored_moment<S, O::policy>(detail::to_float(v(row, first + i)));
      auto b = quantize_block(values, count, how.how, t, static_cast<std::uint64_t>(row * v.cols + first));
      if (how.round_up_from_zero && !detail::is_nan_scale<format>(b.scale))
        for (int i = 0; i < count; ++i)
          if (b.codes[i] == 0 && detail::magnitude_bits(values[i]) != 0) b.codes[i] = 1;
      out.scales[detail::scale_grid<format, row_major>{v.rows, v.cols}.place(row, first / width)] = b.scale;
      pack<typename format::element>(b.codes, count,
                                     out.codes + row * row_bytes + packed_bytes<typename format::element>(first));
    }
  }
  return status::ok;
}

/// Loads second moments: [rows, cols] codes -> floats that are not negative, any strides that do not overlap.
///
/// rounds: decoding as dequantize; the square once in float, at most the largest float. A code that is not 0 gives at
/// least the least normal float, 2^-126, so that no square or scale underflows to 0. A NaN scale gives NaN. error: a
/// status other than ok, with nothing written.
template <Operand O, moment_storage S, class B>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status load_second_moment(quantized_view<B> in, matrix_view<float> out,
                                                                   second_moment<O, S> const&) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int width = format::shape.cols;
  static_assert(std::is_same_v<std::remove_const_t<B>, format>,
                "load_second_moment: the operand describes another block format");
  if (status const s = detail::check_quantized(in); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (in.rows == 0 || in.cols == 0) return status::ok;
  float const tensor_decode = has_tensor_scale<format> ? *in.tensor_scale : detail::constant_of<O>().decode;
  std::int64_t const row_bytes = packed_bytes<element>(in.cols);
  for (std::int64_t row = 0; row < in.rows; ++row) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      int const count = static_cast<int>(detail::min<std::int64_t>(width, in.cols - first));
      code<element> codes[width];
      loft::unpack<element>(in.codes + row * row_bytes + packed_bytes<element>(first), count, codes);
      auto const scale = in.scales[detail::scale_grid<format, row_major>{in.rows, in.cols}.place(row, first / width)];
      for (int i = 0; i < count; ++i) {
        float const stored = detail::decode_element<format>(codes[i], scale, i, tensor_decode);
        float const v = S == moment_storage::root ? exact::multiply(stored, stored) : stored;
        std::uint32_t const bits = detail::magnitude_bits(v), least = codes[i] != 0 ? detail::float_least_normal : 0u;
        bool const is_nan = detail::is_nan_scale<format>(scale);
        out(row, first + i) =
            bit_cast<float>(is_nan ? detail::float_nan : detail::clamp(bits, least, detail::float_max));
      }
    }
  }
  return status::ok;
}

}  // namespace loft
