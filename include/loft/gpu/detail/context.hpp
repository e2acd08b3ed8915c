// SPDX-License-Identifier: Apache-2.0
// What a call on a GPU takes beside its tensors, and what it checks before it launches a kernel.
// Source: design section 6.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/runs.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// What every call takes beside its tensors. Everything in it is the caller's; nothing is allocated or waited for.
template <class Stream> struct context {
  Stream stream{};
  void* workspace = nullptr;         ///< device memory, a multiple of 16 for an address
  std::int64_t workspace_bytes = 0;  ///< its size: see workspace_bytes of the call
  float const* amax = nullptr;       ///< device memory: the tensor's amax, in the place of the rule's
  /// Device memory: (seed, stream), read when the kernels run. The call works with reseed(how, seed[0], seed[1]), so
  /// that a graph is captured once and replayed with other roundings, scales and signs. in: stream < 2^56; dequantize
  /// and tensor_amax have to find what quantize found.
  std::uint64_t const* seed = nullptr;
  std::uint64_t const* cols_seed = nullptr;  ///< the same for the second output of quantize_both, null for `seed`
};

/// What two-level formats keep in the workspace: the amax while it is computed, and the scale from it.
struct scale_memory {
  std::uint32_t amax, unused;
  tensor_scale scale;
};

inline bool is_multiple(void const* pointer, int bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<unsigned>(bytes) == 0;
}

/// True where rows of T start at multiples of 16 bytes.
template <class T> bool rows_are_wide(matrix_view<T> m) noexcept {
  constexpr std::int64_t size = sizeof(T);
  return m.col_stride == 1 && is_multiple(m.data, 16) && (m.rows <= 1 || m.row_stride * size % 16 == 0);
}

template <class T>
inline constexpr bool is_wide_type = std::is_same_v<T, float> || std::is_same_v<T, bf16_t> || std::is_same_v<T, fp16_t>;

/// True where the kernel for rows of whole blocks is made for these types; rows_serve asks the views.
template <class O, class T>
inline constexpr bool is_row_type =
    O::format::shape.rows == 1 &&
    lanes_hold<detail::rotation_of<O>, row_fragment<O>>&& lanes_together<O, row_fragment<O>> <= 32 && is_wide_type<T>;

template <class T> bool aligned(T const* pointer) noexcept {
  return is_multiple(pointer, static_cast<int>(alignof(T)));
}
template <class Stream> status check_workspace(context<Stream> const& where, std::int64_t bytes) noexcept {
  if (bytes == 0) return status::ok;
  if (where.workspace == nullptr || where.workspace_bytes < bytes) return status::workspace_too_small;
  return is_multiple(where.workspace, 16) ? status::ok : status::misaligned_pointer;
}

/// The neighbours that lanes work on together: a run of a rotation, or what one lane has.
template <int Size, int Count> inline constexpr std::int64_t lanes_of = Size > Count ? Size : Count;

template <class T> matrix_view<std::remove_const_t<T> const> read_only(matrix_view<T> m) noexcept { return m; }
template <class T> bool is_contiguous(matrix_view<T> m) noexcept { return m.rows == 1 || m.row_stride == m.cols; }
template <class T> matrix_view<T> as_one_row(matrix_view<T> m) noexcept {
  return {m.data, 1, m.rows * m.cols, m.rows * m.cols};
}
/// Makes contiguous rows of two tensors one long row. in: no block and no run crosses the end of a row.
template <class T, class U> void flatten(matrix_view<T>& in, matrix_view<U>& out) noexcept {
  if (!is_contiguous(in) || !is_contiguous(out)) return;
  in = as_one_row(in);
  out = as_one_row(out);
}
template <class T, class B, ScaleLayout L> void flatten(matrix_view<T>& values, quantized_view<B, L>& codes) noexcept {
  if (!std::is_same_v<L, row_major> || !is_contiguous(values)) return;
  values = as_one_row(values);
  codes.rows = 1;
  codes.cols = values.cols;
}
/// Blocks of threads that have `width` columns each. What does not fit into 32 bits no launch may have.
inline row_grid grid_for(std::int64_t rows, std::int64_t cols, std::int64_t width) noexcept {
  std::int64_t const chunks = detail::ceil_div(cols, width);
  return {rows, cols, static_cast<std::uint32_t>(detail::min<std::int64_t>(chunks, 0xffff'ffff))};
}

/// True where kernels compute the tensor's scale on the device.
template <class O, class Stream> bool needs_scale(O const& how, context<Stream> const& where) noexcept {
  return has_tensor_scale<typename O::format> && (!detail::knows_amax(how) || where.amax != nullptr);
}

template <class O, class T, ScaleLayout L, class Stream>
status check_quantize(matrix_view<T const> in, quantized_view<typename O::format, L> out, O const& how,
                      context<Stream> const& where) noexcept {
  if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = detail::check_quantized(out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  if (!aligned(in.data) || !aligned(out.scales) || !aligned(out.tensor_scale) || !aligned(where.seed) ||
      !aligned(where.amax))
    return status::misaligned_pointer;
  bool const empty = in.rows == 0 || in.cols == 0;
  if (empty || !needs_scale(how, where)) return status::ok;
  return check_workspace(where, sizeof(scale_memory));
}

/// True where the kernel for rows of whole blocks can read and write these views.
template <class O, class T, class B, ScaleLayout L>
bool rows_serve(matrix_view<T const> in, quantized_view<B, L> out) noexcept {
  constexpr int count = row_fragment<O>;
  return rows_are_wide(in) && is_multiple(out.codes, 16) && in.cols % (count * lanes_together<O, count>) == 0;
}

}  // namespace loft::gpu
