// SPDX-License-Identifier: Apache-2.0
// Tensors: views of matrices, quantize, dequantize, fake_quantize, and the sizes of their buffers.
// Source: design section 3 for the interface, decisions 7 to 12 for the meaning.
#ifndef LOFT_TENSOR_HPP
#define LOFT_TENSOR_HPP

#include <cstdint>
#include <type_traits>

#include "loft/bits.hpp"
#include "loft/block.hpp"
#include "loft/config.hpp"
#include "loft/packed.hpp"

namespace loft {

/// A matrix in somebody's memory: element (r, c) is data[r * row_stride + c * col_stride]. Strides are in elements and may be
/// anything, negative and 0 too, in a view that is read; a transposed view swaps extents and strides.
template <class T>
struct matrix_view {
  T* data;
  std::int64_t rows, cols, row_stride, col_stride = 1;

  LOFT_HOST_DEVICE constexpr T& operator()(std::int64_t row, std::int64_t col) const noexcept {
    return data[row * row_stride + col * col_stride];
  }
  LOFT_HOST_DEVICE constexpr operator matrix_view<T const>() const noexcept
    requires(!std::is_const_v<T>)
  {
    return {data, rows, cols, row_stride, col_stride};
  }
};

/// [rows, cols] -> [cols, rows], the same memory.
template <class T>
LOFT_HOST_DEVICE constexpr matrix_view<T> transposed(matrix_view<T> m) noexcept {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

/// Bytes of the codes of a [rows, cols] tensor: every row is whole bytes.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr std::int64_t codes_bytes(std::int64_t rows, std::int64_t cols) noexcept {
  return rows * packed_bytes<typename B::element>(cols);
}

/// Scales of a [rows, cols] tensor: one a block, row-major over blocks; ragged ends have blocks of their own.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr std::int64_t scale_count(std::int64_t rows, std::int64_t cols) noexcept {
  return detail::ceil_div(rows, B::shape.rows) * detail::ceil_div(cols, B::shape.cols);
}

/// A quantized tensor in somebody's memory: codes_bytes<B>(rows, cols) bytes, scale_count<B>(rows, cols) scales, and for formats
/// with a tensor scale a float, the factor that decoding multiplies with; null where the format has none.
/// quantized_view<B const> reads only, and any quantized_view<B> converts to it.
template <BlockFormat B>
struct quantized_view {
  template <class T>
  using like_b = std::conditional_t<std::is_const_v<B>, T const, T>;

  like_b<std::uint8_t>* codes;
  like_b<code<typename B::scale>>* scales;
  like_b<float>* tensor_scale;
  std::int64_t rows, cols;

  LOFT_HOST_DEVICE constexpr operator quantized_view<B const>() const noexcept
    requires(!std::is_const_v<B>)
  {
    return {codes, scales, tensor_scale, rows, cols};
  }
};

/// What a call found. Everything but `ok` is found before the first write: the outputs are untouched.
enum class status {
  ok,
  null_pointer,
  negative_extent,
  extent_overflow,
  shape_mismatch,
  overlapping_output,
  missing_tensor_scale,
  rotation_does_not_divide,
  invalid_amax,
};

/// The status as a sentence.
LOFT_HOST_DEVICE constexpr char const* message(status s) noexcept {
  switch (s) {
    case status::ok: return "no error";
    case status::null_pointer: return "a view with elements has a null pointer";
    case status::negative_extent: return "a view has a negative number of rows or columns";
    case status::extent_overflow: return "rows times columns do not fit in 64 bits";
    case status::shape_mismatch: return "the input and the output differ in rows or columns";
    case status::overlapping_output: return "two elements of the output share memory: check its strides";
    case status::missing_tensor_scale: return "the format has a tensor scale, and the view has no place for it";
    case status::rotation_does_not_divide: return "the number of columns is not a multiple of the rotation's size";
    case status::invalid_amax: return "the known amax of the two-level rule is not finite";
  }
  return "unknown status";
}

namespace detail {

LOFT_HOST_DEVICE constexpr status check_extents(std::int64_t rows, std::int64_t cols) noexcept {
  constexpr std::int64_t limit = std::int64_t{1} << 58;  // room for the bits of an element
  if (rows < 0 || cols < 0) return status::negative_extent;
  if (cols != 0 && rows > limit / cols) return status::extent_overflow;
  return status::ok;
}

LOFT_HOST_DEVICE constexpr bool overlaps_itself(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                                                std::int64_t col_stride) noexcept {
  std::int64_t a = row_stride < 0 ? -row_stride : row_stride, b = col_stride < 0 ? -col_stride : col_stride;
  if ((rows > 1 && a == 0) || (cols > 1 && b == 0)) return true;
  if (rows <= 1 || cols <= 1) return false;
  // i * a == j * b has its least solution at j = a / gcd, i = b / gcd.
  std::int64_t divisor = a, rest = b;
  while (rest != 0) {
    std::int64_t const next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return a / divisor < cols && b / divisor < rows;
}

/// Adds up what every entry point asks of its matrix.
template <class T>
LOFT_HOST_DEVICE constexpr status check_matrix(matrix_view<T> m, bool written) noexcept {
  if (status const s = check_extents(m.rows, m.cols); s != status::ok) return s;
  if (m.rows == 0 || m.cols == 0) return status::ok;
  if (m.data == nullptr) return status::null_pointer;
  if (written && overlaps_itself(m.rows, m.cols, m.row_stride, m.col_stride)) return status::overlapping_output;
  return status::ok;
}

template <class B>
LOFT_HOST_DEVICE constexpr status check_quantized(quantized_view<B> q) noexcept {
  if (status const s = check_extents(q.rows, q.cols); s != status::ok) return s;
  if (q.rows == 0 || q.cols == 0) return status::ok;
  if (q.codes == nullptr || q.scales == nullptr) return status::null_pointer;
  return has_tensor_scale<B> && q.tensor_scale == nullptr ? status::missing_tensor_scale : status::ok;
}

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

/// Columns that are worked on at once: whole blocks and whole runs of the rotation.
template <class Operand>
inline constexpr int span_cols = least_common_multiple(Operand::format::shape.cols, rotation_size<Operand>);

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
  constexpr int width = max(span_cols<Operand>, 64 / span_cols<Operand> * span_cols<Operand>);
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
  float values[width] = {};  // one row; where a band has only one, it is loaded once

  LOFT_HOST_DEVICE constexpr void load(std::int64_t r, bool again) noexcept {
    if (!again || format::shape.rows > 1) load_span<width>(in, r, first, count, how, values);
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
      for (int b = 0; b < blocks && b * block_cols < count; ++b) from[b].add(values + b * block_cols, 0, count_of(b));
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
      for (int b = 0; b < blocks && b * block_cols < count; ++b)
        encode_run(values + b * block_cols, count_of(b), scales[b], how, t, index_of(r, b), codes + b * block_cols);
      sink(r, first, count, codes, scales);
    }
  }
};

/// Quantizes a tensor band by band and hands every row's span to `sink(row, first, count, codes, scales)`: `count` unpacked
/// codes from column `first`, and the scales of the blocks they are in. A row is read for the last time before its sink is called.
template <class Operand, class T, class Sink>
LOFT_HOST_DEVICE constexpr void quantize_spans(matrix_view<T> in, tensor_scale t, Operand const& how, Sink&& sink) noexcept {
  constexpr int width = span_cols<Operand>;
  constexpr std::int64_t rows = Operand::format::shape.rows;
  // Strided rows go sixteen at a time, so that a cache line that holds neighbouring rows is used while it is near.
  std::int64_t const group = max<std::int64_t>(rows, in.col_stride == 1 ? 1 : 16 / rows * rows);
  for (std::int64_t top = 0; top < in.rows; top += group) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      int const count = static_cast<int>(min<std::int64_t>(width, in.cols - first));
      for (std::int64_t row = top; row < min(in.rows, top + group); row += rows) {
        band<Operand, T> here{in, how, t, row, min(in.rows, row + rows), first, count};
        typename band<Operand, T>::scale_code scales[band<Operand, T>::blocks] = {};
        here.choose(scales);
        here.encode(scales, sink);
      }
    }
  }
}

/// Decodes one row's span, undoes the rotation, and stores it.
template <class Operand>
LOFT_HOST_DEVICE constexpr void store_decoded(code<typename Operand::format::element> const* codes,
                                              code<typename Operand::format::scale> const* scales, float tensor_decode,
                                              Operand const& how, matrix_view<float> out, std::int64_t row,
                                              std::int64_t first, int count) noexcept {
  using format = typename Operand::format;
  float values[span_cols<Operand>];
  constexpr int cols = format::shape.cols;
  for (int i = 0; i < count; i += cols)
    decode_run<format>(codes + i, min(cols, count - i), scales[i / cols], tensor_decode, values + i);
  if constexpr (rotation_size<Operand> > 1)
    for (int i = 0; i < count; i += rotation_size<Operand>) how.rotation.invert(values + i);
  for (int i = 0; i < count; ++i) out(row, first + i) = values[i];
}

}  // namespace detail

/// Quantizes a matrix: [rows, cols] -> codes, scales, tensor scale. Blocks lie along the columns.
///
/// in: any strides; float or a minifloat. out: buffers of codes_bytes and scale_count, any alignment, written completely;
/// padding bits are zero; `tensor_scale` receives the decoding factor. The element index that stochastic rounding sees is
/// row * cols + col. rounds, NaN, infinity, -0: as quantize_block. An empty tensor is ok and writes nothing.
/// error: a status other than ok, with nothing written. source: design section 3.
template <class Operand, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status quantize(matrix_view<T> in, quantized_view<typename Operand::format> out,
                                                         Operand const& how = {}) noexcept {
  using format = typename Operand::format;
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_quantized(out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (in.rows == 0 || in.cols == 0) return status::ok;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  if constexpr (has_tensor_scale<format>) *out.tensor_scale = t.decode;
  std::int64_t const row_bytes = packed_bytes<typename format::element>(in.cols);
  std::int64_t const row_scales = detail::ceil_div(in.cols, format::shape.cols);
  detail::quantize_spans(in, t, how, [&](std::int64_t row, std::int64_t first, int count, auto const* codes, auto const* scales) {
    pack<typename format::element>(codes, count, out.codes + row * row_bytes + packed_bytes<typename format::element>(first));
    if (row % format::shape.rows != 0) return;
    auto* const row_of_scales = out.scales + row / format::shape.rows * row_scales + first / format::shape.cols;
    for (int b = 0; b * format::shape.cols < count; ++b) row_of_scales[b] = scales[b];
  });
  return status::ok;
}

/// The floats of a quantized matrix: code times scale, exactly; times the tensor's scale, rounded once; then the inverse rotation.
///
/// in: as `quantize` wrote it. out: float, any strides that do not overlap. A block with a NaN scale is all NaN.
/// error: a status other than ok, with nothing written. source: design section 2.
template <class Operand, class B>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status dequantize(quantized_view<B> in, matrix_view<float> out,
                                                           Operand const& how = {}) noexcept {
  using format = typename Operand::format;
  using element = typename format::element;
  static_assert(std::is_same_v<std::remove_const_t<B>, format>, "dequantize: the operand describes another block format");
  constexpr int width = detail::span_cols<Operand>;
  if (status const s = detail::check_quantized(in); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (in.rows == 0 || in.cols == 0) return status::ok;
  float const tensor_decode = has_tensor_scale<format> ? *in.tensor_scale : detail::constant_of<Operand>().decode;
  std::int64_t const row_bytes = packed_bytes<element>(in.cols);
  std::int64_t const row_scales = detail::ceil_div(in.cols, format::shape.cols);
  for (std::int64_t row = 0; row < in.rows; ++row) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      int const count = static_cast<int>(detail::min<std::int64_t>(width, in.cols - first));
      code<element> codes[width];
      unpack<element>(in.codes + row * row_bytes + packed_bytes<element>(first), count, codes);
      auto const* scales = in.scales + row / format::shape.rows * row_scales + first / format::shape.cols;
      detail::store_decoded(codes, scales, tensor_decode, how, out, row, first, count);
    }
  }
  return status::ok;
}

/// dequantize(quantize(in)) without the codes: what training on emulated formats computes with. `out` may be `in` itself.
/// in, out, rounds, error: as the two functions.
template <class Operand, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out,
                                                              Operand const& how = {}) noexcept {
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  tensor_scale const t = detail::choose_tensor_scale(in, how);
  detail::quantize_spans(in, t, how, [&](std::int64_t row, std::int64_t first, int count, auto const* codes, auto const* scales) {
    detail::store_decoded(codes, scales, t.decode, how, out, row, first, count);
  });
  return status::ok;
}

}  // namespace loft

#endif
