// SPDX-License-Identifier: Apache-2.0
// Learnable scales: fake quantization and gradients against LSQ's equations in double, a finite difference, a descent;
// the disorder of gradients against counting, and the freeze mask.
#include "loft/train.hpp"

#include <doctest/doctest.h>

#include <deque>

#include "block/block_check.hpp"
#include "normal_values.hpp"

namespace {

using loft::freeze_when, loft::gradient_disorder, loft::matrix_view, loft::scale_tiles, loft::status;
using test::infinity, test::not_a_number, test::shape, test::view_of;

matrix_view<float> writable(std::vector<float>& x, shape s) { return {x.data(), s.rows, s.cols, s.cols}; }

// LSQ by its equations, in double but for x / s, which is a float.
struct lsq {
  std::vector<double> output, value_gradient, scale_gradient, factor;

  template <class F>
  static lsq of(F, std::vector<float> const& x, shape s, std::int64_t rows, std::int64_t cols,
                std::vector<float> const& scales, std::vector<float> const& g) {
    oracle::table const& t = test::table_of<F>();
    std::int64_t const across = (s.cols + cols - 1) / cols;
    lsq r;
    r.scale_gradient.assign(scales.size(), 0), r.factor.assign(scales.size(), 0);
    for (std::int64_t row = 0; row < s.rows; ++row) {
      for (std::int64_t col = 0; col < s.cols; ++col) {
        auto const i = static_cast<std::size_t>(row * s.cols + col);
        auto const tile = static_cast<std::size_t>(row / rows * across + col / cols);
        double const v = static_cast<double>(x[i] / scales[tile]), rounded = t.decode(t.encode(v));
        bool const inside = v > -t.max() && v < t.max();
        r.output.push_back(rounded * static_cast<double>(scales[tile]));
        r.value_gradient.push_back(inside ? static_cast<double>(g[i]) : 0);
        double const slope = inside ? rounded - v : v > 0 ? t.max() : -t.max();
        r.scale_gradient[tile] += static_cast<double>(g[i]) * slope;
        r.factor[tile] += t.max();
      }
    }
    for (double& f : r.factor) f = 1 / std::sqrt(f);
    return r;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("outputs and gradients are LSQ's equations", F, loft::int4, loft::int6, loft::e2m1, loft::int8,
                   loft::e4m3) {
  long clipped = 0;
  for (scale_tiles const tiles : {scale_tiles{0, 0}, {1, 0}, {1, 32}, {16, 16}, {0, 1}, {3, 7}}) {
    for (shape const s : {shape{33, 70}, shape{1, 1}, shape{16, 64}}) {
      auto const n = static_cast<std::size_t>(s.rows * s.cols);
      std::vector<float> const x = normal_values(n, static_cast<unsigned>(n) + 3),
                               g = normal_values(n, static_cast<unsigned>(n) + 4);
      std::int64_t const rows = tiles.rows == 0 ? s.rows : tiles.rows, cols = tiles.cols == 0 ? s.cols : tiles.cols;
      auto const count = static_cast<std::size_t>((s.rows + rows - 1) / rows * ((s.cols + cols - 1) / cols));
      REQUIRE(tiles.count(s.rows, s.cols) == static_cast<std::int64_t>(count));
      std::vector<float> scales(count), out(n), d(n), ds(count), plain(count);
      test::noise next{count};
      float const largest = static_cast<float>(test::table_of<F>().max());
      for (float& v : scales) v = (1.7f + next.value(0, 0)) / largest;
      lsq const expected = lsq::of(F{}, x, s, rows, cols, scales, g);
      REQUIRE(loft::fake_quantize_learned<F>(view_of(x, s), tiles, scales.data(), writable(out, s)) == status::ok);
      d = g;
      REQUIRE(loft::learned_gradients<F>(view_of(x, s), tiles, scales.data(), writable(d, s), ds.data()) == status::ok);
      CHECK(ds.size() == count);
      std::vector<float> again = g;
      REQUIRE(loft::learned_gradients<F>(view_of(x, s), tiles, scales.data(), writable(again, s), plain.data(),
                                         false) == status::ok);
      CHECK(again == d);
      long wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        wrong += out[i] != static_cast<float>(expected.output[i]);
        wrong += d[i] != static_cast<float>(expected.value_gradient[i]);
        clipped += expected.value_gradient[i] == 0;
      }
      for (std::size_t i = 0; i < count; ++i) {
        wrong += plain[i] != static_cast<float>(expected.scale_gradient[i]);
        double const with_factor = expected.scale_gradient[i] * expected.factor[i];
        wrong += std::fabs(static_cast<double>(ds[i]) - with_factor) > std::fabs(with_factor) * 0x1p-23;
      }
      CHECK(wrong == 0);
    }
  }
  CHECK(clipped > 100);
}

TEST_CASE("LSQ's gradient by hand") {
  // int4: -7 ... 7, s = 2: x / s = 0.6, -3.5, 9, -7.
  std::vector<float> const x{1.2f, -7, 18, -14};
  float const scale = 2;
  std::vector<float> out(4), g(4, 1.0f);
  float ds = 0;
  shape const s{1, 4};
  REQUIRE(loft::fake_quantize_learned<loft::int4>(view_of(x, s), {}, &scale, writable(out, s)) == status::ok);
  CHECK(out == std::vector<float>{2, -8, 14, -14});  // ties to even
  REQUIRE(loft::learned_gradients<loft::int4>(view_of(x, s), {}, &scale, writable(g, s), &ds, false) == status::ok);
  CHECK(ds == doctest::Approx(0.4 - 0.5 + 7 - 7).epsilon(1e-6));
  CHECK(g == std::vector<float>{1, 1, 0, 0});  // the ends belong to the outside
}

TEST_CASE("initial scales, and a descent that finds a better one") {
  shape const s{8, 512};
  std::vector<float> const x = normal_values(4096, 77);
  std::vector<float> scales(8);
  REQUIRE(loft::initial_scales<loft::int4>(view_of(x, s), {1, 0}, scales.data()) == status::ok);
  for (std::size_t row = 0; row < 8; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += std::fabs(static_cast<double>(x[row * 512 + i]));
    CHECK(scales[row] == doctest::Approx(2 * sum / 512 / std::sqrt(7.0)).epsilon(1e-7));
  }
  auto const error = [&](std::vector<float>& difference) {
    std::vector<float> y(4096);
    REQUIRE(loft::fake_quantize_learned<loft::int4>(view_of(x, s), {1, 0}, scales.data(), writable(y, s)) ==
            status::ok);
    double sum = 0;
    for (std::size_t i = 0; i < 4096; ++i) {
      difference[i] = y[i] - x[i];
      sum += static_cast<double>(difference[i]) * static_cast<double>(difference[i]);
    }
    return sum;
  };
  std::vector<float> difference(4096), ds(8);
  double const before = error(difference);
  for (int step = 0; step < 200; ++step) {
    error(difference);
    REQUIRE(loft::learned_gradients<loft::int4>(view_of(x, s), {1, 0}, scales.data(), writable(difference, s),
                                                ds.data()) == status::ok);
    for (std::size_t row = 0; row < 8; ++row) scales[row] -= 0.01f * ds[row];
  }
  CHECK(error(difference) < 0.5 * before);
  std::vector<float> const none{0, not_a_number, infinity, -0.0f};
  REQUIRE(loft::initial_scales<loft::int4>(view_of(none, {1, 4}), {}, scales.data()) == status::ok);
  CHECK(scales[0] == 0x1p-126f);
}

TEST_CASE("NaN and infinity under learnable scales") {
  std::vector<float> const x{not_a_number, infinity, -infinity, 1};
  std::vector<float> out(4), g(4, 1.0f);
  float const scales[] = {1, 1};
  float ds[2] = {};
  shape const s{2, 2};
  REQUIRE(loft::fake_quantize_learned<loft::e2m1>(view_of(x, s), {1, 0}, scales, writable(out, s)) == status::ok);
  CHECK(std::isnan(out[0]));
  CHECK(out[1] == 6);
  CHECK(out[2] == -6);
  REQUIRE(loft::learned_gradients<loft::e2m1>(view_of(x, s), {1, 0}, scales, writable(g, s), ds) == status::ok);
  CHECK(std::isnan(ds[0]));
  CHECK(ds[1] == doctest::Approx(-6 / std::sqrt(12.0)));
  CHECK(g == std::vector<float>{0, 0, 0, 1});
}

TEST_CASE("the disorder of two gradients is their share of opposite signs in a window") {
  test::noise next{41};
  for (int const window : {1, 5, 33, 64, 1000}) {
    gradient_disorder d;
    std::deque<bool> steps;
    CHECK(d.share() == 0);
    for (int i = 0; i < 300; ++i) {
      float const special[] = {0.0f, -0.0f, not_a_number, -infinity, 0x1p-149f};
      float const a = next() % 7 == 0 ? special[next() % 5] : next.value(-2, 2), b = next.value(-2, 2);
      d.push(a, b, window);
      steps.push_front((a < 0 && b > 0) || (a > 0 && b < 0));
      if (static_cast<int>(steps.size()) > std::min(window, 64)) steps.pop_back();
      auto const count = std::count(steps.begin(), steps.end(), true);
      CHECK(d.disagreements() == count);
      CHECK(d.share() == static_cast<double>(count) / static_cast<double>(steps.size()));
    }
    CHECK(d.risk(0.25) == d.share() / 0.25);
  }
}

TEST_CASE("frozen scales have no gradient") {
  gradient_disorder d[4];
  for (int i = 0; i < 8; ++i) {
    d[0].push(1, -1);
    d[1].push(1, i < 2 ? -1.0f : 1.0f);
    d[2].push(1, 1);
  }
  std::uint8_t mask[4] = {9, 9, 9, 9};
  loft::choose_frozen(d, 4, 0.25, freeze_when::above, mask);
  CHECK(std::vector<int>(mask, mask + 4) == std::vector<int>{1, 0, 0, 0});
  loft::choose_frozen(d, 4, 0.25, freeze_when::below, mask);
  CHECK(std::vector<int>(mask, mask + 4) == std::vector<int>{0, 0, 1, 0});
  float g[] = {1, 2, not_a_number, 4};
  loft::freeze_scales(g, mask, 4);
  CHECK(std::vector<float>(g, g + 4) == std::vector<float>{1, 2, 0, 4});
}

TEST_CASE("calls with learnable scales refuse mistakes before the first write") {
  std::vector<float> x(16, 1.0f), y(16, -5.0f), scales(4, 1.0f), ds(4, -5.0f);
  shape const s{4, 4};
  using F = loft::int4;
  matrix_view<float const> const in = view_of(x, s);
  auto const both = [&](matrix_view<float const> values, scale_tiles tiles, float const* scale,
                        matrix_view<float> out) {
    status const a = loft::fake_quantize_learned<F>(values, tiles, scale, out);
    CHECK(a == loft::learned_gradients<F>(values, tiles, scale, out, ds.data()));
    return a;
  };
  CHECK(both({nullptr, 4, 4, 4}, {}, scales.data(), writable(y, s)) == status::null_pointer);
  CHECK(both(in, {}, nullptr, writable(y, s)) == status::null_pointer);
  CHECK(both(in, {-1, 0}, scales.data(), writable(y, s)) == status::negative_extent);
  CHECK(both(in, {}, scales.data(), writable(y, {2, 8})) == status::shape_mismatch);
  CHECK(both(in, {}, scales.data(), {y.data(), 4, 4, 0}) == status::overlapping_output);
  for (float const bad : {0.0f, -1.0f, infinity, not_a_number, -0.0f}) {
    scales[3] = bad;
    CHECK(both(in, {1, 0}, scales.data(), writable(y, s)) == status::invalid_scale);
    CHECK(loft::fake_quantize_learned<F>(in, {}, scales.data(), writable(y, s)) ==
          status::ok);  // the fourth is not used
    y.assign(16, -5.0f);
  }
  CHECK(loft::learned_gradients<F>(in, {}, scales.data(), writable(y, s), nullptr) == status::null_pointer);
  CHECK(loft::initial_scales<F>(in, {0, -1}, scales.data()) == status::negative_extent);
  CHECK(loft::initial_scales<F>(in, {}, nullptr) == status::null_pointer);
  CHECK(y == std::vector<float>(16, -5.0f));
  CHECK(ds == std::vector<float>(4, -5.0f));
  CHECK(both({nullptr, 0, 4, 4}, {}, nullptr, {nullptr, 0, 4, 4}) == status::ok);
}
