// SPDX-License-Identifier: Apache-2.0
// Residual quantization: its parts against fake_quantize, the selectors against sorting in double, and what each buys.
#include "loft/train.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "block/block_check.hpp"

namespace {

using loft::keep_all, loft::matrix_view, loft::status, loft::two_of_four, loft::with_residual;
using test::content, test::contents, test::infinity, test::not_a_number, test::shape, test::tensor, test::view_of;

matrix_view<float> writable(std::vector<float>& x, shape s) { return {x.data(), s.rows, s.cols, s.cols}; }

template <class Operand> std::vector<float> fake(std::vector<float> const& x, shape s, Operand const& how) {
  std::vector<float> y(x.size());
  REQUIRE(loft::fake_quantize(view_of(x, s), writable(y, s), how) == status::ok);
  return y;
}

long differences(std::vector<float> const& a, std::vector<float> const& b) {
  long count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !test::same(a[i], b[i]);
  return count;
}

// What 2:4 keeps, by a stable sort of each group.
std::vector<float> two_of_four_by_sorting(std::vector<float> x, shape s) {
  auto const size = [](float v) { return std::isnan(v) ? 2.0 * infinity : std::fabs(static_cast<double>(v)); };
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < s.cols; c += 4) {
      std::vector<std::size_t> place(static_cast<std::size_t>(std::min<std::int64_t>(4, s.cols - c)));
      std::iota(place.begin(), place.end(), static_cast<std::size_t>(r * s.cols + c));
      std::stable_sort(place.begin(), place.end(), [&](auto a, auto b) { return size(x[a]) > size(x[b]); });
      for (std::size_t i = 2; i < place.size(); ++i) x[place[i]] = 0;
    }
  }
  return x;
}

// What is kept of tiles of rows x cols, by a stable sort of their norms.
std::vector<float> half_by_sorting(std::vector<float> x, shape s, std::int64_t rows, std::int64_t cols) {
  std::int64_t const across = (s.cols + cols - 1) / cols, down = (s.rows + rows - 1) / rows;
  std::vector<double> norm(static_cast<std::size_t>(across * down));
  auto const tile = [&](std::int64_t r, std::int64_t c) {
    return static_cast<std::size_t>(r / rows * across + c / cols);
  };
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t c = 0; c < s.cols; ++c)
      norm[tile(r, c)] += std::pow(static_cast<double>(x[static_cast<std::size_t>(r * s.cols + c)]), 2);
  std::vector<std::size_t> order(norm.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return norm[a] > norm[b]; });
  std::vector<bool> kept(norm.size(), false);
  for (std::size_t i = 0; i < (norm.size() + 1) / 2; ++i) kept[order[i]] = true;
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t c = 0; c < s.cols; ++c)
      if (!kept[tile(r, c)]) x[static_cast<std::size_t>(r * s.cols + c)] = 0;
  return x;
}

double squared_error(std::vector<float> const& x, std::vector<float> const& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
  return sum;
}

using loft::hadamard, loft::mxfp4, loft::nearest_even, loft::nvfp4, loft::ocp_floor, loft::operand, loft::square,
    loft::stochastic, loft::two_level;

}  // namespace

TEST_CASE("2:4 keeps the two largest of four neighbours, ties to the left") {
  std::vector<float> x{1,        -3, 2, 3,      /**/ 1, 1, 1, 1, /**/ 0, -0.0f, 5, 5, /**/ not_a_number,
                       infinity, 9,  9, /**/ 7, 8,      9};
  two_of_four{}.apply({x.data(), 1, 19, 19});
  CHECK(std::isnan(x[12]));
  x[12] = 4;
  CHECK(x == std::vector<float>{0, -3, 0, 3, 1, 1, 0, 0, 0, 0, 5, 5, 4, infinity, 0, 0, 0, 8, 9});
  for (content const kind : contents) {
    for (shape const s : test::shapes) {
      std::vector<float> got = tensor(kind, s);
      std::vector<float> const expected = two_of_four_by_sorting(got, s);
      two_of_four{}.apply(writable(got, s));
      CHECK(differences(got, expected) == 0);
    }
  }
}

TEST_CASE_TEMPLATE("half of the tiles by L2 norm", S, loft::half_of_columns, loft::half_of_blocks,
                   loft::half_of_tiles<2, 3>) {
  constexpr bool columns = std::is_same_v<S, loft::half_of_columns>, blocks = std::is_same_v<S, loft::half_of_blocks>;
  long dropped = 0;
  for (content const kind : {content::ordinary, content::zeros, content::subnormals, content::mixed_sizes}) {
    for (shape const s : {shape{64, 192}, shape{70, 200}, shape{5, 37}, shape{1, 1}, shape{33, 2}, shape{8, 90}}) {
      std::vector<float> got = tensor(kind, s), before = got;
      std::int64_t const rows = columns ? s.rows : blocks ? 32 : 2, cols = columns ? 1 : blocks ? 64 : 3;
      std::int64_t const tiles = (s.rows + rows - 1) / rows * ((s.cols + cols - 1) / cols);
      REQUIRE(S::workspace_size(s.rows, s.cols) == tiles);
      std::vector<double> work(static_cast<std::size_t>(tiles) + 1, -7.0);
      S const select{work.data(), tiles};
      REQUIRE(select.check(s.rows, s.cols) == status::ok);
      select.apply(writable(got, s));
      CHECK(work.back() == -7.0);
      CHECK(differences(got, half_by_sorting(before, s, rows, cols)) == 0);
      dropped += differences(got, before);
    }
  }
  CHECK(dropped > 1000);
  CHECK(S::workspace_size(0, 5) == 0);
  CHECK(S::workspace_size(5, 0) == 0);
  CHECK(S{}.check(0, 5) == status::ok);
}

TEST_CASE("a tile that is not finite is kept") {
  std::vector<float> x{1, 2, -not_a_number, 4, infinity, 6};
  std::vector<double> work(6);
  loft::half_of_columns{work.data(), 6}.apply({x.data(), 1, 6, 6});
  CHECK(std::isnan(x[2]));
  CHECK(x[4] == infinity);
  CHECK(x[5] == 6);
  CHECK(x[0] + x[1] + x[3] == 0);
}

TEST_CASE_TEMPLATE("the residual and the sum are their formulas", Operand, operand<mxfp4>, operand<nvfp4>,
                   operand<square<nvfp4, 16>>, operand<loft::hif4>, operand<nvfp4, two_level, stochastic<>>,
                   operand<mxfp4, ocp_floor, nearest_even, hadamard<4>>) {
  Operand const how{};
  Operand second{};
  if constexpr (requires { second.rounding.stream = 1; }) second.rounding.stream = 1;
  constexpr bool exact = std::is_same_v<Operand, operand<mxfp4>>;
  for (content const kind : contents) {
    for (shape const s : {shape{17, 100}, shape{40, 64}, shape{1, 4}, shape{2, 1100}}) {
      std::vector<float> const x = tensor(kind, s), q = fake(x, s, how);
      std::vector<float> r(x.size()), got_r(x.size()), selected(x.size()), sum(x.size());
      long inexact = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        r[i] = x[i] - q[i];
        inexact +=
            std::isfinite(r[i]) && static_cast<double>(x[i]) - static_cast<double>(q[i]) != static_cast<double>(r[i]);
      }
      if (exact) CHECK(inexact == 0);
      REQUIRE(loft::quantization_residual(view_of(x, s), writable(got_r, s), how) == status::ok);
      CHECK(differences(got_r, r) == 0);
      std::vector<float> const rq = fake(r, s, second), kept = two_of_four_by_sorting(rq, s);
      with_residual<Operand> const all{how, second};
      with_residual<Operand, two_of_four> const half{how, second};
      REQUIRE(loft::selected_residual(view_of(x, s), writable(selected, s), all) == status::ok);
      CHECK(differences(selected, rq) == 0);
      REQUIRE(loft::selected_residual(view_of(x, s), writable(selected, s), half) == status::ok);
      CHECK(differences(selected, kept) == 0);
      std::vector<float> expected(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] = q[i] + kept[i];
      REQUIRE(loft::fake_quantize(view_of(x, s), writable(sum, s), half) == status::ok);
      CHECK(differences(sum, expected) == 0);
      std::vector<float> turned(x.size()), back(x.size());
      REQUIRE(loft::fake_quantize(view_of(x, s), matrix_view<float>{turned.data(), s.rows, s.cols, 1, s.rows}, half) ==
              status::ok);
      for (std::int64_t row = 0; row < s.rows; ++row)
        for (std::int64_t c = 0; c < s.cols; ++c)
          back[static_cast<std::size_t>(row * s.cols + c)] = turned[static_cast<std::size_t>(c * s.rows + row)];
      CHECK(differences(back, expected) == 0);
    }
  }
}

TEST_CASE("what the residual buys: all, most, half, nothing") {
  shape const s{64, 256};
  std::mt19937_64 random{17};
  std::normal_distribution<float> normal;
  std::vector<float> x(64 * 256);
  for (float& v : x) v = normal(random);
  operand<mxfp4> const how{};
  std::vector<double> work(256);
  auto const error = [&](auto const& decorated) { return squared_error(x, fake(x, s, decorated)); };
  double const none = error(how), all = error(with_residual<operand<mxfp4>>{});
  double const most = error(with_residual<operand<mxfp4>, two_of_four>{});
  double const half = error(with_residual<operand<mxfp4>, loft::half_of_columns>{how, how, {work.data(), 256}});
  double const blocks = error(with_residual<operand<mxfp4>, loft::half_of_blocks>{how, how, {work.data(), 256}});
  CHECK(all < most);
  CHECK(most < half);
  CHECK(half < blocks);
  CHECK(blocks < none);
  CHECK(all < 0.03 * none);
  CHECK(most < 0.35 * none);
  // The residual of a stochastic operand under the same words is not what a stream of its own gives.
  using noisy = operand<nvfp4, two_level, stochastic<>>;
  with_residual<noisy, keep_all, noisy> const same{};
  auto other = same;
  other.residual.rounding.stream = 1;
  CHECK(differences(fake(x, s, same), fake(x, s, other)) > 1000);
}

TEST_CASE("residual calls refuse mistakes before the first write") {
  std::vector<float> x(64, 1.3f), y(64, -5.0f);
  shape const s{4, 16};
  operand<mxfp4> const how{};
  std::vector<double> work(16);
  auto const refused = [&](auto const& decorated, matrix_view<float const> in, matrix_view<float> out) {
    status const a = loft::fake_quantize(in, out, decorated), b = loft::selected_residual(in, out, decorated);
    CHECK(a == b);
    return a;
  };
  with_residual<operand<mxfp4>, two_of_four> const plain{};
  CHECK(refused(plain, view_of(x, {16, 4}), writable(y, s)) == status::shape_mismatch);
  CHECK(refused(plain, view_of(x, s), writable(x, s)) == status::overlapping_output);
  CHECK(refused(plain, {nullptr, 4, 16, 16}, writable(y, s)) == status::null_pointer);
  using long_rotation = operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>;
  CHECK(refused(with_residual<long_rotation>{}, view_of(x, s), writable(y, s)) == status::rotation_does_not_divide);
  CHECK(refused(with_residual<operand<mxfp4>, keep_all, long_rotation>{}, view_of(x, s), writable(y, s)) ==
        status::rotation_does_not_divide);
  using columns = with_residual<operand<mxfp4>, loft::half_of_columns>;
  CHECK(refused(columns{}, view_of(x, s), writable(y, s)) == status::workspace_too_small);
  CHECK(refused(columns{how, how, {work.data(), 15}}, view_of(x, s), writable(y, s)) == status::workspace_too_small);
  CHECK(loft::quantization_residual(view_of(x, s), writable(x, s), how) == status::overlapping_output);
  CHECK(x == std::vector<float>(64, 1.3f));
  CHECK(y == std::vector<float>(64, -5.0f));
  CHECK(refused(columns{how, how, {work.data(), 16}}, view_of(x, s), writable(y, s)) == status::ok);
  CHECK(refused(plain, {nullptr, 0, 16, 16}, {nullptr, 0, 16, 16}) == status::ok);
}
