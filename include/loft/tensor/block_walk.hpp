// SPDX-License-Identifier: Apache-2.0
// The walk over a matrix by rows of blocks, which quantize, fake_quantize and all that look at blocks are loops over.
// Source: design section 2 (data through one block), decisions 7 to 12.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/block_row.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/status.hpp"
#include "loft/number/convert.hpp"
#include "loft/tensor/staging.hpp"
#include "loft/tensor/view.hpp"

namespace loft::detail {

template <class O> LOFT_HOST_DEVICE constexpr status check_operand(std::int64_t cols, O const& how) noexcept {
  if (cols % rotation_size<O> != 0) return status::rotation_does_not_divide;
  if constexpr (rule_traits_of<O>::has_amax)
    if (magnitude_bits(how.rule.amax) >= float_infinity) return status::invalid_amax;
  if constexpr (requires { how.rule.value; }) {
    using scale = typename O::format::scale;
    std::uint32_t const bits = bit_cast<std::uint32_t>(decode<scale>(encode<scale>(how.rule.value)));
    std::uint32_t const given = bit_cast<std::uint32_t>(how.rule.value);
    bool const positive = given != 0 && given < float_infinity;  // by bits: builds may take a subnormal number for 0
    if (!positive || bits == 0 || bits >= float_infinity) return status::invalid_scale;
  }
  return status::ok;
}

/// Walks over rows of a matrix: each step is at the blocks of one slice. A matrix whose rows are not contiguous is
/// copied tile by tile and read from the copy.
///
/// `range`: rows of the matrix, which are whole rows of blocks. `tiles`: walk tile by tile in any case, for an output
/// that is written so.
template <class O, class T> class block_walk {
 public:
  slices<O> at;
  block_row<O, std::remove_const_t<T>, slice_width<O>> blocks;

  LOFT_HOST_DEVICE constexpr block_walk(matrix_view<T> in, row_range range, O const& how, tensor_scale t,
                                        bool tiles = false) noexcept
      : at{range.count, in.cols, tiles || (stages_tiles<O> && !has_contiguous_rows(in))},
        blocks{how, t},
        in_{submatrix(in, range.first, range.count, 0, in.cols)},
        top_{range.first},
        staged_{stages_tiles<O> && !has_contiguous_rows(in)} {}

  /// Moves to the next blocks, the first ones at the first call; false behind the last.
  LOFT_HOST_DEVICE constexpr bool next() noexcept {
    if (!at.next()) return false;
    std::int64_t const first_index = row() * in_.cols + at.first;
    block_source<number> from{in_.data, in_.row_stride, in_.col_stride, static_cast<std::uint64_t>(first_index),
                              in_.cols};
    if (staged_) {
      auto const tile = at.tile_of(in_);
      auto const copy = tile_.view(tile.rows, tile.cols);
      if (at.starts_tile()) copy_by_columns(tile, copy);
      from.data = &copy(at.row_in_tile(), 0);
      from.row_stride = copy.row_stride;
      from.col_stride = 1;
    } else {
      from.data = &in_(at.row, at.first);
      if (in_.cols == 1) from.col_stride = 1;
    }
    blocks.move_to(from, rows(), at.count);
    return true;
  }
  /// The first row of the blocks in the whole matrix, and how many rows they have.
  LOFT_HOST_DEVICE constexpr std::int64_t row() const noexcept { return top_ + at.row; }
  LOFT_HOST_DEVICE constexpr int rows() const noexcept { return static_cast<int>(at.end - at.row); }

  /// What will be worked on in row `r` of the blocks a few slices on, to be fetched meanwhile.
  LOFT_HOST_DEVICE constexpr std::remove_const_t<T> const* ahead(int r) const noexcept {
    std::int64_t col = at.first + 2 * slice_width<O>, row = at.row + r;
    if (col >= in_.cols) {
      col -= in_.cols;
      row += O::format::shape.rows;
    }
    return row < in_.rows && col < in_.cols ? &in_(row, col) : in_.data;
  }

 private:
  using number = std::remove_const_t<T>;
  matrix_view<T> in_;  // the range
  std::int64_t top_;
  bool staged_;
  staged_tile<O, number> tile_;
};

/// The largest finite magnitude of a matrix after the operand's rotation.
template <class O, class T> LOFT_HOST_DEVICE constexpr float finite_amax(matrix_view<T> in, O const& how) noexcept {
  constexpr int width = slice_width<O>;
  std::uint32_t result = 0;
  for (block_walk<O, T> walk{in, {0, in.rows}, how, {}}; walk.next();) {
    for (int r = 0; r < walk.rows(); ++r) {
      float values[width];
      walk.blocks.read(r, values);
      for_each_index<width>(walk.at.count, [&](int i) {
        std::uint32_t const bits = magnitude_bits(values[i]);
        result = max(result, bits < float_infinity ? bits : 0u);
      });
    }
  }
  return bit_cast<float>(result);
}

/// The tensor's scale, from the rule's amax or from the matrix; the rule's constant where the format has none.
template <class O, class T>
LOFT_HOST_DEVICE constexpr tensor_scale choose_tensor_scale(matrix_view<T> in, O const& how) noexcept {
  if constexpr (!has_tensor_scale<typename O::format>) return constant_of<O>();
  else if constexpr (rule_traits_of<O>::has_amax)
    return scale_for_amax<O>(knows_amax(how) ? how.rule.amax : finite_amax(in, how));
  else return scale_for_amax<O>(finite_amax(in, how));
}

}  // namespace loft::detail
