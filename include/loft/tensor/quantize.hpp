// SPDX-License-Identifier: Apache-2.0
// Tensors: quantize, dequantize and fake_quantize on views of matrices.
// Source: design section 3 for the interface, decisions 7 to 12 for the meaning.
#ifndef LOFT_TENSOR_QUANTIZE_HPP
#define LOFT_TENSOR_QUANTIZE_HPP

#include <cstdint>
#include <type_traits>

#include "loft/array/packing.hpp"
#include "loft/block/operand.hpp"
#include "loft/block/quantize_block.hpp"
#include "loft/core/bits.hpp"
#include "loft/core/config.hpp"
#include "loft/tensor/block_row.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/detail/explain.hpp"
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
  amax = detail::tensor_amax(in, how);
  return status::ok;
}
/// The same for an operand without state: tensor_amax<operand<mxfp4>>(in, amax).
template <Operand O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status tensor_amax(matrix_view<T> in, float& amax) noexcept {
  return tensor_amax(in, detail::default_operand<O>(), amax);
}

/// Quantizes a matrix: [rows, cols] -> codes, scales, tensor scale. Blocks lie along the columns.
///
/// in: any strides; float or a minifloat. `range`: the rows to work on; a computed tensor amax is always that of all
/// rows.
/// out: buffers of codes_bytes<B>, at any address, and scale_count<B, L>, written completely for the rows of the
/// range; padding is zero; `tensor_scale` receives the decoding factor. The element index that stochastic rounding sees
/// is row * cols + col. rounds, NaN, infinity, -0: as quantize_block. An empty tensor is ok and writes nothing.
/// error: a status other than ok, with nothing written. source: design section 3.
template <Operand O, class T, ScaleLayout L = row_major>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status quantize(matrix_view<T> in, quantized_view<typename O::format, L> out,
                                                         O const& how = detail::default_operand<O>(),
                                                         row_range range = {}) noexcept {
  using format = typename O::format;
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_quantized(out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  if constexpr (has_tensor_scale<format>) *out.tensor_scale = t.decode;
  detail::pad_scales(out, range);
  std::int64_t const row_bytes = packed_bytes<typename format::element>(in.cols);
  auto const store = [&](std::int64_t row, std::int64_t first, int count, auto const* scales, auto encode) {
    encode(std::true_type{}, out.codes + row * row_bytes + packed_bytes<typename format::element>(first));
    detail::store_scales(out, row, first, count, scales);
  };
  detail::for_parts<O>(detail::submatrix(in, range.first, range.count, 0, in.cols), {range.first, 0, in.cols},
                       [&](auto part, detail::origin at) { detail::quantize_part(part, t, how, at, store); });
  return status::ok;
}

/// The floats of a quantized matrix: code times scale, exactly; times the tensor's scale, rounded once; then the
/// inverse rotation.
///
/// in: as `quantize` wrote it, in the same layout. out: float, any strides that do not overlap. A block with a NaN
/// scale is all NaN. error: a status other than ok, with nothing written. source: design section 2.
template <Operand O, class B, ScaleLayout L>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status dequantize(quantized_view<B, L> in, matrix_view<float> out,
                                                           O const& how = detail::default_operand<O>(),
                                                           row_range range = {}) noexcept {
  using format = typename O::format;
  using element = typename format::element;
  static_assert(std::is_same_v<std::remove_const_t<B>, format>,
                "dequantize: the operand describes another block format");
  constexpr int width = detail::span_cols<O>, blocks = width / format::shape.cols;
  if (status const s = detail::check_quantized(in); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  float const tensor_decode = has_tensor_scale<format> ? *in.tensor_scale : detail::constant_of<O>().decode;
  std::int64_t const row_bytes = packed_bytes<element>(in.cols);
  detail::scale_grid<format, L> const grid{in.rows, in.cols};
  auto const decode = [&](matrix_view<float> part, detail::origin at) {
    for (std::int64_t row = 0; row < part.rows; ++row) {
      for (std::int64_t first = 0; first < part.cols; first += width) {
        int const count = static_cast<int>(detail::min<std::int64_t>(width, part.cols - first));
        code<typename format::scale> scales[blocks];
        for (int b = 0; b < blocks && b * format::shape.cols < count; ++b)
          scales[b] = in.scales[grid.place(at.row + row, (at.col + first) / format::shape.cols + b)];
        auto const* const codes = in.codes + (at.row + row) * row_bytes + packed_bytes<element>(at.col + first);
        detail::decode_row<true>(codes, scales, tensor_decode, how, part, row, first, count);
      }
    }
  };
  detail::for_written_parts<O>(detail::submatrix(out, range.first, range.count, 0, out.cols),
                               {range.first, 0, out.cols}, decode);
  return status::ok;
}

/// dequantize(quantize(in)) without the codes: what training on emulated formats computes with. `out` may be `in`
/// itself. in, out, rounds, error: as the two functions.
template <Operand O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out,
                                                              O const& how = detail::default_operand<O>(),
                                                              row_range range = {}) noexcept {
  if (status const s = detail::check_pair(in, out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<typename O::format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  auto const fill = [&](matrix_view<float> to, detail::origin whole) {
    auto const store = [&](std::int64_t row, std::int64_t first, int count, auto const* scales, auto encode) {
      code<typename O::format::element> codes[detail::span_cols<O>];
      encode(std::false_type{}, codes);
      detail::decode_row<false>(codes, scales, t.decode, how, to, row - whole.row, first - whole.col, count);
    };
    detail::for_parts<O>(detail::submatrix(in, whole.row, to.rows, whole.col, to.cols), whole,
                         [&](auto part, detail::origin at) { detail::quantize_part(part, t, how, at, store); });
  };
  detail::for_written_parts<O>(detail::submatrix(out, range.first, range.count, 0, out.cols),
                               {range.first, 0, out.cols}, fill);
  return status::ok;
}

}  // namespace loft

#endif
