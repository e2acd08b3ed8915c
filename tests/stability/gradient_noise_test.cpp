// SPDX-License-Identifier: Apache-2.0
// The gradient-to-noise ratio: against sums in double, its alarm at sqrt(3), samples of stochastic rounding, shards.
#include "loft/gnmr.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "loft/tensor.hpp"
#include "normal_values.hpp"
#include "oracle_of.hpp"

namespace {

using loft::gradient_to_noise;

constexpr double infinite = std::numeric_limits<double>::infinity();

std::vector<float> quantized(std::vector<float> const& x, std::uint64_t seed) {
  std::vector<float> y(x.size());
  auto const n = static_cast<std::int64_t>(x.size());
  using how = loft::operand<loft::nvfp4, loft::unbiased_two_level, loft::stochastic<>>;
  loft::status const s = loft::fake_quantize(loft::matrix_view<float const>{x.data(), 1, n, n},
                                             loft::matrix_view<float>{y.data(), 1, n, n}, how{{}, {seed, 0}});
  REQUIRE(s == loft::status::ok);
  return y;
}

// signal and noise of samples by their definition, in double: the squared norm of the mean, less what the scatter of
// the samples adds to it.
gradient_to_noise by_definition(std::vector<float> const& exact, std::vector<std::vector<float>> const& samples) {
  gradient_to_noise result;
  auto const n = static_cast<double>(samples.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double mean = 0, scatter = 0;
    for (auto const& s : samples) {
      mean += static_cast<double>(s[i]) / n;
      double const error = static_cast<double>(s[i]) - static_cast<double>(exact[i]);
      result.noise += error * error / n;
    }
    for (auto const& s : samples) scatter += (static_cast<double>(s[i]) - mean) * (static_cast<double>(s[i]) - mean);
    result.signal += mean * mean - (samples.size() == 1 ? 0 : scatter / (n - 1) / n);
  }
  if (samples.size() == 1) result.signal -= result.noise;
  return result;
}

// shrink * x and in each element, up or down, what makes the noise without bias ||x|| / r.
std::vector<float> noisy(std::vector<float> const& x, double r, std::uint64_t seed, double shrink = 1) {
  double squares = 0;
  for (float const v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  double const step = std::sqrt(squares / static_cast<double>(x.size())) / r;
  std::mt19937_64 random{seed};
  std::vector<float> y;
  for (float const v : x)
    y.push_back(static_cast<float>(shrink * static_cast<double>(v) + (random() % 2 ? step : -step)));
  return y;
}
gradient_to_noise of_one(std::vector<float> const& x, std::vector<float> const& y) {
  return loft::one_gradient_to_noise(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
}
gradient_to_noise of_samples(std::vector<float> const& x, std::vector<std::vector<float>> const& all) {
  std::vector<double> mean(x.size(), 0.0);
  loft::gradient_noise_samples samples{mean.data(), static_cast<std::int64_t>(x.size())};
  for (auto const& y : all) samples.add(x.data(), y.data());
  return samples.result();
}

}  // namespace

TEST_CASE("one sample: two norms, less the noise") {
  std::vector<float> const g = normal_values(20000, 4), q = quantized(g, 1);
  gradient_to_noise const got = loft::one_gradient_to_noise(g.data(), q.data(), 20000),
                          expected = by_definition(g, {q});
  CHECK(got.signal == doctest::Approx(expected.signal).epsilon(1e-6));
  CHECK(got.noise == doctest::Approx(expected.noise).epsilon(1e-6));  // differences are rounded to float
  CHECK(got.signal == loft::partial_norm(q.data(), 20000).sum_of_squares - got.noise);
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

TEST_CASE("many samples: the variance of their mean is taken off") {
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
  // Rounding without bias: the signal is that of the exact gradient, and one sample's is too, with more scatter.
  CHECK(got.signal == doctest::Approx(exact).epsilon(0.001));
  CHECK(of_one(g, all[0]).signal == doctest::Approx(exact).epsilon(0.01));
  CHECK(loft::partial_norm(all[0].data(), 4000).sum_of_squares > exact + 0.5 * got.noise);
  // One sample through the same door.
  gradient_to_noise const first = of_samples(g, {all[0]}), one = of_one(g, all[0]);
  CHECK(first.signal == one.signal);
  CHECK(first.noise == one.noise);
}

TEST_CASE("the alarm fires below the square root of 3 and not above, whatever the noise adds to the norms") {
  std::vector<float> const g = normal_values(100000, 21);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (double const r : {1.0, 1.5, 1.7, 1.8, 2.0, 4.0}) {
      gradient_to_noise const one = of_one(g, noisy(g, r, seed));
      CHECK(one.alarm() == (r < 1.75));
      CHECK((one.risk() > 1) == (r < 1.75));
      CHECK(one.ratio() == doctest::Approx(r).epsilon(0.02));
      std::vector<std::vector<float>> samples;
      for (std::uint64_t i = 0; i < 3; ++i) samples.push_back(noisy(g, r, 100 + 3 * seed + i));
      gradient_to_noise const two = of_samples(g, {samples[0], samples[1]}), three = of_samples(g, samples);
      CHECK(two.alarm() == (r < 1.75));
      CHECK(three.alarm() == (r < 1.75));
      CHECK(three.ratio() == doctest::Approx(r).epsilon(0.02));
    }
  }
  // The control: the norms as they are would be silent at 1.7.
  std::vector<float> const y = noisy(g, 1.7, 1);
  CHECK_FALSE((gradient_to_noise{loft::partial_norm(y.data(), 100000).sum_of_squares, of_one(g, y).noise}).alarm());
}

TEST_CASE("rounding with a bias: one sample is early, many are right") {
  std::vector<float> const g = normal_values(100000, 22), nothing(100000, 0.0f);
  // All of it rounded to 0: no signal, where ||g||^2 would leave a ratio of 1.
  CHECK(of_one(g, nothing).ratio() == 0);
  CHECK(of_one(g, nothing).alarm());
  CHECK(of_one(g, nothing).risk() == infinite);
  // 3/4 of it, with noise of 1/8: the true ratio is 0.75 / sqrt(1/16 + 1/64), the one sample's r^2 below that by 0.8.
  std::vector<std::vector<float>> samples;
  for (std::uint64_t i = 0; i < 4; ++i) samples.push_back(noisy(g, 8, i, 0.75));
  double const exact = 0.75 / std::sqrt(1.0 / 16 + 1.0 / 64);
  CHECK(of_samples(g, samples).ratio() == doctest::Approx(exact).epsilon(0.005));
  CHECK(of_one(g, samples[0]).ratio() == doctest::Approx(std::sqrt(exact * exact - 0.8)).epsilon(0.005));
  CHECK(of_one(g, samples[0]).ratio() < exact);
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
  // Below 0 by chance: no signal, but in a sum over shards it counts.
  CHECK((gradient_to_noise{-1, 1}).alarm());
  CHECK((gradient_to_noise{-1, 1}).ratio() == 0);
  CHECK((gradient_to_noise{-1, 1}).risk() == infinite);
  CHECK((gradient_to_noise{-1, 1} + gradient_to_noise{7, 1}).signal == 6);
  static_assert(gradient_to_noise{2, 1}.alarm());
  static_assert(gradient_to_noise{16, 1}.ratio() == 4 && gradient_to_noise{0, 0}.risk() == 0);
  static_assert(gradient_to_noise{1, 1}.risk() > 1.7320508 && gradient_to_noise{1, 1}.risk() < 1.7320509);
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
