// SPDX-License-Identifier: Apache-2.0
// How quantize walks a tensor: parts with contiguous rows, bands of blocks, spans of a row. Detail of tensor.hpp.
// Source: design section 2 (data through one block), decisions 7 to 12.
#ifndef LOFT_TENSOR_BLOCK_ROW_HPP
#define LOFT_TENSOR_BLOCK_ROW_HPP

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/block/quantize_block.hpp"
#include "loft/core/config.hpp"
#include "loft/block/correction.hpp"
#include "loft/native/host/blocks.hpp"
#include "loft/array/packing.hpp"
#include "loft/tensor/staging.hpp"
#include "loft/tensor/view.hpp"

namespace loft {
namespace detail {

template <class O>
LOFT_HOST_DEVICE constexpr status check_operand(std::int64_t cols, O const& how) noexcept {
  if (cols % rotation_size<O> != 0) return status::rotation_does_not_divide;
  if constexpr (requires { how.rule.amax; })
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

/// Row `row`, columns [first, first + count), as the quantizer sees them: floats,
/// admitted, rotated. N: the usual count.
template <int N, class O, class T>
LOFT_HOST_DEVICE constexpr void load_span(matrix_view<T> in, std::int64_t row, std::int64_t first, int count,
                                          O const& how, float* values) noexcept {
  T const* const source = &in(row, first);
  if constexpr (rotates<O> && std::is_same_v<std::remove_const_t<T>, float> &&
                O::policy == nonfinite::propagate)
    if (in.col_stride == 1) return rotate_runs(how, source, count, values);
  int done = 0;
  if constexpr (requires { typename T::format; })
    if (in.col_stride == 1) done = native::decode_run<typename T::format>(source, count, values);
  if (in.col_stride == 1 && done == 0) for_each_index<N>(count, [&](int i) { values[i] = to_float(source[i]); });
  else
    for (int i = done; i < count; ++i) values[i] = to_float(source[i * in.col_stride]);
  if constexpr (O::policy == nonfinite::saturate)
    for_each_index<N>(count, [&](int i) { values[i] = admit<O::policy>(values[i]); });
  if constexpr (rotates<O>) rotate_runs(how, values, count, values);
}

/// The largest finite magnitude of a matrix with contiguous rows after rotation, as float bits.
template <class O, class T>
LOFT_HOST_DEVICE constexpr std::uint32_t finite_amax_bits(matrix_view<T> in, O const& how) noexcept {
  constexpr int width = span_cols<O>;
  std::uint32_t result = 0;
  for (std::int64_t row = 0; row < in.rows; ++row) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      float values[width];
      int const count = static_cast<int>(min<std::int64_t>(width, in.cols - first));
      load_span<width>(in, row, first, count, how, values);
      for_each_index<width>(count, [&](int i) {
        std::uint32_t const bits = magnitude_bits(values[i]);
        result = max(result, bits < float_infinity ? bits : 0u);
      });
    }
  }
  return result;
}

/// The largest finite magnitude of a tensor after rotation.
template <class O, class T>
LOFT_HOST_DEVICE constexpr float tensor_amax(matrix_view<T> in, O const& how) noexcept {
  std::uint32_t result = 0;
  for_parts<O>(in, origin{0, 0, in.cols},
                     [&](auto part, origin) { result = max(result, finite_amax_bits(part, how)); });
  return bit_cast<float>(result);
}

/// The largest element times the largest scale, as far as the operand's rule uses them.
template <class O>
LOFT_HOST_DEVICE constexpr float tensor_range() noexcept {
  using format = typename O::format;
  using rule = std::remove_cvref_t<decltype(O{}.rule)>;
  float element = largest<typename format::element>, scale = largest<typename format::scale>;
  if constexpr (requires { rule::ceiling; }) scale = rule::ceiling == 0 ? scale : rule::ceiling;
  if constexpr (requires { rule::shrink; }) element *= rule::shrink;
  return element * scale;
}

template <class O, class T>
LOFT_HOST_DEVICE constexpr tensor_scale choose_tensor_scale(matrix_view<T> in, O const& how) noexcept {
  using format = typename O::format;
  if constexpr (has_tensor_scale<format>) {
    if constexpr (requires { how.rule.amax; })
      if ((bit_cast<std::uint32_t>(how.rule.amax) & float_sign) == 0)
        return tensor_scale_for<format>(how.rule.amax, tensor_range<O>());
    return tensor_scale_for<format>(tensor_amax(in, how), tensor_range<O>());
  } else {
    return constant_of<O>();
  }
}

/// What a band's values are held as: where nothing happens to a number but its encoding, the number itself, else a
/// float.
template <class O, class T>
using held_value = std::conditional_t<rotation_size<O> == 1 && O::policy == nonfinite::propagate &&
                                          !has_statistic<O> && candidates<O> == 1,
                                      std::remove_const_t<T>, float>;

/// The one of two numbers that has the larger magnitude, without its sign. NaN is above infinity.
LOFT_HOST_DEVICE constexpr float larger_magnitude(float a, float b) noexcept {
  return bit_cast<float>(max(magnitude_bits(a), magnitude_bits(b)));
}
template <class F>
LOFT_HOST_DEVICE constexpr minifloat<F> larger_magnitude(minifloat<F> a, minifloat<F> b) noexcept {
  if constexpr (requires { requires F::spec.special == specials::ieee&& F::spec.is_signed; }) {
    constexpr std::uint32_t mask = F::spec.magnitude_mask();
    return minifloat<F>::from_bits(static_cast<code<F>>(max(a.bits() & mask, b.bits() & mask)));
  } else {
    return magnitude_bits(static_cast<float>(a)) < magnitude_bits(static_cast<float>(b)) ? b : a;
  }
}

/// One band of blocks: rows [row, end) and columns [first, first + count) of a matrix with contiguous rows.
template <class O, class T>
struct band {
  using format = typename O::format;
  using scale_code = code<typename format::scale>;
  using value = held_value<O, T>;
  static constexpr int width = span_cols<O>, block_cols = format::shape.cols, blocks = width / block_cols;
  /// Nothing happens to the values: they are used where they lie.
  static constexpr bool in_place = rotation_size<O> == 1 && O::policy == nonfinite::propagate &&
                                   std::is_same_v<value, std::remove_const_t<T>>;

  matrix_view<T> in;
  O const& how;
  tensor_scale t;
  origin from;
  std::int64_t row, end, first;
  int count;
  value const* values;  // one row; where a band has only one, it is loaded once
  value buffer[in_place ? 1 : width];

  LOFT_HOST_DEVICE constexpr band(matrix_view<T> matrix, O const& operand, tensor_scale scale, origin lies,
                                  std::int64_t top, std::int64_t bottom, std::int64_t left, int wide) noexcept
      : in{matrix},
        how{operand},
        t{scale},
        from{lies},
        row{top},
        end{bottom},
        first{left},
        count{wide},
        values{buffer} {}

  LOFT_HOST_DEVICE constexpr void load(std::int64_t r, bool again) noexcept {
    if (again && format::shape.rows == 1) return;
    values = buffer;
    if constexpr (in_place) values = &in(r, first);
    else load_span<width>(in, r, first, count, how, buffer);
  }
  LOFT_HOST_DEVICE constexpr int count_of(int b) const noexcept { return min(block_cols, count - b * block_cols); }
  LOFT_HOST_DEVICE constexpr std::uint64_t index_of(std::int64_t r, int b) const noexcept {
    return static_cast<std::uint64_t>((from.row + r) * from.cols + from.col + first + b * block_cols);
  }
  /// Where the row's values lie that will be worked on when a few more bands are done: they are fetched meanwhile.
  LOFT_HOST_DEVICE constexpr T const* ahead_of(std::int64_t r) const noexcept {
    std::int64_t col = first + 2 * width;
    if (col >= in.cols) {
      col -= in.cols;
      r += format::shape.rows;
    }
    bool const inside = r < in.rows && col < in.cols;
    return inside ? &in(r, col) : in.data;
  }
  LOFT_HOST_DEVICE constexpr int block_count() const noexcept { return (count + block_cols - 1) / block_cols; }

  /// The scales of the band's blocks.
  LOFT_HOST_DEVICE constexpr void choose(scale_code* scales) noexcept {
    std::uint32_t amax[blocks];
    statistic_for<O> statistics[blocks] = {};
    gather(amax, statistics);
    auto const scale_for = [&](int b, int candidate) { return scale_of(amax[b], statistics[b], how, t, candidate); };
    for_each_index<blocks>(block_count(), [&](int b) { scales[b] = scale_for(b, 0); });
    if constexpr (has_candidates<O>) {
      auto const visit = [&](auto add) {
        for (std::int64_t r = row; r < end; ++r) {
          load(r, true);
          for (int b = 0; b < block_count(); ++b) add(b, values + b * block_cols, count_of(b), index_of(r, b));
        }
      };
      choose_by_error<blocks>(block_count(), scale_for, visit, how, t, scales);
    }
  }

  LOFT_HOST_DEVICE constexpr void gather(std::uint32_t* amax, statistic_for<O>* statistics) noexcept {
    value columns[format::shape.rows == 1 ? 1 : width] = {};  // the largest magnitude of each column
    std::int64_t r = row;
    if constexpr (in_place && format::shape.rows % 4 == 0 && !has_statistic<O>) {
      for (; r + 4 <= end; r += 4) {  // so that the maxima are not written for every row
        T const *const a = &in(r, first), *const b = &in(r + 1, first), *const c = &in(r + 2, first);
        T const* const d = &in(r + 3, first);
        for_each_index<width>(count, [&](int i) {
          auto const two = larger_magnitude(a[i], b[i]), others = larger_magnitude(c[i], d[i]);
          columns[i] = larger_magnitude(columns[i], larger_magnitude(two, others));
        });
      }
    }
    for (; r < end; ++r) {
      load(r, false);
      if constexpr (format::shape.rows > 1)
        for_each_index<width>(count, [&](int i) { columns[i] = larger_magnitude(columns[i], values[i]); });
      if constexpr (has_statistic<O>)
        for (int b = 0; b < block_count(); ++b) statistics[b].add(values + b * block_cols, count_of(b));
    }
    amax_of_runs<block_cols>(format::shape.rows == 1 ? values : columns, count, amax);
  }

  /// For every row, sink(row, first, count, stored, encode): the scales that are stored, corrected where the rule does
  /// so; encode(packed, out) writes the row's codes, packed into bytes where `packed` is std::true_type.
  template <class Sink>
  LOFT_HOST_DEVICE constexpr void encode(scale_code const* scales, Sink&& sink) noexcept {
    run_factors<width, O> const factors{count, scales, t};
    for (std::int64_t r = row; r < end; ++r) {
      load(r, true);
      scale_code const* stored = scales;
      [[maybe_unused]] scale_code room[corrects<O> ? blocks : 1];
      if constexpr (corrects<O>) {
        correct_scales<width>(values, count, scales, factors, how, t, index_of(r, 0), room);
        stored = room;
      }
      sink(from.row + r, from.col + first, count, stored, [&](auto packed, auto* out) {
        encode_span<width, decltype(packed)::value>(values, count, scales, factors, how, t, index_of(r, 0), out,
                                                    ahead_of(r));
      });
    }
  }
};

/// Calls work(band, scales) for the bands of a part of a tensor, with the scales that their codes are made with.
template <class O, class T, class Work>
LOFT_HOST_DEVICE constexpr void for_bands(matrix_view<T> in, tensor_scale t, O const& how, origin from,
                                          Work&& work) noexcept {
  constexpr int width = span_cols<O>;
  constexpr std::int64_t rows = O::format::shape.rows;
  for (std::int64_t row = 0; row < in.rows; row += rows) {
    for (std::int64_t first = 0; first < in.cols; first += width) {
      int const count = static_cast<int>(min<std::int64_t>(width, in.cols - first));
      band<O, T> here{in, how, t, from, row, min(in.rows, row + rows), first, count};
      typename band<O, T>::scale_code scales[band<O, T>::blocks];
      here.choose(scales);
      work(here, scales);
    }
  }
}

/// Quantizes a part of a tensor band by band and hands every row's span to `sink(row, first, count, scales, encode)`,
/// see band::encode: `count` elements from column `first`, and the scales of the blocks they are in. `encode` reads the
/// row for the last time.
template <class O, class T, class Sink>
[[gnu::noinline]] LOFT_HOST_DEVICE constexpr void quantize_part(matrix_view<T> in, tensor_scale t, O const& how,
                                                                origin from, Sink&& sink) noexcept {
  for_bands(in, t, how, from, [&](auto& here, auto const* scales) { here.encode(scales, sink); });
}

/// The place of the scale of the block in row `row` of the tensor and column `block_col` of the grid.
template <class B, ScaleLayout Layout>
LOFT_HOST_DEVICE constexpr std::int64_t scale_index(std::int64_t row, std::int64_t block_col,
                                                    std::int64_t cols) noexcept {
  return Layout::index(scale_row<B, Layout>(row), block_col, ceil_div(cols, B::shape.cols));
}

/// Zeroes the padding of the scales of a range of rows, and below the last row what is left of its tile.
template <class B, ScaleLayout Layout>
LOFT_HOST_DEVICE constexpr void pad_scales(quantized_view<B> out, row_range range) noexcept {
  if constexpr (Layout::tile_rows != 1 || Layout::tile_cols != 1) {
    std::int64_t const cols = ceil_div(out.cols, B::shape.cols), padded = round_up(cols, Layout::tile_cols);
    std::int64_t const last = range.first + range.count - 1, end = scale_row<B, Layout>(last) + 1;
    std::int64_t const below = last + 1 == out.rows ? round_up(end, Layout::tile_rows) : end;
    for (std::int64_t row = scale_row<B, Layout>(range.first); row < below; ++row)
      for (std::int64_t col = row < end ? cols : 0; col < padded; ++col) out.scales[Layout::index(row, col, cols)] = {};
  }
}

/// Writes the scales of one row's span to their places in the layout.
template <class B, ScaleLayout Layout>
LOFT_HOST_DEVICE constexpr void store_scales(quantized_view<B> out, std::int64_t row, std::int64_t first, int count,
                                             code<typename B::scale> const* scales) noexcept {
  if (!Layout::repeats_rows && row % B::shape.rows != 0) return;
  int const blocks = (count + B::shape.cols - 1) / B::shape.cols;
  if constexpr (std::is_same_v<Layout, row_major>) {
    auto* const to = out.scales + scale_index<B, Layout>(row, first / B::shape.cols, out.cols);
    for (int b = 0; b < blocks; ++b) to[b] = scales[b];
  } else {
    for (int b = 0; b < blocks; ++b)
      out.scales[scale_index<B, Layout>(row, first / B::shape.cols + b, out.cols)] = scales[b];
  }
}

/// Decodes one row's span and undoes the rotation. Packed: as decode_span.
template <bool Packed, class O, class C>
LOFT_HOST_DEVICE constexpr void decode_values(C const* codes, code<typename O::format::scale> const* scales,
                                              float tensor_decode, O const& how, int count,
                                              float* values) noexcept {
  decode_span<typename O::format, span_cols<O>, Packed>(codes, count, scales, tensor_decode, values);
  if constexpr (rotates<O>) {
    invert_runs(how.rotation, values, count);
    // The sign of a NaN that sums produce is the compiler's choice.
    for (int i = 0; i < count; ++i)
      if (magnitude_bits(values[i]) > float_infinity) values[i] = bit_cast<float>(float_nan);
  }
}
/// The same, to where the span goes: `count` elements from (row, first) on.
template <bool Packed, class O, class C>
LOFT_HOST_DEVICE constexpr void decode_row(C const* codes, code<typename O::format::scale> const* scales,
                                           float tensor_decode, O const& how, matrix_view<float> out,
                                           std::int64_t row, std::int64_t first, int count) noexcept {
  auto const decode = [&](float* values) { decode_values<Packed>(codes, scales, tensor_decode, how, count, values); };
  if constexpr (!uses_tiles<O>) {
    if (out.col_stride != 1) return write_span<span_cols<O>>(out, row, first, count, decode);
  }
  decode(&out(row, first));
}

}  // namespace detail
}  // namespace loft

#endif
