// SPDX-License-Identifier: Apache-2.0
// Rotations against the Sylvester matrix: values, inverses, signs, dot products, and what is exact.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <array>
#include <bit>

#include "loft/block.hpp"
#include "oracle_of.hpp"

namespace {

using test::tally;

// y = H (s . x) / sqrt(n) in double from the definition: H_ij = (-1)^popcount(i & j).
std::vector<double> by_definition(std::vector<double> const& x, std::uint64_t signs, bool orthonormal = true) {
  auto const n = x.size();
  std::vector<double> y(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double const signed_x = (signs >> (j % 64) & 1) != 0 ? -x[j] : x[j];
      y[i] += std::popcount(i & j) % 2 == 0 ? signed_x : -signed_x;
    }
    if (orthonormal) y[i] /= std::sqrt(static_cast<double>(n));
  }
  return y;
}

std::vector<double> integers(std::size_t n, std::uint64_t seed) {
  test::noise next{seed};
  std::vector<double> x(n);
  for (double& v : x) v = static_cast<double>(next() % 2001) - 1000.0;
  return x;
}

template <class Rotation>
std::vector<double> applied(Rotation rotation, std::vector<double> const& x, bool inverse = false) {
  std::vector<float> run(x.begin(), x.end());
  if (inverse) rotation.invert(run.data());
  else rotation.apply(run.data());
  return {run.begin(), run.end()};
}

double largest(std::vector<double> const& x) {
  double result = 0;
  for (double const v : x) result = std::max(result, std::fabs(v));
  return result;
}
double largest_difference(std::vector<double> const& a, std::vector<double> const& b) {
  double result = 0;
  for (std::size_t i = 0; i < a.size(); ++i) result = std::max(result, std::fabs(a[i] - b[i]));
  return result;
}

// Integers up to 1000 keep every sum exact, so that one rounding is left: the product with 1/sqrt(n), itself rounded
// unless n is a power of four. There the result is exact.
template <int N, class Rotation> void check_forward(Rotation rotation, std::uint64_t signs) {
  CAPTURE(N);
  static_assert(loft::Rotation<Rotation> && Rotation::size == N);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<double> const x = integers(N, seed), expected = by_definition(x, signs);
    std::vector<double> const y = applied(rotation, x);
    bool const power_of_four = std::countr_zero(static_cast<unsigned>(N)) % 2 == 0;
    double const bound = power_of_four ? 0 : largest(expected) * 0x1p-23;
    CHECK(largest_difference(y, expected) <= bound);
    if (N > 1) CHECK(largest_difference(y, by_definition(x, signs ^ 2)) > 1e-3);  // control: another sign
    // The way back: exact for powers of four, else the roundings of two passes.
    std::vector<double> const back = applied(rotation, y, true);
    double const slack = power_of_four ? 0 : largest(x) * N * 0x1p-22;
    CHECK(largest_difference(back, x) <= slack);
  }
}

template <int N> void check_size() {
  check_forward<N>(loft::hadamard<N>{}, 0);
  check_forward<N>(loft::signed_hadamard<N>{}, 0);
  check_forward<N>(loft::signed_hadamard<N>{0x9e3779b97f4a7c15}, 0x9e3779b97f4a7c15);
  check_forward<N>(loft::signed_hadamard<N>{~0ull}, ~0ull);
}

}  // namespace

TEST_CASE("hadamard and signed_hadamard equal the definition, and invert undoes apply") {
  check_size<1>();
  check_size<2>();
  check_size<4>();
  check_size<8>();
  check_size<16>();
  check_size<32>();
  check_size<64>();
  check_size<128>();
  check_size<256>();
}

TEST_CASE("reported: 1 2 3 4, natural order") {
  std::vector<double> const x{1, 2, 3, 4};
  CHECK(applied(loft::hadamard<4>{}, x) == std::vector<double>{5, -1, -2, 0});
  CHECK(by_definition(x, 0, false) == std::vector<double>{10, -2, -4, 0});
  CHECK(applied(loft::hadamard<4>{}, {0, 0, 2, 0}) == std::vector<double>{1, 1, -1, -1});  // the third column
}

TEST_CASE("reported: a run of 16 in quarters") {
  std::vector<double> const x{-3, -2, 1, -1, -1, 1, -2, -3, -2, 1, -1, -1, 1, -2, -3, -2};
  std::vector<double> const y{-4.75, -0.25, 1.25,  -1.25, 0.75,  -0.75, -3.25, -1.75,
                              -0.25, 0.25,  -1.25, -1.75, -0.75, 1.75,  -1.75, 1.75};
  CHECK(applied(loft::hadamard<16>{}, x) == y);
  CHECK(applied(loft::hadamard<16>{}, y) == x);  // its own inverse
}

TEST_CASE("reported: dot products are kept where both sides take the same signs") {
  std::vector<double> const a{1, 2, 3, 4}, b{5, -1, 0, 2};
  auto const dot = [](std::vector<double> const& x, std::vector<double> const& y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  };
  loft::signed_hadamard<4> const signs{0b0010}, others{0b0100};
  CHECK(dot(applied(signs, a), applied(signs, b)) == 11.0);
  CHECK(dot(applied(signs, a), applied(others, b)) == 15.0);  // the fault of the report
}

TEST_CASE("signs come first, and bit i % 64 belongs to element i") {
  std::vector<double> x(128, 0.0);
  for (std::size_t const i : {0u, 5u, 63u, 64u, 69u, 127u}) {
    x.assign(128, 0.0), x[i] = 1.0;
    std::vector<double> const y = applied(loft::signed_hadamard<128>{1ull << (i % 64)}, x);
    CHECK(y[0] < 0);
    CHECK(largest_difference(y, by_definition(x, 1ull << (i % 64))) < 1e-7);
  }
}

TEST_CASE("rows of the matrix are orthonormal, and a cut-down one is not") {
  constexpr std::size_t n = 128;
  std::vector<std::vector<double>> columns;
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<double> unit(n, 0.0);
    unit[j] = 1;
    columns.push_back(applied(loft::hadamard<n>{}, unit));
  }
  double worst = 0, cut = 0;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      double sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += columns[j][a] * columns[j][b];
      worst = std::max(worst, std::fabs(sum - (a == b ? 1.0 : 0.0)));
    }
  }
  for (std::size_t j = 0; j < 80; ++j) cut += columns[j][3] * columns[j][3];
  CHECK(worst < 1e-6);
  CHECK(std::fabs(cut - 0.625) < 1e-6);
}

TEST_CASE("special values: zeros keep exact, a NaN or an infinity fills its run") {
  std::vector<double> const zeros(16, 0.0);
  CHECK(applied(loft::hadamard<16>{}, zeros) == zeros);
  std::vector<double> x(16, 1.0);
  x[7] = std::nan("");
  for (double const v : applied(loft::hadamard<16>{}, x)) CHECK(std::isnan(v));
  x[7] = std::numeric_limits<double>::infinity();
  for (double const v : applied(loft::hadamard<16>{}, x)) CHECK(!std::isfinite(v));
}

TEST_CASE("no_rotation leaves values alone, and rotations work at compile time") {
  std::vector<double> const x = integers(8, 3);
  CHECK(applied(loft::no_rotation{}, x) == x);
  static_assert(loft::Rotation<loft::no_rotation>);
  constexpr auto y = [] {
    std::array<float, 4> run{1, 2, 3, 4};
    loft::hadamard<4>{}.apply(run.data());
    return run;
  }();
  static_assert(y[0] == 5 && y[1] == -1 && y[2] == -2 && y[3] == 0);
  constexpr auto z = [] {
    std::array<float, 2> run{3, 4};
    loft::signed_hadamard<2>{2}.apply(run.data());
    loft::signed_hadamard<2>{2}.invert(run.data());
    return run;
  }();
  CHECK(std::fabs(z[0] - 3) + std::fabs(z[1] - 4) < 1e-6);
}
