// SPDX-License-Identifier: Apache-2.0
// Eigen: minifloat matrices, views of every kind of expression, quantize and dequantize on them, products.
#include <doctest/doctest.h>

#include "block/block_check.hpp"
#include "loft/eigen.hpp"
#include "loft/loft.hpp"
#include "tensor/any_buffers.hpp"

namespace {

using loft::status;
using test::buffers, test::content, test::same, test::tensor;

using by_rows = loft::eigen_matrix;
using by_cols = Eigen::MatrixXf;

by_rows matrix(content kind, std::int64_t rows, std::int64_t cols) {
  std::vector<float> const x = tensor(kind, {rows, cols});
  return Eigen::Map<by_rows const>{x.data(), rows, cols};
}

// What the view-based quantizer makes of the same values, laid out plainly.
template <class Operand> buffers<typename Operand::format> plainly(by_rows const& x, Operand const& how) {
  buffers<typename Operand::format> out(x.rows(), x.cols());
  REQUIRE(loft::quantize(loft::matrix_view<float const>{x.data(), x.rows(), x.cols(), x.cols()}, out.view(), how) ==
          status::ok);
  return out;
}

template <class Expression, class Operand> void check_quantize(Expression const& x, Operand const& how) {
  using B = typename Operand::format;
  by_rows const values = x.template cast<float>();
  buffers<B> out(x.rows(), x.cols());
  REQUIRE(loft::quantize(x, out.view(), how) == status::ok);
  CHECK(out == plainly(values, how));
}

}  // namespace

TEST_CASE_TEMPLATE("matrices of minifloats: casts, sums, products", F, loft::bf16, loft::fp16, loft::e4m3, loft::e5m2) {
  using number = loft::minifloat<F>;
  using matrix_of = Eigen::Matrix<number, Eigen::Dynamic, Eigen::Dynamic>;
  by_cols const x = matrix(content::ordinary, 13, 9), y = matrix(content::ordinary, 9, 11);
  matrix_of const a = x.template cast<number>(), b = y.template cast<number>();
  for (int r = 0; r < 13; ++r) {
    for (int c = 0; c < 9; ++c) {
      CHECK(a(r, c).bits() == loft::encode<F>(x(r, c)));
      CHECK((a + a)(r, c).bits() == (a(r, c) + a(r, c)).bits());
      CHECK(same(a.template cast<float>()(r, c), loft::decode<F>(a(r, c).bits())));
    }
  }
  // Integers of a few bits: every sum is exact, so that the order of summation does not matter.
  matrix_of p(5, 7), q(7, 6);
  for (int i = 0; i < 5 * 7; ++i) p(i % 5, i / 5) = number{i % 3 - 1};
  for (int i = 0; i < 7 * 6; ++i) q(i % 7, i / 7) = number{i % 2};
  matrix_of const product = p * q;
  by_cols const expected = p.template cast<float>() * q.template cast<float>();
  CHECK(product.template cast<float>() == expected);
  CHECK(static_cast<float>(p.sum()) == p.template cast<float>().sum());
  CHECK(static_cast<float>(p.col(1).dot(p.col(2))) ==
        p.template cast<float>().col(1).dot(p.template cast<float>().col(2)));
  CHECK(static_cast<float>(a.maxCoeff()) == a.template cast<float>().maxCoeff());
  CHECK(matrix_of::Zero(2, 2)(1, 1).bits() == 0);
  CHECK(static_cast<float>(matrix_of::Ones(2, 2)(1, 1)) == 1.0f);
  CHECK(matrix_of{a * b}.rows() == 13);
}

TEST_CASE("NumTraits follows numeric_limits") {
  using traits = Eigen::NumTraits<loft::e4m3_t>;
  // Eigen writes Scalar(0) and Scalar(1); other integers are refused, since most of them are codes.
  static_assert(static_cast<float>(loft::e4m3_t{-3}) == -3.0f && !std::is_constructible_v<loft::e4m3_t, std::uint8_t>);
  static_assert(traits::IsComplex == 0 && traits::IsInteger == 0 && traits::IsSigned == 1);
  static_assert(traits::RequireInitialization == 0);
  CHECK(static_cast<float>(traits::highest()) == 448.0f);
  CHECK(static_cast<float>(traits::lowest()) == -448.0f);
  CHECK(static_cast<float>(traits::epsilon()) == 0.125f);
  CHECK(traits::quiet_NaN().is_nan());
}

TEST_CASE_TEMPLATE("every kind of expression gives the codes of its values", B, loft::mxfp4, loft::nvfp4,
                   loft::square<loft::mxfp8_e4m3, 8>) {
  loft::operand<B> const how;
  for (content const kind : {content::ordinary, content::specials, content::zeros}) {
    by_rows const rows = matrix(kind, 37, 70);
    by_cols const cols = rows;
    check_quantize(rows, how);
    check_quantize(cols, how);
    check_quantize(rows.transpose(), how);
    check_quantize(cols.transpose(), how);
    check_quantize(rows.block(3, 5, 20, 33), how);
    check_quantize(cols.block(3, 5, 20, 33).transpose(), how);
    check_quantize(cols.row(4), how);
    check_quantize(rows.col(4).transpose(), how);
    check_quantize(Eigen::Map<by_rows const, 0, Eigen::OuterStride<>>{rows.data(), 18, 60, Eigen::OuterStride<>{140}},
                   how);
    check_quantize(Eigen::Ref<by_cols const>{cols}, how);
    // Not in memory: evaluated first.
    check_quantize(rows + rows, how);
    check_quantize(cols.cwiseAbs().transpose(), how);
    check_quantize(rows.array() * 0.3f, how);
    check_quantize(rows.cast<loft::bf16_t>(), how);
  }
  Eigen::Matrix<loft::bf16_t, 16, 32> const small = matrix(content::ordinary, 16, 32).cast<loft::bf16_t>();
  check_quantize(small, how);
}

TEST_CASE("a view is the expression's own memory") {
  static_assert(loft::EigenInMemory<by_rows> && loft::EigenInMemory<by_cols const&>);
  static_assert(!loft::EigenInMemory<decltype(by_rows{} + by_rows{})> && !loft::EigenInMemory<int>);
  by_cols m = matrix(content::ordinary, 6, 8);
  auto const v = loft::view_of(m.block(1, 2, 3, 4).transpose());
  static_assert(std::is_same_v<decltype(v), loft::matrix_view<float> const>);
  static_assert(std::is_same_v<decltype(loft::view_of(std::as_const(m))), loft::matrix_view<float const>>);
  CHECK(v.rows == 4);
  CHECK(v.cols == 3);
  CHECK(&v(2, 1) == &m(2, 4));
  v(2, 1) = 77;
  CHECK(m(2, 4) == 77);
}

TEST_CASE_TEMPLATE("dequantize into matrices, blocks and transposes", B, loft::mxfp4, loft::nvfp4) {
  loft::operand<B> const how;
  by_rows const x = matrix(content::specials, 20, 48);
  buffers<B> q = plainly(x, how);
  by_rows expected(20, 48);
  REQUIRE(loft::dequantize(q.view(), loft::matrix_view<float>{expected.data(), 20, 48, 48}, how) == status::ok);
  auto const equal = [&](auto const& got) {
    int different = 0;
    for (int r = 0; r < 20; ++r) {
      for (int c = 0; c < 48; ++c) different += !same(got(r, c), expected(r, c));
    }
    return different == 0;
  };
  by_cols cols(20, 48), large = by_cols::Constant(60, 60, -5.0f);
  REQUIRE(loft::dequantize(q.view(), cols, how) == status::ok);
  CHECK(equal(cols));
  REQUIRE(loft::dequantize(q.view(), large.block(7, 9, 48, 20).transpose(), how) == status::ok);
  CHECK(equal(large.block(7, 9, 48, 20).transpose().eval()));
  CHECK((large.array() == -5.0f).count() == 60 * 60 - 20 * 48);
  status outcome = status::null_pointer;
  CHECK(equal(loft::dequantized(q.view(), outcome, how)));
  CHECK(outcome == status::ok);
  loft::quantized_view<B const> const read_only = q.view();
  CHECK(equal(loft::dequantized(read_only, outcome, how)));
  by_cols wrong(20, 47);
  CHECK(loft::dequantize(q.view(), wrong, how) == status::shape_mismatch);
}

TEST_CASE("a product of a quantized matrix and floats") {
  using turned = loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<16>>;
  by_rows const w = matrix(content::ordinary, 33, 64);
  by_cols const x = matrix(content::ordinary, 64, 7);
  auto const check = [&](auto const& how) {
    auto q = plainly(w, how);
    status outcome = status::ok;
    by_rows const values = loft::dequantized(q.view(), outcome, how);
    by_cols out;
    REQUIRE(loft::multiply(q.view(), x, out, how) == status::ok);
    CHECK(out == by_cols{values * x});
    CHECK((out - w * x).norm() < 0.2f * (w * x).norm());
    CHECK((out - w * x).norm() > 0);
    by_rows scaled;
    REQUIRE(loft::multiply(q.view(), (2 * x).leftCols(3), scaled, how) == status::ok);
    CHECK(scaled.isApprox(2 * out.leftCols(3), 1e-5f));
    Eigen::VectorXf vector;
    REQUIRE(loft::multiply(q.view(), x.col(2), vector, how) == status::ok);
    CHECK(vector.isApprox(out.col(2), 1e-5f));
  };
  check(loft::operand<loft::nvfp4>{});
  check(loft::operand<loft::mxfp8_e4m3>{});
  check(turned{});

  by_rows infinite = w;
  infinite(4, 40) = HUGE_VALF;
  auto q = plainly(infinite, loft::operand<loft::mxfp4>{});
  by_cols out;
  REQUIRE(loft::multiply(q.view(), x, out, loft::operand<loft::mxfp4>{}) == status::ok);
  for (int r = 0; r < 33; ++r) CHECK(std::isnan(out(r, 0)) == (r == 4));
}

namespace {

// fast_matmul against matmul in double: both bounds apart at most.
template <class Left, class Right> int beyond_bound(Left const& left, Right const& right, by_cols const& fast) {
  by_rows exact(fast.rows(), fast.cols());
  REQUIRE(loft::matmul(left, right, loft::view_of(exact), loft::double_accumulator{}) == status::ok);
  by_rows a, b;
  REQUIRE(loft::decode_rows(left, a) == status::ok);
  REQUIRE(loft::decode_rows(right, b) == status::ok);
  double const tensors = loft::rows_of(left).tensor_factor() * loft::rows_of(right).tensor_factor();
  Eigen::MatrixXd const s = a.cwiseAbs().cast<double>() * b.cwiseAbs().cast<double>().transpose() * tensors;
  int beyond = 0;
  for (int r = 0; r < fast.rows(); ++r)
    for (int c = 0; c < fast.cols(); ++c) {
      double const n = static_cast<double>(a.cols()) + 5, error = static_cast<double>(fast(r, c) - exact(r, c));
      beyond += !(std::fabs(error) <= n * 0x1p-24 / (1 - n * 0x1p-24) * s(r, c));
    }
  return beyond;
}

template <class B> test::any_buffers<B> stored(by_rows const& x) {
  test::any_buffers<B> q(x.rows(), x.cols());
  REQUIRE(loft::quantize(x, q.view(), loft::operand<B>{}) == status::ok);
  return q;
}

}  // namespace

TEST_CASE("the product of two operands by Eigen is within the bound of the emulated one") {
  by_rows const x = matrix(content::ordinary, 21, 150), w = matrix(content::mixed_sizes, 34, 150);
  auto weight = stored<loft::square<loft::nvfp4, 16>>(w);
  loft::all_block_formats::for_each([&]<class B>(B) {
    auto left = stored<B>(x);
    by_cols out;
    REQUIRE(loft::fast_matmul(left.view(), weight.view(), out) == status::ok);
    CHECK(beyond_bound(left.view(), weight.view(), out) == 0);
    CHECK(beyond_bound(left.view(), weight.view(), out * 1.001f) > 0);  // the control
    REQUIRE(loft::fast_matmul(loft::view_of(w), left.view(), out) == status::ok);
    CHECK(beyond_bound(loft::view_of(w), left.view(), out) == 0);
    CHECK(out.rows() == 34);
  });
  // Kept memory, and a sum that is exact: the same bits.
  by_rows const ones = by_rows::Constant(3, 64, 1.5f);
  auto left = stored<loft::mxfp4>(ones);
  by_rows left_values, right_values, out, emulated(3, 3);
  REQUIRE(loft::fast_matmul(left.view(), left.view(), out, left_values, right_values) == status::ok);
  float const* const kept = left_values.data();
  REQUIRE(loft::fast_matmul(left.view(), left.view(), out, left_values, right_values) == status::ok);
  CHECK(left_values.data() == kept);
  CHECK(left_values == ones);
  REQUIRE(loft::matmul(left.view(), left.view(), loft::view_of(emulated)) == status::ok);
  CHECK(out == emulated);

  by_rows infinite = x;
  infinite(4, 40) = HUGE_VALF;
  auto bad = stored<loft::nvfp4>(infinite);
  REQUIRE(loft::fast_matmul(bad.view(), weight.view(), out) == status::ok);
  for (int r = 0; r < 21; ++r) CHECK(out.row(r).array().isNaN().all() == (r == 4));
}

TEST_CASE("fast_matmul: empty sums, and what is refused") {
  by_rows const x = matrix(content::ordinary, 3, 32);
  auto q = stored<loft::nvfp4>(x);
  by_rows out = by_rows::Constant(2, 2, 9.0f);
  CHECK(loft::fast_matmul(q.view(), loft::matrix_view<float const>{x.data(), 3, 31, 32}, out) ==
        status::shape_mismatch);
  CHECK(loft::fast_matmul(q.view(), loft::quantized_view<loft::nvfp4>{nullptr, nullptr, nullptr, 4, 32}, out) ==
        status::null_pointer);
  CHECK(loft::fast_matmul(loft::quantized_view<loft::nvfp4>{nullptr, nullptr, nullptr, -4, 32}, q.view(), out) ==
        status::negative_extent);
  CHECK(out == by_rows::Constant(2, 2, 9.0f));
  loft::quantized_view<loft::nvfp4> const none{nullptr, nullptr, nullptr, 3, 0};
  CHECK(loft::fast_matmul(none, none, out) == status::ok);
  CHECK(out == by_rows::Zero(3, 3));
}

TEST_CASE("outputs whose type bounds their shape") {
  by_rows const x = matrix(content::ordinary, 9, 32), few = x.topRows(2);
  auto q = stored<loft::nvfp4>(x), pair = stored<loft::nvfp4>(few);
  loft::operand<loft::nvfp4> const how;
  by_rows product, layer;
  REQUIRE(loft::fast_matmul(q.view(), pair.view(), product) == status::ok);
  REQUIRE(loft::multiply(q.view(), few.transpose(), layer, how) == status::ok);
  auto const refused = [&](auto out) {
    out.setConstant(7.0f);
    auto const before = out;
    CHECK(loft::fast_matmul(q.view(), pair.view(), out) == status::shape_mismatch);
    CHECK(loft::multiply(q.view(), few.transpose(), out, how) == status::shape_mismatch);
    CHECK(out.rows() == before.rows());
    CHECK(out.cols() == before.cols());
    CHECK((out == before));
  };
  refused(Eigen::Matrix2f{});
  refused(Eigen::Matrix<float, 2, 9>{});
  refused(Eigen::Matrix<float, Eigen::Dynamic, 3>{4, 3});
  refused(Eigen::Matrix<float, 8, Eigen::Dynamic>{8, 2});
  refused(Eigen::VectorXf{5});
  refused(Eigen::RowVectorXf{18});
  refused(Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, 8, 8>{3, 5});
  auto const taken = [&](auto out) {
    REQUIRE(loft::fast_matmul(q.view(), pair.view(), out) == status::ok);
    CHECK(out.matrix().isApprox(product, 1e-6f));
    REQUIRE(loft::multiply(q.view(), few.transpose(), out, how) == status::ok);
    CHECK(out.matrix().isApprox(layer, 1e-6f));
  };
  taken(Eigen::Matrix<float, 9, 2>{});
  taken(Eigen::Matrix<float, Eigen::Dynamic, 2>{});
  taken(Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, 9, 9>{});
  taken(Eigen::ArrayXXf{});
  Eigen::VectorXf column;
  REQUIRE(loft::fast_matmul(q.view(), loft::view_of(few.topRows(1)), column) == status::ok);
  CHECK(column.size() == 9);
}

TEST_CASE("rows of nothing take no time") {
  constexpr std::int64_t many = std::int64_t{1} << 40;
  loft::operand<loft::nvfp4> const how;
  loft::quantized_view<loft::nvfp4> const rows{nullptr, nullptr, nullptr, many, 0},
      none{nullptr, nullptr, nullptr, 0, 0};
  loft::matrix_view<float const> const plain{nullptr, many, 0, 0};
  by_rows values, out;
  CHECK(loft::decode_rows(rows, values) == status::ok);
  CHECK(values.rows() == many);
  CHECK(loft::decode_rows(plain, values) == status::ok);
  CHECK(loft::fast_matmul(rows, none, out) == status::ok);
  CHECK(out.rows() == many);
  CHECK(loft::fast_matmul(none, plain, out) == status::ok);
  CHECK(out.cols() == many);
  CHECK(loft::fast_matmul(rows, plain, out) == status::extent_overflow);
  CHECK(loft::multiply(rows, by_rows(0, 0), out, how) == status::ok);
  CHECK(out.rows() == many);
}

TEST_CASE("products refuse memory that is used twice") {
  by_rows const x = matrix(content::ordinary, 3, 32), y = matrix(content::ordinary, 3, 32) * 2;
  auto p = stored<loft::mxfp4>(x), q = stored<loft::mxfp4>(y);
  constexpr status shared = status::overlapping_output;
  by_rows a = x, b = y, out = by_rows::Constant(2, 2, 9.0f), square = matrix(content::ordinary, 4, 4);
  CHECK(loft::fast_matmul(p.view(), q.view(), out, a, a) == shared);
  CHECK(loft::fast_matmul(p.view(), q.view(), a, a, b) == shared);
  CHECK(loft::fast_matmul(p.view(), q.view(), b, a, b) == shared);
  CHECK(loft::fast_matmul(p.view(), loft::view_of(a), out, a, b) == shared);
  CHECK(loft::fast_matmul(loft::view_of(b.bottomRows(2)), q.view(), out, a, b) == shared);
  CHECK(out == by_rows::Constant(2, 2, 9.0f));
  CHECK(a == x);
  CHECK(b == y);
  by_rows const before = square;
  CHECK(loft::decode_rows(loft::view_of(square.transpose()), square) == shared);
  CHECK(loft::decode_rows(loft::view_of(square.bottomRows(1)), square) == shared);
  CHECK(square == before);
  // The product itself may replace an operand, which has been decoded by then.
  by_rows expected, replaced = x;
  REQUIRE(loft::fast_matmul(loft::view_of(x), q.view(), expected) == status::ok);
  REQUIRE(loft::fast_matmul(loft::view_of(replaced), q.view(), replaced, a, b) == status::ok);
  CHECK(replaced == expected);
}

TEST_CASE("empty matrices, and what is refused") {
  loft::operand<loft::nvfp4> const how;
  loft::quantized_view<loft::nvfp4> const none{nullptr, nullptr, nullptr, 0, 32};
  CHECK(loft::quantize(by_cols(0, 32), none, how) == status::ok);
  status outcome = status::null_pointer;
  CHECK(loft::dequantized(none, outcome, how).rows() == 0);
  CHECK(outcome == status::ok);
  by_cols const x = by_cols::Ones(32, 4);
  by_cols out = by_cols::Constant(2, 2, 9.0f);
  CHECK(loft::multiply(none, by_cols::Ones(31, 4), out, how) == status::shape_mismatch);
  CHECK(out == by_cols::Constant(2, 2, 9.0f));
  CHECK(loft::multiply(loft::quantized_view<loft::nvfp4>{nullptr, nullptr, nullptr, 4, 32}, x, out, how) ==
        status::null_pointer);
  CHECK(out == by_cols::Constant(2, 2, 9.0f));
  CHECK(loft::dequantized(loft::quantized_view<loft::nvfp4>{nullptr, nullptr, nullptr, -1, 32}, outcome, how).size() ==
        0);
  CHECK(outcome == status::negative_extent);
  CHECK(loft::multiply(none, x, out, how) == status::ok);
  CHECK(out.rows() == 0);
  CHECK(out.cols() == 4);
  buffers<loft::nvfp4> q(2, 32);
  CHECK(loft::quantize(by_cols::Zero(2, 31), q.view(), how) == status::shape_mismatch);
  CHECK(q.untouched());
}
