// SPDX-License-Identifier: Apache-2.0
// Which kernel quantizes a tensor, and how many threads it is given.
// Source: design section 6.
#ifndef LOFT_GPU_DETAIL_START_QUANTIZE_HPP
#define LOFT_GPU_DETAIL_START_QUANTIZE_HPP

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/checks.hpp"
#include "loft/gpu/detail/context.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/runs.hpp"
#include "loft/gpu/detail/tiles.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// Zeros in the places of a layout that no block has.
template <class Device, class B, ScaleLayout L, class Stream>
status pad(quantized_view<B, L> out, context<Stream> const& where) noexcept {
  using grid_type = loft::detail::scale_grid<B, L>;
  if constexpr (grid_type::is_padded) {
    grid_type const grid{out.rows, out.cols};
    std::int64_t const places = scale_count<B, L>(out.rows, out.cols);
    if (places == grid.rows * grid.cols) return status::ok;
    if (blocks_for(places) > 0x7fff'ffff) return status::extent_overflow;
    return Device::launch(pad_scales<B, L>, static_cast<unsigned>(blocks_for(places)), value_tuning::threads, 0,
                          where.stream, out);
  }
  return status::ok;
}

/// One or two outputs, by tiles in shared memory: any strides and extents.
template <class Device, class First, class Second, class T, class Stream>
status launch_tiles(matrix_view<T const> in, First const& first, Second const& second,
                    context<Stream> const& where) noexcept {
  constexpr int rows = tile_rows<First, Second, T, Device::shared_limit>;
  constexpr int shared = shared_memory<tile_bytes<First, Second, T, rows>, Device::shared_limit>::bytes;
  std::int64_t const across = loft::detail::ceil_div(in.cols, tile_tuning::cols);
  std::int64_t const down = loft::detail::ceil_div(in.rows, rows_together<First, rows>);
  if (across > 0x7fff'ffff / down) return status::extent_overflow;
  bool const wide = detail::is_wide_type<T> && (detail::rows_are_wide(in) || detail::rows_are_wide(transposed(in)));
  tile_arguments<First, Second, T> const a{in, first, second, static_cast<std::uint32_t>(across), wide};
  return Device::launch(quantize_tiles<First, Second, T, rows>, static_cast<unsigned>(across * down),
                        tile_tuning::threads, shared, where.stream, a);
}

/// One output, by teams of threads that have whole runs of the rotation in shared memory: any strides and extents.
template <class Device, class O, ScaleLayout L, class T, class Stream>
status launch_runs(matrix_view<T const> in, quantized_output<O, L> to, context<Stream> const& where) noexcept {
  using shape = run_shape<O>;
  if (std::is_same_v<L, row_major> && shape::tall == 1 && in.col_stride == 1 && is_contiguous(in) &&
      in.cols % shape::unit == 0) {
    in = as_one_row(in);  // no block and no run crosses the end of another row
    to.view.rows = 1;
    to.view.cols = in.cols;
  }
  constexpr int shared = shared_memory<shape::bytes, Device::shared_limit>::bytes;
  std::int64_t const across = loft::detail::ceil_div(in.cols, shape::values);
  std::int64_t const down = loft::detail::ceil_div(in.rows, shape::tall);
  if (across > 0x7fff'ffff / down) return status::extent_overflow;
  run_arguments<O, T, L> const a{in, to, static_cast<std::uint32_t>(across)};
  return Device::launch(quantize_runs<O, T, L>, static_cast<unsigned>(across * down), run_tuning::threads, shared,
                        where.stream, a);
}

/// One output, by tiles where they hold whole runs of the rotation, else by teams: those take runs of any length, but
/// do not hold groups of corrected scales together.
template <class Device, class O, ScaleLayout L, class T, class Stream>
status launch_any(matrix_view<T const> in, quantized_output<O, L> const& to, context<Stream> const& where) noexcept {
  using format = typename O::format;
  static_assert(tile_tuning::cols % format::shape.cols == 0 && tile_tuning::rows % format::shape.rows == 0,
                "kernels quantize blocks whose rows and columns divide 128");
  static_assert(
      !loft::detail::corrects<O> || fits_a_tile<O, void>,
      "kernels correct scales behind rotations and in groups whose lengths divide 128: for a longer or another "
      "rotation, rotate first and quantize without one");
  if constexpr (fits_a_tile<O, void>) return launch_tiles<Device>(in, to, no_output{}, where);
  else return launch_runs<Device>(in, to, where);
}

/// The turns of a thread, where a row holds `chunks` whole blocks of threads of one turn: so many blocks are left that
/// every GPU has several for each of its multiprocessors.
template <class O>
constexpr std::int64_t turns_for(std::int64_t rows, std::int64_t chunks) noexcept {
  if (!takes_turns<O>) return 1;
  return loft::detail::clamp<std::int64_t>(loft::detail::min(rows * chunks / 4096, chunks), 1, 4);
}

/// One output, by rows of whole blocks. in: what rows_serve says yes to.
template <class Device, class O, ScaleLayout L, class T, class Stream>
status launch_rows(matrix_view<T const> in, quantized_output<O, L> to, context<Stream> const& where) noexcept {
  constexpr int count = row_fragment<O>;
  static_assert(O::format::shape.rows == 1);
  if (std::is_same_v<L, row_major> && is_contiguous(in)) {
    in = as_one_row(in);  // no block crosses the end of another
    to.view.rows = 1;
    to.view.cols = in.cols;
  }
  constexpr std::int64_t width = row_tuning::threads * count * fragments_ahead<O, T>;
  std::int64_t const turns = turns_for<O>(in.rows, in.cols / width);
  std::int64_t const chunks = loft::detail::ceil_div(in.cols, width * turns);
  if (chunks > 0x7fff'ffff / in.rows) return status::extent_overflow;
  auto const start = [&](auto device_seed) {
    auto const how = with_keys(to.how);
    using with = std::remove_cvref_t<decltype(how)>;
    row_arguments<with, T, L> const a{
        in, {to.view, how, to.t, to.seed, to.scale}, static_cast<std::uint32_t>(chunks), static_cast<int>(turns)};
    return Device::launch(quantize_rows<with, T, L, decltype(device_seed)::value>,
                          static_cast<unsigned>(chunks * in.rows), row_tuning::threads, 0, where.stream, a);
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

}  // namespace loft::gpu

#endif
