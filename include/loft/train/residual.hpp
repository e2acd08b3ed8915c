// SPDX-License-Identifier: Apache-2.0
// Residual quantization with selection: Q(X) + S(Q(X - Q(X))), and the models of S.
// Source: arXiv 2607.26515 (Rollout-ResQ) formula 5: all, 2:4, half of the channels, half of the blocks of 32 x 64.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/radix_select.hpp"
#include "loft/tensor/block_walk.hpp"
#include "loft/tensor/checks.hpp"
#include "loft/tensor/quantize.hpp"
#include "loft/tensor/view.hpp"
#include "loft/train/detail/visit.hpp"
#include "loft/train/outliers.hpp"

namespace loft {

/// A selector says which elements of a residual are kept: `apply(m)` makes the others of the matrix 0, in place, after
/// `check(rows, cols)` was ok.
template <class S>
concept Selector = requires(S const selector, matrix_view<float> m) {
  { selector.check(m.rows, m.cols) } -> std::same_as<status>;
  selector.apply(m);
};

/// All elements are kept.
struct keep_all {
  LOFT_HOST_DEVICE constexpr status check(std::int64_t, std::int64_t) const noexcept { return status::ok; }
  LOFT_HOST_DEVICE constexpr void apply(matrix_view<float>) const noexcept {}
};

/// Of each four neighbours of a row, from column 0, the two of largest magnitude are kept; of equals those of lower
/// column. NaN is larger than infinity. A short group at the end keeps two as well.
struct two_of_four {
  LOFT_HOST_DEVICE constexpr status check(std::int64_t, std::int64_t) const noexcept { return status::ok; }
  LOFT_HOST_DEVICE constexpr void apply(matrix_view<float> m) const noexcept {
    for (std::int64_t row = 0; row < m.rows; ++row)
      for (std::int64_t first = 0; first < m.cols; first += 4)
        keep_two(m, row, first, static_cast<int>(detail::min<std::int64_t>(4, m.cols - first)));
  }

 private:
  LOFT_HOST_DEVICE static constexpr void keep_two(matrix_view<float> m, std::int64_t row, std::int64_t first,
                                                  int count) noexcept {
    std::uint32_t sizes[4] = {};  // what is missing is 0, and comes last
    for (int i = 0; i < count; ++i) sizes[i] = detail::magnitude_bits(m(row, first + i));
    for (int i = 0; i < count; ++i) {
      int before = 0;  // how many are kept rather than this one
      for (int k = 0; k < 4; ++k) before += int{sizes[k] > sizes[i]} | (int{sizes[k] == sizes[i]} & int{k < i});
      float& x = m(row, first + i);
      x = before < 2 ? x : 0.0f;
    }
  }
};

/// The half of the tiles of Rows x Cols elements with the largest L2 norms is kept, rounded up; of equals those that
/// come first, row by row. Rows of 0: a tile is Cols whole columns.
///
/// Sums of squares are in double, a tile's elements in row-major order; a tile with NaN or infinity is among the
/// largest. The caller lends the memory, one double a tile.
template <int Rows, int Cols> struct half_of_tiles {
  static_assert(Rows >= 0 && Cols >= 1, "half_of_tiles: a tile has columns, and rows or all of them");
  double* workspace = nullptr;  ///< workspace_size(rows, cols) doubles, in no order afterwards
  std::int64_t size = 0;        ///< of the workspace, in doubles

  LOFT_HOST_DEVICE static constexpr std::int64_t workspace_size(std::int64_t rows, std::int64_t cols) noexcept {
    return rows == 0 ? 0 : detail::ceil_div(rows, height(rows)) * detail::ceil_div(cols, Cols);
  }
  LOFT_HOST_DEVICE constexpr status check(std::int64_t rows, std::int64_t cols) const noexcept {
    std::int64_t const needed = workspace_size(rows, cols);
    return needed > 0 && (workspace == nullptr || size < needed) ? status::workspace_too_small : status::ok;
  }
  LOFT_HOST_DEVICE constexpr void apply(matrix_view<float> m) const noexcept {
    std::int64_t const tiles = workspace_size(m.rows, m.cols), dropped = tiles / 2;
    if (dropped == 0) return;
    gather(m, tiles);
    std::int64_t ranks[] = {dropped};
    std::uint64_t keys[1] = {};
    detail::radix_select(ranks, keys, [&](auto add) {
      for (std::int64_t i = 0; i < tiles; ++i) add(bit_cast<std::uint64_t>(workspace[i]));
    });
    std::uint64_t const least = keys[0];
    std::int64_t equals = tiles - dropped;  // of those like the least one that is kept, how many are
    for (std::int64_t i = 0; i < tiles; ++i) equals -= bit_cast<std::uint64_t>(workspace[i]) > least ? 1 : 0;
    for (std::int64_t i = 0; i < tiles; ++i) {
      std::uint64_t const norm = bit_cast<std::uint64_t>(workspace[i]);
      bool const kept = norm > least || (norm == least && equals-- > 0);
      if (!kept) visit_tile(m, i, [](float& x) { x = 0; });
    }
  }

 private:
  LOFT_HOST_DEVICE static constexpr std::int64_t height(std::int64_t rows) noexcept { return Rows == 0 ? rows : Rows; }

  template <class Function>
  LOFT_HOST_DEVICE static constexpr void visit_tile(matrix_view<float> m, std::int64_t tile, Function&& f) noexcept {
    detail::visit_tile(m.rows, m.cols, Rows, Cols, tile, [&](std::int64_t row, std::int64_t col) { f(m(row, col)); });
  }
  LOFT_HOST_DEVICE constexpr void gather(matrix_view<float> m, std::int64_t tiles) const noexcept {
    constexpr std::uint64_t sign = std::uint64_t{1} << 63;
    for (std::int64_t i = 0; i < tiles; ++i) {
      double sum = 0;
      visit_tile(m, i, [&](float x) {
        double const value = detail::widen(x);
        sum = exact::sum(sum, exact::product(value, value));
      });
      workspace[i] = bit_cast<double>(bit_cast<std::uint64_t>(sum) & ~sign);  // the sign of a NaN is anybody's choice
    }
  }
};
/// Half of the channels, which are the columns.
using half_of_columns = half_of_tiles<0, 1>;
/// Half of the blocks of 32 rows and 64 columns.
using half_of_blocks = half_of_tiles<32, 64>;

/// An operand whose residual is quantized and added, for fake_quantize. The residual has an operand of its own: a known
/// amax is another one, and stochastic rounding wants another stream.
template <Operand O, Selector S = keep_all, Operand Residual = O> struct with_residual {
  O how{};
  Residual residual{};
  S select{};
};

namespace detail {

/// combine(an element of out, that of in, that of fake_quantize(in)) for all elements.
template <class O, class T, class Combine>
LOFT_HOST_DEVICE constexpr void combine_quantized(matrix_view<T> in, matrix_view<float> out, O const& how,
                                                  Combine combine) noexcept {
  if (in.rows == 0 || in.cols == 0) return;
  for (block_walk<O, T> walk{in, {0, in.rows}, how, choose_tensor_scale(in, how)}; walk.next();) {
    walk.blocks.choose_scales();
    for (int r = 0; r < walk.rows(); ++r) {
      std::int64_t const row = walk.row() + r, first = walk.at.first;
      float values[slice_width<O>];
      walk.blocks.fake(r, values, walk.ahead(r));
      for (int i = 0; i < walk.at.count; ++i) combine(out(row, first + i), in(row, first + i), values[i]);
    }
  }
}

template <class O, class S, class R, class T>
LOFT_HOST_DEVICE constexpr status check_residual(matrix_view<T> in, matrix_view<float> out,
                                                 with_residual<O, S, R> const& how) noexcept {
  if (status const s = check_apart(in, out); s != status::ok) return s;
  if (status const s = check_operand(in.cols, how.how); s != status::ok) return s;
  if (status const s = check_operand(in.cols, how.residual); s != status::ok) return s;
  return how.select.check(in.rows, in.cols);
}

}  // namespace detail

/// out = X - Q(X), where Q(X) is what fake_quantize gives.
///
/// rounds: once in float. error: exact wherever Q(X) is 0, or of the sign of X and within a factor of 2 of it
/// (Sterbenz): without a rotation, for nearest rounding under scales that are powers of two, that is every element.
/// Multipliers of other scales are rounded, and may take a value just below half the least code up to it; stochastic
/// rounding takes smaller ones up, and a rotation spreads a run's rounding over all of its elements. NaN where Q(X) is
/// NaN.
/// in: `out` is not `in`. error of the call: a status other than ok, with nothing written.
template <Operand O, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status quantization_residual(
    matrix_view<T> in, matrix_view<float> out, O const& how = detail::default_operand<O>()) noexcept {
  if (status const s = detail::check_apart(in, out); s != status::ok) return s;
  if (status const s = detail::check_operand(in.cols, how); s != status::ok) return s;
  detail::combine_quantized(in, out, how, [](float& to, T x, float quantized) {
    to = exact::subtract(detail::to_float(x), exact::opaque(quantized));
  });
  return status::ok;
}

/// out = S(Q(X - Q(X))): what is selected of the quantized residual, in the tensor's own domain where operands rotate.
/// in, rounds, error: as quantization_residual; the amax and scales of the second Q are those of the residual.
template <Operand O, class S, class R, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status selected_residual(matrix_view<T> in, matrix_view<float> out,
                                                                  with_residual<O, S, R> const& how) noexcept {
  if (status const s = detail::check_residual(in, out, how); s != status::ok) return s;
  if (status const s = quantization_residual(in, out, how.how); s != status::ok) return s;
  matrix_view<float const> const rest = out;
  if (status const s = fake_quantize(rest, out, how.residual); s != status::ok) return s;
  how.select.apply(out);
  return status::ok;
}

/// Q(X) + S(Q(X - Q(X))), the last sum rounded once in float; it needs no memory, because Q(X) is computed twice.
/// in, error: as selected_residual.
template <class O, class S, class R, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out,
                                                              with_residual<O, S, R> const& how) noexcept {
  if (status const s = selected_residual(in, out, how); s != status::ok) return s;
  detail::combine_quantized(in, out, how.how, [](float& to, T, float quantized) {
    to = exact::opaque(exact::add(quantized, exact::opaque(to)));
  });
  return status::ok;
}

}  // namespace loft
