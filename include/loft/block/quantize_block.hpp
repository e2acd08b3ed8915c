// SPDX-License-Identifier: Apache-2.0
// One block of an operand, quantized: quantize_block.
// Source: design section 2 (data through one block) and decisions 7, 8 and 10.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/block_row.hpp"
#include "loft/block/catalogue.hpp"
#include "loft/block/operand.hpp"

namespace loft {

/// One block, unpacked: a code an element in row-major order, and the scale they share.
template <BlockFormat B>
struct block {
  code<typename B::element> codes[B::shape.rows * B::shape.cols];
  code<typename B::scale> scale;
};

namespace detail {

/// What quantize_block takes for a tensor's scale that is left out.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr tensor_scale no_tensor_scale() noexcept {
  static_assert(!has_tensor_scale<B>,
                "quantize_block: this block format has a scale for the whole tensor: pass tensor_scale_for<B>(amax)");
  return {};
}

}  // namespace detail

/// Quantizes one block: what a kernel calls with values in registers. Knows nothing of threads, allocates nothing.
///
/// in: `count` values in row-major order, `count` <= rows * cols; the missing ones count as zeros. `t`: the tensor's
/// scale; where the format has none it may be left out, and is not looked at. `first_index`: the tensor index of the first value; the next row's
/// is `row_pitch` further.
/// out: codes and scale; codes of missing values are 0. rounds: once an element, after the division by the decoded
/// scale, which is exact for power-of-two scales and one float multiplication for others. A NaN or an infinity: see
/// `nonfinite`. A rotation must fit the block: its size divides the block's columns, and `count`. source: design
/// section 2, decisions 7 to 10.
template <Operand O, class T>
LOFT_HOST_DEVICE constexpr block<typename O::format> quantize_block(
    T const* values, int count, O const& how, tensor_scale t = detail::no_tensor_scale<typename O::format>(),
    std::uint64_t first_index = 0, std::int64_t row_pitch = O::format::shape.cols) noexcept {
  using format = typename O::format;
  constexpr int cols = format::shape.cols, rows = format::shape.rows, size = decltype(how.rotation)::size;
  static_assert(cols % size == 0,
                "quantize_block: a rotation longer than the block's rows is applied to the run before");
  static_assert(cols % detail::correction_group<O> == 0,
                "quantize_block: this rule corrects the scales of several blocks together: quantize does, or "
                "quantize_lanes");
  if constexpr (!has_tensor_scale<format>) t = detail::constant_of<O>();
  block<format> result{};
  detail::block_row<O, std::conditional_t<rows == 1, T, float>, cols> row{how, t};
  if constexpr (rows == 1) {
    row.move_to({values, cols, 1, first_index, row_pitch}, 1, count);
    row.choose_scales();
    row.template encode<false>(0, result.codes, values);
  } else {
    float padded[rows * cols] = {};
    for (int i = 0; i < count; ++i) padded[i] = detail::to_float(values[i]);
    int const filled = (count + cols - 1) / cols;
    row.move_to({padded, cols, 1, first_index, row_pitch}, filled, cols);
    row.choose_scales();
    for (int r = 0; r < filled; ++r) row.template encode<false>(r, result.codes + r * cols, padded);
  }
  result.scale = row.stored_scales()[0];
  return result;
}

}  // namespace loft
