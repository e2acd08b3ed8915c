// SPDX-License-Identifier: Apache-2.0
// Gradient estimators: factors against the papers' formulas in double over every format, the scaled values that they
// are given against the codes that quantize writes, rotated operands against their matrices, masks, refusals.
#include "loft/train.hpp"

#include <doctest/doctest.h>

#include <array>

#include "block/block_check.hpp"
#include "loft/tensor.hpp"
#include "tensor/any_buffers.hpp"

namespace {

using loft::clipped_straight_through, loft::differentiable_estimator, loft::matrix_view, loft::status,
    loft::straight_through;
using test::content, test::contents, test::infinity, test::not_a_number, test::shape, test::shapes, test::tensor,
    test::view_of;

// The differentiable estimator of a sorted list of values that are not negative, in double.
double dge(std::vector<double> const& values, double x, double k, double cap) {
  x = std::fabs(x);
  if (std::isnan(x) || x > values.back() || x < values.front()) return 0;
  std::size_t i = 0;
  while (i + 2 < values.size() && x >= values[i + 1]) ++i;
  double const delta = values[i + 1] - values[i], from_left = x - values[i];
  return std::min(cap, 1 / k * std::pow(std::fabs(2 * from_left / delta - 1), 1 / k - 1));
}

// Rounded to float, either neighbour where the exact value is within 2e-10 of the middle.
bool is_rounded(float got, double exact) {
  return got == static_cast<float>(exact * (1 + 2e-10)) || got == static_cast<float>(exact * (1 - 2e-10));
}

template <class F> std::vector<double> magnitudes() {
  std::vector<double> values;
  if constexpr (std::is_same_v<F, loft::hifloat8>) {
    for (std::uint32_t c = 0; c < 128; ++c)
      if (std::isfinite(loft::decode<F>(static_cast<std::uint8_t>(c))))
        values.push_back(loft::decode<F>(static_cast<std::uint8_t>(c)));
    std::sort(values.begin(), values.end());
  } else {
    oracle::table const& t = test::table_of<F>();
    for (std::uint32_t c = 0; c <= t.max_code; ++c) values.push_back(t.value(c));
  }
  return values;
}

// Floats on every value, next to it, in the middle, and between.
std::vector<float> places(std::vector<double> const& values) {
  std::vector<float> x{0.0f, infinity, 0x1p-149f, 0x1p-130f};
  test::noise next{99};
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const at = static_cast<float>(values[i]);
    for (float const y : {at, std::nextafter(at, 0.0f), std::nextafter(at, infinity)}) x.push_back(y);
    if (i + 1 == values.size()) break;
    for (int n = 0; n < 5; ++n) {
      double const share = n == 0 ? 0.5 : static_cast<double>(next()) * 0x1p-32;
      x.push_back(static_cast<float>(values[i] + share * (values[i + 1] - values[i])));
    }
  }
  for (std::size_t i = 0, end = x.size(); i < end; ++i) x.push_back(-x[i]);
  return x;
}

// Gives the gradient the value that the rounding saw: for IF4 in units of its element.
struct seen_value {
  template <loft::Format F> constexpr float factor(float x) const noexcept { return x; }
};
// The code that a value would get.
template <class R> struct seen_code {
  R rounding{};
  template <loft::Format F> constexpr float factor(float x) const noexcept {
    return static_cast<float>(loft::encode<F>(x, rounding));
  }
};

matrix_view<float> writable(std::vector<float>& x, shape s) { return {x.data(), s.rows, s.cols, s.cols}; }

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!test::same(a[i], b[i])) return false;
  return true;
}

// A gradient through an estimator, from a copy.
template <class Operand, class T, class E>
std::vector<float> estimated(std::vector<float> gradient, shape s, matrix_view<T> values, Operand const& how,
                             E const& e) {
  REQUIRE(loft::estimate_gradient(writable(gradient, s), values, how, e) == status::ok);
  return gradient;
}

}  // namespace

TEST_CASE_TEMPLATE("factors are the formulas on every format", F, loft::e2m1, loft::e1m2, loft::e2m3, loft::e3m2,
                   loft::ue3m1, loft::e4m3, loft::e5m2, loft::e4m3fnuz, loft::int4, loft::int8, loft::hifloat8) {
  std::vector<double> const values = magnitudes<F>();
  differentiable_estimator const paper{}, other{3, 10}, flat{1, 2};
  long wrong = 0, capped = 0, between = 0;
  for (float const x : places(values)) {
    bool const below = !F::spec.is_signed && x < 0;
    bool const inside = std::fabs(x) <= values.back() && !below;
    double const expected = below ? 0 : dge(values, x, 5, 3);
    wrong += !is_rounded(paper.factor<F>(x), expected);
    wrong += !is_rounded(other.factor<F>(x), below ? 0 : dge(values, x, 3, 10));
    wrong += flat.factor<F>(x) != (inside ? 1 : 0);
    wrong += clipped_straight_through{}.factor<F>(x) != (inside ? 1 : 0);
    wrong += straight_through{}.factor<F>(x) != 1;
    wrong += F::spec.is_signed && paper.factor<F>(x) != paper.factor<F>(-x);
    capped += expected == 3, between += expected > 0.2001 && expected < 3;
  }
  CHECK(wrong == 0);
  CHECK(capped > 0);
  CHECK(between > 10);
  CHECK(paper.factor<F>(not_a_number) == 0);
  CHECK(clipped_straight_through{}.factor<F>(not_a_number) == 0);
}

TEST_CASE("the differentiable estimator on E2M1 as the paper writes it") {
  struct interval {
    double left, delta;
  };
  constexpr interval intervals[] = {{0, .5}, {.5, .5}, {1, .5}, {1.5, .5}, {2, 1}, {3, 1}, {4, 2}};
  differentiable_estimator const e;
  for (interval const& i : intervals) {
    for (double const p : {0.0, 0.125, 0.25, 0.375, 0.46875, 0.5, 0.75, 0.9375}) {
      double const expected = std::min(3.0, 0.2 * std::pow(std::fabs(2 * p - 1), -0.8));
      CHECK(e.factor<loft::e2m1>(static_cast<float>(i.left + p * i.delta)) == doctest::Approx(expected).epsilon(1e-7));
    }
  }
  CHECK(e.factor<loft::e2m1>(6.0f) == 0.2f);
  CHECK(e.factor<loft::e2m1>(std::nextafter(6.0f, 7.0f)) == 0);
  CHECK(e.factor<loft::e2m1>(std::nextafter(-6.0f, -7.0f)) == 0);
  CHECK(e.factor<loft::e2m1>(-infinity) == 0);
  CHECK(e.factor<loft::e2m1>(0.25f) == 3.0f);
  CHECK(e.factor<loft::e2m1>(-5.0f) == 3.0f);
  CHECK(differentiable_estimator{5, 1e30f}.factor<loft::e2m1>(0.25f) == 1e30f);
}

TEST_CASE("the power errs by less than 1e-10, and square roots of floats are rounded once") {
  test::noise next{3};
  double worst = 0;
  long wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    double const x = std::fabs(static_cast<double>(next.value(-20, 20))) + 1e-12;
    double const y = static_cast<double>(next.value(-4, -1));
    worst = std::max(worst, std::fabs(loft::detail::power(x, y) / std::pow(x, y) - 1));
    float const v = std::fabs(next.value(-149, 127));
    wrong += loft::detail::square_root_of_float(v) != std::sqrt(v);
  }
  CHECK(worst < 1e-10);
  CHECK(worst > 1e-16);
  CHECK(wrong == 0);
  for (double const edge : {0x1p-1074, 0x1p-1022, 0x1p1023, 1.0, 1.41421356237309504, 1.4142135623730954})
    CHECK(loft::detail::power(edge, 0.0078125) == doctest::Approx(std::pow(edge, 0.0078125)).epsilon(1e-10));
  constexpr double compiled = loft::detail::power(0.3, -0.8);
  double const volatile point_three = 0.3;
  CHECK(loft::detail::power(point_three, -0.8) == compiled);
  constexpr float root = loft::detail::square_root_of_float(2.0f);
  CHECK(root == std::sqrt(2.0f));
  CHECK(loft::detail::power(7, 0) == 1);
  CHECK(loft::detail::exponential(-2000) == 0);
  CHECK(std::isinf(loft::detail::exponential(2000)));
}

TEST_CASE("the value that an estimator sees is the one that encode sees, in every block format") {
  loft::all_block_formats::for_each([]<class B>(B) {
    loft::operand<B> const how{};
    using rounding = loft::default_rounding<B>;
    long wrong = 0, nonzero = 0;
    for (content const kind : contents) {
      for (shape const s : {shape{17, 100}, shape{5, 37}, shape{1, 1}, shape{3, 256}}) {
        std::vector<float> const x = tensor(kind, s);
        test::any_buffers<B> q(s.rows, s.cols);
        REQUIRE(loft::quantize(view_of(x, s), q.view(), how) == status::ok);
        std::vector<float> const ones(x.size(), 1.0f);
        auto const codes = estimated(ones, s, view_of(x, s), how, seen_code<rounding>{});
        auto const values = estimated(ones, s, view_of(x, s), how, seen_value{});
        for (std::int64_t r = 0; r < s.rows; ++r) {
          for (std::int64_t c = 0; c < s.cols; ++c) {
            auto const i = static_cast<std::size_t>(r * s.cols + c);
            bool const lost = std::isnan(values[i]);
            std::uint32_t const code = q.code(r, c);
            wrong += !lost && code != static_cast<std::uint32_t>(codes[i]);
            wrong += lost != loft::detail::is_nan_scale<B>(q.scale_at(r, c));
            nonzero += code != 0;
          }
        }
      }
    }
    CHECK(wrong == 0);
    CHECK(nonzero > 1000);
  });
}

TEST_CASE("the scales are the quantizer's own: rules, stochastic choices, known amax, transposed and narrow inputs") {
  shape const s{24, 96};
  std::vector<float> const x = tensor(content::ordinary, s), ones(x.size(), 1.0f);
  auto const codes_agree = [&](auto values, auto const& how, std::uint64_t seed) {
    using operand = std::remove_cvref_t<decltype(how)>;
    test::any_buffers<typename operand::format> q(values.rows, values.cols);
    REQUIRE(loft::quantize(values, q.view(), how) == status::ok);
    auto const seen = estimated(ones, {values.rows, values.cols}, values, how, seen_value{});
    long wrong = 0;
    for (std::int64_t r = 0; r < values.rows; ++r)
      for (std::int64_t c = 0; c < values.cols; ++c) {
        auto const i = static_cast<std::size_t>(r * values.cols + c);
        auto rounding = how.rounding;
        if constexpr (requires { rounding.seed = seed; }) rounding.seed = seed;
        wrong += q.code(r, c) != loft::encode<typename operand::format::element>(seen[i], rounding, i);
      }
    return wrong == 0;
  };
  using loft::stochastic, loft::two_level, loft::nvfp4, loft::mxfp4;
  CHECK(codes_agree(view_of(x, s), loft::operand<nvfp4, two_level, stochastic<>>{{}, {7, 1}}, 7));
  CHECK_FALSE(codes_agree(view_of(x, s), loft::operand<nvfp4, two_level, stochastic<>>{{}, {7, 1}}, 8));
  CHECK(codes_agree(view_of(x, s), loft::operand<nvfp4, loft::four_over_six<>, stochastic<8>>{{}, {3, 0}}, 3));
  CHECK(codes_agree(view_of(x, s), loft::operand<nvfp4, two_level>{{100.0f}}, 0));
  CHECK(codes_agree(view_of(x, s), loft::operand<mxfp4, loft::floor_four_thirds>{}, 0));
  CHECK(codes_agree(view_of(x, s), loft::operand<mxfp4, loft::quest_scale>{}, 0));
  CHECK(codes_agree(view_of(x, s), loft::operand<loft::square<nvfp4, 16>>{}, 0));
  CHECK(codes_agree(loft::transposed(view_of(x, s)), loft::operand<loft::square<mxfp4, 32>>{}, 0));
  CHECK(codes_agree(loft::transposed(view_of(x, s)), loft::operand<nvfp4>{}, 0));
  std::vector<loft::bf16_t> narrow(x.begin(), x.end());
  CHECK(codes_agree(view_of(narrow, s), loft::operand<nvfp4>{}, 0));
}

TEST_CASE_TEMPLATE("under a rule that corrects scales the estimator sees those that codes are made with", Rotation,
                   loft::no_rotation, loft::signed_hadamard<16>) {
  shape const s{24, 96};
  std::vector<float> const x = tensor(content::mixed_sizes, s), ones(x.size(), 1.0f);
  using corrected = loft::operand<loft::nvfp4, loft::ms_eden<32>, loft::nearest_even, Rotation>;
  corrected how{};
  how.rule.seed = 5;
  // The scales that were not corrected: the same two levels, without the correction.
  loft::tensor_scale const t = loft::detail::choose_tensor_scale(view_of(x, s), how);
  test::any_buffers<loft::nvfp4> q(s.rows, s.cols);
  REQUIRE(loft::quantize(view_of(x, s), q.view(), how) == status::ok);
  // Without a rotation an estimator's factor goes straight into a gradient of ones; with one the factors are looked at.
  std::vector<float> seen(x.size());
  for (loft::detail::block_walk<corrected, float const> walk{view_of(x, s), {0, s.rows}, how, t}; walk.next();) {
    walk.blocks.choose_scales();
    for (int r = 0; r < walk.rows(); ++r) {
      float factors[loft::detail::slice_width<corrected>];
      loft::detail::estimate_factors(walk.blocks, r, seen_value{}, factors);
      for (int i = 0; i < walk.at.count; ++i)
        seen[static_cast<std::size_t>((walk.row() + r) * s.cols + walk.at.first + i)] = factors[i];
    }
  }
  if constexpr (!loft::detail::rotates<corrected>)
    CHECK(same_bits(seen, estimated(ones, s, view_of(x, s), how, seen_value{})));
  long wrong = 0, others = 0, scales_corrected = 0;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t first = 0; first < s.cols; first += 16) {
      std::vector<float> run(&x[static_cast<std::size_t>(r * s.cols + first)],
                             &x[static_cast<std::size_t>(r * s.cols + first)] + 16);
      if constexpr (loft::detail::rotates<corrected>) how.rotation.apply(run.data());
      float amax = 0;
      for (float const v : run) amax = std::max(amax, std::fabs(v));
      auto const made_with = how.rule.template scale<loft::nvfp4>(amax, t);
      auto const stored = q.scale_at(r, first / 16);
      scales_corrected += made_with != stored;
      for (std::int64_t i = 0; i < 16; ++i) {
        float const v = run[static_cast<std::size_t>(i)];
        auto const place = static_cast<std::size_t>(r * s.cols + first + i);
        auto const scaled = [&](auto scale) {
          auto const inverse = loft::detail::inverse_of<loft::nvfp4>(scale, t, 0);
          return loft::detail::scale_by_power_of_two(v * inverse.multiplier, -inverse.exponent);
        };
        wrong += q.code(r, first + i) != loft::encode<loft::e2m1>(seen[place]);
        wrong += !test::same(seen[place], scaled(made_with));
        others += !test::same(seen[place], scaled(stored));
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(scales_corrected > 10);
  CHECK(others > 100);
}

TEST_CASE("a gradient is multiplied element by element, whatever its strides, in ranges of rows") {
  shape const s{32, 100};
  std::vector<float> const x = tensor(content::specials, s), g = tensor(content::wide, {33, 100});
  std::vector<float> const gradient(g.begin(), g.begin() + 3200), ones(3200, 1.0f);
  loft::operand<loft::nvfp4> const how{};
  differentiable_estimator const e;
  auto const factors = estimated(ones, s, view_of(x, s), how, e);
  auto const got = estimated(gradient, s, view_of(x, s), how, e);
  std::vector<float> expected(3200);
  for (std::size_t i = 0; i < 3200; ++i) expected[i] = gradient[i] * factors[i];
  CHECK(same_bits(got, expected));
  CHECK(std::count(factors.begin(), factors.end(), 0.0f) > 10);
  // The gradient by columns.
  std::vector<float> turned(3200), back(3200);
  for (std::size_t r = 0; r < 32; ++r)
    for (std::size_t c = 0; c < 100; ++c) turned[c * 32 + r] = gradient[r * 100 + c];
  REQUIRE(loft::estimate_gradient(matrix_view<float>{turned.data(), 32, 100, 1, 32}, view_of(x, s), how, e) ==
          status::ok);
  for (std::size_t r = 0; r < 32; ++r)
    for (std::size_t c = 0; c < 100; ++c) back[r * 100 + c] = turned[c * 32 + r];
  CHECK(same_bits(back, expected));
  // Two ranges make the whole.
  std::vector<float> parts = gradient;
  REQUIRE(loft::estimate_gradient(writable(parts, s), view_of(x, s), how, e, {0, 7}) == status::ok);
  CHECK(same_bits({parts.begin() + 700, parts.end()}, {gradient.begin() + 700, gradient.end()}));
  REQUIRE(loft::estimate_gradient(writable(parts, s), view_of(x, s), how, e, {7}) == status::ok);
  CHECK(same_bits(parts, expected));
  // The straight-through estimator changes nothing.
  CHECK(same_bits(estimated(gradient, s, view_of(x, s), how, straight_through{}), gradient));
}

TEST_CASE("a rotated operand: the estimator acts in the rotated domain") {
  shape const s{5, 96};
  using rotation = loft::signed_hadamard<16>;
  loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, rotation> const how{{}, {}, {0xb1d5}};
  loft::operand<loft::mxfp4> const plain{};
  std::vector<float> const x = tensor(content::ordinary, s), g = tensor(content::mixed_sizes, s);
  std::vector<float> turned_x = x, turned_g = g;
  for (std::size_t i = 0; i < x.size(); i += 16) how.rotation.apply(&turned_x[i]), how.rotation.apply(&turned_g[i]);
  auto const check = [&](auto e) {
    auto const in_domain = estimated(turned_g, s, view_of(turned_x, s), plain, e);
    auto const got = estimated(g, s, view_of(x, s), how, e);
    double worst = 0, moved = 0;
    for (std::size_t run = 0; run < x.size(); run += 16) {
      double largest = 0;
      for (std::size_t i = 0; i < 16; ++i) largest = std::max(largest, std::fabs(static_cast<double>(g[run + i])));
      for (std::size_t i = 0; i < 16; ++i) {  // y = R^T z by the definition, in double
        double y = 0;
        for (std::size_t k = 0; k < 16; ++k)
          y += ((__builtin_popcountll(i & k) & 1) != 0 ? -0.25 : 0.25) * static_cast<double>(in_domain[run + k]);
        if ((0xb1d5u >> i & 1) != 0) y = -y;
        worst = std::max(worst, std::fabs(y - static_cast<double>(got[run + i])) / largest);
        moved = std::max(moved, std::fabs(y - static_cast<double>(g[run + i])) / largest);
      }
    }
    CHECK(worst < 1e-5);
    CHECK(moved > 1e-2);
  };
  check(differentiable_estimator{});
  check(clipped_straight_through{});
  CHECK(same_bits(estimated(g, s, view_of(x, s), how, straight_through{}), g));
}

TEST_CASE_TEMPLATE("a saved mask gives the clipped gradient", Operand, loft::operand<loft::mxfp4>,
                   loft::operand<loft::nvfp4, loft::two_level_256>, loft::operand<loft::if4>,
                   loft::operand<loft::mxfp4, loft::quest_scale>, loft::operand<loft::square<loft::mxfp8_e4m3, 4>>,
                   loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<4>>) {
  Operand const how{};
  long clipped = 0, wrong = 0;
  for (content const kind : contents) {
    for (shape const s : {shape{17, 100}, shape{1, 4}, shape{3, 1100}, shape{40, 52}}) {
      std::vector<float> const x = tensor(kind, s), g = tensor(content::ordinary, s);
      std::int64_t const row_bytes = (s.cols + 7) / 8;
      test::guarded_bytes bytes(static_cast<std::size_t>(s.rows * row_bytes));
      REQUIRE(loft::clip_mask_bytes(s.rows, s.cols) == s.rows * row_bytes);
      loft::clip_mask const mask{bytes.data(), s.rows, s.cols};
      REQUIRE(loft::save_clip_mask(view_of(x, s), mask, how, {0, s.rows / 2 / 4 * 4}) == status::ok);
      REQUIRE(loft::save_clip_mask(view_of(x, s), mask, how, {s.rows / 2 / 4 * 4}) == status::ok);
      CHECK(bytes.guards_hold());
      std::vector<float> got = g;
      REQUIRE(loft::apply_clip_mask(writable(got, s), mask, how) == status::ok);
      CHECK(same_bits(got, estimated(g, s, view_of(x, s), how, clipped_straight_through{})));
      for (std::int64_t r = 0; r < s.rows; ++r) {
        for (std::int64_t c = 0; c < s.cols; ++c) {
          bool const bit = (bytes.data()[r * row_bytes + c / 8] >> (c % 8) & 1) != 0;
          wrong += mask.passes(r, c) != bit;
          clipped += !bit;
        }
        int const padding = s.cols % 8 == 0 ? 0 : bytes.data()[(r + 1) * row_bytes - 1] >> (s.cols % 8);
        wrong += padding != 0;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(clipped > 0);
}

TEST_CASE("estimators refuse what quantize refuses, and parameters that are none") {
  std::vector<float> x(64, 1.0f), g(64, 2.0f);
  std::vector<std::uint8_t> bits(8, 0xff);
  shape const s{4, 16};
  loft::operand<loft::nvfp4> const how{};
  loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<32>> const long_rotation{};
  differentiable_estimator const e;
  matrix_view<float const> const in = view_of(x, s);
  matrix_view<float> const to = writable(g, s);
  loft::clip_mask const mask{bits.data(), 4, 16};
  CHECK(loft::estimate_gradient(to, matrix_view<float const>{nullptr, 4, 16, 16}, how, e) == status::null_pointer);
  CHECK(loft::estimate_gradient(matrix_view<float>{nullptr, 4, 16, 16}, in, how, e) == status::null_pointer);
  CHECK(loft::estimate_gradient(to, view_of(x, {16, 4}), how, e) == status::shape_mismatch);
  CHECK(loft::estimate_gradient(matrix_view<float>{g.data(), 4, 16, 0}, in, how, e) == status::overlapping_output);
  CHECK(loft::estimate_gradient(to, view_of(g, s), how, e) == status::overlapping_output);
  CHECK(loft::estimate_gradient(to, in, long_rotation, e) == status::rotation_does_not_divide);
  CHECK(loft::estimate_gradient(to, in, how, e, {5}) == status::invalid_row_range);
  CHECK(loft::estimate_gradient(to, in, loft::operand<loft::nvfp4>{{infinity}}, e) == status::invalid_amax);
  for (float const k : {0.5f, -5.0f, infinity, not_a_number, 0.0f})
    CHECK(loft::estimate_gradient(to, in, how, differentiable_estimator{k, 3}) == status::invalid_estimator);
  for (float const cap : {0.0f, -3.0f, infinity, not_a_number})
    CHECK(loft::estimate_gradient(to, in, how, differentiable_estimator{5, cap}) == status::invalid_estimator);
  CHECK(loft::save_clip_mask(in, {nullptr, 4, 16}, how) == status::null_pointer);
  CHECK(loft::save_clip_mask(in, {bits.data(), 4, 15}, how) == status::shape_mismatch);
  CHECK(loft::save_clip_mask(in, mask, long_rotation) == status::rotation_does_not_divide);
  CHECK(loft::apply_clip_mask(to, {bits.data(), 3, 16}, how) == status::shape_mismatch);
  CHECK(loft::apply_clip_mask(to, {nullptr, 4, 16}, how) == status::null_pointer);
  CHECK(loft::apply_clip_mask(to, mask, long_rotation) == status::rotation_does_not_divide);
  CHECK(g == std::vector<float>(64, 2.0f));
  CHECK(bits == std::vector<std::uint8_t>(8, 0xff));
  // The twins.
  CHECK(loft::estimate_gradient(to, in, how, e) == status::ok);
  CHECK(g == std::vector<float>(64, 2.0f * 0.2f));
  CHECK(loft::save_clip_mask(in, mask, how) == status::ok);
  CHECK(loft::estimate_gradient(matrix_view<float>{nullptr, 0, 16, 16}, matrix_view<float const>{nullptr, 0, 16, 16},
                                how, e) == status::ok);
}

TEST_CASE("compile time and run time agree on gradients") {
  constexpr auto run = [] {
    std::array<float, 16> x{}, g{};
    for (int i = 0; i < 16; ++i)
      x[static_cast<std::size_t>(i)] = static_cast<float>(i * i) * 0.37f - 20, g[static_cast<std::size_t>(i)] = 1;
    status const s =
        loft::estimate_gradient(matrix_view<float>{g.data(), 1, 16, 16}, matrix_view<float const>{x.data(), 1, 16, 16},
                                loft::operand<loft::nvfp4>{}, differentiable_estimator{});
    return s == status::ok ? g : std::array<float, 16>{};
  };
  constexpr auto compiled = run();
  CHECK(run() == compiled);
  CHECK(compiled[3] > 0);
}
