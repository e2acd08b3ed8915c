// SPDX-License-Identifier: Apache-2.0
// Eigen: minifloat as a scalar type, dense expressions as matrix views, quantize, dequantize and products on them.
// Source: Eigen 3.4, "Using custom scalar types" and "Interfacing with raw buffers" of its documentation.
#pragma once

#include <Eigen/Core>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "loft/number/minifloat.hpp"
#include "loft/product/matmul.hpp"
#include "loft/tensor/quantize.hpp"

/// Makes Eigen::Matrix<minifloat<F>, ...> work: sums, products, comparisons, and cast<float>() from and to it.
///
/// Every operation is minifloat's own, rounded to F, accumulation too, in an order that is Eigen's: for a product whose
/// sums are float, see loft::multiply. Inherited, because that is Eigen's protocol: the base follows
/// numeric_limits<minifloat<F>>.
template <loft::Format F> struct Eigen::NumTraits<loft::minifloat<F>> : Eigen::GenericNumTraits<loft::minifloat<F>> {
  enum { RequireInitialization = 0 };
};

namespace loft {

/// The matrix that functions make for decoded values: by rows, as codes lie.
using eigen_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// An Eigen expression whose elements lie in memory: a matrix, a map, a block, a transpose, and these of each other.
template <class M>
concept EigenInMemory = std::is_base_of_v<Eigen::DenseBase<std::remove_cvref_t<M>>, std::remove_cvref_t<M>> &&
                        (int{std::remove_cvref_t<M>::Flags} & int{Eigen::DirectAccessBit}) != 0;

/// The memory of an expression as a view, without a copy: strides say whether it is row- or column-major, a block, a
/// transpose. Writable where the expression is. A temporary matrix does not compile, because its memory ends with the
/// call.
template <EigenInMemory M> auto view_of(M&& m) noexcept {
  static_assert(std::is_lvalue_reference_v<M> ||
                    !std::is_base_of_v<Eigen::PlainObjectBase<std::remove_cvref_t<M>>, std::remove_cvref_t<M>>,
                "view_of: this matrix is a temporary, and its memory ends with the call");
  using element = std::remove_pointer_t<decltype(m.data())>;
  return matrix_view<element>{m.data(), m.rows(), m.cols(), m.rowStride(), m.colStride()};
}

/// loft::quantize of a dense expression of float or minifloat: [rows, cols], blocks along its columns.
///
/// An expression in memory is read where it lies; any other one is evaluated first, by Eigen, which allocates and may
/// throw. in, out, rounds, error: as loft::quantize of a view.
template <Operand O, class M, class L>
[[nodiscard]] status quantize(Eigen::DenseBase<M> const& in, quantized_view<typename O::format, L> out,
                              O const& how = detail::default_operand<O>()) noexcept(EigenInMemory<M>) {
  if constexpr (EigenInMemory<M>) {
    return quantize(view_of(in.derived()), out, how);
  } else {
    Eigen::Matrix<typename M::Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const values = in;
    return quantize(view_of(values), out, how);
  }
}

/// loft::dequantize into an expression in memory, of the shape of `in`. Nothing is allocated.
template <Operand O, class B, class L, EigenInMemory M>
[[nodiscard]] status dequantize(quantized_view<B, L> in, M&& out,
                                O const& how = detail::default_operand<O>()) noexcept {
  static_assert(std::is_same_v<std::remove_pointer_t<decltype(out.data())>, float>, "dequantize writes floats");
  return dequantize(in, view_of(std::forward<M>(out)), how);
}

/// The floats of a quantized tensor as a matrix, and in `outcome` what loft::dequantize says; not ok: the matrix is
/// empty.
template <Operand O, class B, class L>
[[nodiscard]] eigen_matrix dequantized(quantized_view<B, L> in, status& outcome,
                                       O const& how = detail::default_operand<O>()) {
  eigen_matrix result;
  // Extents are looked at before memory is asked for.
  outcome = detail::check_quantized(in);
  if (outcome != status::ok) return result;
  result.resize(in.rows, in.cols);
  outcome = dequantize(in, result, how);
  if (outcome != status::ok) result.resize(0, 0);
  return result;
}

namespace detail {

/// What is wrong with a result of this shape: extents that a matrix cannot have, or `Out`, whose type may bound them.
template <class Out> status check_result(std::int64_t rows, std::int64_t cols) noexcept {
  auto const fits = [](int fixed, int most, std::int64_t extent) {
    return (fixed == Eigen::Dynamic || extent == fixed) && (most == Eigen::Dynamic || extent <= most);
  };
  if (status const s = check_extents(rows, cols); s != status::ok) return s;
  bool const both = fits(Out::RowsAtCompileTime, Out::MaxRowsAtCompileTime, rows) &&
                    fits(Out::ColsAtCompileTime, Out::MaxColsAtCompileTime, cols);
  return both ? status::ok : status::shape_mismatch;
}

/// Whether the elements of an operand start in the memory of a matrix.
template <OperandRows Rows> bool starts_within(Rows const& rows, eigen_matrix const& values) noexcept {
  void const* const start = start_of(rows);
  std::less<void const*> const before;
  return start != nullptr && !before(start, values.data()) && before(start, values.data() + values.size());
}

}  // namespace detail

/// out = dequantized(left) * right, [rows, k] x [k, cols] -> [rows, cols], in floats: what a layer computes with
/// weights that are stored quantized.
///
/// Products and sums are Eigen's, in its order; the dequantized matrix is a temporary. `right` is any dense float
/// expression. out: resized. A NaN block makes the rows it takes part in NaN. error: a status other than ok, `out`
/// untouched; shape_mismatch also where the type of `out` does not let it have the shape.
template <Operand O, class B, class L, class Right, class Out>
[[nodiscard]] status multiply(quantized_view<B, L> left, Eigen::MatrixBase<Right> const& right,
                              Eigen::PlainObjectBase<Out>& out, O const& how = detail::default_operand<O>()) {
  if (left.cols != right.rows()) return status::shape_mismatch;
  if (status const s = detail::check_result<Out>(left.rows, right.cols()); s != status::ok) return s;
  status outcome = status::ok;
  eigen_matrix const values = dequantized(left, outcome, how);
  if (outcome != status::ok) return outcome;
  if (left.cols == 0) out.setZero(left.rows, right.cols());  // Eigen's product loops over rows of nothing
  else out = values * right;
  return status::ok;
}

/// What an operand's elements and block factors multiply to, as floats; the factor of the tensor is left out.
///
/// in: as loft::matmul takes it. out: `values`, resized to [rows, cols]; nothing is allocated where it has that shape
/// already. rounds: once, to float. error: half an ulp, none for scales of up to 16 bits while the value is a float. A
/// status other than ok: `values` is untouched; overlapping_output where the elements of the operand lie in `values`.
template <class Source> [[nodiscard]] status decode_rows(Source const& source, eigen_matrix& values) {
  auto const rows = rows_of(source);
  if (status const s = rows.check(); s != status::ok) return s;
  if (detail::starts_within(rows, values)) return status::overlapping_output;
  values.resize(rows.rows(), rows.cols());
  if (values.size() == 0) return status::ok;
  constexpr int shared = decltype(rows_of(source))::factor_cols;
  std::int64_t const run = shared == 0 ? values.cols() : shared;
  for (std::int64_t r = 0; r < values.rows(); ++r) {
    float* const row = values.data() + r * values.cols();
    detail::load_elements(rows, r, 0, values.cols(), row);
    for (std::int64_t c = 0; c < values.cols(); c += run) {
      double const factor = rows.factor(r, c);
      for (std::int64_t k = c; k < std::min(c + run, rows.cols()); ++k)
        row[k] = detail::narrow(exact::product(detail::widen(row[k]), factor));
    }
  }
  return status::ok;
}

/// loft::matmul by Eigen's product in floats, for speed: out = left * right^T, [M, K] x [N, K] -> [M, N].
///
/// in: as loft::matmul. out: resized; shape_mismatch where its type does not let it. `left_values`, `right_values`:
/// what the operands decode to, for callers that keep their memory from call to call; two matrices, neither of them
/// `out`, and no operand lies in them: overlapping_output otherwise. The tensor scales come last, in double. rounds:
/// products and sums are Eigen's, in its order. error: at most n 2^-24 S / (1 - n 2^-24) for n = K + 4, S as in
/// loft::matmul, while decoded values and sums are normal floats: scales beyond that, whose product would not be, are
/// loft::matmul's. A NaN scale makes the elements of its row or column NaN. K = 0 gives zeros. A status other than ok:
/// `out` is untouched.
template <class Left, class Right, class Out>
[[nodiscard]] status fast_matmul(Left const& left, Right const& right, Eigen::PlainObjectBase<Out>& out,
                                 eigen_matrix& left_values, eigen_matrix& right_values) {
  static_assert(std::is_same_v<typename Out::Scalar, float>, "fast_matmul writes floats");
  auto const a = rows_of(left);
  auto const b = rows_of(right);
  // Extents and pointers of both are looked at before memory is asked for.
  if (status const s = a.check(); s != status::ok) return s;
  if (status const s = b.check(); s != status::ok) return s;
  if (a.cols() != b.cols()) return status::shape_mismatch;
  if (status const s = detail::check_result<Out>(a.rows(), b.rows()); s != status::ok) return s;
  void const* const matrices[] = {&out.derived(), &left_values, &right_values};
  if (matrices[0] == matrices[1] || matrices[0] == matrices[2] || matrices[1] == matrices[2] ||
      detail::starts_within(a, left_values) || detail::starts_within(a, right_values) ||
      detail::starts_within(b, left_values) || detail::starts_within(b, right_values))
    return status::overlapping_output;
  if (status const s = decode_rows(a, left_values); s != status::ok) return s;
  if (status const s = decode_rows(b, right_values); s != status::ok) return s;
  if (a.cols() == 0) {
    out.setZero(a.rows(), b.rows());
    return status::ok;
  }
  out = left_values * right_values.transpose();
  out = out.unaryExpr([&](float x) { return detail::epilogue(a, b, x, 0.0f); }).eval();
  return status::ok;
}
/// The same with two matrices of its own for the values of the operands.
template <class Left, class Right, class Out>
[[nodiscard]] status fast_matmul(Left const& left, Right const& right, Eigen::PlainObjectBase<Out>& out) {
  eigen_matrix left_values, right_values;
  return fast_matmul(left, right, out, left_values, right_values);
}

}  // namespace loft
