// SPDX-License-Identifier: Apache-2.0
// What quantizing did to a tensor: crest factors, lost elements, the error in parts; and what noise.hpp compares.
// Source: arXiv 2605.20402 for the three parts of the error (scale bias, dead zone, grid noise); the rest is textbook.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/packing.hpp"
#include "loft/block/operand.hpp"
#include "loft/block/rules.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/tensor/block_walk.hpp"
#include "loft/tensor/quantize.hpp"
#include "loft/tensor/view.hpp"
#include "loft/train/noise.hpp"

namespace loft {

/// The crest factor of a block is its largest magnitude over its root mean square: 1 where all magnitudes are equal,
/// sqrt(n) where one of n values is not 0. The larger it is, the fewer codes are left for most values.
struct crest_factors {
  double mean = 0, largest = 0;
  std::int64_t blocks = 0;    ///< the blocks that have one
  std::int64_t left_out = 0;  ///< blocks of zeros, and with NaN or infinity
};

/// The crest factors of a tensor's blocks, as its quantizer sees them: after the operand's rotation.
///
/// in: as `quantize`. out: mean and maximum over the blocks; all 0 where none has one. Sums of squares are per block,
/// in its row-major order; the mean's sum is over blocks in order. error: a few ulps of a double beside the rotation's.
template <Operand O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status crest_factor(matrix_view<T> in, crest_factors& out,
                                                             O const& how = detail::default_operand<O>()) noexcept {
  using format = typename O::format;
  constexpr int width = detail::slice_width<O>, cols = format::shape.cols, blocks = width / cols;
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  out = {};
  double sum = 0;
  for (detail::slices<O> at{in.rows, in.cols, false}; at.next();) {
    std::uint32_t amax[blocks] = {};
    double squares[blocks] = {};
    for (std::int64_t row = at.row; row < at.end; ++row) {
      float values[width];
      detail::load_slice<width>(&in(row, at.first), in.col_stride, at.count, how, values);
      for (int i = 0; i < at.count; ++i) {
        amax[i / cols] = detail::max(amax[i / cols], detail::magnitude_bits(values[i]));
        detail::add_to(squares[i / cols], detail::squared_difference(values[i], 0));
      }
    }
    for (int b = 0; b * cols < at.count; ++b) {
      if (amax[b] == 0 || amax[b] >= detail::float_infinity) {
        ++out.left_out;
        continue;
      }
      auto const size = static_cast<double>((at.end - at.row) * detail::min(cols, at.count - b * cols));
      double const factor = detail::widen(bit_cast<float>(amax[b])) / detail::newton_sqrt(squares[b] / size);
      out.largest = detail::max(out.largest, factor);
      detail::add_to(sum, factor);
      ++out.blocks;
    }
  }
  out.mean = detail::ratio_or(sum, static_cast<double>(out.blocks), 0);
  return status::ok;
}

namespace detail {

/// What became of one element. A value that became 0 is `flushed`, whatever its code; one is `saturated` whose code is
/// the largest finite one and whose magnitude is above what that decodes to; `lost` are those that stand outside all
/// sums, because they are not finite or their block has a NaN scale.
enum class fate { kept, flushed, saturated, lost };

template <Format F> LOFT_HOST_DEVICE constexpr bool is_largest(std::uint32_t c) noexcept {
  constexpr auto spec = F::spec;
  return c == with_sign<F>(spec.max_ordinal(), false) ||
         (spec.is_signed && c == with_sign<F>(spec.max_ordinal(), true));
}

template <class B>
LOFT_HOST_DEVICE constexpr fate fate_of(float value, float decoded, std::uint32_t c,
                                        code<typename B::scale> scale) noexcept {
  if (!is_finite(value) || !is_finite(decoded)) return fate::lost;
  std::uint32_t const before = magnitude_bits(value), after = magnitude_bits(decoded);
  if (before != 0 && after == 0) return fate::flushed;
  bool largest = is_largest<typename B::element>(c);
  if constexpr (has_alternative<B>)
    if (is_alternative<B>(scale)) largest = is_largest<typename B::alternative>(c);
  return largest && before > after ? fate::saturated : fate::kept;
}

template <class O, class T, class B, class L>
LOFT_HOST_DEVICE constexpr status check_pair(matrix_view<T> in, quantized_view<B, L> quantized, O const& how) noexcept {
  static_assert(std::is_same_v<std::remove_const_t<B>, typename O::format>,
                "the operand describes another block format");
  if (status const s = check_matrix(in, false); s != status::ok) return s;
  if (in.rows != quantized.rows || in.cols != quantized.cols) return status::shape_mismatch;
  if (status const s = check_quantized(quantized); s != status::ok) return s;
  return check_operand(in.cols, how);
}

/// Calls on_block(is NaN) for each block, and on_element(row, value, decoded, fate) for each element, rows and columns
/// in order: the value that the quantizer saw, after the rotation, and what its code decodes to, before the rotation is
/// undone.
template <class O, class T, class B, ScaleLayout L, class Block, class Element>
LOFT_HOST_DEVICE constexpr void visit_elements(matrix_view<T> in, quantized_view<B, L> from, O const& how,
                                               Block&& on_block, Element&& on_element) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int width = slice_width<O>, cols = format::shape.cols;
  float tensor_decode = constant_of<O>().decode;
  if constexpr (has_tensor_scale<format>) tensor_decode = in.rows == 0 || in.cols == 0 ? 1.0f : *from.tensor_scale;
  std::int64_t const row_bytes = packed_bytes<element>(in.cols);
  scale_grid<format, L> const grid{in.rows, in.cols};
  for (std::int64_t row = 0; row < in.rows; ++row) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      int const count = static_cast<int>(min<std::int64_t>(width, in.cols - first));
      float values[width];
      code<element> codes[width];
      load_slice<width>(&in(row, first), in.col_stride, count, how, values);
      loft::unpack<element>(from.codes + row * row_bytes + packed_bytes<element>(first), count, codes);
      for (int at = 0; at < count; at += cols) {
        auto const scale = from.scales[grid.place(row, (first + at) / cols)];
        if (row % format::shape.rows == 0) on_block(is_nan_scale<format>(scale));
        for (int i = at; i < min(at + cols, count); ++i) {
          float const decoded = decode_element<format>(codes[i], scale, i - at, tensor_decode);
          on_element(row, values[i], decoded, fate_of<format>(values[i], decoded, codes[i], scale));
        }
      }
    }
  }
}

}  // namespace detail

/// What happened to the elements of a tensor, counted.
struct element_counts {
  std::int64_t elements = 0, blocks = 0;
  std::int64_t nonfinite = 0;   ///< NaN and infinite inputs, as they were given
  std::int64_t nan_blocks = 0;  ///< blocks with a NaN scale; their elements are none of the following
  std::int64_t saturated = 0;   ///< the code is the largest finite one, and the value is beyond what it decodes to
  std::int64_t flushed = 0;     ///< the value was not 0, and its code decodes to 0
};

/// Counts what became of the elements of a tensor; the values are those after the operand's rotation.
///
/// in: the tensor, and what `quantize` made of it with the same operand. out: the counts, exact. error: a
/// status other than ok, with nothing written.
template <Operand O, class T, class B, ScaleLayout L>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status count_elements(matrix_view<T> original, quantized_view<B, L> quantized,
                                                               element_counts& out,
                                                               O const& how = detail::default_operand<O>()) noexcept {
  if (status const s = detail::check_pair(original, quantized, how); s != status::ok) return s;
  out = {};
  for (std::int64_t row = 0; row < original.rows; ++row)
    for (std::int64_t col = 0; col < original.cols; ++col)
      out.nonfinite += detail::is_finite(detail::to_float(original(row, col))) ? 0 : 1;
  auto const on_block = [&](bool is_nan) {
    ++out.blocks;
    out.nan_blocks += is_nan ? 1 : 0;
  };
  detail::visit_elements(original, quantized, how, on_block, [&](std::int64_t, float, float, detail::fate what) {
    ++out.elements;
    out.saturated += what == detail::fate::saturated ? 1 : 0;
    out.flushed += what == detail::fate::flushed ? 1 : 0;
  });
  return status::ok;
}

/// The squared error in three parts. Each element belongs to one part, so nothing is counted twice and nothing is left.
struct error_parts {
  double scale_bias = 0;  ///< saturated elements: the scale is too small for them
  double dead_zone = 0;   ///< elements that became 0: they lie below half the least code, or their block's scale is 0
  double grid = 0;        ///< all others: the distance to a code on both sides of the value
  std::int64_t left_out = 0;  ///< elements that are not finite, before or after

  [[nodiscard]] LOFT_HOST_DEVICE constexpr double total() const noexcept {
    return exact::opaque(scale_bias + dead_zone) + grid;
  }
};

/// Splits the squared error of a quantized tensor, after the operand's rotation, into scale bias, dead zone and grid
/// noise.
///
/// The parts are sums over disjoint elements, and the total is their sum by definition, (scale_bias + dead_zone) +
/// grid; it is the noise of signal_to_quantization_noise summed in another order, and to the bit where the sums are
/// exact. in, out, error: as count_elements; each sum is rounded in double once a term. source: arXiv 2605.20402.
template <Operand O, class T, class B, ScaleLayout L>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status split_error(matrix_view<T> original, quantized_view<B, L> quantized,
                                                            error_parts& out,
                                                            O const& how = detail::default_operand<O>()) noexcept {
  if (status const s = detail::check_pair(original, quantized, how); s != status::ok) return s;
  out = {};
  error_parts of_row;
  std::int64_t current = 0;
  auto const close_row = [&](std::int64_t next) {
    detail::add_to(out.scale_bias, of_row.scale_bias);
    detail::add_to(out.dead_zone, of_row.dead_zone);
    detail::add_to(out.grid, of_row.grid);
    of_row = {};
    current = next;
  };
  detail::visit_elements(
      original, quantized, how, [](bool) {},
      [&](std::int64_t row, float value, float decoded, detail::fate what) {
        if (row != current) close_row(row);
        if (what == detail::fate::lost) {
          ++out.left_out;
          return;
        }
        double& part = what == detail::fate::saturated ? of_row.scale_bias
                       : what == detail::fate::flushed ? of_row.dead_zone
                                                       : of_row.grid;
        detail::add_to(part, detail::squared_difference(value, decoded));
      });
  close_row(current);
  return status::ok;
}

}  // namespace loft
