// SPDX-License-Identifier: Apache-2.0
// Kernels for rotations whose runs are too long for lanes, or no power of two: a team of threads has whole runs of a
// row in shared memory. Source: design sections 2 and 6; the sums are those of hadamard.hpp, in its order.
#ifndef LOFT_GPU_DETAIL_RUNS_HPP
#define LOFT_GPU_DETAIL_RUNS_HPP

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

/// The threads of a block as a team.
struct block_team {
  static constexpr int size = run_tuning::threads;
  LOFT_HOST_DEVICE int rank() const noexcept { return thread_index(); }
  LOFT_HOST_DEVICE void sync() const noexcept { sync_threads(); }
};

/// The values of a row that a team has: as many units as reach run_tuning::values.
template <int Unit>
inline constexpr int team_values = static_cast<int>(detail::ceil_div(run_tuning::values, Unit)) * Unit;
template <int Count>
inline constexpr int team_bytes = (detail::team_floats(Count) * 4 + 15) / 16 * 16;

/// Values [col, col + Count) of a row to a team's memory, as an operand sees them before its rotation; zeros beyond the
/// end.
template <int Count, nonfinite Policy, class T>
LOFT_HOST_DEVICE inline void load_runs(float* runs, matrix_view<T const> in, std::int64_t row,
                                       std::int64_t col) noexcept {
  int const inside = static_cast<int>(detail::min<std::int64_t>(Count, in.cols - col));
  T const* const from = &in(row, col);
  for (int i = thread_index(); i < Count; i += run_tuning::threads)
    runs[detail::team_place(i)] = i < inside ? detail::apply_nonfinite<Policy>(to_lane_float(from[i * in.col_stride])) : 0.0f;
  sync_threads();
}
/// The same, rotated.
template <int Count, class O, class T>
LOFT_HOST_DEVICE inline void load_rotated(float* runs, matrix_view<T const> in, std::int64_t row, std::int64_t col,
                                          O const& how) noexcept {
  load_runs<Count, O::policy>(runs, in, row, col);
  how.rotation.template apply_team<Count>(runs, block_team{});
}

/// `Count` neighbours of a team's values for a lane, as quantize_prepared takes them.
template <class O, int Count>
LOFT_HOST_DEVICE inline detail::lane_values<float, Count> lane_part(float const* runs, int first) noexcept {
  detail::lane_values<float, Count> result{};
  for (int i = 0; i < Count; ++i)
    result.values[i] = detail::apply_nonfinite<O::policy>(runs[detail::team_place(first + i)]);
  return result;
}

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

/// find_amax for such rotations.
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

template <class O, class T>
struct run_arguments {
  matrix_view<T const> in;
  tile_output<O> to;
  std::uint32_t chunks;  ///< blocks of threads for a row of blocks
};

/// The shapes of quantize_runs: how many values a lane has, at most a block, and how many a team has of a row; whole
/// blocks where the rule looks at them.
template <class O>
struct run_shape {
  using format = typename O::format;
  static constexpr int wide = format::shape.cols, tall = format::shape.rows, bits = format::element::spec.bits();
  static constexpr int usual = bits > 6 ? 16 : 32;
  static constexpr bool whole_blocks = detail::has_statistic<O> || detail::has_candidates<O>;
  static constexpr int lane = whole_blocks ? wide : detail::min(wide, usual);
  static constexpr int lanes = detail::max(1, wide / lane);  ///< that share a block
  static constexpr int unit = detail::least_common_multiple(detail::rotation_size<O>, wide);
  static constexpr int values = team_values<unit>, blocks = values / wide, parts = values / lane;
  static constexpr int rounds = static_cast<int>(detail::ceil_div(parts, run_tuning::threads));
  static constexpr int runs_bytes = team_bytes<values>;
  static constexpr int table_bytes =
      tall == 1 ? 0 : blocks * (4 + static_cast<int>(sizeof(code<typename format::scale>)));
  static constexpr int bytes = runs_bytes + table_bytes;
};

/// Calls work(stored, first, valid) for the parts of a team's row: this lane's values [first, first + lane), of which
/// `valid` are in the tensor. All lanes make all calls, because they exchange: those that have no part of their own see
/// the last one, and their `stored` is -1; else it is `valid`.
template <class O, class Work>
LOFT_HOST_DEVICE inline void for_parts_of_row(std::int64_t cols, std::int64_t col, Work&& work) noexcept {
  using shape = run_shape<O>;
#pragma unroll 1
  for (int round = 0; round < shape::rounds; ++round) {
    int const unit = round * run_tuning::threads + thread_index(), part = detail::min(unit, shape::parts - 1);
    int const first = part * shape::lane;
    int const valid = static_cast<int>(detail::clamp<std::int64_t>(cols - col - first, 0, shape::lane));
    work(unit < shape::parts ? valid : -1, first, valid);
  }
}

/// Writes the codes of a lane's part, and the scale of the block where it begins there.
template <class Layout, class O, int N>
LOFT_HOST_DEVICE inline void store_part(tile_output<O> const& to, std::int64_t row, std::int64_t col, int valid,
                                        std::uint32_t const (&words)[N],
                                        code<typename O::format::scale> const& scale) noexcept {
  using shape = run_shape<O>;
  using format = typename O::format;
  std::int64_t const row_bytes = packed_bytes<typename format::element>(to.out.cols);
  bool const whole = valid == shape::lane && codes_are_wide(to.out.codes, row_bytes);
  store_codes<shape::bits>(to.out.codes + row * row_bytes + col * shape::bits / 8, words, valid, whole);
  if (col % shape::wide == 0 && (Layout::repeats_rows || row % shape::tall == 0))
    to.out.scales[detail::scale_index<format, Layout>(row, col / shape::wide, to.out.cols)] = scale;
}

/// Blocks of one row: as quantize_lines, with the values of a team.
template <class Layout, class O, class T>
LOFT_HOST_DEVICE inline void quantize_row_of_runs(run_arguments<O, T> const& a, float* runs, O const& how,
                                                  tensor_scale t, std::int64_t row, std::int64_t col) noexcept {
  using shape = run_shape<O>;
  lane_group<shape::lanes> const group;
  load_rotated<shape::values>(runs, a.in, row, col, how);
  for_parts_of_row<O>(a.in.cols, col, [&](int stored, int first, int valid) {
    auto const values = lane_part<O, shape::lane>(runs, first);
    auto const index = static_cast<std::uint64_t>(row * a.in.cols + col + first);
    auto const result = detail::quantize_prepared<O, shape::lane>(values, valid, how, t, index, group);
    if (stored > 0) store_part<Layout>(a.to, row, col + first, stored, result.words, result.scales[0]);
  });
}

/// The scales of a team's blocks of several rows. The values of each row are made anew, here and where they are
/// encoded: shared memory holds one row.
template <class O, class T>
LOFT_HOST_DEVICE inline void choose_scales_of_runs(run_arguments<O, T> const& a, float* runs,
                                                   std::uint32_t* maxima, code<typename O::format::scale>* scales,
                                                   O const& how, tensor_scale t, std::int64_t top, int rows,
                                                   std::int64_t col) noexcept {
  using shape = run_shape<O>;
  static_assert(shape::blocks <= run_tuning::threads, "a thread for every block");
  static_assert(!detail::has_statistic<O>, "blocks of several rows: rules that look at the maximum alone");
  lane_group<shape::lanes> const group;
  int const block = thread_index();
  if (block < shape::blocks) maxima[block] = 0;
  for (int r = 0; r < rows; ++r) {
    load_rotated<shape::values>(runs, a.in, top + r, col, how);
    for_parts_of_row<O>(a.in.cols, col, [&](int stored, int first, int) {
      auto const values = lane_part<O, shape::lane>(runs, first);
      std::uint32_t const amax = detail::largest_word<shape::lanes>(values.template amax<shape::lane>(0), group);
      if (stored >= 0 && first % shape::wide == 0)
        maxima[first / shape::wide] = detail::max(maxima[first / shape::wide], amax);
    });
    sync_threads();
  }
  auto const scale_for = [&](int candidate) { return detail::scale_of(maxima[block], {}, how, t, candidate); };
  int const valid = static_cast<int>(
      detail::clamp<std::int64_t>(a.in.cols - col - std::int64_t{block} * shape::wide, 0, shape::wide));
  bool const mine = block < shape::blocks && valid != 0;
  if (mine) scales[block] = scale_for(0);
  if constexpr (detail::has_candidates<O>) {
    float errors[detail::candidates<O>] = {};
    for (int r = 0; r < rows; ++r) {
      load_rotated<shape::values>(runs, a.in, top + r, col, how);
      if (mine) {
        auto const values = lane_part<O, shape::wide>(runs, block * shape::wide);
        auto const index = static_cast<std::uint64_t>((top + r) * a.in.cols + col + block * shape::wide);
        for (int c = 0; c < detail::candidates<O>; ++c)
          errors[c] = detail::add_error(errors[c], values.values, valid, scale_for(c), how, t, index);
      }
      sync_threads();
    }
    float least = errors[0];
    for (int c = 1; mine && c < detail::candidates<O>; ++c) {
      if (!detail::is_less_error(errors[c], least)) continue;
      least = errors[c];
      scales[block] = scale_for(c);
    }
  }
  sync_threads();
}

/// Blocks of several rows.
template <class Layout, class O, class T>
LOFT_HOST_DEVICE inline void quantize_rows_of_runs(run_arguments<O, T> const& a, float* runs, O const& how,
                                                   tensor_scale t, std::int64_t top, std::int64_t col) noexcept {
  using shape = run_shape<O>;
  using scale_code = code<typename O::format::scale>;
  auto* const maxima = reinterpret_cast<std::uint32_t*>(reinterpret_cast<unsigned char*>(runs) + shape::runs_bytes);
  auto* const scales = reinterpret_cast<scale_code*>(maxima + shape::blocks);
  int const rows = static_cast<int>(detail::min<std::int64_t>(shape::tall, a.in.rows - top));
  choose_scales_of_runs(a, runs, maxima, scales, how, t, top, rows, col);
  for (int r = 0; r < rows; ++r) {
    load_rotated<shape::values>(runs, a.in, top + r, col, how);
    for_parts_of_row<O>(a.in.cols, col, [&](int stored, int first, int) {
      if (stored <= 0) return;
      auto const values = lane_part<O, shape::lane>(runs, first);
      scale_code const scale = scales[first / shape::wide];
      auto const index = static_cast<std::uint64_t>((top + r) * a.in.cols + col + first);
      std::uint32_t words[shape::lane * shape::bits / 32] = {};
      detail::encode_words<O, shape::lane>(values, 0, scale, first % shape::wide, how, t, index, words);
      store_part<Layout>(a.to, top + r, col + first, stored, words, scale);
    });
    sync_threads();
  }
}

/// quantize where no tile holds a run: a team of threads has whole runs and blocks of one row, or of the rows of a
/// block.
template <class O, class T, class Layout>
__global__ void __launch_bounds__(run_tuning::threads) quantize_runs(run_arguments<O, T> const a) {
  using shape = run_shape<O>;
  extern __shared__ u32x4 loft_shared[];
  auto* const runs = reinterpret_cast<float*>(loft_shared);
  std::uint32_t const down = block_index() / a.chunks;
  std::int64_t const row = std::int64_t{down} * shape::tall;
  std::int64_t const col = std::int64_t{block_index() - down * a.chunks} * shape::values;
  O const how = with_seed(a.to.how, a.to.from.seed);
  tensor_scale const t = a.to.from.scale != nullptr ? *a.to.from.scale : a.to.t;
  if constexpr (shape::tall == 1) quantize_row_of_runs<Layout>(a, runs, how, t, row, col);
  else quantize_rows_of_runs<Layout>(a, runs, how, t, row, col);
}

/// The runs of dequantize, and whole groups of eight columns.
template <class O>
inline constexpr int decoded_values =
    team_values<detail::least_common_multiple(detail::rotation_size<O>, O::format::shape.cols)>;

/// dequantize_rows for such rotations.
template <class O, class T, class Layout>
__global__ void __launch_bounds__(run_tuning::threads) dequantize_runs(dequantize_arguments<O, T> const a) {
  using format = typename O::format;
  using element = typename format::element;
  constexpr int count = decoded_values<O>, bits = element::spec.bits();
  extern __shared__ u32x4 loft_shared[];
  auto* const runs = reinterpret_cast<float*>(loft_shared);
  auto const place = place_of_block(a.grid.rows, a.grid.chunks, count);
  std::uint8_t const* const codes = a.in.codes + place.row * packed_bytes<element>(a.grid.cols);
  float t = a.tensor_decode;
  if constexpr (has_tensor_scale<format>) t = *a.in.tensor_scale;
  for (int first = thread_index() * 8; first < count; first += run_tuning::threads * 8) {
    std::int64_t const col = place.col + first;
    int const valid = static_cast<int>(detail::clamp<std::int64_t>(a.grid.cols - col, 0, 8));
    float values[8] = {};
    if (valid > 0) {
      std::uint32_t words[(bits + 3) / 4] = {};
      auto const scale =
          a.in.scales[detail::scale_index<format, Layout>(place.row, col / format::shape.cols, a.grid.cols)];
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

#endif
