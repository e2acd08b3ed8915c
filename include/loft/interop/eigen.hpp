// SPDX-License-Identifier: Apache-2.0
// Eigen: minifloat as a scalar type, dense expressions as matrix views, quantize, dequantize and multiply on them.
// Source: Eigen 3.4, "Using custom scalar types" and "Interfacing with raw buffers" of its documentation.
#ifndef LOFT_INTEROP_EIGEN_HPP
#define LOFT_INTEROP_EIGEN_HPP

#include <Eigen/Core>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "loft/minifloat.hpp"
#include "loft/tensor.hpp"

/// Makes Eigen::Matrix<minifloat<F>, ...> work: sums, products, comparisons, and cast<float>() from and to it.
///
/// Every operation is minifloat's own, rounded to F, accumulation too, in an order that is Eigen's: for a product whose
/// sums are float, see loft::multiply. Inherited, because that is Eigen's protocol: the base follows
/// numeric_limits<minifloat<F>>.
template <loft::Format F>
struct Eigen::NumTraits<loft::minifloat<F>> : Eigen::GenericNumTraits<loft::minifloat<F>> {
  enum { RequireInitialization = 0 };
};

namespace loft {

/// What quantized values are put into where a function makes the matrix: rows lie as the codes' rows do.
using eigen_matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// An Eigen expression whose elements lie in memory: a matrix, a map, a block, a transpose, and these of each other.
template <class M>
concept EigenInMemory = std::is_base_of_v<Eigen::DenseBase<std::remove_cvref_t<M>>, std::remove_cvref_t<M>> &&
                        (int{std::remove_cvref_t<M>::Flags} & int{Eigen::DirectAccessBit}) != 0;

/// The memory of an expression as a view, without a copy: strides say whether it is row- or column-major, a block, a
/// transpose. Writable where the expression is. A temporary matrix is refused, for its memory would be gone.
template <EigenInMemory M>
auto view_of(M&& m) noexcept {
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
template <class Operand, class M, class Layout = row_major>
[[nodiscard]] status quantize(Eigen::DenseBase<M> const& in, quantized_view<typename Operand::format> out,
                              Operand const& how = {}, Layout layout = {}) noexcept(EigenInMemory<M>) {
  if constexpr (EigenInMemory<M>) {
    return quantize(view_of(in.derived()), out, how, layout);
  } else {
    Eigen::Matrix<typename M::Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const values = in;
    return quantize(view_of(values), out, how, layout);
  }
}

/// loft::dequantize into an expression in memory, of the shape of `in`. Nothing is allocated.
template <class Operand, class B, EigenInMemory M, class Layout = row_major>
[[nodiscard]] status dequantize(quantized_view<B> in, M&& out, Operand const& how = {}, Layout layout = {}) noexcept {
  static_assert(std::is_same_v<std::remove_pointer_t<decltype(out.data())>, float>, "dequantize writes floats");
  return dequantize(in, view_of(std::forward<M>(out)), how, layout);
}

/// The floats of a quantized tensor as a matrix, and in `outcome` what loft::dequantize says; not ok: the matrix is
/// empty.
template <class Operand, class B, class Layout = row_major>
[[nodiscard]] eigen_matrix dequantized(quantized_view<B> in, status& outcome, Operand const& how = {},
                                       Layout layout = {}) {
  eigen_matrix result;
  // Extents are looked at before memory is asked for.
  outcome = detail::check_quantized(in);
  if (outcome != status::ok) return result;
  result.resize(in.rows, in.cols);
  outcome = dequantize(in, result, how, layout);
  if (outcome != status::ok) result.resize(0, 0);
  return result;
}

/// out = dequantized(left) * right, [rows, k] x [k, cols] -> [rows, cols], in floats: what a layer computes with
/// weights that are stored quantized.
///
/// Products and sums are Eigen's, in its order; the dequantized matrix is a temporary. `right` is any dense float
/// expression. A NaN block makes the rows it takes part in NaN. error: a status other than ok, `out` untouched.
template <class Operand, class B, class Right, class Out, class Layout = row_major>
[[nodiscard]] status multiply(quantized_view<B> left, Eigen::MatrixBase<Right> const& right,
                              Eigen::PlainObjectBase<Out>& out, Operand const& how = {}, Layout layout = {}) {
  if (left.cols != right.rows()) return status::shape_mismatch;
  status outcome = status::ok;
  eigen_matrix const values = dequantized(left, outcome, how, layout);
  if (outcome == status::ok) out = values * right;
  return outcome;
}

}  // namespace loft

#endif
