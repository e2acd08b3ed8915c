// SPDX-License-Identifier: Apache-2.0
// Outlier clamp and compensation: quantiles against sorting, the clamp and its residual against the definition, the
// sparse list and its product against dense matrices, the decorated operand against its parts.
#include "loft/train.hpp"

#include <doctest/doctest.h>

#include "block/block_check.hpp"

namespace {

using loft::clamp_range, loft::matrix_view, loft::sparse_element, loft::status;
using test::content, test::contents, test::infinity, test::not_a_number, test::shape, test::shapes, test::tensor,
    test::view_of;

matrix_view<float> writable(std::vector<float>& x, shape s) { return {x.data(), s.rows, s.cols, s.cols}; }

// The quantiles by sorting.
clamp_range sorted_range(std::vector<float> x, double q) {
  x.erase(std::remove_if(x.begin(), x.end(), [](float v) { return std::isnan(v); }), x.end());
  if (x.empty()) return {-infinity, infinity};
  std::sort(x.begin(), x.end());
  auto const n = static_cast<double>(x.size());
  auto const at = [&](double share) {
    auto const i = static_cast<std::size_t>(std::floor(share * n));
    return x[std::min(i, x.size() - 1)];
  };
  return {at(1 - q), at(q)};
}

float clamped_value(float x, clamp_range r) { return std::isnan(x) ? x : x < r.low ? r.low : x > r.high ? r.high : x; }
bool is_cut(float x, clamp_range r) { return x < r.low || x > r.high; }

}  // namespace

TEST_CASE("quantiles are elements of the sorted tensor") {
  long compared = 0, cut = 0;
  for (content const kind : contents) {
    for (shape const s : shapes) {
      std::vector<float> const x = tensor(kind, s);
      std::vector<loft::bf16_t> const narrow(x.begin(), x.end());
      for (double const q : {0.99, 0.9, 0.5, 0.75, 1.0, 0.999}) {
        clamp_range got{}, turned{}, of_narrow{};
        REQUIRE(loft::find_clamp_range(view_of(x, s), got, q) == status::ok);
        REQUIRE(loft::find_clamp_range(loft::transposed(view_of(x, s)), turned, q) == status::ok);
        REQUIRE(loft::find_clamp_range(view_of(narrow, s), of_narrow, q) == status::ok);
        clamp_range const expected = sorted_range(x, q);
        CHECK(got.low == expected.low);
        CHECK(got.high == expected.high);
        CHECK(turned.low == expected.low);
        CHECK(turned.high == expected.high);
        CHECK(of_narrow.high == sorted_range({narrow.begin(), narrow.end()}, q).high);
        ++compared;
        for (float const v : x) cut += is_cut(v, got);
      }
    }
  }
  CHECK(compared == 420);
  CHECK(cut > 1000);
}

TEST_CASE("the places of the quantiles, by hand") {
  std::vector<float> x(200);
  for (std::size_t i = 0; i < 200; ++i) x[i] = static_cast<float>((i * 73) % 200) - 100;  // -100 ... 99, shuffled
  clamp_range r{};
  REQUIRE(loft::find_clamp_range(view_of(x, {10, 20}), r) == status::ok);
  CHECK(r.high == 98);  // floor(0.99 * 200) = 198
  CHECK(r.low == -98);  // floor(0.01 * 200) = 2
  REQUIRE(loft::find_clamp_range(view_of(x, {1, 100}), r, 1) == status::ok);
  CHECK(r.low == *std::min_element(x.begin(), x.begin() + 100));
  CHECK(r.high == *std::max_element(x.begin(), x.begin() + 100));
}

TEST_CASE("values that are no numbers, zeros, and tensors without elements") {
  std::vector<float> x{not_a_number, -infinity, 1, 2, infinity, -not_a_number, 3, -0.0f};
  clamp_range r{};
  REQUIRE(loft::find_clamp_range(view_of(x, {2, 4}), r, 0.75) == status::ok);  // -inf -0 1 2 3 inf: places 1 and 4
  CHECK(r.low == 0);
  CHECK(r.high == 3);
  CHECK(r.cuts(-infinity));
  CHECK(r.clamp(-infinity) == 0);
  CHECK(r.residual(-infinity) == -infinity);
  CHECK(r.residual(infinity) == infinity);
  CHECK_FALSE(r.cuts(not_a_number));
  CHECK(std::isnan(r.clamp(not_a_number)));
  CHECK(r.residual(not_a_number) == 0);
  CHECK_FALSE(r.cuts(-0.0f));
  CHECK(test::bits_of(r.clamp(-0.0f)) == 0x80000000u);
  CHECK(r.cuts(-0x1p-149f));
  std::vector<float> const none(4, not_a_number);
  for (shape const s : {shape{2, 2}, shape{0, 4}}) {
    REQUIRE(loft::find_clamp_range(view_of(none, s), r) == status::ok);
    CHECK(r.low == -infinity);
    CHECK(r.high == infinity);
  }
}

TEST_CASE("clamp, dense residual and list are the definition") {
  for (content const kind : contents) {
    for (shape const s : shapes) {
      std::vector<float> const x = tensor(kind, s);
      clamp_range const r = sorted_range(x, 0.9);
      std::vector<float> clamped(x.size()), rest(x.size()), dense(x.size(), 0.0f);
      std::vector<sparse_element> list(x.size(), {-1, -1, -1});
      std::int64_t count = -1, listed = -1;
      REQUIRE(loft::clamp_outliers(view_of(x, s), r, writable(clamped, s)) == status::ok);
      REQUIRE(loft::outlier_residual(view_of(x, s), r, writable(rest, s)) == status::ok);
      REQUIRE(loft::count_outliers(view_of(x, s), r, count) == status::ok);
      REQUIRE(loft::list_outliers(view_of(x, s), r, list.data(), count, listed) == status::ok);
      CHECK(listed == count);
      CHECK(count == std::count_if(x.begin(), x.end(), [&](float v) { return is_cut(v, r); }));
      if (count < static_cast<std::int64_t>(x.size())) CHECK(list[static_cast<std::size_t>(count)].row == -1);
      for (std::int64_t i = 0; i < count; ++i) {
        auto const& e = list[static_cast<std::size_t>(i)];
        dense[static_cast<std::size_t>(e.row * s.cols + e.col)] = e.value;
      }
      long wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        wrong += !test::same(clamped[i], clamped_value(x[i], r));
        float const expected = is_cut(x[i], r) ? x[i] - clamped_value(x[i], r) : 0.0f;
        wrong += !test::same(rest[i], expected) + !test::same(dense[i], expected);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the sparse product beside that of the clamped operand is the whole product") {
  shape const s{12, 40}, w{9, 40};
  std::vector<float> const x = tensor(content::ordinary, s), weights = tensor(content::ordinary, w);
  clamp_range const r = sorted_range(x, 0.9);
  std::vector<sparse_element> list(x.size());
  std::int64_t count = 0;
  REQUIRE(loft::list_outliers(view_of(x, s), r, list.data(), 480, count) == status::ok);
  REQUIRE(count > 50);
  std::vector<float> y(12 * 9, 0.5f);
  REQUIRE(loft::add_sparse_product(list.data(), count, view_of(weights, w), matrix_view<float>{y.data(), 12, 9, 9}) ==
          status::ok);
  double worst = 0, least = 1e9;
  for (std::size_t m = 0; m < 12; ++m) {
    for (std::size_t n = 0; n < 9; ++n) {
      double exact = 0.5, sizes = 0.5;
      for (std::size_t k = 0; k < 40; ++k) {
        double const term = static_cast<double>(r.residual(x[m * 40 + k])) * static_cast<double>(weights[n * 40 + k]);
        exact += term, sizes += std::fabs(term);
      }
      worst = std::max(worst, std::fabs(static_cast<double>(y[m * 9 + n]) - exact) / sizes);
      least = std::min(least, std::fabs(exact - 0.5));
    }
  }
  CHECK(worst < 40 * 0x1p-23);
  CHECK(least > 1e-4);
}

TEST_CASE_TEMPLATE("a clamped operand is Q of the clamped tensor and the residual", Operand, loft::operand<loft::mxfp4>,
                   loft::operand<loft::nvfp4>, loft::operand<loft::square<loft::nvfp4, 16>>,
                   loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<>>,
                   loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<4>>) {
  Operand const how{};
  long changed = 0;
  for (content const kind : contents) {
    for (shape const s : {shape{17, 100}, shape{40, 64}, shape{1, 4}}) {
      std::vector<float> const x = tensor(kind, s);
      std::vector<float> cut(x.size()), q(x.size()), got(x.size()), bare(x.size()), plain(x.size());
      clamp_range const r = sorted_range(x, 0.95);
      for (std::size_t i = 0; i < x.size(); ++i) cut[i] = clamped_value(x[i], r);
      REQUIRE(loft::fake_quantize(view_of(cut, s), writable(q, s), how) == status::ok);
      REQUIRE(loft::fake_quantize(view_of(x, s), writable(plain, s), how) == status::ok);
      loft::clamped<Operand> const with{how, 0.95, true}, without{how, 0.95, false};
      REQUIRE(loft::fake_quantize(view_of(x, s), writable(got, s), with) == status::ok);
      REQUIRE(loft::fake_quantize(view_of(x, s), writable(bare, s), without) == status::ok);
      long wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        wrong += !test::same(bare[i], q[i]);
        float const expected = is_cut(x[i], r) ? q[i] + (x[i] - cut[i]) : q[i];
        wrong += !test::same(got[i], expected);
        changed += !test::same(got[i], plain[i]);
      }
      CHECK(wrong == 0);
      // By columns, and in place where nothing is added back.
      std::vector<float> turned(x.size());
      REQUIRE(loft::fake_quantize(view_of(x, s), matrix_view<float>{turned.data(), s.rows, s.cols, 1, s.rows}, with) ==
              status::ok);
      long differ = 0;
      for (std::int64_t row = 0; row < s.rows; ++row)
        for (std::int64_t c = 0; c < s.cols; ++c)
          differ += !test::same(turned[static_cast<std::size_t>(c * s.rows + row)],
                                got[static_cast<std::size_t>(row * s.cols + c)]);
      CHECK(differ == 0);
      std::vector<float> place = x;
      REQUIRE(loft::fake_quantize(matrix_view<float const>{place.data(), s.rows, s.cols, s.cols}, writable(place, s),
                                  without) == status::ok);
      long moved = 0;
      for (std::size_t i = 0; i < x.size(); ++i) moved += !test::same(place[i], bare[i]);
      CHECK(moved == 0);
    }
  }
  CHECK(changed > 1000);
}

TEST_CASE("outlier calls refuse mistakes before the first write") {
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8}, y(8, -5.0f);
  shape const s{2, 4};
  clamp_range r{7, 7};
  loft::operand<loft::mxfp4> const how{};
  std::int64_t count = -7;
  std::vector<sparse_element> list(8, {9, 9, 9});
  double const nan = std::numeric_limits<double>::quiet_NaN();
  for (double const q : {0.49, 1.01, -0.99, nan, -nan, 0.0})
    CHECK(loft::find_clamp_range(view_of(x, s), r, q) == status::invalid_quantile);
  CHECK(r.low == 7);
  CHECK(loft::fake_quantize(view_of(x, s), writable(y, s), loft::clamped<loft::operand<loft::mxfp4>>{how, 2}) ==
        status::invalid_quantile);
  matrix_view<float const> const null{nullptr, 2, 4, 4};
  CHECK(loft::find_clamp_range(null, r) == status::null_pointer);
  CHECK(loft::count_outliers(null, r, count) == status::null_pointer);
  r = {2, 6};
  CHECK(loft::list_outliers(view_of(x, s), r, list.data(), 2, count) == status::buffer_too_small);
  CHECK(loft::list_outliers(view_of(x, s), r, nullptr, 3, count) == status::null_pointer);
  CHECK(count == -7);
  CHECK(list[0].row == 9);
  CHECK(loft::list_outliers(view_of(x, s), r, list.data(), 3, count) == status::ok);
  CHECK(count == 3);
  CHECK(loft::clamp_outliers(view_of(x, {4, 2}), r, writable(y, s)) == status::shape_mismatch);
  CHECK(loft::outlier_residual(view_of(x, s), r, matrix_view<float>{y.data(), 2, 4, 1}) == status::overlapping_output);
  loft::clamped<loft::operand<loft::mxfp4>> const with{how, 0.9};
  CHECK(loft::fake_quantize(view_of(x, s), writable(x, s), with) == status::overlapping_output);
  loft::clamped<loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<8>>> const rotated{};
  CHECK(loft::fake_quantize(view_of(x, s), writable(y, s), rotated) == status::rotation_does_not_divide);
  matrix_view<float> const product{y.data(), 2, 3, 3};
  std::vector<float> const w(12, 1.0f);
  CHECK(loft::add_sparse_product(list.data(), 3, view_of(w, {2, 4}), product) == status::shape_mismatch);
  CHECK(loft::add_sparse_product(list.data(), 3, view_of(w, {3, 2}), product) == status::shape_mismatch);
  CHECK(loft::add_sparse_product(list.data(), -1, view_of(w, {3, 4}), product) == status::negative_extent);
  CHECK(loft::add_sparse_product(nullptr, 3, view_of(w, {3, 4}), product) == status::null_pointer);
  CHECK(y == std::vector<float>(8, -5.0f));
  CHECK(loft::add_sparse_product(list.data(), 3, view_of(w, {3, 4}), product) == status::ok);
}
