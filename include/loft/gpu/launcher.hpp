// SPDX-License-Identifier: Apache-2.0
// The entry points of a GPU: which kernel serves a call, what is refused, and what memory it asks for. CUDA and HIP.
// Source: design sections 3 and 6.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/gpu/detail/context.hpp"
#include "loft/gpu/detail/gnmr.hpp"
#include "loft/gpu/detail/grid.hpp"
#include "loft/gpu/detail/norms.hpp"
#include "loft/gpu/detail/rows.hpp"
#include "loft/gpu/detail/start.hpp"
#include "loft/gpu/detail/tiles.hpp"
#include "loft/gpu/detail/values.hpp"
#include "loft/tensor/quantize.hpp"

namespace loft::gpu {

/// The calls, on the machine that `Device` describes: its `stream`, `launch(kernel, blocks, threads, shared, stream,
/// arguments)` and `zero(pointer, bytes, stream)`, both giving a status; `shared_limit`, the bytes of shared memory
/// that a block of threads may have.
///
/// All views are of device memory; `how`, and what it holds, of the host. A call checks first, and what it refuses has
/// written nothing. Calls on one stream run in order; results depend on no launch shape.
template <class Device> struct launcher {
  using context = gpu::context<typename Device::stream>;
  template <class T> using norm_item = gpu::norm_item<T>;
  template <class Norm> using gnmr_memory = gpu::gnmr_memory<Norm>;

  /// Bytes of workspace that quantize needs for this operand.
  template <class O> static constexpr std::int64_t workspace_bytes() noexcept {
    return has_tensor_scale<typename O::format> ? static_cast<std::int64_t>(sizeof(scale_memory)) : 0;
  }
  /// Bytes of workspace that quantize_both needs for these operands.
  template <class First, class Second> static constexpr std::int64_t workspace_bytes() noexcept {
    return workspace_bytes<First>() + workspace_bytes<Second>();
  }

  /// loft::quantize on a GPU: [rows, cols] -> codes, scales, tensor scale, the same bits.
  ///
  /// in: any strides; a transposed view quantizes along the columns. Rows of whole blocks that start at multiples of 16
  /// bytes are fastest. A format with a tensor scale needs a workspace, unless the rule holds its amax.
  /// error: as loft::quantize, and misaligned_pointer, workspace_too_small, launch_failed.
  template <class O, class T, ScaleLayout L>
  [[nodiscard]] static status quantize(matrix_view<T> in, quantized_view<typename O::format, L> out, O const& how,
                                       context const& where) noexcept {
    auto const from = read_only(in);
    if (status const s = check_quantize(from, out, how, where); s != status::ok) return s;
    if (in.rows == 0 || in.cols == 0) return status::ok;
    quantized_output<O, L> to{out, how, {}, where.seed};
    if (status const s = find_scale(from, to, where); s != status::ok) return s;
    if (status const s = pad<Device>(out, where); s != status::ok) return s;
    return launch_quantize<Device>(from, to, where);
  }

  /// quantize of a matrix and of its transpose with one read of it, or with two where a rotation is longer than a tile
  /// or no power of two: `rows_out` is [rows, cols], `cols_out` is [cols, rows]. Blocks of several rows are square,
  /// without a rotation and without candidates for their scale, both operands are of one type, and the rule is that of
  /// `rows_how`: its scales serve both. A recipe gives the two outputs different streams: seed and cols_seed.
  template <class First, class Second, class T, ScaleLayout L, ScaleLayout M>
  [[nodiscard]] static status quantize_both(matrix_view<T> in, quantized_view<typename First::format, L> rows_out,
                                            First const& rows_how, quantized_view<typename Second::format, M> cols_out,
                                            Second const& cols_how, context const& where) noexcept {
    auto const from = read_only(in);
    constexpr bool tall = First::format::shape.rows > 1 || Second::format::shape.rows > 1;
    static_assert(
        !tall || (std::is_same_v<First, Second> && First::format::shape.rows == First::format::shape.cols &&
                  !detail::rotates<First> && !detail::has_candidates<First>),
        "quantize_both: blocks of several rows are square, not rotated, of one operand, with one scale to choose");
    context second = where;
    if (where.cols_seed != nullptr) second.seed = where.cols_seed;
    if (status const s = check_quantize(from, rows_out, rows_how, where); s != status::ok) return s;
    if (status const s = check_quantize(transposed(from), cols_out, cols_how, second); s != status::ok) return s;
    if (in.rows == 0 || in.cols == 0) return status::ok;
    std::int64_t const needed = (needs_scale(rows_how, where) ? workspace_bytes<First>() : 0) +
                                (needs_scale(cols_how, where) ? workspace_bytes<Second>() : 0);
    if (status const s = check_workspace(where, needed); s != status::ok) return s;
    quantized_output<First, L> one{rows_out, rows_how, {}, where.seed};
    quantized_output<Second, M> two{cols_out, cols_how, {}, second.seed};
    if constexpr (tall) two.how.rule = rows_how.rule;
    if (status const s = find_scale(from, one, where); s != status::ok) return s;
    if (needs_scale(rows_how, where)) {
      second.workspace = static_cast<scale_memory*>(where.workspace) + 1;
      second.workspace_bytes -= workspace_bytes<First>();
    }
    if (status const s = find_scale(transposed(from), two, second); s != status::ok) return s;
    if (status const s = pad<Device>(rows_out, where); s != status::ok) return s;
    if (status const s = pad<Device>(cols_out, where); s != status::ok) return s;
    if constexpr (one_tile_serves<quantized_output<First, L>, quantized_output<Second, M>, std::remove_const_t<T>,
                                  Device::shared_limit>) {
      return launch_tiles<Device>(from, one, two, where);
    } else {
      if (status const s = launch_quantize<Device>(from, one, where); s != status::ok) return s;
      return launch_quantize<Device>(transposed(from), two, where);
    }
  }

  /// loft::dequantize on a GPU, the same bits: to float, or rounded once more, to nearest even, to bfloat16 or half.
  template <class O, class B, ScaleLayout L, class T>
  [[nodiscard]] static status dequantize(quantized_view<B, L> in, matrix_view<T> out, O const& how,
                                         context const& where) noexcept {
    using format = typename O::format;
    static_assert(std::is_same_v<std::remove_const_t<B>, format>,
                  "dequantize: the operand describes another block format");
    static_assert(format::shape.cols % value_tuning::values == 0, "dequantize: blocks of a multiple of eight columns");
    if (status const s = detail::check_quantized(in); s != status::ok) return s;
    if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
    if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
    if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
    if (!aligned(out.data) || !aligned(in.scales) || !aligned(where.seed)) return status::misaligned_pointer;
    if (in.rows == 0 || in.cols == 0) return status::ok;
    quantized_view<format const, L> const from = in;
    return start_dequantize<Device>(from, out, how, where);
  }

  /// Applies a rotation to every run of every row: computed in float, rounded once to U. `out` may be `in`.
  /// error: rotation_does_not_divide where the columns are no multiple of the rotation's size.
  template <class T, class U, class Rotation>
  [[nodiscard]] static status rotate(matrix_view<T> in, matrix_view<U> out, Rotation const& rotation,
                                     context const& where) noexcept {
    return rotate_either_way<false>(in, out, rotation, where);
  }
  /// Applies the inverse of a rotation, as rotate does the rotation.
  template <class T, class U, class Rotation>
  [[nodiscard]] static status rotate_back(matrix_view<T> in, matrix_view<U> out, Rotation const& rotation,
                                          context const& where) noexcept {
    return rotate_either_way<true>(in, out, rotation, where);
  }

  /// loft::tensor_amax on a GPU: `amax` is device memory.
  template <class O, class T>
  [[nodiscard]] static status tensor_amax(matrix_view<T> in, O const& how, float* amax, context const& where) noexcept {
    if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
    if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
    if (amax == nullptr) return status::null_pointer;
    if (!aligned(in.data) || !aligned(amax) || !aligned(where.seed)) return status::misaligned_pointer;
    if (status const s = Device::zero(amax, sizeof(float), where.stream); s != status::ok) return s;
    if (in.rows == 0 || in.cols == 0) return status::ok;
    return start_amax<Device>(read_only(in), amax, how, where);
  }

  /// Bytes of workspace for partial_norms: `chunks` is what plan_norms gave. The workspace is zero before its first
  /// use, and the calls leave its counters zero; between them no other call may use it.
  static constexpr std::int64_t norm_workspace_bytes(int tensors, std::int64_t chunks) noexcept {
    std::int64_t const blocks = chunks / norm_tuning::groups + tensors;  // at least as many as there are
    return tensors * static_cast<std::int64_t>(sizeof(norm_counters)) +
           2 * blocks * static_cast<std::int64_t>(sizeof(double));
  }
  /// Fills in first_block of a list in host memory, and gives the number of chunks of all.
  template <class T> static constexpr std::int64_t plan_norms(norm_item<T>* items, int count) noexcept {
    std::int64_t chunks = 0, blocks = 0;
    for (int i = 0; i < count; ++i) chunks += norm_chunks(items[i].count);
    int const level = norm_level(chunks);
    for (int i = 0; i < count; ++i) {
      items[i].first_block = blocks;
      blocks += norm_blocks(items[i].count, level);
    }
    return chunks;
  }

  /// partial_norm of each of `count` tensors in one launch, the same bits: items and out are device memory; `chunks`
  /// and the rest of the items are what plan_norms gave.
  template <class T>
  [[nodiscard]] static status partial_norms(norm_item<T> const* items, int count, std::int64_t chunks,
                                            norm_partial* out, context const& where) noexcept {
    if (count < 0 || chunks < 0) return status::negative_extent;
    if (count == 0) return status::ok;
    if (items == nullptr || out == nullptr) return status::null_pointer;
    if (!aligned(items) || !aligned(out)) return status::misaligned_pointer;
    if (status const s = check_workspace(where, norm_workspace_bytes(count, chunks)); s != status::ok) return s;
    auto* const counters = static_cast<norm_counters*>(where.workspace);
    int const level = norm_level(chunks);
    std::int64_t const blocks = (chunks >> level) + count;  // at least as many as there are
    norm_arguments<T> const a{items, count, level, out, counters, reinterpret_cast<double*>(counters + count)};
    return launch<Device>(take_norms<T>, blocks, 1, norm_tuning::threads, 0, where, a);
  }

  /// quantize, and partial_norm of the input as a by-product of the same read. in: contiguous, rows of whole blocks,
  /// and a multiple of 16 for an address; the workspace holds workspace_bytes<O>() and after them, at a multiple
  /// of 16, norm_workspace_bytes(1, chunks). error: not_contiguous for other views.
  template <class O, class T>
  [[nodiscard]] static status quantize_with_norm(matrix_view<T> in, quantized_view<typename O::format> out,
                                                 O const& how, norm_partial* norm, context const& where) noexcept {
    using number = std::remove_const_t<T>;
    static_assert(is_wide_type<number> && O::format::shape.rows == 1 && !detail::has_statistic<O> &&
                      lanes_together<O, norm_tuning::values> <= 32 &&
                      lanes_hold<detail::rotation_of<O>, norm_tuning::values>,
                  "quantize_with_norm: float, bfloat16 or half, blocks of one row, a rule that looks at the maximum, a "
                  "rotation that is a power of two which lanes hold; for others call partial_norms and quantize");
    matrix_view<number const> const from = in;
    if (status const s = check_quantize(from, out, how, where); s != status::ok) return s;
    if (norm == nullptr) return status::null_pointer;
    if (!aligned(norm)) return status::misaligned_pointer;
    if (in.rows == 0 || in.cols == 0) return Device::zero(norm, sizeof(norm_partial), where.stream);
    if (!rows_serve<O>(from, out) || !is_contiguous(from)) return status::not_contiguous;
    std::int64_t const total = in.rows * in.cols, chunks = detail::ceil_div(total, norm_order::chunk);
    std::int64_t const own = workspace_bytes<O>();
    if (status const s = check_workspace(where, own + norm_workspace_bytes(1, chunks)); s != status::ok) return s;
    quantized_output<O, row_major> to{out, how, {}, where.seed};
    if (status const s = find_scale(from, to, where); s != status::ok) return s;
    auto* const counters = reinterpret_cast<norm_counters*>(static_cast<unsigned char*>(where.workspace) + own);
    int const level = norm_level(chunks, norm_tuning::blocks_beside);
    norm_by_product<O, number> const a{
        {as_one_row(from), to}, level, norm, counters, reinterpret_cast<double*>(counters + 1)};
    return launch<Device>(quantize_rows_with_norm<O, number>, norm_blocks(total, level), 1, norm_tuning::threads, 0,
                          where, a);
  }

  /// One step of all units: gnmr::step, the same units, report and decisions to the bit. One launch without a
  /// workspace; it can be part of a captured graph.
  ///
  /// in: the controller by value, so that a captured step keeps its options. out: units, report, active.
  /// error: what gnmr::check says, negative_extent, too_many_units, null_pointer, misaligned_pointer, launch_failed; a
  /// refused step has changed nothing, not even the report in device memory.
  template <class History, class Signals, class Norm>
  [[nodiscard]] static status gnmr_step(gnmr<History, Signals> const& controller, gnmr_memory<Norm> const& m,
                                        context const& where) noexcept {
    if (status const s = controller.check(); s != status::ok) return s;
    if (m.count < 0) return status::negative_extent;
    if (m.count > 0x7fff'ffff) return status::too_many_units;
    if (m.count > 0 && (m.units == nullptr || m.norms == nullptr)) return status::null_pointer;
    if (!aligned(m.units) || !aligned(m.norms) || !aligned(m.risks) || !aligned(m.report))
      return status::misaligned_pointer;
    return launch<Device>(step_units<gnmr<History, Signals>, Norm>, 1, 1, gnmr_tuning::threads, 0, where, controller,
                          m);
  }

 private:
  template <bool Inverse, class T, class U, class Rotation>
  static status rotate_either_way(matrix_view<T> in, matrix_view<U> out, Rotation const& rotation,
                                  context const& where) noexcept {
    static_assert(std::is_same_v<std::remove_const_t<T>, U>, "rotate: both matrices hold numbers of one type");
    if (status const s = detail::check_matrix(in, false); s != status::ok) return s;
    if (in.rows != out.rows || in.cols != out.cols) return status::shape_mismatch;
    if (status const s = detail::check_matrix(out, true); s != status::ok) return s;
    if (in.cols % Rotation::size != 0) return status::rotation_does_not_divide;
    if (!aligned(in.data) || !aligned(out.data) || !aligned(where.seed)) return status::misaligned_pointer;
    if (in.rows == 0 || in.cols == 0) return status::ok;
    return start_rotate<Device, Inverse>(read_only(in), out, rotation, where);
  }

  /// Finds the tensor's scale: on the host where the amax is known there, else by kernels that run before and leave it
  /// in the workspace.
  template <class O, class T, ScaleLayout L>
  static status find_scale(matrix_view<T const> in, quantized_output<O, L>& to, context const& where) noexcept {
    to.t = detail::constant_of<O>();
    if constexpr (has_tensor_scale<typename O::format>) {
      if (!needs_scale(to.how, where)) {
        if constexpr (requires { to.how.rule.amax; }) to.t = detail::scale_for_amax<O>(to.how.rule.amax);
        return launch<Device>(store_number<float>, 1, 1, 32, 0, where, to.t.decode, to.view.tensor_scale);
      }
      auto* const memory = static_cast<scale_memory*>(where.workspace);
      auto* const computed = reinterpret_cast<float*>(&memory->amax);
      if (where.amax == nullptr)
        if (status const s = tensor_amax(in, to.how, computed, where); s != status::ok) return s;
      to.scale = &memory->scale;
      float const* const amax = where.amax != nullptr ? where.amax : computed;
      return launch<Device>(choose_tensor_scale<O>, 1, 1, 32, 0, where, amax, &memory->scale, to.view.tensor_scale);
    }
    return status::ok;
  }
};

}  // namespace loft::gpu
