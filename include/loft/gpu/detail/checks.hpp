// SPDX-License-Identifier: Apache-2.0
// What a call checks before it launches a kernel, and what it asks of views and extents.
// Source: design section 6.
#ifndef LOFT_GPU_DETAIL_CHECKS_HPP
#define LOFT_GPU_DETAIL_CHECKS_HPP

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/context.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/runs.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// True where the kernel for rows of whole blocks is made for these types; rows_serve asks the views.
template <class O, class T>
inline constexpr bool is_row_type =
    O::format::shape.rows == 1 &&
    lanes_hold<detail::rotation_of<O>, row_fragment<O>>&& lanes_together<O, row_fragment<O>> <= 32 &&
    detail::is_wide_type<T>;

template <class T>
bool aligned(T const* pointer) noexcept {
  return detail::is_multiple(pointer, static_cast<int>(alignof(T)));
}
template <class Stream>
status check_workspace(context<Stream> const& where, std::int64_t bytes) noexcept {
  if (bytes == 0) return status::ok;
  if (where.workspace == nullptr || where.workspace_bytes < bytes) return status::workspace_too_small;
  return detail::is_multiple(where.workspace, 16) ? status::ok : status::misaligned_pointer;
}

/// Blocks of threads that have one lane for each place.
inline std::int64_t blocks_for(std::int64_t lanes) noexcept {
  return loft::detail::ceil_div(lanes, value_tuning::threads);
}
/// The values of lanes that exchange: a run of a rotation, or what one lane has.
template <int Size, int Count>
inline constexpr std::int64_t lanes_of = Size > Count ? Size : Count;

template <class T>
bool is_contiguous(matrix_view<T> m) noexcept {
  return m.rows == 1 || m.row_stride == m.cols;
}
template <class T>
matrix_view<T> as_one_row(matrix_view<T> m) noexcept {
  return {m.data, 1, m.rows * m.cols, m.rows * m.cols};
}
/// Blocks of threads that have `width` columns each; no chunks where a row has more of them than a launch may have.
inline row_grid grid_for(std::int64_t rows, std::int64_t cols, std::int64_t width) noexcept {
  std::int64_t const chunks = loft::detail::ceil_div(cols, width);
  return {rows, cols, chunks > 0x7fff'ffff / rows ? 0u : static_cast<std::uint32_t>(chunks)};
}

/// True where the tensor's scale is made on the device.
template <class O, class Stream>
bool needs_scale(O const& how, context<Stream> const& where) noexcept {
  return has_tensor_scale<typename O::format> && (detail::needs_amax(how) || where.amax != nullptr);
}

template <class O, class T, ScaleLayout L, class Stream>
status check_quantize(matrix_view<T const> in, quantized_view<typename O::format, L> out, O const& how,
                      context<Stream> const& where) noexcept {
  if (status const s = loft::detail::check_matrix(in, false); s != status::ok) return s;
  if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
  if (status const s = loft::detail::check_quantized(out); s != status::ok) return s;
  if (status const s = loft::detail::check_operand(in.cols, how); s != status::ok) return s;
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
  return detail::rows_are_wide(in) && detail::is_multiple(out.codes, 16) &&
         in.cols % (count * lanes_together<O, count>) == 0;
}

}  // namespace loft::gpu

#endif
