// SPDX-License-Identifier: Apache-2.0
// A row of blocks: neighbouring blocks that share rows of a matrix, with their values, scales, codes and decoded
// values.
// Source: design section 2 (data through one block), decisions 7 to 12.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/array/branchless.hpp"
#include "loft/block/block_values.hpp"
#include "loft/block/correction.hpp"
#include "loft/block/elements.hpp"
#include "loft/block/operand_traits.hpp"
#include "loft/block/scale_chooser.hpp"
#include "loft/core/bits.hpp"
#include "loft/native/host/blocks.hpp"

namespace loft::detail {

/// `count` values with a stride, as an operand sees them: floats, without what `nonfinite` replaces, rotated. N: the
/// usual count.
template <int N, class O, class T>
LOFT_HOST_DEVICE constexpr void load_slice(T const* from, std::int64_t stride, int count, O const& how,
                                           float* values) noexcept {
  // On the host a run is rotated from where it lies; the registers of a GPU are filled first.
  if constexpr (rotates<O> && std::is_same_v<T, float> && O::policy == nonfinite::propagate && !native::unrolls_runs)
    if (stride == 1) return rotate_runs(how, from, count, values);
  int done = 0;
  if constexpr (requires { typename T::format; })
    if (stride == 1) done = native::decode_run<typename T::format>(from, count, values);
  if (stride == 1 && done == 0) for_each_index<N>(count, [&](int i) { values[i] = to_float(from[i]); });
  else
    for (int i = done; i < count; ++i) values[i] = to_float(from[i * stride]);
  if constexpr (O::policy == nonfinite::saturate)
    for_each_index<N>(count, [&](int i) { values[i] = apply_nonfinite<O::policy>(values[i]); });
  if constexpr (rotates<O>) rotate_runs(how, values, count, values);
}

/// Decodes `count` codes of one row, from the first column of a block, at most Width, and undoes the rotation. Packed:
/// the codes are packed in bytes.
template <int Width, bool Packed, class O, class C>
LOFT_HOST_DEVICE constexpr void decode_values(C const* codes, code<typename O::format::scale> const* scales,
                                              float tensor_decode, O const& how, int count, float* values) noexcept {
  decode_slice<typename O::format, Width, Packed>(codes, count, scales, tensor_decode, values);
  if constexpr (rotates<O>) {
    invert_runs(how.rotation, values, count);
    // The sign of a NaN that sums produce is the compiler's choice.
    for (int i = 0; i < count; ++i)
      if (magnitude_bits(values[i]) > float_infinity) values[i] = bit_cast<float>(float_nan);
  }
}

/// Where the values of a row of blocks lie: element (r, c) is data[r * row_stride + c * col_stride], and its index in
/// the whole tensor is index + r * index_pitch + c.
template <class T> struct block_source {
  T const* data;
  std::int64_t row_stride, col_stride;
  std::uint64_t index;
  std::int64_t index_pitch;
};

/// The blocks in up to Width columns of the rows of one block. `move_to` says where; then scales are chosen, and rows
/// are encoded and decoded with them.
template <class O, class T, int Width> class block_row {
 public:
  using format = typename O::format;
  using scale_code = code<typename format::scale>;
  using element_code = code<typename format::element>;
  static constexpr int width = Width, block_cols = format::shape.cols, blocks = Width / block_cols;

  LOFT_HOST_DEVICE constexpr block_row(O const& how, tensor_scale t) noexcept : how_{how}, t_{t} {}

  LOFT_HOST_DEVICE constexpr void move_to(block_source<T> const& from, int rows, int count) noexcept {
    from_ = from;
    rows_ = rows;
    count_ = count;
  }
  LOFT_HOST_DEVICE constexpr int count() const noexcept { return count_; }
  LOFT_HOST_DEVICE constexpr int block_count() const noexcept { return (count_ + block_cols - 1) / block_cols; }
  LOFT_HOST_DEVICE constexpr tensor_scale scale_of_tensor() const noexcept { return t_; }

  /// Finds the scales that codes are made with, and those that are stored.
  LOFT_HOST_DEVICE constexpr void choose_scales() noexcept {
    scale_chooser<O, blocks> chooser{};
    gather(chooser);
    if constexpr (has_candidates<O>) compare_candidates(chooser);
    for_each_index<blocks>(block_count(), [&](int b) { scales_[b] = chooser.best(b, how_, t_); });
    find_factors<O>(count_, scales_, t_, factors_);
    if constexpr (corrects<O>)
      correct_scales<width>(load(0), count_, scales_, factors_, how_, t_, from_.index, corrected_);
  }
  /// The scales that codes are made with.
  LOFT_HOST_DEVICE constexpr scale_code const* scales() const noexcept { return scales_; }
  /// The scales that are stored: corrected where the rule does so.
  LOFT_HOST_DEVICE constexpr scale_code const* stored_scales() const noexcept {
    if constexpr (corrects<O>) return corrected_;
    else return scales_;
  }

  /// Row `r` as floats, as the operand sees them: `count` of them to `values`.
  LOFT_HOST_DEVICE constexpr void read(int r, float* values) const noexcept {
    load_slice<width>(row(r), from_.col_stride, count_, how_, values);
  }
  /// The codes of row `r`, packed into bytes or one a place. Reads the row's values for the last time. `ahead`: what
  /// will be read soon, only a hint.
  template <bool Packed, class C> LOFT_HOST_DEVICE constexpr void encode(int r, C* out, T const* ahead) noexcept {
    encode_slice<width, Packed>(load(r), count_, scales_, factors_, how_, t_, index_of(r, 0), out, ahead);
  }
  /// Row `r` quantized and decoded again: `count` floats.
  LOFT_HOST_DEVICE constexpr void fake(int r, float* values, T const* ahead) noexcept {
    element_code codes[width];
    encode<false>(r, codes, ahead);
    decode_values<width, false>(codes, stored_scales(), t_.decode, how_, count_, values);
  }

 private:
  /// Where nothing happens to a number but its encoding, it is worked on as it is, else as a float.
  static constexpr bool plain =
      !rotates<O> && O::policy == nonfinite::propagate && !has_statistic<O> && !has_candidates<O>;
  using value = std::conditional_t<plain, T, float>;
  /// Such numbers, and floats to which nothing happens, are used where they lie.
  static constexpr bool in_place = !rotates<O> && O::policy == nonfinite::propagate && std::is_same_v<value, T>;

  LOFT_HOST_DEVICE constexpr T const* row(int r) const noexcept { return from_.data + r * from_.row_stride; }
  LOFT_HOST_DEVICE constexpr std::uint64_t index_of(int r, int b) const noexcept {
    return from_.index + static_cast<std::uint64_t>(r * from_.index_pitch + b * block_cols);
  }
  LOFT_HOST_DEVICE constexpr int count_of(int b) const noexcept { return min(block_cols, count_ - b * block_cols); }

  /// The values of row `r`. Blocks of one row have them loaded since their scales were chosen.
  LOFT_HOST_DEVICE constexpr value const* load(int r) noexcept {
    if constexpr (in_place) {
      return row(r);
    } else {
      if constexpr (format::shape.rows > 1) read(r, buffer_);
      return buffer_;
    }
  }

  LOFT_HOST_DEVICE constexpr void gather(scale_chooser<O, blocks>& chooser) noexcept {
    if constexpr (format::shape.rows == 1) {
      if constexpr (!in_place) read(0, buffer_);
      value const* const values = load(0);
      if constexpr (has_statistic<O>) add_statistics(chooser, values);
      amax_of_groups<block_cols>(values, count_, chooser.amax);
    } else {
      value largest_of_column[width] = {};
      int r = 0;
      if constexpr (in_place && format::shape.rows % 4 == 0 && !has_statistic<O>) {
        for (; r + 4 <= rows_; r += 4) {  // so that the maxima are not written for every row
          T const *const a = row(r), *const b = row(r + 1), *const c = row(r + 2), *const d = row(r + 3);
          for_each_index<width>(count_, [&](int i) {
            auto const two = larger_magnitude(a[i], b[i]), others = larger_magnitude(c[i], d[i]);
            largest_of_column[i] = larger_magnitude(largest_of_column[i], larger_magnitude(two, others));
          });
        }
      }
      for (; r < rows_; ++r) {
        value const* const values = load(r);
        for_each_index<width>(count_,
                              [&](int i) { largest_of_column[i] = larger_magnitude(largest_of_column[i], values[i]); });
        if constexpr (has_statistic<O>) add_statistics(chooser, values);
      }
      amax_of_groups<block_cols>(largest_of_column, count_, chooser.amax);
    }
  }
  LOFT_HOST_DEVICE constexpr void add_statistics(scale_chooser<O, blocks>& chooser, value const* values) noexcept {
    for (int b = 0; b < block_count(); ++b) chooser.statistic[b].add(values + b * block_cols, count_of(b));
  }
  /// The errors of all candidates over all blocks, the rows of a block in order.
  LOFT_HOST_DEVICE constexpr void compare_candidates(scale_chooser<O, blocks>& chooser) noexcept {
    for (int candidate = 0; candidate < candidates<O>; ++candidate) {
      scale_code of_candidate[blocks] = {};
      float error[blocks] = {};
      for (int b = 0; b < block_count(); ++b) of_candidate[b] = chooser.scale(b, candidate, how_, t_);
      for (int r = 0; r < rows_; ++r) {
        value const* const values = load(r);
        for (int b = 0; b < block_count(); ++b)
          error[b] =
              add_error(error[b], values + b * block_cols, count_of(b), of_candidate[b], how_, t_, index_of(r, b));
      }
      for (int b = 0; b < block_count(); ++b) chooser.compare(b, candidate, of_candidate[b], error[b]);
    }
  }

  O const& how_;
  tensor_scale t_;
  block_source<T> from_{};
  int rows_ = 0, count_ = 0;
  group_factors<groups_in<format, Width>> factors_;
  scale_code scales_[blocks];
  scale_code corrected_[corrects<O> ? blocks : 1];
  value buffer_[in_place ? 1 : Width];
};

}  // namespace loft::detail
