// SPDX-License-Identifier: Apache-2.0
// The gradient-to-noise ratio: against sums in double, its alarm at sqrt(3), samples of stochastic rounding, shards.
#include "loft/gradient_noise.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "loft/tensor.hpp"
#include "oracle_of.hpp"

namespace {

using loft::gradient_to_noise;

constexpr double infinite = std::numeric_limits<double>::infinity();

std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& v : x) v = normal(random);
  return x;
}

std::vector<float> quantized(std::vector<float> const& x, std::uint64_t seed) {
  std::vector<float> y(x.size());
  auto const n = static_cast<std::int64_t>(x.size());
  using how = loft::operand<loft::nvfp4, loft::unbiased_two_level, loft::stochastic<>>;
  loft::status const s = loft::fake_quantize(loft::matrix_view<float const>{x.data(), 1, n, n},
                                             loft::matrix_view<float>{y.data(), 1, n, n}, how{{}, {seed, 0}});
  REQUIRE(s == loft::status::ok);
  return y;
}

// signal and noise of samples by their definition, in double.
gradient_to_noise by_definition(std::vector<float> const& exact, std::vector<std::vector<float>> const& samples) {
  gradient_to_noise result;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double mean = 0;
    for (auto const& s : samples) {
      mean += static_cast<double>(s[i]) / static_cast<double>(samples.size());
      double const error = static_cast<double>(s[i]) - static_cast<double>(exact[i]);
      result.noise += error * error / static_cast<double>(samples.size());
    }
    result.signal += mean * mean;
  }
  return result;
}

}  // namespace

TEST_CASE("one sample: two norms") {
  std::vector<float> const g = normal_values(20000, 4), q = quantized(g, 1);
  gradient_to_noise const got = loft::one_gradient_to_noise(g.data(), q.data(), 20000),
                          expected = by_definition(g, {q});
  CHECK(got.signal == doctest::Approx(expected.signal).epsilon(1e-12));
  CHECK(got.noise == doctest::Approx(expected.noise).epsilon(1e-6));  // differences are rounded to float
  CHECK(got.signal == loft::partial_norm(q.data(), 20000).sum_of_squares);
  CHECK(got.noise == loft::partial_noise(g.data(), q.data(), 20000).sum_of_squares);
  CHECK(got.ratio() == doctest::Approx(std::sqrt(expected.signal / expected.noise)).epsilon(1e-6));
  CHECK_FALSE(got.alarm());
  CHECK(got.risk() < 1);
  CHECK(loft::one_gradient_to_noise(g.data(), q.data(), 0).signal == 0);
  // Shards add up.
  gradient_to_noise const sum = loft::one_gradient_to_noise(g.data(), q.data(), 4096) +
                                loft::one_gradient_to_noise(g.data() + 4096, q.data() + 4096, 20000 - 4096);
  CHECK(sum.signal == doctest::Approx(got.signal).epsilon(1e-13));
  CHECK(sum.noise == doctest::Approx(got.noise).epsilon(1e-13));
  // Minifloats.
  std::vector<loft::e4m3_t> const narrow(g.begin(), g.end());
  CHECK(loft::one_gradient_to_noise(g.data(), narrow.data(), 20000).ratio() > 10);
}

TEST_CASE("many samples: the noise averages out of the signal") {
  std::vector<float> const g = normal_values(4000, 8);
  std::vector<double> mean(4000, 0.0);
  loft::gradient_noise_samples samples{mean.data(), 4000};
  CHECK(samples.result().signal == 0);
  std::vector<std::vector<float>> all;
  double exact = 0;
  for (float const x : g) exact += static_cast<double>(x) * static_cast<double>(x);
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    all.push_back(quantized(g, seed));
    samples.add(g.data(), all.back().data());
  }
  gradient_to_noise const got = samples.result(), expected = by_definition(g, all);
  CHECK(samples.samples == 64);
  CHECK(got.signal == doctest::Approx(expected.signal).epsilon(1e-12));
  CHECK(got.noise == doctest::Approx(expected.noise).epsilon(1e-6));
  // Rounding without bias: the signal is that of the exact gradient and 1/64 of the noise.
  CHECK(got.signal == doctest::Approx(exact + got.noise / 64).epsilon(0.01));
  gradient_to_noise const one = loft::one_gradient_to_noise(g.data(), all[0].data(), 4000);
  CHECK(one.signal == doctest::Approx(exact + got.noise).epsilon(0.03));
  CHECK(one.signal > 1.01 * got.signal);
}

TEST_CASE("the alarm is at the square root of 3") {
  CHECK((gradient_to_noise{3, 1}).ratio() == loft::noise_threshold);
  CHECK_FALSE((gradient_to_noise{3, 1}).alarm());
  CHECK((gradient_to_noise{std::nextafter(3.0, 0.0), 1}).alarm());
  CHECK((gradient_to_noise{3, 1}).risk() == 1);
  CHECK((gradient_to_noise{1, 1}).risk() == loft::noise_threshold);
  CHECK((gradient_to_noise{16, 1}).ratio() == 4);
  CHECK((gradient_to_noise{0, 1}).alarm());
  CHECK((gradient_to_noise{0, 1}).ratio() == 0);
  CHECK_FALSE((gradient_to_noise{0, 0}).alarm());
  CHECK((gradient_to_noise{0, 0}).ratio() == infinite);
  CHECK((gradient_to_noise{0, 0}).risk() == 0);
  gradient_to_noise const lost{9, 1, 1};
  CHECK(lost.alarm());
  CHECK(lost.ratio() == 0);
  CHECK(lost.risk() == infinite);
  static_assert(gradient_to_noise{2, 1}.alarm());
}

TEST_CASE("a gradient that drowns raises the alarm, and an element that is not finite") {
  // The quantizer is told an amax far too large: the gradient is of the size of a gap.
  std::vector<float> g = normal_values(8192, 15), y(8192);
  using how = loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<>>;
  auto const ratio_for = [&](float amax) {
    loft::status const s = loft::fake_quantize(loft::matrix_view<float const>{g.data(), 1, 8192, 8192},
                                               loft::matrix_view<float>{y.data(), 1, 8192, 8192}, how{{amax}, {1, 0}});
    REQUIRE(s == loft::status::ok);
    return loft::one_gradient_to_noise(g.data(), y.data(), 8192);
  };
  CHECK_FALSE(ratio_for(4.0f).alarm());
  CHECK(ratio_for(3e7f).alarm());
  y[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK(loft::one_gradient_to_noise(g.data(), y.data(), 8192).nonfinite == 1);
  std::vector<double> mean(8192, 0.0);
  loft::gradient_noise_samples samples{mean.data(), 8192};
  samples.add(g.data(), y.data());
  CHECK(samples.result().alarm());
}
