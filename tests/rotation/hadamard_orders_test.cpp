// SPDX-License-Identifier: Apache-2.0
// Rotations of every order: the matrix itself, its inverse, dot products, the order of sums, random signs, frozen bits;
// one thread, lanes and teams of threads.
#include <doctest/doctest.h>

#include <barrier>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "golden.hpp"
#include "loft/loft.hpp"
#include "oracle_of.hpp"

namespace {

using loft::hadamard;
using loft::random_hadamard;
using loft::signed_hadamard;

template <int... N> struct orders {
  template <class F> static void for_each(F&& f) { (f(std::integral_constant<int, N>{}), ...); }
};
using all_orders = orders<1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,  // Sylvester's
                          12, 24, 48, 96, 192, 384, 768, 1536, 3072,                // 12 times a power of two
                          20, 40, 80, 160, 320, 640, 1280, 2560,                    // 20
                          28, 56, 112, 224, 448, 896, 1792, 3584>;                  // 28

using test::noise;

// Paley's matrices from Euler's criterion: a is a square modulo q where a^((q - 1) / 2) is 1.
int euler(int a, int q) {
  int power = 1;
  for (int i = 0; i < (q - 1) / 2; ++i) power = power * ((a % q + q) % q) % q;
  return power == q - 1 ? -1 : power;
}
int paley_element(int order, int row, int col) {
  if (order == 1) return 1;
  if (order != 28) {
    int const q = order - 1;
    if (row == col || col == 0) return 1;
    return row == 0 ? -1 : euler(row - col, q);
  }
  int const r = row / 2, c = col / 2, low = row % 2 + 2 * (col % 2);  // C (x) (1 1; 1 -1) + I (x) (1 -1; -1 -1)
  int const conference = r == c ? 0 : (r == 0 || c == 0 ? 1 : euler(r - c, 13));
  int const left = low == 3 ? -1 : 1, right = low == 0 ? 1 : -1;
  return conference * left + (r == c ? right : 0);
}
int outer_of(int n) {
  while (n % 2 == 0 && n > 28) n /= 2;
  return n == 12 || n == 24 ? 12 : (n == 20 ? 20 : (n == 28 ? 28 : 1));
}
int element(int n, int row, int col) {
  int const outer = outer_of(n), inner = n / outer;
  int const sylvester = std::popcount(static_cast<unsigned>(row % inner & col % inner)) % 2 == 0 ? 1 : -1;
  return paley_element(outer, row / inner, col / inner) * sylvester;
}

std::vector<float> integers(int n, std::uint64_t seed) {
  noise next{seed};
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = static_cast<float>(static_cast<int>(next() % 2001) - 1000);
  return x;
}
std::vector<float> fractions(int n, std::uint64_t seed) {
  noise next{seed};
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = next.value(-3, 2);
  return x;
}

template <class Rotation>
std::vector<float> applied(Rotation const& rotation, std::vector<float> x, bool inverse = false) {
  if (inverse) rotation.invert(x.data());
  else rotation.apply(x.data());
  return x;
}

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  return true;
}

double dot(std::vector<float> const& a, std::vector<float> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// The result as the documentation states it, every operation on its own.
template <int N> std::vector<float> in_stated_order(std::vector<float> x, bool inverse) {
  int const outer = outer_of(N), inner = N / outer;
  auto const at = [](int i) { return static_cast<std::size_t>(i); };
  for (int distance = 1; distance < inner; distance *= 2)
    for (int i = 0; i < N; ++i)
      if ((i % inner & distance) == 0) {
        float const volatile a = x[at(i)], b = x[at(i + distance)];
        x[at(i)] = a + b;
        x[at(i + distance)] = a - b;
      }
  std::vector<float> y = x;
  for (int row = 0; outer != 1 && row < outer; ++row)
    for (int a = 0; a < inner; ++a) {
      float volatile sum = 0;
      for (int b = 0; b < outer; ++b) {
        bool const minus = (inverse ? paley_element(outer, b, row) : paley_element(outer, row, b)) < 0;
        float const volatile term = minus ? -x[at(b * inner + a)] : x[at(b * inner + a)];
        sum = b == 0 ? term : sum + term;
      }
      y[at(row * inner + a)] = sum;
    }
  float const volatile norm = static_cast<float>(1 / std::sqrt(static_cast<double>(N)));
  for (float& v : y) v = v * norm;
  return y;
}

}  // namespace

TEST_CASE("every order: a matrix of +-1/sqrt(N), orthogonal to the last bit, that is P (x) S of the definition") {
  all_orders::for_each([]<int N>(std::integral_constant<int, N>) {
    CAPTURE(N);
    constexpr std::size_t words = (N + 63) / 64;
    std::vector<std::uint64_t> negative(static_cast<std::size_t>(N) * words);  // a bit an element, row after row
    auto const norm = static_cast<float>(1 / std::sqrt(static_cast<double>(N)));
    long wrong = 0, wrong_inverse = 0;
    int const step = N > 1024 ? 7 : 1;  // of the largest ones, columns that meet every row and column of both factors
    for (int col = 0; col < N; ++col) {
      std::vector<float> unit(static_cast<std::size_t>(N));
      unit[static_cast<std::size_t>(col)] = 1;
      auto const y = applied(hadamard<N>{}, unit);
      for (int row = 0; row < N; ++row) {
        float const v = y[static_cast<std::size_t>(row)];
        wrong += std::fabs(v) != norm;
        if (col % step == 0) wrong += (v < 0) != (element(N, row, col) < 0);
        if (v < 0)
          negative[static_cast<std::size_t>(row) * words + static_cast<std::size_t>(col) / 64] |= std::uint64_t{1}
                                                                                                  << (col % 64);
      }
      if (col % (16 * step) != 0) continue;
      auto const back = applied(hadamard<N>{}, unit, true);  // row `col` of the matrix: the inverse is the transpose
      for (int row = 0; row < N; ++row)
        wrong_inverse += back[static_cast<std::size_t>(row)] != static_cast<float>(element(N, col, row)) * norm;
    }
    CHECK(wrong == 0);
    CHECK(wrong_inverse == 0);
    long not_orthogonal = 0;
    noise next{static_cast<std::uint64_t>(N)};
    int const pairs = N > 512 ? 5000 : N * N;
    for (int pair = 0; pair < pairs; ++pair) {
      auto const a = static_cast<std::size_t>(N > 512 ? static_cast<int>(next() % N) : pair / N);
      auto const b = static_cast<std::size_t>(N > 512 ? static_cast<int>(next() % N) : pair % N);
      int product = N;
      for (std::size_t w = 0; w < words; ++w)
        product -= 2 * std::popcount(negative[a * words + w] ^ negative[b * words + w]);
      not_orthogonal += product != (a == b ? N : 0);
    }
    CHECK(not_orthogonal == 0);
  });
}

TEST_CASE("the first rows and columns of Paley's matrices") {
  for (int const order : {12, 20}) {
    for (int i = 0; i < order; ++i) {
      bool const row = order == 12 ? loft::detail::paley<12>.negative(0, i) : loft::detail::paley<20>.negative(0, i);
      bool const col = order == 12 ? loft::detail::paley<12>.negative(i, 0) : loft::detail::paley<20>.negative(i, 0);
      CHECK(row == (i != 0));
      CHECK(col == false);
    }
  }
  for (int i = 0; i < 28; ++i) {
    CHECK(loft::detail::paley<28>.negative(0, i) == (i == 1));
    for (int k = 0; k < 28; ++k)
      CHECK(loft::detail::paley<28>.negative(i, k) == loft::detail::paley<28>.negative(k, i));
  }
  // The second row of order 12: squares modulo 11 are 1, 3, 4, 5 and 9.
  static_assert(loft::detail::paley<12>.rows[1] == 0b0100'0111'0100u);
}

TEST_CASE("1/sqrt(N) is rounded to nearest, in float and in double") {
  all_orders::for_each([]<int N>(std::integral_constant<int, N>) {
    CAPTURE(N);
    auto const f = loft::detail::inverse_sqrt_of_order<float>(N);
    auto const d = loft::detail::inverse_sqrt_of_order<double>(N);
    CHECK(f == static_cast<float>(1 / std::sqrt(static_cast<long double>(N))));
    CHECK(d == static_cast<double>(1 / std::sqrt(static_cast<long double>(N))));
  });
}

TEST_CASE("every order: integers give the product of the definition, and dot products are kept") {
  all_orders::for_each([]<int N>(std::integral_constant<int, N>) {
    CAPTURE(N);
    auto const x = integers(N, 5 + N), other = integers(N, 6 + N);
    random_hadamard<N> const rotation{7, 9};
    auto const y = applied(rotation, x);
    double wrong = 0, largest = 0;
    for (int row = 0; row<N; row += N> 512 ? 37 : 1) {
      double sum = 0;
      for (int col = 0; col < N; ++col) {
        double const v = static_cast<double>(x[static_cast<std::size_t>(col)]) * element(N, row, col);
        sum += loft::random_bits<1>(7, 9, static_cast<std::uint64_t>(col)) != 0 ? -v : v;
      }
      double const expected = sum / std::sqrt(static_cast<double>(N));
      largest = std::max(largest, std::fabs(expected));
      wrong = std::max(wrong, std::fabs(expected - static_cast<double>(y[static_cast<std::size_t>(row)])));
    }
    CHECK(wrong <= largest * 0x1p-23);  // the sums are exact: one product is rounded, and so is its factor
    double const before = dot(x, other), after = dot(y, applied(rotation, other));
    double const scale = std::sqrt(dot(x, x) * dot(other, other));
    CHECK(std::fabs(before - after) <= scale * 0x1p-20);
    auto const back = applied(rotation, y, true);
    double away = 0;
    for (std::size_t i = 0; i < x.size(); ++i) away = std::max(away, static_cast<double>(std::fabs(back[i] - x[i])));
    CHECK(away <= 1000 * 0x1p-18);
    if (N > 1) {
      auto const others = applied(random_hadamard<N>{7, 10}, other);  // the control: signs that differ
      if (N >= 16) CHECK(std::fabs(before - dot(y, others)) > scale * 0x1p-20);
      auto const shifted = applied(random_hadamard<N>{8, 9}, x);
      if (N >= 16) CHECK(!same_bits(shifted, y));
    }
  });
}

TEST_CASE("every order: double precision and float agree") {
  all_orders::for_each([]<int N>(std::integral_constant<int, N>) {
    CAPTURE(N);
    auto const x = fractions(N, 3);
    for (bool const inverse : {false, true}) {
      std::vector<double> d(x.begin(), x.end());
      if (inverse) signed_hadamard<N>{0x9e3779b97f4a7c15}.invert(d.data());
      else signed_hadamard<N>{0x9e3779b97f4a7c15}.apply(d.data());
      auto const f = applied(signed_hadamard<N>{0x9e3779b97f4a7c15}, x, inverse);
      double wrong = 0;
      for (std::size_t i = 0; i < f.size(); ++i) wrong = std::max(wrong, std::fabs(d[i] - static_cast<double>(f[i])));
      CHECK(wrong < 40 * 0x1p-20);
    }
  });
}

TEST_CASE("every order: the sums are those of the stated order, to the bit") {
  all_orders::for_each([]<int N>(std::integral_constant<int, N>) {
    CAPTURE(N);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      auto const x = fractions(N, seed * 100 + N);
      CHECK(same_bits(applied(hadamard<N>{}, x), in_stated_order<N>(x, false)));
      CHECK(same_bits(applied(hadamard<N>{}, x, true), in_stated_order<N>(x, true)));
      if (outer_of(N) == 12 || outer_of(N) == 20)
        CHECK(!same_bits(applied(hadamard<N>{}, x, true), in_stated_order<N>(x, false)));  // control
    }
  });
}

TEST_CASE("random signs are those of random_bits, and the same for all runs") {
  all_orders::for_each([]<int N>(std::integral_constant<int, N>) {
    CAPTURE(N);
    auto const x = fractions(2 * N, 17);
    std::vector<float> flipped = x, both = x;
    int negated = 0;
    for (int i = 0; i < 2 * N; ++i) {
      bool const minus = loft::random_bits<1>(0x1'2345'6789, 77, static_cast<std::uint64_t>(i % N)) != 0;
      negated += minus;
      if (minus) flipped[static_cast<std::size_t>(i)] = -x[static_cast<std::size_t>(i)];
    }
    if (N >= 64) CHECK(std::abs(negated - N) < N / 2);
    random_hadamard<N> const rotation{0x1'2345'6789, 77};
    for (int run = 0; run < 2; ++run) {
      hadamard<N>{}.apply(flipped.data() + run * N);
      rotation.apply(both.data() + run * N);
    }
    CHECK(same_bits(both, flipped));
    std::vector<float> runs = x;
    loft::detail::apply_runs(rotation, x.data(), 2 * N, runs.data());
    CHECK(same_bits(runs, both));
    loft::detail::invert_runs(rotation, runs.data(), 2 * N);
    for (int run = 0; run < 2; ++run) rotation.invert(both.data() + run * N);
    CHECK(same_bits(runs, both));
  });
}

namespace {

struct alone {
  static constexpr int size = 1;
  int rank() const { return 0; }
  void sync() const {}
};
struct one_of_three {
  static constexpr int size = 3;
  std::barrier<>* all;
  int number;
  int rank() const { return number; }
  void sync() const { all->arrive_and_wait(); }
};
static_assert(loft::ThreadTeam<alone> && loft::ThreadTeam<one_of_three>);

// Lanes that hold whole runs, and teams of threads, against one thread.
template <class Rotation> void check_lane_and_team(Rotation const& rotation) {
  constexpr int n = Rotation::size, count = 2 * n;
  auto const x = fractions(count, 23 + n);
  for (bool const inverse : {false, true}) {
    std::vector<float> expected = x, lane = x;
    for (int first = 0; first < count; first += n) {
      if (inverse) rotation.invert(expected.data() + first);
      else rotation.apply(expected.data() + first);
    }
    if (inverse) rotation.template invert_lanes<count>(lane.data(), loft::one_lane{});
    else rotation.template apply_lanes<count>(lane.data(), loft::one_lane{});
    CHECK(same_bits(lane, expected));
    auto const in_team = [&](auto const& work) {
      std::vector<float> memory(static_cast<std::size_t>(loft::detail::team_floats(count)), std::nanf("")), y(x.size());
      for (int i = 0; i < count; ++i)
        memory[static_cast<std::size_t>(loft::detail::team_place(i))] = x[static_cast<std::size_t>(i)];
      work(memory.data());
      for (int i = 0; i < count; ++i)
        y[static_cast<std::size_t>(i)] = memory[static_cast<std::size_t>(loft::detail::team_place(i))];
      return y;
    };
    auto const turn = [&](float* values, auto const& team) {
      if (inverse) rotation.template invert_team<count>(values, team);
      else rotation.template apply_team<count>(values, team);
    };
    CHECK(same_bits(in_team([&](float* values) { turn(values, alone{}); }), expected));
    auto const three = in_team([&](float* values) {
      std::barrier<> all{3};
      std::vector<std::thread> threads;
      for (int number = 0; number < 3; ++number)
        threads.emplace_back([&, number] { turn(values, one_of_three{&all, number}); });
      for (auto& thread : threads) thread.join();
    });
    CHECK(same_bits(three, expected));
  }
}

}  // namespace

TEST_CASE("every order: lanes that hold whole runs, and teams of threads, give the bits of one thread") {
  all_orders::for_each([]<int N>(std::integral_constant<int, N>) {
    CAPTURE(N);
    check_lane_and_team(hadamard<N>{});
    check_lane_and_team(signed_hadamard<N>{0x9e3779b97f4a7c15});
    check_lane_and_team(random_hadamard<N>{4, 5});
  });
}

TEST_CASE("rotations work at compile time") {
  constexpr bool right = [] {
    float x[24] = {};
    x[5] = 1;
    random_hadamard<24> const rotation{3, 1};
    rotation.apply(x);
    bool const minus = loft::random_bits<1>(3, 1, 5) != 0;
    bool same = (x[0] < 0) == (minus != true);  // row 0: +1, then -1, and column 5 belongs to the second block of two
    rotation.invert(x);
    for (int i = 0; i < 24; ++i) same = same && (i == 5 ? x[i] > 0.99f && x[i] < 1.01f : x[i] < 1e-6f && x[i] > -1e-6f);
    return same;
  }();
  static_assert(right);
}

namespace {

// Four words of a run with random signs, and a hash of it and of the inverse of a run without signs; from the library, or
// from the stated order.
std::string golden_text(bool library) {
  std::string text;
  all_orders::for_each([&]<int N>(std::integral_constant<int, N>) {
    auto const x = fractions(N, 42);
    std::vector<float> flipped = x;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (loft::random_bits<1>(0x0123'4567'89ab'cdef, 42, i) != 0) flipped[i] = -x[i];
    auto const y =
        library ? applied(random_hadamard<N>{0x0123'4567'89ab'cdef, 42}, x) : in_stated_order<N>(flipped, false);
    auto const z = library ? applied(hadamard<N>{}, x, true) : in_stated_order<N>(x, true);
    std::uint32_t hash = 2166136261u;  // FNV-1a over words
    for (auto const* run : {&y, &z})
      for (float const v : *run) hash = (hash ^ std::bit_cast<std::uint32_t>(v)) * 16777619u;
    test::golden_line line("run " + std::to_string(N));
    for (std::size_t i = 0; i < 4; ++i) line.add(std::bit_cast<std::uint32_t>(y[i % y.size()]), 8);
    line.add(hash, 8);
    text += line.str();
  });
  return text;
}

}  // namespace

TEST_CASE("the bits of fixed runs are frozen") {
  std::string const frozen = test::read_golden("rotations.txt");
  CHECK(frozen.size() > 1000);
  CHECK(golden_text(true) == frozen);
  CHECK(golden_text(false) == frozen);
}

// Run with --no-skip to write the file anew from the stated order, which knows nothing of hadamard.hpp.
TEST_CASE("write golden file" * doctest::skip()) {
  test::write_golden("rotations.txt",
                     "Words of runs with seed 0123456789abcdef and stream 42, and a hash of both directions.",
                     golden_text(false));
}
