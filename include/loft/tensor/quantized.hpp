// SPDX-License-Identifier: Apache-2.0
// Quantized tensors: the sizes of their buffers, views of them, and one that owns its memory on the host.
// Source: design section 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "loft/array/packing.hpp"
#include "loft/block/catalogue.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/layout.hpp"

namespace loft {

/// The bytes of the codes of a [rows, cols] tensor: every row is whole bytes.
template <BlockFormat B>
LOFT_HOST_DEVICE constexpr std::int64_t codes_bytes(std::int64_t rows, std::int64_t cols) noexcept {
  return rows * packed_bytes<typename B::element>(cols);
}

/// The scales of a [rows, cols] tensor in a layout: one a block, short blocks at ragged ends too, and padding.
template <BlockFormat B, ScaleLayout L = row_major>
LOFT_HOST_DEVICE constexpr std::int64_t scale_count(std::int64_t rows, std::int64_t cols) noexcept {
  detail::scale_grid<B, L> const grid{rows, cols};
  return grid.padded_rows() * grid.padded_cols();
}

/// A non-owning view of a quantized tensor: codes_bytes<B>(rows, cols) bytes, scale_count<B, L>(rows, cols) scales, and
/// for formats with a tensor scale a float, the factor that decoding multiplies with; null where the format has none.
///
/// The layout of the scales is part of the type, so that what was written one way is not read another.
/// quantized_view<B const, L> reads only, and quantized_view<B, L> converts to it.
template <class B, class L = row_major> struct quantized_view {
  static_assert(BlockFormat<B>,
                "a quantized tensor names its block format first, then the layout of its scales: <mxfp4, row_major>");
  static_assert(ScaleLayout<L>,
                "the second argument is no layout of scales: a layout has tile_rows, tile_cols, repeats_rows and an "
                "index(row, col, rows, "
                "cols) of the type std::int64_t");
  template <class T> using like_b = std::conditional_t<std::is_const_v<B>, T const, T>;
  using layout = L;

  like_b<std::uint8_t>* codes;
  like_b<code<typename B::scale>>* scales;
  like_b<float>* tensor_scale;
  std::int64_t rows, cols;

  template <class U>
    requires(std::is_same_v<U, B const> && !std::is_const_v<B>)
  LOFT_HOST_DEVICE constexpr operator quantized_view<U, L>() const noexcept {
    return {codes, scales, tensor_scale, rows, cols};
  }
};

/// A quantized tensor that owns its memory, on the host: codes, scales in the layout, and the tensor's scale. All of it
/// is 0 at first.
///
/// Where `quantize` would return a status for the extents, or there is no memory, the tensor has none, and every call
/// with its view returns a status.
template <class B, class L = row_major> class quantized_tensor {
  static_assert(!std::is_const_v<B>,
                "quantized_tensor: a tensor that owns its memory is written; its view may be const");

 public:
  quantized_tensor(std::int64_t rows, std::int64_t cols) noexcept
      : view_{nullptr, nullptr, &tensor_scale_, rows, cols} {
    if (rows == 0 || cols == 0 || detail::check_extents(rows, cols) != status::ok) return;
    view_.codes = allocate<std::uint8_t>(codes_bytes<B>(rows, cols));
    view_.scales = allocate<code<typename B::scale>>(scale_count<B, L>(rows, cols));
    if (view_.codes == nullptr || view_.scales == nullptr) release();
  }
  quantized_tensor(quantized_tensor const& other) noexcept : quantized_tensor(other.rows(), other.cols()) {
    if (other.view_.codes == nullptr) release();
    if (view_.codes == nullptr) return;
    for (std::int64_t i = 0; i < codes_bytes<B>(rows(), cols()); ++i) view_.codes[i] = other.view_.codes[i];
    for (std::int64_t i = 0; i < scale_count<B, L>(rows(), cols()); ++i) view_.scales[i] = other.view_.scales[i];
    tensor_scale_ = other.tensor_scale_;
  }
  quantized_tensor(quantized_tensor&& other) noexcept : quantized_tensor(0, 0) { swap(other); }
  quantized_tensor& operator=(quantized_tensor other) noexcept {
    swap(other);
    return *this;
  }
  ~quantized_tensor() { release(); }

  [[nodiscard]] std::int64_t rows() const noexcept { return view_.rows; }
  [[nodiscard]] std::int64_t cols() const noexcept { return view_.cols; }
  /// The tensor as the calls of the library take it; it is valid until the tensor is assigned, moved from or destroyed.
  [[nodiscard]] quantized_view<B, L> view() noexcept { return view_; }
  [[nodiscard]] quantized_view<B const, L> view() const noexcept { return view_; }

 private:
  template <class T> static T* allocate(std::int64_t count) noexcept {
    return new (std::nothrow) T[static_cast<std::size_t>(count)]();
  }
  void release() noexcept {
    delete[] view_.codes;
    delete[] view_.scales;
    view_.codes = nullptr;
    view_.scales = nullptr;
  }
  void swap(quantized_tensor& other) noexcept {
    auto const view = view_;
    auto const scale = tensor_scale_;
    view_ = {other.view_.codes, other.view_.scales, &tensor_scale_, other.rows(), other.cols()};
    tensor_scale_ = other.tensor_scale_;
    other.view_ = {view.codes, view.scales, &other.tensor_scale_, view.rows, view.cols};
    other.tensor_scale_ = scale;
  }

  float tensor_scale_ = 0;
  quantized_view<B, L> view_;
};

namespace detail {

template <class B, class L> LOFT_HOST_DEVICE constexpr status check_quantized(quantized_view<B, L> q) noexcept {
  if (status const s = check_extents(q.rows, q.cols); s != status::ok) return s;
  if (q.rows == 0 || q.cols == 0) return status::ok;
  if (q.codes == nullptr || q.scales == nullptr) return status::null_pointer;
  return has_tensor_scale<B> && q.tensor_scale == nullptr ? status::missing_tensor_scale : status::ok;
}

}  // namespace detail
}  // namespace loft
