// SPDX-License-Identifier: Apache-2.0
// Second moments in 4 bits: codes and loaded values against a scalar program on the oracle's table, the floor above
// zero, storage without bias, the error on log-normal moments and what other elements would give.
#include "loft/train.hpp"

#include <doctest/doctest.h>

#include <random>

#include "block/block_check.hpp"
#include "loft/tensor.hpp"
#include "tensor/any_buffers.hpp"

namespace {

using loft::matrix_view, loft::moment_storage, loft::mx_moment4, loft::nv_moment4, loft::operand, loft::second_moment,
    loft::status;
using test::content, test::contents, test::infinity, test::not_a_number, test::shape, test::tensor, test::view_of;

matrix_view<float> writable(std::vector<float>& x, shape s) { return {x.data(), s.rows, s.cols, s.cols}; }

// Moments whose logarithm is normal with a deviation of 2.
std::vector<float> log_normal(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::normal_distribution<double> normal;
  std::vector<float> v(count);
  for (float& x : v) x = static_cast<float>(1e-8 * std::exp(2 * normal(random)));
  return v;
}

template <class B, moment_storage S, class R = loft::nearest_even>
using storage = second_moment<operand<B, loft::default_rule<B>, R>, S>;

template <class How> std::vector<float> reloaded(std::vector<float> const& v, shape s, How const& how) {
  using B = typename decltype(how.how)::format;
  test::any_buffers<B> q(s.rows, s.cols);
  std::vector<float> out(v.size(), -5.0f);
  REQUIRE(loft::store_second_moment(view_of(v, s), q.view(), how) == status::ok);
  CHECK(q.margins_are_clean());
  loft::quantized_view<B const> const read = q.view();
  REQUIRE(loft::load_second_moment(read, writable(out, s), how) == status::ok);
  return out;
}

float stored(float v, moment_storage s) {
  if (std::isfinite(v) && !(v > 0)) return 0;
  return s == moment_storage::root && !(v < 0) ? std::sqrt(v) : v;
}

// Codes and values of one tensor by the documented steps, nearest rounding.
template <class B, moment_storage S> long wrong_values(std::vector<float> const& v, shape s) {
  constexpr bool two_level = loft::has_tensor_scale<B>;
  oracle::table const &element = test::table_of<loft::ue3m1>(), &scales = test::table_of<typename B::scale>();
  test::any_buffers<B> q(s.rows, s.cols);
  storage<B, S> const how{};
  REQUIRE(loft::store_second_moment(view_of(v, s), q.view(), how) == status::ok);
  std::vector<float> const got = reloaded(v, s, how);
  float amax = 0;
  for (float const x : v) amax = std::isfinite(x) ? std::max(amax, stored(x, S)) : amax;
  float const encode = amax == 0 ? 1.0f : std::min(24.0f * 448.0f / amax, test::float_max), decode = 1.0f / encode;
  long wrong = 0;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t left = 0; left < s.cols; left += B::shape.cols) {
      std::int64_t const end = std::min<std::int64_t>(left + B::shape.cols, s.cols);
      float block = 0;
      bool finite = true;
      for (std::int64_t c = left; c < end; ++c) {
        float const x = stored(v[static_cast<std::size_t>(r * s.cols + c)], S);
        finite = finite && std::isfinite(x), block = std::max(block, x);
      }
      std::uint32_t scale = 0;
      if (two_level && finite && block > 0) scale = std::max(1u, scales.encode(block * (encode * (1.0f / 24.0f))));
      if (!two_level && finite && block > 0)
        scale = static_cast<std::uint32_t>(127 + test::mx_exponent(block, element, test::mx_rule::ceil));
      if (!finite) scale = scales.nan_code;
      wrong += q.scale_at(r, left) != scale;
      for (std::int64_t c = left; c < end; ++c) {
        auto const i = static_cast<std::size_t>(r * s.cols + c);
        if (!finite) {
          wrong += !std::isnan(got[i]);
          continue;
        }
        float const x = stored(v[i], S);
        double const factor = scales.decode(scale);
        float const multiplier = std::min(1.0f / (static_cast<float>(factor) * decode), test::float_max);
        double const scaled =
            two_level ? (scale == 0 ? 0.0 : static_cast<double>(x * multiplier)) : static_cast<double>(x) / factor;
        std::uint32_t code = element.encode(scaled);
        if (code == 0 && x > 0) code = 1;
        wrong += q.code(r, c) != code;
        auto y = static_cast<float>(element.decode(code) * factor);
        if (two_level) y *= decode;
        if (S == moment_storage::root) y *= y;
        float const least = code == 0 ? 0.0f : 0x1p-126f;
        wrong += got[i] != std::min(std::max(y, least), test::float_max);
      }
    }
  }
  return wrong;
}

struct errors {
  double mean = 0, rms = 0;
};
// Of 1 / sqrt(v).
errors errors_of(std::vector<float> const& v, std::vector<float> const& loaded) {
  errors e;
  for (std::size_t i = 0; i < v.size(); ++i) {
    double const r = std::sqrt(static_cast<double>(v[i]) / static_cast<double>(loaded[i])) - 1;
    e.mean += std::fabs(r) / static_cast<double>(v.size()), e.rms += r * r / static_cast<double>(v.size());
  }
  e.rms = std::sqrt(e.rms);
  return e;
}

// Other elements in the place of ue3m1.
struct powers {
  static constexpr loft::format_spec spec{4, 0, 7, loft::specials::none, false};
};
struct two_two {
  static constexpr loft::format_spec spec{2, 2, 1, loft::specials::none, false};
};
struct integers {
  static constexpr loft::format_spec spec{1, 3, 0, loft::specials::none, false};
};
template <class F> struct mx_of {
  using element = F;
  using scale = loft::e8m0;
  using rule = loft::ceil_scale;
  static constexpr loft::block_shape shape{1, 32};
};

}  // namespace

TEST_CASE("codes, scales and loaded values are the documented ones") {
  for (content const kind : contents) {
    for (shape const s : {shape{17, 100}, shape{5, 37}, shape{1, 1}, shape{40, 64}}) {
      std::vector<float> v = tensor(kind, s);
      for (std::size_t i = 0; i < v.size(); ++i)
        if (i % 9 != 0) v[i] = std::fabs(v[i]);  // a few are negative: they count as 0
      CHECK(wrong_values<mx_moment4, moment_storage::root>(v, s) == 0);
      CHECK(wrong_values<mx_moment4, moment_storage::direct>(v, s) == 0);
      CHECK(wrong_values<nv_moment4, moment_storage::root>(v, s) == 0);
      CHECK(wrong_values<nv_moment4, moment_storage::direct>(v, s) == 0);
    }
  }
}

TEST_CASE_TEMPLATE("a moment that was not 0 is never loaded as 0, and 0 is", How,
                   storage<mx_moment4, moment_storage::root>, storage<nv_moment4, moment_storage::root>,
                   storage<mx_moment4, moment_storage::direct>, storage<nv_moment4, moment_storage::direct>,
                   storage<nv_moment4, moment_storage::root, loft::stochastic<>>) {
  shape const s{8, 256};
  std::vector<float> v(2048);
  test::noise next{5};
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = i % 5 == 0 ? 0.0f : std::fabs(next.value(-148, 126));
  How how{};
  std::vector<float> const got = reloaded(v, s, how);
  long wrong = 0, raised = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    wrong += (v[i] == 0) != (got[i] == 0) || got[i] < 0 || !std::isfinite(got[i]);
  CHECK(wrong == 0);
  how.round_up_from_zero = false;
  std::vector<float> const bare = reloaded(v, s, how);
  for (std::size_t i = 0; i < v.size(); ++i) raised += v[i] != 0 && bare[i] == 0;
  CHECK(raised > 1000);  // blocks span hundreds of binades: without the rule most denominators are 0
}

TEST_CASE("special moments") {
  auto const alone = [&](float x) { return reloaded({x}, {1, 1}, storage<mx_moment4, moment_storage::root>{})[0]; };
  CHECK(alone(0.0f) == 0);
  CHECK(alone(-0.0f) == 0);
  CHECK(alone(-1.0f) == 0);
  CHECK(alone(4.0f) == 4);
  CHECK(alone(0x1p-149f) == 0x1p-126f);
  CHECK(alone(0x1p-126f) == 0x1p-126f);
  CHECK(alone(test::float_max) == test::float_max);  // 2^64 squared is beyond
  for (float const x : {not_a_number, infinity, -infinity, -not_a_number}) {
    std::vector<float> block(64, 1.0f);
    block[7] = x;
    auto const got = reloaded(block, {1, 64}, storage<nv_moment4, moment_storage::root>{});
    for (std::size_t i = 0; i < 64; ++i) CHECK(std::isnan(got[i]) == (i < 16));
    CHECK(got[20] == doctest::Approx(1).epsilon(0.1));
  }
}

TEST_CASE_TEMPLATE("under nonfinite::saturate an infinite moment is the largest float, for the tensor too", B,
                   mx_moment4, nv_moment4) {
  using saturating =
      operand<B, loft::default_rule<B>, loft::nearest_even, loft::no_rotation, loft::nonfinite::saturate>;
  shape const s{1, 64};
  std::vector<float> v(64, 0.0f);
  v[0] = infinity, v[1] = v[2] = v[3] = 1.0f, v[40] = 0x1p100f, v[41] = -infinity;
  std::vector<float> finite = v;
  finite[0] = test::float_max, finite[41] = -1.0f;
  auto const check = [&](auto const& how) {
    test::any_buffers<B> a(1, 64), b(1, 64);
    REQUIRE(loft::store_second_moment(view_of(v, s), a.view(), how) == status::ok);
    REQUIRE(loft::store_second_moment(view_of(finite, s), b.view(), how) == status::ok);
    CHECK(a == b);
    auto const got = reloaded(v, s, how);
    CHECK(got[0] > 0x1p127f);
    CHECK(got[41] == 0);
    v[5] = not_a_number;
    CHECK(std::isnan(reloaded(v, s, how)[0]));
    v[5] = 0;
  };
  check(second_moment<saturating, moment_storage::root>{});
  second_moment<saturating, moment_storage::direct> direct{};
  check(direct);
  // As quantize with the same operand, but for the codes that are raised above 0, and numbers below 0.
  direct.round_up_from_zero = false;
  v[41] = 0;
  test::any_buffers<B> moments(1, 64), numbers(1, 64);
  REQUIRE(loft::store_second_moment(view_of(v, s), moments.view(), direct) == status::ok);
  REQUIRE(loft::quantize(view_of(v, s), numbers.view(), direct.how) == status::ok);
  CHECK(moments == numbers);
}

TEST_CASE("direct storage with stochastic rounding has no bias; roots have one") {
  shape const s{1, 512};
  std::vector<float> const v = log_normal(512, 21);
  auto const mean_of = [&](auto how) {
    how.round_up_from_zero = false;
    std::vector<double> mean(512, 0.0), squares(512, 0.0);
    constexpr int seeds = 2000;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      how.how.rounding.seed = seed;
      auto const got = reloaded(v, s, how);
      for (std::size_t i = 0; i < 512; ++i) {
        double const error = static_cast<double>(got[i]) - static_cast<double>(v[i]);
        mean[i] += error / seeds, squares[i] += error * error / seeds;
      }
    }
    int beyond = 0;
    double sum = 0, variance = 0;
    for (std::size_t i = 0; i < 512; ++i) {
      beyond += std::fabs(mean[i]) > 4.5 * std::sqrt(squares[i] / seeds) + 1e-4 * std::sqrt(squares[i]);
      sum += mean[i], variance += squares[i] / seeds;
    }
    return std::pair{beyond, sum / std::sqrt(variance)};
  };
  auto const direct = mean_of(storage<mx_moment4, moment_storage::direct, loft::stochastic<>>{});
  CHECK(direct.first == 0);
  CHECK(std::fabs(direct.second) < 4);
  CHECK(mean_of(storage<mx_moment4, moment_storage::root, loft::stochastic<>>{}).second > 10);
}

TEST_CASE("the error of 1 / sqrt(v) on log-normal moments, and that of other elements") {
  shape const s{128, 2048};
  std::vector<float> const v = log_normal(128 * 2048, 7);
  errors const mx = errors_of(v, reloaded(v, s, storage<mx_moment4, moment_storage::root>{}));
  errors const nv = errors_of(v, reloaded(v, s, storage<nv_moment4, moment_storage::root>{}));
  errors const direct = errors_of(v, reloaded(v, s, storage<mx_moment4, moment_storage::direct>{}));
  CHECK(mx.mean == doctest::Approx(0.096).epsilon(0.02));
  CHECK(mx.rms == doctest::Approx(0.117).epsilon(0.02));
  CHECK(nv.mean == doctest::Approx(0.089).epsilon(0.02));
  CHECK(nv.rms == doctest::Approx(0.108).epsilon(0.02));
  CHECK(direct.mean == doctest::Approx(0.20).epsilon(0.03));
  auto const other = [&]<class F>(F) {
    return errors_of(v, reloaded(v, s, storage<mx_of<F>, moment_storage::root>{})).mean;
  };
  CHECK(other(two_two{}) == doctest::Approx(0.163).epsilon(0.02));
  CHECK(other(powers{}) == doctest::Approx(0.191).epsilon(0.02));
  CHECK(other(integers{}) == doctest::Approx(0.257).epsilon(0.02));
}

TEST_CASE("views, minifloats and a known amax") {
  shape const s{24, 70};
  std::vector<float> const v = log_normal(24 * 70, 9);
  storage<nv_moment4, moment_storage::root> how{};
  std::vector<float> turned(v.size());
  for (std::size_t r = 0; r < 24; ++r)
    for (std::size_t c = 0; c < 70; ++c) turned[c * 24 + r] = v[r * 70 + c];
  test::any_buffers<nv_moment4> a(24, 70), b(24, 70), known(24, 70);
  REQUIRE(loft::store_second_moment(view_of(v, s), a.view(), how) == status::ok);
  REQUIRE(loft::store_second_moment(loft::transposed(view_of(turned, {70, 24})), b.view(), how) == status::ok);
  CHECK(a == b);
  how.how.rule.amax = std::sqrt(*std::max_element(v.begin(), v.end()));
  REQUIRE(loft::store_second_moment(view_of(v, s), known.view(), how) == status::ok);
  CHECK(a == known);
  std::vector<float> out(v.size()), by_columns(v.size());
  REQUIRE(loft::load_second_moment(a.view(), writable(out, s), how) == status::ok);
  REQUIRE(loft::load_second_moment(a.view(), matrix_view<float>{by_columns.data(), 24, 70, 1, 24}, how) == status::ok);
  long wrong = 0;
  for (std::size_t r = 0; r < 24; ++r)
    for (std::size_t c = 0; c < 70; ++c) wrong += out[r * 70 + c] != by_columns[c * 24 + r];
  CHECK(wrong == 0);
  std::vector<loft::bf16_t> const narrow(v.begin(), v.end());
  std::vector<float> const wide(narrow.begin(), narrow.end());
  how.how.rule.amax = -1;
  REQUIRE(loft::store_second_moment(view_of(narrow, s), a.view(), how) == status::ok);
  REQUIRE(loft::store_second_moment(view_of(wide, s), b.view(), how) == status::ok);
  CHECK(a == b);
}

TEST_CASE("second moments refuse what quantize refuses") {
  std::vector<float> const v(64, 1.0f);
  std::vector<float> out(64, -5.0f);
  storage<nv_moment4, moment_storage::root> const how{};
  test::any_buffers<nv_moment4> q(4, 16);
  shape const s{4, 16};
  auto none = q.view();
  none.tensor_scale = nullptr;
  CHECK(loft::store_second_moment(view_of(v, s), none, how) == status::missing_tensor_scale);
  CHECK(loft::store_second_moment(view_of(v, {16, 4}), q.view(), how) == status::shape_mismatch);
  CHECK(loft::store_second_moment(matrix_view<float const>{nullptr, 4, 16, 16}, q.view(), how) == status::null_pointer);
  storage<nv_moment4, moment_storage::root> bad{};
  bad.how.rule.amax = infinity;
  CHECK(loft::store_second_moment(view_of(v, s), q.view(), bad) == status::invalid_amax);
  CHECK(loft::load_second_moment(q.view(), writable(out, {16, 4}), how) == status::shape_mismatch);
  CHECK(loft::load_second_moment(q.view(), matrix_view<float>{out.data(), 4, 16, 0}, how) ==
        status::overlapping_output);
  CHECK(q.untouched());
  CHECK(out == std::vector<float>(64, -5.0f));
  CHECK(loft::store_second_moment(view_of(v, s), q.view(), how) == status::ok);
  test::any_buffers<nv_moment4> empty(0, 16);
  CHECK(loft::store_second_moment(matrix_view<float const>{nullptr, 0, 16, 16}, empty.view(), how) == status::ok);
}
