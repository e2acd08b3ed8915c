// SPDX-License-Identifier: Apache-2.0
// The emulated product of two operands, quantized or not: matmul, matmul_add, and dot, one element of it.
// Source: the products of recipe.hpp; scales inside the sum and tensor scales in the epilogue as in arXiv 2509.25149
// section 2.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/core/bits.hpp"
#include "loft/core/exact.hpp"
#include "loft/core/status.hpp"
#include "loft/product/accumulator.hpp"
#include "loft/product/operand_rows.hpp"
#include "loft/tensor/view.hpp"

namespace loft {
namespace detail {

/// Columns of K over which the factors of both sides are constant; 0: all of them.
template <OperandRows Left, OperandRows Right>
inline constexpr int common_factor_cols = [] {
  int a = Left::factor_cols, b = Right::factor_cols;
  while (b != 0) {
    int const rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}();

/// Calls segment(k, end) for the terms [first, last) of K in order, cut where a chunk or a run of the accumulator ends;
/// there join() and finish(column, several), `several` where the run has more chunks than one.
template <class A, class Segment, class Join, class Finish>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void for_segments(std::int64_t first, std::int64_t last,
                                                                    std::int64_t cols, std::int64_t run,
                                                                    Segment&& segment, Join&& join,
                                                                    Finish&& finish) noexcept {
  for (std::int64_t k = first; k < last;) {
    std::int64_t const begin = k - k % run, run_end = min(begin + run, cols);
    bool several = false;
    std::int64_t chunk_end = run_end;
    if constexpr (A::chunk != 0) {
      several = run_end - begin > A::chunk;
      chunk_end = min(run_end, k + A::chunk - (k - begin) % A::chunk);
    }
    std::int64_t const end = min(chunk_end, last);
    segment(k, end);
    if (end == chunk_end && several) join();
    if (end == run_end) finish(begin, several);
    k = end;
  }
}

/// What stands in the output: the total times the tensors' factors, on top of `before`, rounded to float once.
template <class Left, class Right, class T>
LOFT_HOST_DEVICE constexpr float epilogue(Left const& left, Right const& right, T total, float before) noexcept {
  double value = 0;
  if (left.cols() != 0) {
    double const factor = exact::product(left.tensor_factor(), right.tensor_factor());
    value = exact::product(widen(total), factor);
  }
  return narrow(exact::sum(value, widen(before)));
}

/// A rectangle of the output, whose columns are the lanes: each of its sums has the order that the accumulator states.
template <class A, class Left, class Right> struct product_tile {
  using number = typename A::number;
  static constexpr int rows = 16, cols = 32, depth = 64;
  static constexpr std::int64_t factor_cols = common_factor_cols<Left, Right>;

  A const& how;
  Left const& left;
  Right const& right;
  std::int64_t row, col;  // of the first element in the output
  int height, width;      // of the part that lies in the output
  number left_values[rows][depth] = {}, right_values[depth][cols] = {};
  number sum[rows][cols] = {}, run[rows][cols] = {}, total[rows][cols] = {};

  LOFT_HOST_DEVICE constexpr void accumulate() noexcept {
    std::int64_t const all = left.cols(), common = factor_cols == 0 ? all : factor_cols;
    for (std::int64_t first = 0; first < all; first += depth) {
      int const count = static_cast<int>(min<std::int64_t>(depth, all - first));
      load(first, count);
      for_segments<A>(
          first, first + count, all, common,
          [&](std::int64_t k, std::int64_t end) {
            for (int r = 0; r < height; ++r) add(r, static_cast<int>(k - first), static_cast<int>(end - first));
          },
          [&] { join(); }, [&](std::int64_t k, bool several) { finish(k, several); });
    }
  }

 private:
  LOFT_HOST_DEVICE constexpr void load(std::int64_t first, int count) noexcept {
    float values[depth] = {};
    for (int r = 0; r < height; ++r) {
      load_elements(left, row + r, first, count, values);
      for (int k = 0; k < count; ++k) left_values[r][k] = as_number(values[k]);
    }
    for (int c = 0; c < width; ++c) {
      load_elements(right, col + c, first, count, values);
      for (int k = 0; k < count; ++k) right_values[k][c] = as_number(values[k]);
    }
  }
  LOFT_HOST_DEVICE static constexpr number as_number(float x) noexcept {
    if constexpr (sizeof(number) == 8) return widen(x);
    else return x;
  }
  /// The terms [first, last) of the buffers for one row.
  LOFT_HOST_DEVICE constexpr void add(int r, int first, int last) noexcept {
    number here[cols];
    for (int c = 0; c < cols; ++c) here[c] = sum[r][c];
    for (int k = first; k < last; ++k) {
      number products[cols];
      for (int c = 0; c < cols; ++c) products[c] = left_values[r][k] * right_values[k][c];
      if constexpr (sizeof(number) == 4) exact::settle_products(products);  // products of floats are exact in double
      for (int c = 0; c < cols; ++c) here[c] = how.add(here[c], products[c]);
      exact::settle_sums(here);
    }
    for (int c = 0; c < cols; ++c) sum[r][c] = here[c];
  }
  LOFT_HOST_DEVICE constexpr void join() noexcept {
    if constexpr (A::chunk != 0) {
      for (int r = 0; r < height; ++r) {
        for (int c = 0; c < cols; ++c) {
          run[r][c] = how.join(run[r][c], sum[r][c]);
          sum[r][c] = 0;
        }
      }
    }
  }
  LOFT_HOST_DEVICE constexpr void finish(std::int64_t k, bool several) noexcept {
    double factors[cols] = {};
    for (int c = 0; c < width; ++c) factors[c] = right.factor(col + c, k);
    for (int r = 0; r < height; ++r) {
      double const factor = left.factor(row + r, k);
      for (int c = 0; c < width; ++c) {
        total[r][c] = how.finish(total[r][c], several ? run[r][c] : sum[r][c], exact::product(factor, factors[c]));
        sum[r][c] = run[r][c] = 0;
      }
      exact::settle_sums(total[r]);
    }
  }
};

LOFT_HOST_DEVICE constexpr status check_product(auto const& left, auto const& right, matrix_view<float> out,
                                                row_range& range) noexcept {
  if (status const s = left.check(); s != status::ok) return s;
  if (status const s = right.check(); s != status::ok) return s;
  if (left.cols() != right.cols()) return status::shape_mismatch;
  if (left.rows() != out.rows || right.rows() != out.cols) return status::shape_mismatch;
  if (status const s = check_matrix(out, true); s != status::ok) return s;
  bool const writes = out.rows != 0 && out.cols != 0;
  if (writes && (start_of(left) == out.data || start_of(right) == out.data)) return status::overlapping_output;
  if (range.first < 0 || range.first > out.rows) return status::invalid_row_range;
  if (range.count < 0) range.count = out.rows - range.first;
  return range.count > out.rows - range.first ? status::invalid_row_range : status::ok;
}

template <bool Add, class A, OperandRows Left, OperandRows Right>
LOFT_HOST_DEVICE constexpr status multiply_rows(Left const& left, Right const& right, matrix_view<float> out,
                                                A const& how, row_range range) noexcept {
  if (status const s = check_product(left, right, out, range); s != status::ok) return s;
  if (out.cols == 0 || (Add && left.cols() == 0)) return status::ok;  // -0 and NaN would not stay as they are
  using tile = product_tile<A, Left, Right>;
  std::int64_t const last = range.first + range.count;
  for (std::int64_t row = range.first; row < last; row += tile::rows) {
    for (std::int64_t col = 0; col < out.cols; col += tile::cols) {
      tile part{how,
                left,
                right,
                row,
                col,
                static_cast<int>(min<std::int64_t>(tile::rows, last - row)),
                static_cast<int>(min<std::int64_t>(tile::cols, out.cols - col))};
      part.accumulate();
      for (int r = 0; r < part.height; ++r)
        for (int c = 0; c < part.width; ++c) {
          float& to = out(row + r, col + c);
          to = epilogue(left, right, part.total[r][c], Add ? to : 0.0f);
        }
    }
  }
  return status::ok;
}

}  // namespace detail

/// One element of matmul's output, to the bit: row `i` of the left operand times row `j` of the right one. What a
/// kernel calls; it keeps three numbers and looks at one element of each side at a time.
///
/// in: operands as matmul takes them, which fit together; nothing is checked. rounds, error, NaN: as matmul.
template <class A = float_accumulator, class Left, class Right>
LOFT_HOST_DEVICE constexpr float dot(Left const& left_operand, std::int64_t i, Right const& right_operand,
                                     std::int64_t j, A const& how = {}) noexcept {
  static_assert(Accumulator<A>, "dot: the accumulator needs number, chunk, add, finish, and join if it has chunks");
  auto const left = rows_of(left_operand);
  auto const right = rows_of(right_operand);
  using number = typename A::number;
  constexpr std::int64_t factor_cols = detail::common_factor_cols<decltype(rows_of(left)), decltype(rows_of(right))>;
  std::int64_t const all = left.cols();
  number sum = 0, run = 0, total = 0;
  detail::for_segments<A>(
      0, all, all, factor_cols == 0 ? all : factor_cols,
      [&](std::int64_t k, std::int64_t end) {
        for (; k < end; ++k) {
          number product = 0;
          if constexpr (sizeof(number) == 8)
            product = detail::widen(left.element(i, k)) * detail::widen(right.element(j, k));
          else product = exact::opaque(exact::multiply(left.element(i, k), right.element(j, k)));
          sum = exact::opaque(how.add(sum, product));
        }
      },
      [&] {
        if constexpr (A::chunk != 0) run = how.join(run, sum);
        sum = 0;
      },
      [&](std::int64_t k, bool several) {
        double const factor = exact::product(left.factor(i, k), right.factor(j, k));
        total = exact::opaque(how.finish(total, several ? run : sum, factor));
        sum = run = 0;
      });
  return detail::epilogue(left, right, total, 0.0f);
}

/// out = left * right^T: [M, K] x [N, K] -> [M, N], both quantized along K or not at all, as a product of a recipe is.
///
/// in: each operand is a quantized_view, a matrix_view of float or a minifloat, or what rows_of makes of them, which
/// names a rule with a constant. Any two block formats fit. out: any strides that do not overlap, in memory apart from
/// the operands': where it begins where an operand's elements do, the call returns overlapping_output; other overlaps
/// are not looked for. `range`: the rows of `out` to write, for callers with threads.
/// Elements are exact, and are multiplied before any scale: within each run of K over which the factors of both sides
/// are constant (the greatest common divisor of their factor_cols) the accumulator sums the products of elements; the
/// sum is multiplied by both factors and added to the total; the scales of the tensors come last. Operands under
/// one rotation need no inverse: the product of rotated rows is the product of the rows.
/// rounds: as the accumulator says, k ascending; the epilogue in double, then once to float. error, to what exact
/// arithmetic makes of elements and factors, with S the sum of the magnitudes of the products, r the longest run and
/// n = r + number of runs + 3, while nothing overflows or underflows:
///   double_accumulator   2^-24 |result| + n 2^-53 S; correctly rounded from a total that is exact, if no tensor scale
///   float_accumulator    n 2^-24 S / (1 - n 2^-24)
///   chunked_accumulator  n u S / (1 - n u), u half the gap of the coarser of its formats at 1
/// A NaN scale makes the elements of its row or column NaN, the canonical one, even against zeros. A sum of exact zeros
/// is +0; K = 0 gives zeros, M = 0 or N = 0 writes nothing. The stack holds up to 40 KiB; nothing is allocated.
/// error: a status other than ok, with nothing written. source: arXiv 2509.25149 section 2.
template <class Left, class Right, class A = float_accumulator>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status matmul(Left const& left, Right const& right, matrix_view<float> out,
                                                       A const& how = {}, row_range range = {}) noexcept {
  static_assert(Accumulator<A>, "matmul: the accumulator needs number, chunk, add, finish, and join if it has chunks");
  return detail::multiply_rows<false>(rows_of(left), rows_of(right), out, how, range);
}

/// out += left * right^T, as gradients of weights accumulate: the epilogue adds what stands in `out` to the product
/// before it rounds to float, once for both. in, out, rounds, error: as matmul; K = 0 leaves the bits of `out` alone.
template <class Left, class Right, class A = float_accumulator>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status matmul_add(Left const& left, Right const& right, matrix_view<float> out,
                                                           A const& how = {}, row_range range = {}) noexcept {
  static_assert(Accumulator<A>, "matmul: the accumulator needs number, chunk, add, finish, and join if it has chunks");
  return detail::multiply_rows<true>(rows_of(left), rows_of(right), out, how, range);
}

}  // namespace loft
