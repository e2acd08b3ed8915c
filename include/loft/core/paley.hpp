// SPDX-License-Identifier: Apache-2.0
// Hadamard matrices of the orders 12, 20 and 28, which are no powers of two, and sums with their signs.
// Source: Paley, "On orthogonal matrices", J. Math. Phys. 12 (1933), constructions I and II.
#pragma once

#include <cstdint>
#include <utility>

#include "loft/core/config.hpp"

namespace loft {
namespace detail {

/// The signs of a matrix of +1 and -1: bit j of rows[i] is set where the element in row i and column j is -1.
template <int M> struct sign_matrix {
  std::uint32_t rows[M] = {};

  LOFT_HOST_DEVICE constexpr bool negative(int row, int col) const noexcept { return (rows[row] >> col & 1u) != 0; }
  LOFT_HOST_DEVICE constexpr void negate(int row, int col) noexcept { rows[row] |= std::uint32_t{1} << col; }
};

/// 1 where x is a square modulo the prime q, -1 where it is none, 0 where q divides it.
LOFT_HOST_DEVICE constexpr int quadratic_character(int x, int q) noexcept {
  x = (x % q + q) % q;
  if (x == 0) return 0;
  for (int root = 1; root < q; ++root)
    if (root * root % q == x) return 1;
  return -1;
}

/// The element of Paley's conference matrix of order q + 1: its first column is 1 below a zero, its first row that
/// times `corner`, and the rest are characters of differences.
LOFT_HOST_DEVICE constexpr int conference(int row, int col, int q, int corner) noexcept {
  if (row == 0) return col == 0 ? 0 : corner;
  return col == 0 ? 1 : quadratic_character(row - col, q);
}

/// P_12 and P_20: the unit matrix plus the conference matrix of q = 11 and 19, skew because -1 is no square. The first
/// column is all +1, as is the diagonal; the first row is -1 behind it.
/// P_28: conference matrix of q = 13, symmetric because -1 is a square, in which each element c stands for the 2 x 2
/// block c * (1 1; 1 -1), and each zero of the diagonal for (1 -1; -1 -1). Symmetric.
template <int M> LOFT_HOST_DEVICE constexpr sign_matrix<M> paley_matrix() noexcept {
  static_assert(M == 12 || M == 20 || M == 28);
  sign_matrix<M> result;
  for (int row = 0; row < M; ++row) {
    for (int col = 0; col < M; ++col) {
      int element = 1;
      if constexpr (M != 28) {
        if (row != col) element = conference(row, col, M - 1, -1);
      } else {
        bool const both_odd = row % 2 == 1 && col % 2 == 1;
        int const c = conference(row / 2, col / 2, M / 2 - 1, 1);
        if (c != 0) element = both_odd ? -c : c;
        else element = row % 2 == 0 && col % 2 == 0 ? 1 : -1;
      }
      if (element < 0) result.negate(row, col);
    }
  }
  return result;
}
template <int M> inline constexpr sign_matrix<M> paley = paley_matrix<M>();

/// Whether P_M is its own transpose.
template <int M> inline constexpr bool is_symmetric_paley = M == 28;

/// sum + term or sum - term. Arithmetic: the static functions negated, add and subtract of a V, which is a number or a
/// register of them.
template <class Arithmetic, bool Negative, class V>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr V add_signed(V sum, V term) noexcept {
  if constexpr (Negative) return Arithmetic::subtract(sum, term);
  else return Arithmetic::add(sum, term);
}

/// sum_j +-values[j] with the signs of row Row of P_M, or of its transpose: from the first term on, in the order of j.
template <class Arithmetic, int M, bool Transposed, int Row, class V, int... J>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr V paley_sum(V const (&values)[M],
                                                              std::integer_sequence<int, 0, J...>) noexcept {
  constexpr bool first = paley<M>.negative(Transposed ? 0 : Row, Transposed ? Row : 0);
  V sum = values[0];
  if constexpr (first) sum = Arithmetic::negated(sum);
  ((sum = add_signed<Arithmetic, paley<M>.negative(Transposed ? J : Row, Transposed ? Row : J)>(sum, values[J])), ...);
  return sum;
}

template <class Arithmetic, int M, bool Transposed, class V, class Sink, int... Row>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void paley_sums(V const (&values)[M], Sink& sink,
                                                                  std::integer_sequence<int, Row...> rows) noexcept {
  (sink(Row, paley_sum<Arithmetic, M, Transposed, Row>(values, rows)), ...);
}
/// sink(row, sum) for the rows of P_M, or of its transpose, times the column `values`.
template <class Arithmetic, int M, bool Transposed, class V, class Sink>
[[gnu::always_inline]] LOFT_HOST_DEVICE constexpr void paley_sums(V const (&values)[M], Sink&& sink) noexcept {
  paley_sums<Arithmetic, M, Transposed>(values, sink, std::make_integer_sequence<int, M>{});
}

}  // namespace detail
}  // namespace loft
