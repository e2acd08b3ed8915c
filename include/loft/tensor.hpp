// SPDX-License-Identifier: Apache-2.0
// Tensors: quantize, dequantize and fake_quantize on views of matrices.
// Source: design section 3 for the interface, decisions 7 to 12 for the meaning.
#ifndef LOFT_TENSOR_HPP
#define LOFT_TENSOR_HPP

#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/block.hpp"
#include "loft/config.hpp"
#include "loft/packed.hpp"
#include "loft/view.hpp"

namespace loft {
namespace detail {

template <class Operand>
inline constexpr int rotation_size = std::remove_cvref_t<decltype(Operand{}.rotation)>::size;

template <class Operand>
LOFT_HOST_DEVICE constexpr status check_operand(std::int64_t cols, Operand const& how) noexcept {
  if (cols % rotation_size<Operand> != 0) return status::rotation_does_not_divide;
  if constexpr (requires { how.rule.amax; })
    if (magnitude_bits(how.rule.amax) >= float_infinity) return status::invalid_amax;
  return status::ok;
}

LOFT_HOST_DEVICE constexpr int least_common_multiple(int a, int b) noexcept {
  int result = a;
  while (result % b != 0) result += a;
  return result;
}

/// Columns that are worked on at once: whole blocks and whole runs of the rotation, 256 or a few more than that.
template <class Operand>
inline constexpr int span_cols = [] {
  constexpr int least = least_common_multiple(Operand::format::shape.cols, rotation_size<Operand>);
  return least * static_cast<int>(ceil_div(256, least));
}();

/// Row `row`, columns [first, first + count), as the quantizer sees them: floats, admitted, rotated. N: the usual count.
template <int N, class Operand, class T>
LOFT_HOST_DEVICE constexpr void load_span(matrix_view<T> in, std::int64_t row, std::int64_t first, int count, Operand const& how,
                                          float* values) noexcept {
  T const* source = in.data + row * in.row_stride + first * in.col_stride;
  auto const load = [&](std::int64_t stride) {
    for_lanes<N>(count, [&](int i) { values[i] = admit<Operand::policy>(to_float(source[i * stride])); });
  };
  in.col_stride == 1 ? load(1) : load(in.col_stride);
  if constexpr (rotation_size<Operand> > 1)
    for (int i = 0; i < count; i += rotation_size<Operand>) how.rotation.apply(values + i);
}

/// The largest finite magnitude of a tensor after rotation.
template <class Operand, class T>
LOFT_HOST_DEVICE constexpr float tensor_amax(matrix_view<T> in, Operand const& how) noexcept {
  constexpr int width = span_cols<Operand>;
  std::uint32_t result = 0;
  for (std::int64_t row = 0; row < in.rows; ++row) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      float values[width];
      int const count = static_cast<int>(min<std::int64_t>(width, in.cols - first));
      load_span<width>(in, row, first, count, how, values);
      for_lanes<width>(count, [&](int i) {
        std::uint32_t const bits = magnitude_bits(values[i]);
        result = max(result, bits < float_infinity ? bits : 0u);
      });
    }
  }
  return bit_cast<float>(result);
}

/// The largest element times the largest scale, as far as the operand's rule uses them.
template <class Operand>
LOFT_HOST_DEVICE constexpr float tensor_range() noexcept {
  using format = typename Operand::format;
  using rule = std::remove_cvref_t<decltype(Operand{}.rule)>;
  float element = largest<typename format::element>, scale = largest<typename format::scale>;
  if constexpr (requires { rule::ceiling; }) scale = rule::ceiling == 0 ? scale : rule::ceiling;
  if constexpr (requires { rule::shrink; }) element *= rule::shrink;
  return element * scale;
}

template <class Operand, class T>
LOFT_HOST_DEVICE constexpr tensor_scale choose_tensor_scale(matrix_view<T> in, Operand const& how) noexcept {
  using format = typename Operand::format;
  if constexpr (has_tensor_scale<format>) {
    if constexpr (requires { how.rule.amax; })
      if ((bit_cast<std::uint32_t>(how.rule.amax) & float_sign) == 0)
        return tensor_scale_for<format>(how.rule.amax, tensor_range<Operand>());
    return tensor_scale_for<format>(tensor_amax(in, how), tensor_range<Operand>());
  } else {
    return constant_of<Operand>();
  }
}

/// One band of blocks: rows [row, end) and columns [first, first + count) of a matrix.
template <class Operand, class T>
struct band {
  using format = typename Operand::format;
  using scale_code = code<typename format::scale>;
  static constexpr int width = span_cols<Operand>, block_cols = format::shape.cols, blocks = width / block_cols;

  matrix_view<T> in;
  Operand const& how;
  tensor_scale t;
  std::int64_t row, end, first;
  int count;
  float const* values;  // one row; where a band has only one, it is loaded once
  float buffer[width];

  LOFT_HOST_DEVICE constexpr band(matrix_view<T> from, Operand const& operand, tensor_scale scale, std::int64_t top, std::int64_t bottom,
                                  std::int64_t left, int wide) noexcept
      : in{from}, how{operand}, t{scale}, row{top}, end{bottom}, first{left}, count{wide}, values{buffer} {}

  LOFT_HOST_DEVICE constexpr void load(std::int64_t r, bool again) noexcept {
    if (again && format::shape.rows == 1) return;
    // Contiguous floats that nothing happens to are used where they lie.
    if constexpr (std::is_same_v<std::remove_const_t<T>, float> && rotation_size<Operand> == 1 && Operand::policy == nonfinite::propagate) {
      if (in.col_stride == 1) {
        values = in.data + r * in.row_stride + first;
        return;
      }
    }
    load_span<width>(in, r, first, count, how, buffer);
    values = buffer;
  }
  LOFT_HOST_DEVICE constexpr int count_of(int b) const noexcept { return min(block_cols, count - b * block_cols); }
  LOFT_HOST_DEVICE constexpr std::uint64_t index_of(std::int64_t r, int b) const noexcept {
    return static_cast<std::uint64_t>(r * in.cols + first + b * block_cols);
  }

  /// The scales of the band's blocks.
  LOFT_HOST_DEVICE constexpr void choose(scale_code* scales) noexcept {
    gathered<Operand> from[blocks] = {};
    for (std::int64_t r = row; r < end; ++r) {
      load(r, false);
      for (int b = 0; b < blocks && b * block_cols < count; ++b) from[b].add(values + b * block_cols, count_of(b));
    }
    for (int b = 0; b < blocks && b * block_cols < count; ++b) scales[b] = scale_of(from[b], how, t, 0);
    if constexpr (candidates<Operand> > 1) {
      float least[blocks] = {};
      for (int candidate = 0; candidate < candidates<Operand>; ++candidate) {
        float error[blocks] = {};
        for (std::int64_t r = row; r < end; ++r) {
          load(r, true);
          for (int b = 0; b < blocks && b * block_cols < count; ++b)
            error[b] = add_error(error[b], values + b * block_cols, count_of(b), scale_of(from[b], how, t, candidate), how, t,
                                 index_of(r, b));
        }
        for (int b = 0; b < blocks && b * block_cols < count; ++b) {
          if (candidate != 0 && !(error[b] < least[b])) continue;
          least[b] = error[b];
          scales[b] = scale_of(from[b], how, t, candidate);
        }
      }
    }
  }

  /// Hands every row's codes to `sink(row, first, count, codes, scales)`.
  template <class Sink>
  LOFT_HOST_DEVICE constexpr void encode(scale_code const* scales, Sink&& sink) noexcept {
    code<typename format::element> codes[width];
    for (std::int64_t r = row; r < end; ++r) {
      load(r, true);
      encode_span<width>(values, count, scales, how, t, index_of(r, 0), codes);
      sink(r, first, count, codes, scales);
    }
  }
};

/// Quantizes a tensor band by band and hands every row's span to `sink(row, first, count, codes, scales)`: `count` unpacked
/// codes from column `first`, and the scales of the blocks they are in. A row is read for the last time before its sink is called.
template <class Operand, class T, class Sink>
LOFT_HOST_DEVICE constexpr void quantize_spans(matrix_view<T> in, tensor_scale t, Operand const& how, row_range range,
                                               Sink&& sink) noexcept {
  constexpr int width = span_cols<Operand>;
  constexpr std::int64_t rows = Operand::format::shape.rows;
  // Strided rows go sixteen at a time, so that a cache line that holds neighbouring rows is used while it is near.
  std::int64_t const group = max<std::int64_t>(rows, in.col_stride == 1 ? 1 : 16 / rows * rows);
  std::int64_t const end = range.first + range.count;
  for (std::int64_t top = range.first; top < end; top += group) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      int const count = static_cast<int>(min<std::int64_t>(width, in.cols - first));
      for (std::int64_t row = top; row < min(end, top + group); row += rows) {
        band<Operand, T> here{in, how, t, row, min(end, row + rows), first, count};
        typename band<Operand, T>::scale_code scales[band<Operand, T>::blocks];
        here.choose(scales);
        here.encode(scales, sink);
      }
    }
  }
}

/// The place of the scale of the block in row `row` of the tensor and column `block_col` of the grid.
template <class B, class Layout>
LOFT_HOST_DEVICE constexpr std::int64_t scale_index(std::int64_t row, std::int64_t block_col, std::int64_t cols) noexcept {
  return Layout::index(Layout::repeats_rows ? row : row / B::shape.rows, block_col, ceil_div(cols, B::shape.cols));
}

/// Zeroes the padding of the scales of a range of rows, and below the last row what is left of its tile.
template <class B, class Layout>
LOFT_HOST_DEVICE constexpr void pad_scales(quantized_view<B> out, row_range range) noexcept {
  if constexpr (Layout::has_padding) {
    std::int64_t const cols = ceil_div(out.cols, B::shape.cols), padded = Layout::extent(1, cols) / Layout::extent(1, 1) * 4;
    std::int64_t const end = range.first + range.count;
    for (std::int64_t row = range.first; row < end; ++row)
      for (std::int64_t col = cols; col < padded; ++col) out.scales[Layout::index(row, col, cols)] = {};
    for (std::int64_t row = end; end == out.rows && row < ceil_div(end, 128) * 128; ++row)
      for (std::int64_t col = 0; col < padded; ++col) out.scales[Layout::index(row, col, cols)] = {};
  }
}

/// Decodes one row's span, undoes the rotation, and stores it.
template <class Operand>
LOFT_HOST_DEVICE constexpr void store_decoded(code<typename Operand::format::element> const* codes,
                                              code<typename Operand::format::scale> const* scales, float tensor_decode,
                                              Operand const& how, matrix_view<float> out, std::int64_t row,
                                              std::int64_t first, int count) noexcept {
  using format = typename Operand::format;
  float buffer[span_cols<Operand>];
  // Rows that are contiguous are decoded where they go.
  bool const in_place = out.col_stride == 1;
  float* const values = in_place ? &out(row, first) : buffer;
  decode_span<format, span_cols<Operand>>(codes, count, scales, tensor_decode, values);
  if constexpr (rotation_size<Operand> > 1)
    for (int i = 0; i < count; i += rotation_size<Operand>) how.rotation.invert(values + i);
  if (in_place) return;
  for (int i = 0; i < count; ++i) out(row, first + i) = values[i];
}

}  // namespace detail

/// Quantizes a matrix: [rows, cols] -> codes, scales, tensor scale. Blocks lie along the columns.
///
/// in: any strides; float or a minifloat. `range`: the rows to work on; a computed tensor amax is always that of all rows.
/// out: buffers of codes_bytes<B> and scale_count<B, Layout>, any alignment, written completely for the rows of the range;
/// padding is zero; `tensor_scale` receives the decoding factor. The element index that stochastic rounding sees is
/// row * cols + col. rounds, NaN, infinity, -0: as quantize_block. An empty tensor is ok and writes nothing.
/// error: a status other than ok, with nothing written. source: design section 3.
template <class Operand, class T, class Layout = row_major>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status quantize(matrix_view<T> in, quantized_view<typename Operand::format> out,
                                                         Operand const& how = {}, Layout = {}, row_range range = {}) noexcept {
  using format = typename Operand::format;
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_quantized(out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  if constexpr (has_tensor_scale<format>) *out.tensor_scale = t.decode;
  detail::pad_scales<format, Layout>(out, range);
  std::int64_t const row_bytes = packed_bytes<typename format::element>(in.cols);
  detail::quantize_spans(in, t, how, range, [&](std::int64_t row, std::int64_t first, int count, auto const* codes, auto const* scales) {
    pack<typename format::element>(codes, count, out.codes + row * row_bytes + packed_bytes<typename format::element>(first));
    if (!Layout::repeats_rows && row % format::shape.rows != 0) return;
    for (int b = 0; b * format::shape.cols < count; ++b)
      out.scales[detail::scale_index<format, Layout>(row, first / format::shape.cols + b, in.cols)] = scales[b];
  });
  return status::ok;
}

/// The floats of a quantized matrix: code times scale, exactly; times the tensor's scale, rounded once; then the inverse rotation.
///
/// in: as `quantize` wrote it, in the same layout. out: float, any strides that do not overlap. A block with a NaN scale is all
/// NaN. error: a status other than ok, with nothing written. source: design section 2.
template <class Operand, class B, class Layout = row_major>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status dequantize(quantized_view<B> in, matrix_view<float> out, Operand const& how = {},
                                                           Layout = {}, row_range range = {}) noexcept {
  using format = typename Operand::format;
  using element = typename format::element;
  static_assert(std::is_same_v<std::remove_const_t<B>, format>, "dequantize: the operand describes another block format");
  constexpr int width = detail::span_cols<Operand>, blocks = width / format::shape.cols;
  if (status const s = detail::check_quantized(in); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<format>(in.rows, range); s != status::ok) return s;
  if (range.count == 0 || in.cols == 0) return status::ok;
  float const tensor_decode = has_tensor_scale<format> ? *in.tensor_scale : detail::constant_of<Operand>().decode;
  std::int64_t const row_bytes = packed_bytes<element>(in.cols);
  for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      int const count = static_cast<int>(detail::min<std::int64_t>(width, in.cols - first));
      code<element> codes[width];
      code<typename format::scale> scales[blocks] = {};
      unpack<element>(in.codes + row * row_bytes + packed_bytes<element>(first), count, codes);
      for (int b = 0; b < blocks && b * format::shape.cols < count; ++b)
        scales[b] = in.scales[detail::scale_index<format, Layout>(row, first / format::shape.cols + b, in.cols)];
      detail::store_decoded(codes, scales, tensor_decode, how, out, row, first, count);
    }
  }
  return status::ok;
}

/// dequantize(quantize(in)) without the codes: what training on emulated formats computes with. `out` may be `in` itself.
/// in, out, rounds, error: as the two functions.
template <class Operand, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out, Operand const& how = {},
                                                              row_range range = {}) noexcept {
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (status const s = detail::check_range<typename Operand::format>(in.rows, range); s != status::ok) return s;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  detail::quantize_spans(in, t, how, range, [&](std::int64_t row, std::int64_t first, int count, auto const* codes, auto const* scales) {
    detail::store_decoded(codes, scales, t.decode, how, out, row, first, count);
  });
  return status::ok;
}

}  // namespace loft

#endif
