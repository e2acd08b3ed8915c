// SPDX-License-Identifier: Apache-2.0
// Which kernel rotates, decodes or finds an amax, and how many threads it is given.
// Source: design section 6.
#ifndef LOFT_GPU_DETAIL_START_VALUES_HPP
#define LOFT_GPU_DETAIL_START_VALUES_HPP

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/checks.hpp"
#include "loft/gpu/detail/context.hpp"
#include "loft/gpu/detail/dequantize.hpp"
#include "loft/gpu/detail/runs.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

template <class Device, class Kernel, class Arguments, class Stream>
status start_grid(Kernel kernel, row_grid grid, int threads, int shared, context<Stream> const& where,
                  Arguments const& arguments) noexcept {
  if (grid.chunks == 0) return status::extent_overflow;
  return Device::launch(kernel, static_cast<unsigned>(grid.chunks * grid.rows), static_cast<unsigned>(threads), shared,
                        where.stream, arguments);
}
template <class Device, class Kernel, class Arguments, class Stream>
status start_lanes(Kernel kernel, row_grid grid, context<Stream> const& where, Arguments const& arguments) noexcept {
  return start_grid<Device>(kernel, grid, value_tuning::threads, 0, where, arguments);
}
/// A kernel of runs.hpp whose teams have `Values` values each.
template <class Device, int Values, class Kernel, class Arguments, class Stream>
status start_teams(Kernel kernel, row_grid grid, context<Stream> const& where, Arguments const& arguments) noexcept {
  return start_grid<Device>(kernel, grid, run_tuning::threads, team_bytes<Values>, where, arguments);
}

template <class Device, class O, ScaleLayout L, class T, class Stream>
status start_dequantize(quantized_view<typename O::format const, L> in, matrix_view<T> out, O const& how,
                        context<Stream> const& where) noexcept {
  using format = typename O::format;
  float const constant = loft::detail::constant_of<O>().decode;
  if constexpr (!lanes_hold<detail::rotation_of<O>, value_tuning::values>) {
    row_grid const grid = grid_for(out.rows, out.cols, decoded_values<O>);
    dequantize_arguments<O, T, L> const a{in, out, how, where.seed, constant, grid};
    return start_teams<Device, decoded_values<O>>(dequantize_runs<O, T, L>, grid, where, a);
  } else {
    constexpr std::int64_t bits = format::element::spec.bits(), together = lanes_of<detail::rotation_size<O>, 8>;
    bool const wide = detail::is_wide_type<T> && detail::rows_are_wide(out) && detail::is_multiple(in.codes, 4) &&
                      bits % 4 == 0 && in.cols % together == 0;
    bool const flat = wide && std::is_same_v<L, row_major> && in.cols % format::shape.cols == 0 &&
                      format::shape.rows == 1 && is_contiguous(out);
    if (flat) {
      out = as_one_row(out);
      in.cols = out.cols;
      in.rows = 1;
    }
    row_grid const grid = grid_for(
        out.rows, out.cols, value_tuning::threads * value_tuning::values * (wide ? value_tuning::decode_rounds : 1));
    dequantize_arguments<O, T, L> const a{in, out, how, where.seed, constant, grid};
    return wide ? start_lanes<Device>(dequantize_rows<O, T, L, true>, grid, where, a)
                : start_lanes<Device>(dequantize_rows<O, T, L, false>, grid, where, a);
  }
}

template <class Device, bool Inverse, class Rotation, class T, class Stream>
status start_rotate(matrix_view<T const> in, matrix_view<T> out, Rotation const& rotation,
                    context<Stream> const& where) noexcept {
  if constexpr (!lanes_hold<Rotation, value_tuning::values>) {
    if (is_contiguous(in) && is_contiguous(out) && in.col_stride == 1 && out.col_stride == 1) {
      in = as_one_row(in);
      out = as_one_row(out);
    }
    constexpr int values = team_values<Rotation::size>;
    row_grid const grid = grid_for(out.rows, out.cols, values);
    rotate_arguments<Rotation, T> const a{in, out, rotation, where.seed, grid};
    return start_teams<Device, values>(rotate_runs<Rotation, T, Inverse>, grid, where, a);
  } else {
    constexpr std::int64_t together = lanes_of<Rotation::size, value_tuning::values>;
    bool const wide =
        detail::is_wide_type<T> && detail::rows_are_wide(in) && detail::rows_are_wide(out) && in.cols % together == 0;
    if (wide && is_contiguous(in) && is_contiguous(out)) {
      in = as_one_row(in);
      out = as_one_row(out);
    }
    row_grid const grid =
        grid_for(out.rows, out.cols, value_tuning::threads * value_tuning::values * value_tuning::rounds);
    rotate_arguments<Rotation, T> const a{in, out, rotation, where.seed, grid};
    return wide ? start_lanes<Device>(rotate_rows<Rotation, T, true, Inverse>, grid, where, a)
                : start_lanes<Device>(rotate_rows<Rotation, T, false, Inverse>, grid, where, a);
  }
}

/// in: an amax that is 0.
template <class Device, class O, class T, class Stream>
status start_amax(matrix_view<T const> in, float* amax, O const& how, context<Stream> const& where) noexcept {
  auto* const word = reinterpret_cast<std::uint32_t*>(amax);
  if constexpr (!lanes_hold<detail::rotation_of<O>, value_tuning::amax_values>) {
    if (is_contiguous(in) && in.col_stride == 1) in = as_one_row(in);
    constexpr int values = team_values<detail::rotation_size<O>>;
    row_grid const grid = grid_for(in.rows, in.cols, values);
    amax_arguments<O, T> const a{in, how, where.seed, word, grid};
    return start_teams<Device, values>(find_amax_of_runs<O, T>, grid, where, a);
  } else {
    constexpr std::int64_t together = lanes_of<detail::rotation_size<O>, value_tuning::amax_values>;
    bool const wide = detail::is_wide_type<T> && detail::rows_are_wide(in) && in.cols % together == 0;
    if (wide && is_contiguous(in)) in = as_one_row(in);
    if (!wide && in.row_stride == 1 && !loft::detail::rotates<O>) in = transposed(in);  // any order will do
    row_grid const grid =
        grid_for(in.rows, in.cols, value_tuning::threads * value_tuning::amax_values * value_tuning::amax_rounds);
    amax_arguments<O, T> const a{in, how, where.seed, word, grid};
    return wide ? start_lanes<Device>(find_amax<O, T, true>, grid, where, a)
                : start_lanes<Device>(find_amax<O, T, false>, grid, where, a);
  }
}

}  // namespace loft::gpu

#endif
