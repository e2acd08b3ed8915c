// SPDX-License-Identifier: Apache-2.0
// The emulated product against its reference: the accumulators, products of quantized tensors, what a format is held to.
#pragma once

#include <doctest/doctest.h>

#include <cstring>

#include "block/block_check.hpp"
#include "loft/loft.hpp"
#include "product_reference.hpp"

namespace matmul_check {

using loft::matrix_view, loft::status;
using test::any_buffers, test::content, test::operand_of, test::operand_values, test::summing, test::tensor;

inline constexpr loft::float_accumulator in_float;
inline constexpr loft::double_accumulator in_double;
// What the FP8 instructions of one generation keep: 13 bits below the leading one.
struct partial_sum {
  static constexpr loft::format_spec spec{8, 13, 127, loft::specials::ieee};
};
using promoted = loft::chunked_accumulator<partial_sum, 8, loft::fp32>;
using coarse = loft::chunked_accumulator<loft::bf16, 32>;
inline constexpr summing as_float{.in_float = true}, as_double{};
inline constexpr summing as_promoted{.chunk = 8, .within = {13, -126, 127}, .among = test::of_fp32};
inline constexpr summing as_coarse{.chunk = 32, .within = test::of_bf16, .among = test::of_bf16};

// A product's extents.
struct extents {
  std::int64_t m, n, k;
};
inline constexpr extents products[] = {{1, 1, 1}, {2, 3, 16}, {5, 33, 100}, {17, 35, 304}};

template <class B, class Layout = loft::row_major>
any_buffers<B, Layout> quantized(content kind, std::int64_t rows, std::int64_t cols) {
  any_buffers<B, Layout> q(rows, cols);
  std::vector<float> const x = tensor(kind, {rows, cols});
  REQUIRE(loft::quantize(test::view_of(x, {rows, cols}), q.view(), loft::operand<B>{}) == status::ok);
  return q;
}

inline matrix_view<float> into(std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  return {x.data(), rows, cols, cols};
}

template <class A, class Left, class Right>
std::vector<float> multiplied(Left const& left, Right const& right, std::int64_t m, std::int64_t n, A const& how) {
  std::vector<float> out(static_cast<std::size_t>(m * n), -77.0f);
  REQUIRE(loft::matmul(left, right, into(out, m, n), how) == status::ok);
  return out;
}

inline int differing(std::vector<float> const& got, operand_values const& a, operand_values const& b,
                     summing const& how) {
  int wrong = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.rows; ++j)
      wrong += !test::same(got[static_cast<std::size_t>(i * b.rows + j)], test::product_of(a, i, b, j, how));
  return wrong;
}
inline int differing(std::vector<float> const& a, std::vector<float> const& b) {
  int wrong = a.size() != b.size();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) wrong += !test::same(a[i], b[i]);
  return wrong;
}

// The docstring's bound on the error of a float, for an accumulator whose coarsest operation errs by `u`.
inline double bound(operand_values const& a, operand_values const& b, double result, double magnitudes, double u) {
  double const run = static_cast<double>(test::run_of(a, b)), all = static_cast<double>(a.cols);
  double const n = std::min(run, all) + std::ceil(all / run) + 3;
  double const last = std::ldexp(std::fabs(result), -24);
  return (u < 0x1p-50 ? last : 0.0) + n * u / (1 - n * u) * magnitudes;
}

// How often a bound was missed, and how often a result was not the correctly rounded one.
struct errors {
  int beyond = 0, rounded = 0, compared = 0;
  void add(std::vector<float> const& got, operand_values const& a, operand_values const& b, double u) {
    for (std::int64_t i = 0; i < a.rows; ++i)
      for (std::int64_t j = 0; j < b.rows; ++j) {
        test::exact_product const e = test::exactly(a, i, b, j);
        double const scale = a.tensor * b.tensor, exact = e.value * scale;
        auto const value = static_cast<double>(got[static_cast<std::size_t>(i * b.rows + j)]);
        beyond += !(std::fabs(value - exact) <= bound(a, b, exact, e.magnitudes * scale, u));
        rounded += value != static_cast<double>(static_cast<float>(exact));
        ++compared;
      }
  }
};

struct totals {
  int wrong = 0, backwards = 0, unscaled = 0, unscaled_tensor = 0, results = 0;
  errors in_double, in_float, promoted, coarse;
};

template <class B1, class B2> void add_pair(totals& t) {
  for (extents const s : products) {
    for (content const kind : {content::ordinary, content::mixed_sizes, content::specials, content::zeros,
                               content::wide, content::subnormals, content::huge}) {
      auto left = quantized<B1>(kind, s.m, s.k);
      auto right = quantized<B2>(kind == content::wide || kind == content::huge ? content::ordinary : kind, s.n, s.k);
      operand_values const a = operand_of(left, s.m, s.k), b = operand_of(right, s.n, s.k);
      auto const by_float = multiplied(left.view(), right.view(), s.m, s.n, in_float);
      auto const by_double = multiplied(left.view(), right.view(), s.m, s.n, in_double);
      auto const by_promoted = multiplied(left.view(), right.view(), s.m, s.n, promoted{});
      auto const by_coarse = multiplied(left.view(), right.view(), s.m, s.n, coarse{});
      t.wrong += differing(by_float, a, b, as_float) + differing(by_double, a, b, as_double);
      t.wrong += differing(by_promoted, a, b, as_promoted) + differing(by_coarse, a, b, as_coarse);
      t.results += static_cast<int>(by_float.size());
      if (kind != content::ordinary && kind != content::mixed_sizes) continue;
      t.in_double.add(by_double, a, b, 0x1p-53);
      t.in_float.add(by_float, a, b, 0x1p-24);
      t.coarse.add(by_coarse, a, b, 0x1p-8);
      if (kind != content::ordinary) continue;
      t.promoted.add(by_promoted, a, b, 0x1p-14);
      t.backwards += differing(by_float, a, b, {.in_float = true, .backwards = true});
      t.unscaled += differing(by_double, a, b, {.without_scales = true});
      t.unscaled_tensor += differing(by_double, a, b, {.without_tensor_scales = true});
    }
  }
}

// Every accumulator sums in the stated order, within the stated bound: B by itself, and on either side of others.
template <class B> void check_format() {
  CAPTURE(B::element::spec.bits());
  CAPTURE(B::shape.rows);
  CAPTURE(B::shape.cols);
  totals t;
  add_pair<B, B>(t);
  add_pair<B, loft::square<loft::nvfp4, 16>>(t);
  add_pair<loft::mxfp8_e4m3, B>(t);
  CHECK(t.wrong == 0);
  CHECK(t.results > 5000);
  CHECK(t.in_double.beyond == 0);
  CHECK(t.in_float.beyond == 0);
  CHECK(t.promoted.beyond == 0);
  CHECK(t.coarse.beyond == 0);
  // The controls: coarse sums are no exact ones, and a product that forgets something is another one.
  CHECK(t.coarse.rounded > t.coarse.compared / 2);
  CHECK(t.in_float.rounded > 0);
  CHECK(t.unscaled > t.in_double.compared / 4);
  CHECK(t.unscaled_tensor > 0);
  if (B::element::spec.bits() > 6) CHECK(t.backwards > 0);
}

}  // namespace matmul_check
