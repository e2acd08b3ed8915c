// SPDX-License-Identifier: Apache-2.0
// Which kernel serves a call, and how many threads it is given.
// Source: design section 6.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/context.hpp"
#include "loft/gpu/detail/dequantize.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/runs.hpp"
#include "loft/gpu/detail/tiles.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// Launches `across` * `down` blocks of threads, if a grid may have so many.
template <class Device, class Kernel, class Stream, class... Arguments>
status launch(Kernel kernel, std::int64_t across, std::int64_t down, int threads, int shared,
              context<Stream> const& where, Arguments const&... arguments) noexcept {
  if (across > 0x7fff'ffff / down) return status::extent_overflow;
  return Device::launch(kernel, static_cast<unsigned>(across * down), static_cast<unsigned>(threads), shared,
                        where.stream, arguments...);
}

/// Zeroes the places of a layout that belong to no block.
template <class Device, class B, ScaleLayout L, class Stream>
status pad(quantized_view<B, L> out, context<Stream> const& where) noexcept {
  using grid_type = detail::scale_grid<B, L>;
  if constexpr (grid_type::is_padded) {
    grid_type const grid{out.rows, out.cols};
    std::int64_t const places = scale_count<B, L>(out.rows, out.cols);
    if (places == grid.rows * grid.cols) return status::ok;
    std::int64_t const blocks = detail::ceil_div(places, value_tuning::threads);
    return launch<Device>(pad_scales<B, L>, blocks, 1, value_tuning::threads, 0, where, out);
  }
  return status::ok;
}

/// One or two outputs, by tiles in shared memory: any strides and extents.
template <class Device, class First, class Second, class T, class Stream>
status launch_tiles(matrix_view<T const> in, First const& first, Second const& second,
                    context<Stream> const& where) noexcept {
  constexpr int rows = tile_rows<First, Second, T, Device::shared_limit>;
  constexpr int shared = shared_memory<tile_bytes<First, Second, T, rows>, Device::shared_limit>::bytes;
  std::int64_t const across = detail::ceil_div(in.cols, tile_tuning::cols);
  std::int64_t const down = detail::ceil_div(in.rows, rows_together<First, rows>);
  bool const wide = is_wide_type<T> && (rows_are_wide(in) || rows_are_wide(transposed(in)));
  tile_arguments<First, Second, T> const a{in, first, second, static_cast<std::uint32_t>(across), wide};
  return launch<Device>(quantize_tiles<First, Second, T, rows>, across, down, tile_tuning::threads, shared, where, a);
}

/// One output, by teams of threads that have whole runs of the rotation in shared memory: any strides and extents.
template <class Device, class O, ScaleLayout L, class T, class Stream>
status launch_runs(matrix_view<T const> in, quantized_output<O, L> to, context<Stream> const& where) noexcept {
  using shape = run_shape<O>;
  if (shape::tall == 1 && in.col_stride == 1 && in.cols % shape::unit == 0) flatten(in, to.view);
  constexpr int shared = shared_memory<shape::bytes, Device::shared_limit>::bytes;
  std::int64_t const across = detail::ceil_div(in.cols, shape::values);
  std::int64_t const down = detail::ceil_div(in.rows, shape::tall);
  run_arguments<O, T, L> const a{in, to, static_cast<std::uint32_t>(across)};
  return launch<Device>(quantize_runs<O, T, L>, across, down, run_tuning::threads, shared, where, a);
}

/// One output, by tiles where they hold whole runs of the rotation, else by teams, which take runs of any length but do
/// not correct scales.
template <class Device, class O, ScaleLayout L, class T, class Stream>
status launch_any(matrix_view<T const> in, quantized_output<O, L> const& to, context<Stream> const& where) noexcept {
  using format = typename O::format;
  static_assert(tile_tuning::cols % format::shape.cols == 0 && tile_tuning::rows % format::shape.rows == 0,
                "kernels quantize blocks whose rows and columns divide 128");
  static_assert(
      !detail::corrects<O> || fits_a_tile<O, void>,
      "kernels correct scales behind rotations and in groups whose lengths divide 128: for a longer or another "
      "rotation, rotate first and quantize without one");
  if constexpr (fits_a_tile<O, void>) return launch_tiles<Device>(in, to, no_output{}, where);
  else return launch_runs<Device>(in, to, where);
}

/// The turns of a thread, where a row holds `chunks` whole blocks of threads of one turn: so many blocks are left that
/// every GPU has several for each of its multiprocessors.
template <class O> constexpr std::int64_t turns_for(std::int64_t rows, std::int64_t chunks) noexcept {
  if (!takes_turns<O>) return 1;
  return detail::clamp<std::int64_t>(detail::min(rows * chunks / 4096, chunks), 1, 4);
}

/// One output, by rows of whole blocks. in: views for which rows_serve is true.
template <class Device, class O, ScaleLayout L, class T, class Stream>
status launch_rows(matrix_view<T const> in, quantized_output<O, L> to, context<Stream> const& where) noexcept {
  constexpr int count = row_fragment<O>;
  static_assert(O::format::shape.rows == 1);
  flatten(in, to.view);
  constexpr std::int64_t width = row_tuning::threads * count * fragments_ahead<O, T>;
  std::int64_t const turns = turns_for<O>(in.rows, in.cols / width);
  std::int64_t const chunks = detail::ceil_div(in.cols, width * turns);
  auto const start = [&](auto device_seed) {
    auto const how = with_keys(to.how);
    using with = std::remove_cvref_t<decltype(how)>;
    row_arguments<with, T, L> const a{
        in, {to.view, how, to.t, to.seed, to.scale}, static_cast<std::uint32_t>(chunks), static_cast<int>(turns)};
    return launch<Device>(quantize_rows<with, T, L, decltype(device_seed)::value>, chunks, in.rows, row_tuning::threads,
                          0, where, a);
  };
  if constexpr (has_seed<O>)
    if (to.seed != nullptr) return start(std::true_type{});
  return start(std::false_type{});
}

/// One output, by the fastest kernel that serves its views.
template <class Device, class O, ScaleLayout L, class T, class Stream>
status launch_quantize(matrix_view<T const> in, quantized_output<O, L> const& to,
                       context<Stream> const& where) noexcept {
  if constexpr (is_row_type<O, T>)
    if (rows_serve<O>(in, to.view)) return launch_rows<Device>(in, to, where);
  return launch_any<Device>(in, to, where);
}

/// True where one kernel serves both outputs of quantize_both: its tiles hold whole runs of both rotations.
template <class First, class Second, class T, int Limit>
inline constexpr bool one_tile_serves = [] {
  using one = typename operand_of<First>::type;
  using two = typename operand_of<Second>::type;
  return fits_a_tile<one, two> && (block_rows<one> > 1 || tile_rows<First, Second, T, Limit> % tile_unit<two> == 0);
}();

/// A kernel of values.hpp or dequantize.hpp; and one of runs.hpp, whose teams have `Values` values each.
template <class Device, class Kernel, class Arguments, class Stream>
status start_lanes(Kernel kernel, row_grid grid, context<Stream> const& where, Arguments const& arguments) noexcept {
  return launch<Device>(kernel, grid.chunks, grid.rows, value_tuning::threads, 0, where, arguments);
}
template <class Device, int Values, class Kernel, class Arguments, class Stream>
status start_teams(Kernel kernel, row_grid grid, context<Stream> const& where, Arguments const& arguments) noexcept {
  return launch<Device>(kernel, grid.chunks, grid.rows, run_tuning::threads, team_bytes<Values>, where, arguments);
}

template <class Device, class O, ScaleLayout L, class T, class Stream>
status start_dequantize(quantized_view<typename O::format const, L> in, matrix_view<T> out, O const& how,
                        context<Stream> const& where) noexcept {
  using format = typename O::format;
  float const constant = detail::constant_of<O>().decode;
  if constexpr (!lanes_hold<detail::rotation_of<O>, value_tuning::values>) {
    row_grid const grid = grid_for(out.rows, out.cols, decoded_values<O>);
    dequantize_arguments<O, T, L> const a{in, out, how, where.seed, constant, grid};
    return start_teams<Device, decoded_values<O>>(dequantize_runs<O, T, L>, grid, where, a);
  } else {
    constexpr std::int64_t bits = format::element::spec.bits(), together = lanes_of<detail::rotation_size<O>, 8>;
    bool const wide =
        is_wide_type<T> && rows_are_wide(out) && is_multiple(in.codes, 4) && bits % 4 == 0 && in.cols % together == 0;
    if (wide && format::shape.rows == 1 && in.cols % format::shape.cols == 0) flatten(out, in);
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
    if (in.col_stride == 1 && out.col_stride == 1) flatten(in, out);
    constexpr int values = team_values<Rotation::size>;
    row_grid const grid = grid_for(out.rows, out.cols, values);
    rotate_arguments<Rotation, T> const a{in, out, rotation, where.seed, grid};
    return start_teams<Device, values>(rotate_runs<Rotation, T, Inverse>, grid, where, a);
  } else {
    constexpr std::int64_t together = lanes_of<Rotation::size, value_tuning::values>;
    bool const wide = is_wide_type<T> && rows_are_wide(in) && rows_are_wide(out) && in.cols % together == 0;
    if (wide) flatten(in, out);
    row_grid const grid =
        grid_for(out.rows, out.cols, value_tuning::threads * value_tuning::values * value_tuning::rounds);
    rotate_arguments<Rotation, T> const a{in, out, rotation, where.seed, grid};
    return wide ? start_lanes<Device>(rotate_rows<Rotation, T, true, Inverse>, grid, where, a)
                : start_lanes<Device>(rotate_rows<Rotation, T, false, Inverse>, grid, where, a);
  }
}

/// The largest finite magnitude. in: an amax that is 0.
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
    bool const wide = is_wide_type<T> && rows_are_wide(in) && in.cols % together == 0;
    if (wide && is_contiguous(in)) in = as_one_row(in);
    if (!wide && in.row_stride == 1 && !detail::rotates<O>) in = transposed(in);  // any order will do
    row_grid const grid =
        grid_for(in.rows, in.cols, value_tuning::threads * value_tuning::amax_values * value_tuning::amax_rounds);
    amax_arguments<O, T> const a{in, how, where.seed, word, grid};
    return wide ? start_lanes<Device>(find_amax<O, T, true>, grid, where, a)
                : start_lanes<Device>(find_amax<O, T, false>, grid, where, a);
  }
}

}  // namespace loft::gpu
