// SPDX-License-Identifier: Apache-2.0
// One block of an operand, quantized: quantize_block.
// Source: design section 2 (data through one block) and decisions 7, 8 and 10.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/block_values.hpp"
#include "loft/block/catalogue.hpp"
#include "loft/block/correction.hpp"
#include "loft/block/elements.hpp"
#include "loft/block/operand.hpp"
#include "loft/block/scale_chooser.hpp"
#include "loft/native/gpu/device.hpp"

namespace loft {

/// One block, unpacked: a code an element in row-major order, and the scale they share.
template <BlockFormat B> struct block {
  code<typename B::element> codes[B::shape.rows * B::shape.cols];
  code<typename B::scale> scale;
};

namespace detail {

/// What quantize_block takes for a tensor's scale that is left out.
template <BlockFormat B> LOFT_HOST_DEVICE constexpr tensor_scale no_tensor_scale() noexcept {
  static_assert(!has_tensor_scale<B>,
                "quantize_block: this block format has a scale for the whole tensor: pass tensor_scale_for<B>(amax)");
  return {};
}

}  // namespace detail

/// Quantizes one block: what a kernel calls with values in registers. Knows nothing of threads, allocates nothing.
///
/// in: `count` values in row-major order, `count` <= rows * cols; the missing ones count as zeros. `t`: the tensor's
/// scale; where the format has none it may be left out, and is not looked at. `first_index`: the tensor index of the
/// first value; the next row's is `row_pitch` further.
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
  // The steps of block_row, apart from it: the arrays of an object with a count would not stay in a thread's registers.
  float work[rows * cols] = {};
  for (int i = 0; i < count; ++i) work[i] = detail::apply_nonfinite<O::policy>(detail::to_float(values[i]));
  if constexpr (size > 1) detail::rotate_runs(how, work, count, work);
  auto const columns = [&](int first) { return detail::min(cols, count - first); };
  auto const index_of = [&](int first) { return first_index + static_cast<std::uint64_t>(first / cols * row_pitch); };
  detail::scale_chooser<O> chooser{};
  for (int first = 0; first < count; first += cols) {
    chooser.amax[0] = detail::max(chooser.amax[0], detail::amax_bits<cols>(work + first, columns(first)));
    chooser.statistic[0].add(work + first, columns(first));
  }
  if constexpr (detail::has_candidates<O>) {
    native::rolled(detail::candidates<O>, [&](int candidate) {
      auto const scale = chooser.scale(0, candidate, how, t);
      float error = 0;
      for (int first = 0; first < count; first += cols)
        error = detail::add_error(error, work + first, columns(first), scale, how, t, index_of(first));
      chooser.compare(0, candidate, scale, error);
    });
  }
  auto const scale = chooser.best(0, how, t);
  detail::group_factors<detail::groups_in<format, cols>> factors;
  detail::find_factors<O>(cols, &scale, t, factors);
  block<format> result{};
  for (int first = 0; first < count; first += cols)
    detail::encode_slice<cols, false>(work + first, columns(first), &scale, factors, how, t, index_of(first),
                                      result.codes + first);
  result.scale = scale;
  if constexpr (detail::corrects<O>)
    detail::correct_scales<cols>(work, count, &scale, factors, how, t, first_index, &result.scale);
  return result;
}

}  // namespace loft
