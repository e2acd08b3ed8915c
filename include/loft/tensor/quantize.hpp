// SPDX-License-Identifier: Apache-2.0
// Tensors: quantize, dequantize, fake_quantize and tensor_amax on views of matrices.
// Source: design section 3 for the interface, decisions 7 to 12 for the meaning.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/packing.hpp"
#include "loft/block/operand.hpp"
#include "loft/block/quantize_block.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/status.hpp"
#include "loft/tensor/block_walk.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/detail/explain.hpp"
#include "loft/tensor/layout.hpp"
#include "loft/tensor/quantized.hpp"
#include "loft/tensor/staging.hpp"
#include "loft/tensor/view.hpp"

namespace loft {

/// The largest finite magnitude of a tensor as `how` sees it, after its rotation: what two_level{amax} wants to know.
/// For trainers that scale by the amax of earlier steps, reduce it over ranks, or share one tensor out to threads.
///
/// in: any strides. out: 0 for an empty tensor. error: a status other than ok, with nothing written.
template <Operand O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status tensor_amax(matrix_view<T> in, O const& how, float& amax) noexcept {
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  amax = detail::finite_amax(in, how);
  return status::ok;
}
/// The same for an operand without state: tensor_amax<operand<mxfp4>>(in, amax).
template <Operand O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status tensor_amax(matrix_view<T> in, float& amax) noexcept {
  return tensor_amax(in, detail::default_operand<O>(), amax);
}

namespace detail {

/// Zeroes the padding of the scales of a range of rows, and below the last row what is left of its tile.
template <class B, ScaleLayout L>
LOFT_HOST_DEVICE constexpr void pad_scales(quantized_view<B, L> out, row_range range) noexcept {
  using grid_type = scale_grid<B, L>;
  if constexpr (grid_type::is_padded) {
    grid_type const grid{out.rows, out.cols};
    std::int64_t const last = range.first + range.count - 1, end = grid.row_of(last) + 1;
    std::int64_t const below = last + 1 == out.rows ? grid.padded_rows() : end;
    for (std::int64_t row = grid.row_of(range.first); row < below; ++row)
      for (std::int64_t col = row < end ? grid.cols : 0; col < grid.padded_cols(); ++col)
        out.scales[L::index(row, col, grid.rows, grid.cols)] = {};
  }
}

/// Writes the scales of `blocks` neighbours, from column `first` of row `row`, to their places in the layout.
template <class B, ScaleLayout L>
LOFT_HOST_DEVICE constexpr void store_scales(quantized_view<B, L> out, std::int64_t row, std::int64_t first, int blocks,
                                             code<typename B::scale> const* scales) noexcept {
  if (!L::repeats_rows && row % B::shape.rows != 0) return;
  scale_grid<B, L> const grid{out.rows, out.cols};
  if constexpr (std::is_same_v<L, row_major>) {
    auto* const to = out.scales + grid.place(row, first / B::shape.cols);
    for (int b = 0; b < blocks; ++b) to[b] = scales[b];
  } else {
    for (int b = 0; b < blocks; ++b) out.scales[grid.place(row, first / B::shape.cols + b)] = scales[b];
  }
}

}  // namespace detail

/// Quantizes a matrix: [rows, cols] -> codes, scales, tensor scale. Blocks lie along the columns.
///
/// in: any strides; float or a minifloat. `range`: the rows to work on; a computed tensor amax is always that of all
/// rows.
/// out: buffers of codes_bytes<B> bytes, at any address, and scale_count<B, L> scales, written completely for the rows
/// of the range; padding is zero; `tensor_scale` receives the decoding factor. The element index that stochastic
/// rounding sees is row * cols + col. rounds, NaN, infinity, -0: as quantize_block. An empty tensor is ok and writes
/// nothing. error: a status other than ok, with nothing written. source: design section 3.
template <Operand O, class T, ScaleLayout L = row_major>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status quantize(matrix_view<T> in, quantized_view<typename O::format, L> out,
                                                         O const& how = detail::default_operand<O>(),
                                                         row_range range = {}) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_quantized(out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  if constexpr (has_tensor_scale<format>) *out.tensor_scale = t.decode;
  detail::pad_scales(out, range);
  std::int64_t const row_bytes = packed_bytes<element>(in.cols);
  for (detail::block_walk<O, T> walk{in, range, how, t}; walk.next();) {
    walk.blocks.choose_scales();
    for (int r = 0; r < walk.rows(); ++r) {
      std::int64_t const row = walk.row() + r, first = walk.at.first;
      walk.blocks.template encode<true>(r, out.codes + row * row_bytes + packed_bytes<element>(first), walk.ahead(r));
      detail::store_scales(out, row, first, walk.blocks.block_count(), walk.blocks.stored_scales());
    }
  }
  return status::ok;
}

/// The numbers of a quantized matrix: code times scale, exactly; times the tensor's scale, rounded once; then the
/// inverse rotation; and for outputs other than float one more rounding, to nearest even.
///
/// in: as `quantize` wrote it. out: float or a minifloat, any strides that do not overlap. A block with a NaN scale is
/// all NaN. error: a status other than ok, with nothing written. source: design section 2.
template <Operand O, class B, ScaleLayout L, class T>
  requires detail::is_output<matrix_view<T>>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status dequantize(quantized_view<B, L> in, matrix_view<T> out,
                                                           O const& how = detail::default_operand<O>(),
                                                           row_range range = {}) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  static_assert(std::is_same_v<std::remove_const_t<B>, format>,
                "dequantize: the operand describes another block format");
  constexpr int width = detail::slice_width<O>, block_cols = format::shape.cols;
  if (status const s = detail::check_quantized(in); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  float const tensor_decode = has_tensor_scale<format> ? *in.tensor_scale : detail::constant_of<O>().decode;
  std::int64_t const row_bytes = packed_bytes<element>(in.cols);
  detail::scale_grid<format, L> const grid{in.rows, in.cols};
  detail::output_rows<O, T> rows{detail::submatrix(out, range.first, range.count, 0, out.cols)};
  for (detail::slices<O> at{range.count, out.cols, rows.uses_tiles()}; at.next(); rows.finish_slice(at)) {
    code<typename format::scale> scales[width / block_cols];
    for (int b = 0; b * block_cols < at.count; ++b)
      scales[b] = in.scales[grid.place(range.first + at.row, at.first / block_cols + b)];
    for (std::int64_t row = at.row; row < at.end; ++row) {
      auto const* const codes = in.codes + (range.first + row) * row_bytes + packed_bytes<element>(at.first);
      detail::decode_values<width, true>(codes, scales, tensor_decode, how, at.count, rows.place(at, row));
      rows.finish_row(at, row);
    }
  }
  return status::ok;
}

/// dequantize(quantize(in)) without the codes: what training on emulated formats computes with. `out` may be `in`
/// itself. in, out, rounds, error: as the two functions.
template <Operand O, class T, class U>
  requires detail::is_output<matrix_view<U>>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<U> out,
                                                              O const& how = detail::default_operand<O>(),
                                                              row_range range = {}) noexcept {
  if (status const s = detail::check_pair(in, out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<typename O::format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  detail::output_rows<O, U> rows{detail::submatrix(out, range.first, range.count, 0, out.cols)};
  for (detail::block_walk<O, T> walk{in, range, how, t, rows.uses_tiles()}; walk.next(); rows.finish_slice(walk.at)) {
    walk.blocks.choose_scales();
    for (int r = 0; r < walk.rows(); ++r) {
      walk.blocks.fake(r, rows.place(walk.at, walk.at.row + r), walk.ahead(r));
      rows.finish_row(walk.at, walk.at.row + r);
    }
  }
  return status::ok;
}

}  // namespace loft
