// SPDX-License-Identifier: Apache-2.0
// The norm: its order against a slow copy of the definition, extreme and non-finite elements, shards, lists, refusals.
#include "loft/gnmr.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "loft/number.hpp"

namespace {

using loft::norm_partial, loft::status;

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

// A binary tree by neighbours; what is missing counts as +0.
double tree(std::vector<double> a) {
  while (a.size() > 1) {
    if (a.size() % 2 != 0) a.push_back(0.0);
    for (std::size_t i = 0; i < a.size() / 2; ++i) a[i] = a[2 * i] + a[2 * i + 1];
    a.resize(a.size() / 2);
  }
  return a.empty() ? 0.0 : a[0];
}

// The definition, word for word: chunks of 4096, 256 accumulators each, and one tree over all accumulators.
double sum_of_squares(std::vector<double> const& squares) {
  std::vector<double> accumulators((squares.size() + 4095) / 4096 * 256, 0.0);
  for (std::size_t at = 0; at < squares.size(); ++at) {
    std::size_t const chunk = at / 4096, i = at % 4096;
    accumulators[chunk * 256 + (i / 16 % 32) * 8 + i % 8] += squares[at];
  }
  return tree(accumulators);
}

template <class T> norm_partial reference(std::vector<T> const& values) {
  std::vector<double> squares;
  norm_partial result;
  for (T const& x : values) {
    double const v = static_cast<double>(static_cast<float>(x));
    result.nonfinite += std::isfinite(v) ? 0 : 1;
    squares.push_back(std::isfinite(v) ? v * v : 0.0);
  }
  result.sum_of_squares = sum_of_squares(squares);
  return result;
}

template <class T> norm_partial partial_of(std::vector<T> const& values) {
  return loft::partial_norm(values.data(), static_cast<std::int64_t>(values.size()));
}

// Magnitudes over forty binades, both signs, a few zeros.
template <class T> std::vector<T> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    auto const fraction = static_cast<float>(static_cast<std::int64_t>(random() % 2'000'001) - 1'000'000);
    values.push_back(T{std::ldexp(fraction, static_cast<int>(random() % 40) - 40)});
  }
  return values;
}

constexpr std::size_t sizes[] = {0,    1,     2,     7,     8,     9,     15,    16,    17,     511,
                                 512,  513,   2047,  2048,  2049,  4095,  4096,  4097,  8191,   8192,
                                 8193, 12288, 16383, 16384, 16385, 18432, 20480, 49157, 131072, 200000};

}  // namespace

TEST_CASE_TEMPLATE("the sum follows the definition to the bit", T, float, loft::bf16_t, loft::fp16_t, loft::e4m3_t,
                   loft::e2m1_t) {
  for (std::size_t const count : sizes) {
    CAPTURE(count);
    std::vector<T> const values = random_values<T>(count, count + 1);
    CHECK(partial_of(values) == reference(values));
  }
}

TEST_CASE_TEMPLATE("any number of chunks, with a ragged end and without", T, float, loft::bf16_t, loft::fp16_t) {
  std::vector<T> const values = random_values<T>(std::size_t{41} * 4096, 77);
  for (std::size_t chunks = 1; chunks <= 40; ++chunks) {
    for (std::size_t const beyond : {0u, 1u, 777u}) {
      CAPTURE(chunks);
      CAPTURE(beyond);
      std::vector<T> const part(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(chunks * 4096 + beyond));
      CHECK(partial_of(part) == reference(part));
    }
  }
}

TEST_CASE_TEMPLATE("subnormals, NaN and infinities among ordinary elements", T, float, loft::bf16_t, loft::fp16_t,
                   loft::e5m2_t, loft::e4m3_t) {
  using limits = std::numeric_limits<T>;
  std::mt19937_64 random{23};
  for (std::size_t const count :
       {std::size_t{100}, std::size_t{4096}, std::size_t{3 * 4096 + 40}, std::size_t{50000}}) {
    CAPTURE(count);
    std::vector<T> values = random_values<T>(count, count);
    for (int planted = 0; planted < 20; ++planted) values[random() % count] = limits::denorm_min();
    CHECK(partial_of(values) == reference(values));
    for (int planted = 0; planted < 20; ++planted) {
      values[random() % count] = limits::quiet_NaN();
      if (limits::has_infinity) values[random() % count] = limits::infinity();
      CHECK(partial_of(values) == reference(values));
    }
  }
}

TEST_CASE("runs of chunks whose number is a power of two are branches of the tree") {
  std::vector<float> const values = random_values<float>(std::size_t{29} * 4096 + 300, 31);
  for (std::int64_t run = 4096; run <= 16 * 4096; run *= 2) {
    CAPTURE(run);
    std::vector<double> branches;
    auto const count = static_cast<std::int64_t>(values.size());
    for (std::int64_t first = 0; first < count; first += run)
      branches.push_back(loft::partial_norm(values.data() + first, std::min(run, count - first)).sum_of_squares);
    CHECK(tree(branches) == partial_of(values).sum_of_squares);
  }
}

TEST_CASE("the order can be told from another one") {
  std::vector<float> const values = random_values<float>(200000, 3);
  double in_a_row = 0;
  for (float const x : values) in_a_row += static_cast<double>(x) * static_cast<double>(x);
  CHECK(partial_of(values).sum_of_squares != in_a_row);
  CHECK(partial_of(values).sum_of_squares == doctest::Approx(in_a_row));
}

TEST_CASE("very many chunks") {
  struct small {  // one byte, so that 2^28 elements and more fit into zero pages that nobody writes
    signed char value;
    explicit operator float() const { return static_cast<float>(value) * 0x1.234566p-3f; }
  };
  constexpr std::int64_t count = (std::int64_t{1} << 28) + 81997;  // 65556 chunks and a bit more
  std::unique_ptr<small, decltype(&std::free)> const values{static_cast<small*>(std::calloc(count, 1)), &std::free};
  REQUIRE(values != nullptr);
  std::vector<double> chunk_sums((count + 4095) / 4096, 0.0);
  std::mt19937_64 random{11};
  for (int i = 0; i < 400; ++i) {  // chunks with one element each, so that their sums are squares
    auto const chunk = i < 6 ? chunk_sums.size() - 1 - static_cast<std::size_t>(i) : random() % chunk_sums.size();
    small& x = values.get()[chunk * 4096 + (i < 6 ? 5u : 1234u)];
    if (chunk_sums[chunk] != 0) continue;
    x.value = static_cast<signed char>(1 + random() % 127);
    chunk_sums[chunk] = static_cast<double>(static_cast<float>(x)) * static_cast<double>(static_cast<float>(x));
  }
  norm_partial const got = loft::partial_norm(values.get(), count);
  CHECK(got.sum_of_squares == tree(chunk_sums));
  CHECK(got.nonfinite == 0);
}

TEST_CASE("what is not finite is counted and left out, wherever it stands") {
  for (std::size_t const count : {1u, 100u, 16384u, 16385u, 40000u}) {
    std::vector<float> values = random_values<float>(count, 5);
    for (std::size_t const at : {std::size_t{0}, count / 2, count - 1}) {
      CAPTURE(count);
      CAPTURE(at);
      for (float const bad : {infinity, -infinity, not_a_number, -not_a_number}) {
        std::vector<float> with = values, without = values;
        with[at] = bad, without[at] = 0;
        norm_partial const got = partial_of(with);
        CHECK(got.nonfinite == 1);
        CHECK(got.sum_of_squares == partial_of(without).sum_of_squares);
        CHECK(loft::norm_of(got) == std::numeric_limits<double>::infinity());
      }
    }
  }
  std::vector<loft::fp16_t> halves(20000, loft::fp16_t::from_bits(0x7c00));
  CHECK(partial_of(halves) == norm_partial{0, 20000});
}

TEST_CASE("neither large nor small elements leave the range") {
  float const largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  for (std::size_t const count : {4u, 16384u, 65536u}) {  // powers of 4: the norm is exact
    double const root = std::sqrt(static_cast<double>(count));
    CHECK(loft::norm_of(partial_of(std::vector<float>(count, -largest))) == root * static_cast<double>(largest));
    CHECK(loft::norm_of(partial_of(std::vector<float>(count, least))) == root * static_cast<double>(least));
    std::vector<float> mixed(count, least);
    mixed[count / 2] = largest;
    CHECK(partial_of(mixed) == reference(mixed));
  }
  CHECK(loft::norm_of(partial_of(std::vector<float>{3e19f, 4e19f})) == doctest::Approx(5e19));
  CHECK(partial_of(std::vector<float>{0.0f, -0.0f}) == norm_partial{0, 0});
}

TEST_CASE("partials add up over shards") {
  std::vector<float> const values = random_values<float>(100000, 9);
  norm_partial const whole = partial_of(values);
  for (std::int64_t const ranks : {1, 2, 8}) {
    norm_partial sum;
    for (std::int64_t r = 0; r < ranks; ++r) {
      std::int64_t const first = 100000 * r / ranks, end = 100000 * (r + 1) / ranks;
      sum = sum + loft::partial_norm(values.data() + first, end - first);
    }
    CHECK(sum.sum_of_squares == doctest::Approx(whole.sum_of_squares).epsilon(1e-14));
  }
  CHECK((norm_partial{2, 1} + norm_partial{3, 4}) == norm_partial{5, 5});
  CHECK(loft::norm_of({20.0, 0.0}) == std::sqrt(20.0));
  CHECK(loft::norm_of(norm_partial{20.0, 0.0} + norm_partial{100.0, 0.0}) == 0x1.5e8add236a58fp+3);
}

TEST_CASE("a partial that is no sum of squares is an infinite norm") {
  double const infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(loft::norm_of({}) == 0);
  CHECK(loft::norm_of({-0.0, 0}) == 0);
  for (double const bad : {infinite, nan, -1.0}) CHECK(loft::norm_of({bad, 0}) == infinite);
  for (double const bad : {1.0, nan, infinite}) CHECK(loft::norm_of({4, bad}) == infinite);
  CHECK(loft::norm_of({4, -0.0}) == 2);
}

TEST_CASE("one call over many tensors, and its refusals") {
  std::vector<float> const a = random_values<float>(3000, 1), b = random_values<float>(70000, 2);
  using input = loft::norm_input<float>;
  std::vector<input> tensors{{a.data(), 3000}, {nullptr, 0}, {b.data(), 70000}};
  std::vector<norm_partial> out(3, {-7, -7});
  CHECK(loft::partial_norms<float>(tensors, out) == status::ok);
  CHECK(out[0] == partial_of(a));
  CHECK(out[1] == norm_partial{});
  CHECK(out[2] == partial_of(b));

  std::vector<double> norms(3, -7);
  CHECK(loft::norms_of(out, norms) == status::ok);
  CHECK(norms == std::vector<double>{loft::norm_of(out[0]), 0, loft::norm_of(out[2])});

  std::vector<norm_partial> untouched(3, {-7, -7});
  auto const refused = [&](input bad, status why) {
    std::vector<input> list = tensors;
    list[2] = bad;
    CHECK(loft::partial_norms<float>(list, untouched) == why);
    CHECK(untouched == std::vector<norm_partial>(3, {-7, -7}));
  };
  refused({nullptr, 1}, status::null_pointer);
  refused({b.data(), -1}, status::negative_extent);
  CHECK(loft::partial_norms<float>(tensors, std::span{untouched}.first(2)) == status::norm_count_mismatch);
  CHECK(loft::norms_of(out, std::span{norms}.first(2)) == status::norm_count_mismatch);
  CHECK(loft::partial_norm(b.data(), -5) == norm_partial{});
}

TEST_CASE("compile time and run time agree") {
  constexpr float values[] = {3, -4, 0x1p-149f, 12};
  constexpr norm_partial compiled = loft::partial_norm(values, 4);
  static_assert(compiled.sum_of_squares == 169 && compiled.nonfinite == 0);
  CHECK(loft::partial_norm(values, 4) == compiled);
  CHECK(loft::norm_of(compiled) == 13);
}
