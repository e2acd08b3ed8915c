// SPDX-License-Identifier: Apache-2.0
// Kernels for rotations whose runs are too long for lanes, or no power of two: a team of threads has whole runs of a
// row in shared memory. Source: design sections 2 and 6; the sums are those of hadamard.hpp, in its order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/quantize_lanes.hpp"
#include "loft/gpu/detail/dequantize.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/staged_tile.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// Threads of a block of the kernels below, and the values of a row that they have at least.
struct run_tuning {
  static constexpr int threads = 256, values = 2048;
};

/// True where neighbouring lanes, each with `Count` values, hold the runs of a rotation.
template <class Rotation, int Count>
inline constexpr bool lanes_hold = (Rotation::size & (Rotation::size - 1)) == 0 && Rotation::size / Count <= 32;

/// The threads of a block as the team of hadamard.hpp.
struct block_team {
  static constexpr int size = run_tuning::threads;
  LOFT_HOST_DEVICE int rank() const noexcept { return thread_index(); }
  LOFT_HOST_DEVICE void sync() const noexcept { sync_threads(); }
};

/// The values of a row that a team has: as many units as reach run_tuning::values.
template <int Unit>
inline constexpr int team_values = static_cast<int>(detail::ceil_div(run_tuning::values, Unit)) * Unit;
template <int Count> inline constexpr int team_bytes = (detail::team_floats(Count) * 4 + 15) / 16 * 16;

/// Values [col, col + Count) of a row to a team's memory, as an operand sees them before its rotation; zeros beyond the
/// end.
template <int Count, nonfinite Policy, class T>
LOFT_HOST_DEVICE inline void load_runs(float* runs, matrix_view<T const> in, std::int64_t row,
                                       std::int64_t col) noexcept {
  int const inside = static_cast<int>(detail::min<std::int64_t>(Count, in.cols - col));
  T const* const from = &in(row, col);
  for (int i = thread_index(); i < Count; i += run_tuning::threads)
    runs[detail::team_place(i)] =
        i < inside ? detail::apply_nonfinite<Policy>(to_register_float(from[i * in.col_stride])) : 0.0f;
  sync_threads();
}
/// Loads those values and rotates them.
template <int Count, class O, class T>
LOFT_HOST_DEVICE inline void load_rotated(float* runs, matrix_view<T const> in, std::int64_t row, std::int64_t col,
                                          O const& how) noexcept {
  load_runs<Count, O::policy>(runs, in, row, col);
  how.rotation.template apply_team<Count>(runs, block_team{});
}

/// The fragments of a row that load_rotated left in a team's memory: values(i) begins at place i of the row.
template <class O, int Count> struct team_row {
  static constexpr int count = Count;
  static constexpr bool is_rotated = true;
  float const* runs;

  LOFT_HOST_DEVICE detail::lane_values<float, Count> values(int first) const noexcept {
    detail::lane_values<float, Count> result{};
    for (int i = 0; i < Count; ++i)
      result.values[i] = detail::apply_nonfinite<O::policy>(runs[detail::team_place(first + i)]);
    return result;
  }
};

template <class Rotation, class T, bool Inverse>
__global__ void __launch_bounds__(run_tuning::threads) rotate_runs(rotate_arguments<Rotation, T> const a) {
  constexpr int count = team_values<Rotation::size>;
  extern __shared__ u32x4 loft_shared[];
  auto* const runs = reinterpret_cast<float*>(loft_shared);
  auto const place = place_of_block(a.grid.rows, a.grid.chunks, count);
  load_runs<count, nonfinite::propagate>(runs, a.in, place.row, place.col);
  Rotation const rotation = with_seed(a.rotation, a.seed);
  if constexpr (Inverse) rotation.template invert_team<count>(runs, block_team{});
  else rotation.template apply_team<count>(runs, block_team{});
  int const inside = static_cast<int>(detail::min<std::int64_t>(count, a.grid.cols - place.col));
  for (int i = thread_index(); i < inside; i += run_tuning::threads)
    a.out(place.row, place.col + i) = static_cast<T>(runs[detail::team_place(i)]);
}

/// find_amax for rotations whose runs a team holds.
template <class O, class T>
__global__ void __launch_bounds__(run_tuning::threads) find_amax_of_runs(amax_arguments<O, T> const a) {
  constexpr int count = team_values<detail::rotation_size<O>>;
  extern __shared__ u32x4 loft_shared[];
  auto* const runs = reinterpret_cast<float*>(loft_shared);
  auto const place = place_of_block(a.grid.rows, a.grid.chunks, count);
  load_rotated<count>(runs, a.in, place.row, place.col, with_seed(a.how, a.seed));
  std::uint32_t largest = 0;
  for (int i = thread_index(); i < count; i += run_tuning::threads) {
    std::uint32_t const bits = detail::magnitude_bits(detail::apply_nonfinite<O::policy>(runs[detail::team_place(i)]));
    largest = detail::max(largest, bits < detail::float_infinity ? bits : 0u);
  }
  largest = detail::largest_word<32>(largest, lane_group<32>{});
  if (thread_index() % 32 == 0) atomic_largest(a.amax, largest);
}

template <class O, class T, ScaleLayout L> struct run_arguments {
  matrix_view<T const> in;
  quantized_output<O, L> to;
  std::uint32_t chunks;  ///< blocks of threads for a row of blocks
};

/// The shapes of quantize_runs: how many values a lane has, at most a block, and how many a team has of a row; whole
/// blocks where the rule looks at them.
template <class O> struct run_shape {
  using format = typename O::format;
  static constexpr int wide = format::shape.cols, tall = format::shape.rows;
  static constexpr int usual = format::element::spec.bits() > 6 ? 16 : 32;
  static constexpr bool whole_blocks = detail::has_statistic<O> || detail::has_candidates<O>;
  static constexpr int lane = whole_blocks ? wide : detail::min(wide, usual);
  static constexpr int lanes = detail::max(1, wide / lane);  ///< that share a block
  static constexpr int unit = detail::least_common_multiple(detail::rotation_size<O>, wide);
  static constexpr int values = team_values<unit>, blocks = values / wide, fragments = values / lane;
  static constexpr int rounds = static_cast<int>(detail::ceil_div(fragments, run_tuning::threads));
  static constexpr int runs_bytes = team_bytes<values>;
  static constexpr int table_bytes =
      tall == 1 ? 0 : blocks * (4 + static_cast<int>(sizeof(code<typename format::scale>)));
  static constexpr int bytes = runs_bytes + table_bytes;
};

/// Calls work(stored, first, valid) for the fragments of a team's row: this lane's values [first, first + lane), of
/// which `valid` are in the tensor. All lanes make all calls, because they exchange: those that have no fragment of
/// their own see the last one, and their `stored` is -1; else it is `valid`.
template <class O, class Work>
LOFT_HOST_DEVICE inline void for_fragments_of_row(std::int64_t cols, std::int64_t col, Work&& work) noexcept {
  using shape = run_shape<O>;
#pragma unroll 1
  for (int round = 0; round < shape::rounds; ++round) {
    int const unit = round * run_tuning::threads + thread_index();
    int const first = detail::min(unit, shape::fragments - 1) * shape::lane;
    int const valid = static_cast<int>(detail::clamp<std::int64_t>(cols - col - first, 0, shape::lane));
    work(unit < shape::fragments ? valid : -1, first, valid);
  }
}

/// Blocks of one row: as quantize_lines, with the values of a team.
template <class O, class T, ScaleLayout L>
LOFT_HOST_DEVICE inline void quantize_row_of_runs(run_arguments<O, T, L> const& a, float* runs, O const& how,
                                                  tensor_scale t, std::int64_t row, std::int64_t col) noexcept {
  using shape = run_shape<O>;
  lane_group<shape::lanes> const group;
  load_rotated<shape::values>(runs, a.in, row, col, how);
  for_fragments_of_row<O>(a.in.cols, col, [&](int stored, int first, int valid) {
    team_row<O, shape::lane> const source{runs};
    output_cursor<typename O::format, L, shape::lane> const at{a.to.view, row, col + first, valid};
    auto const result = quantize_fragment(source, first, valid, how, t, at.index, group);
    if (stored > 0) at.store(result);
  });
}

/// The scales of a team's blocks of several rows. The values of each row are made anew, here and where they are
/// encoded: shared memory holds one row.
template <class O, class T, ScaleLayout L>
LOFT_HOST_DEVICE inline void choose_scales_of_runs(run_arguments<O, T, L> const& a, float* runs, std::uint32_t* maxima,
                                                   code<typename O::format::scale>* scales, O const& how,
                                                   tensor_scale t, std::int64_t top, int rows,
                                                   std::int64_t col) noexcept {
  using shape = run_shape<O>;
  static_assert(shape::blocks <= run_tuning::threads, "a thread for every block");
  static_assert(!detail::has_statistic<O>, "blocks of several rows: rules that look at the maximum alone");
  lane_group<shape::lanes> const group;
  int const block = thread_index();
  if (block < shape::blocks) maxima[block] = 0;
  for (int r = 0; r < rows; ++r) {
    load_rotated<shape::values>(runs, a.in, top + r, col, how);
    for_fragments_of_row<O>(a.in.cols, col, [&](int stored, int first, int) {
      auto const values = team_row<O, shape::lane>{runs}.values(first);
      std::uint32_t const amax = detail::largest_word<shape::lanes>(values.template amax<shape::lane>(0), group);
      if (stored >= 0 && first % shape::wide == 0)
        maxima[first / shape::wide] = detail::max(maxima[first / shape::wide], amax);
    });
    sync_threads();
  }
  int const valid = static_cast<int>(
      detail::clamp<std::int64_t>(a.in.cols - col - std::int64_t{block} * shape::wide, 0, shape::wide));
  bool const mine = block < shape::blocks && valid != 0;
  detail::scale_chooser<O> chooser{};
  if (mine) chooser.amax[0] = maxima[block];
  if constexpr (detail::has_candidates<O>) {
    float errors[detail::candidates<O>] = {};
    for (int r = 0; r < rows; ++r) {
      load_rotated<shape::values>(runs, a.in, top + r, col, how);
      if (mine) {
        auto const values = team_row<O, shape::wide>{runs}.values(block * shape::wide);
        auto const index = static_cast<std::uint64_t>((top + r) * a.in.cols + col + block * shape::wide);
        for (int c = 0; c < detail::candidates<O>; ++c)
          errors[c] = detail::add_error(errors[c], values.values, valid, chooser.scale(0, c, how, t), how, t, index);
      }
      sync_threads();
    }
    for (int c = 0; c < detail::candidates<O>; ++c) chooser.compare(0, c, chooser.scale(0, c, how, t), errors[c]);
  }
  if (mine) scales[block] = chooser.best(0, how, t);
  sync_threads();
}

/// Blocks of several rows: their scales, and then their codes row by row.
template <class O, class T, ScaleLayout L>
LOFT_HOST_DEVICE inline void quantize_rows_of_runs(run_arguments<O, T, L> const& a, float* runs, O const& how,
                                                   tensor_scale t, std::int64_t top, std::int64_t col) noexcept {
  using shape = run_shape<O>;
  auto* const maxima = reinterpret_cast<std::uint32_t*>(reinterpret_cast<unsigned char*>(runs) + shape::runs_bytes);
  auto* const scales = reinterpret_cast<code<typename O::format::scale>*>(maxima + shape::blocks);
  int const rows = static_cast<int>(detail::min<std::int64_t>(shape::tall, a.in.rows - top));
  choose_scales_of_runs(a, runs, maxima, scales, how, t, top, rows, col);
  for (int r = 0; r < rows; ++r) {
    load_rotated<shape::values>(runs, a.in, top + r, col, how);
    for_fragments_of_row<O>(a.in.cols, col, [&](int stored, int first, int valid) {
      if (stored <= 0) return;
      output_cursor<typename O::format, L, shape::lane> const at{a.to.view, top + r, col + first, valid};
      auto const values = team_row<O, shape::lane>{runs}.values(first);
      at.store(detail::encode_prepared<O, shape::lane>(values, first % shape::wide, how, t, at.index,
                                                       [&](int) { return scales[first / shape::wide]; }));
    });
    sync_threads();
  }
}

/// quantize where no tile holds a run: a team of threads has whole runs and blocks of one row, or of the rows of a
/// block.
template <class O, class T, class L>
__global__ void __launch_bounds__(run_tuning::threads) quantize_runs(run_arguments<O, T, L> const a) {
  using shape = run_shape<O>;
  extern __shared__ u32x4 loft_shared[];
  auto* const runs = reinterpret_cast<float*>(loft_shared);
  std::uint32_t const down = block_index() / a.chunks;
  std::int64_t const row = std::int64_t{down} * shape::tall;
  std::int64_t const col = std::int64_t{block_index() - down * a.chunks} * shape::values;
  O const how = a.to.operand();
  tensor_scale const t = a.to.scale_of_tensor();
  if constexpr (shape::tall == 1) quantize_row_of_runs(a, runs, how, t, row, col);
  else quantize_rows_of_runs(a, runs, how, t, row, col);
}

/// The runs of dequantize, and whole groups of eight columns.
template <class O>
inline constexpr int decoded_values =
    team_values<detail::least_common_multiple(detail::rotation_size<O>, O::format::shape.cols)>;

/// dequantize_rows for rotations whose runs a team holds.
template <class O, class T, class L>
__global__ void __launch_bounds__(run_tuning::threads) dequantize_runs(dequantize_arguments<O, T, L> const a) {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int count = decoded_values<O>, bits = element::spec.bits();
  extern __shared__ u32x4 loft_shared[];
  auto* const runs = reinterpret_cast<float*>(loft_shared);
  auto const place = place_of_block(a.grid.rows, a.grid.chunks, count);
  std::uint8_t const* const codes = a.in.codes + place.row * packed_bytes<element>(a.grid.cols);
  detail::scale_grid<format, L> const grid{a.in.rows, a.grid.cols};
  float t = a.tensor_decode;
  if constexpr (has_tensor_scale<format>) t = *a.in.tensor_scale;
  for (int first = thread_index() * 8; first < count; first += run_tuning::threads * 8) {
    std::int64_t const col = place.col + first;
    int const valid = static_cast<int>(detail::clamp<std::int64_t>(a.grid.cols - col, 0, 8));
    float values[8] = {};
    if (valid > 0) {
      std::uint32_t words[(bits + 3) / 4] = {};
      auto const scale = a.in.scales[grid.place(place.row, col / format::shape.cols)];
      load_eight<element, false>(codes + col * bits / 8, (valid * bits + 7) / 8, words);
      dequantize_eight<O>(words, scale, static_cast<int>(col % format::shape.cols), t, values);
    }
    for (int i = 0; i < 8; ++i) runs[detail::team_place(first + i)] = i < valid ? values[i] : 0.0f;
  }
  sync_threads();
  with_seed(a.how.rotation, a.seed).template invert_team<count>(runs, block_team{});
  int const inside = static_cast<int>(detail::min<std::int64_t>(count, a.grid.cols - place.col));
  for (int i = thread_index(); i < inside; i += run_tuning::threads) {
    float value = runs[detail::team_place(i)];
    if (detail::magnitude_bits(value) > detail::float_infinity) value = bit_cast<float>(detail::float_nan);
    a.out(place.row, place.col + i) = static_cast<T>(value);
  }
}

}  // namespace loft::gpu
