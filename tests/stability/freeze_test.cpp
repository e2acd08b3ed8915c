// SPDX-License-Identifier: Apache-2.0
// Silent freeze: lost updates and gaps against the oracle's tables, shares and predicted steps against counting, the
// noise ratio by hand, and both as risks of the controller.
#include "loft/gnmr.hpp"

#include <doctest/doctest.h>

#include <random>
#include <tuple>

#include "loft/number.hpp"
#include "oracle_of.hpp"

namespace {

using loft::update_counts;

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class F> update_counts count_one(double weight, double update) {
  auto const w = static_cast<float>(weight), u = static_cast<float>(update);
  return loft::count_updates<F>(&w, &u, 1);
}

int bin_of(update_counts const& c) {
  for (int b = 0; b < update_counts::bins; ++b)
    if (c.histogram[b] == 1) return b;
  return -1;
}

// The distance from magnitude `m` of the table to its neighbour.
double gap_of(oracle::table const& t, std::uint32_t m, bool towards_zero) {
  return towards_zero && m > 0 ? t.value(m) - t.value(m - 1) : t.value(m + 1) - t.value(m);
}

// Weights in F and updates around half a gap, over many binades.
template <class F> struct sample {
  std::vector<loft::minifloat<F>> weights;
  std::vector<float> updates;
  std::vector<double> in_gaps;  // |update| / gap

  explicit sample(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random{seed};
    oracle::table const& t = test::table_of<F>();
    for (std::size_t i = 0; i < count; ++i) {
      double const w = std::ldexp(static_cast<double>(random() % 2001) - 1000, -10);
      double const u = std::ldexp(static_cast<double>(random() % 2000) - 999.5, -16 - static_cast<int>(random() % 6));
      weights.push_back(loft::minifloat<F>{w});
      updates.push_back(static_cast<float>(u));
      std::uint32_t const m = t.locate(t.decode(t.encode(w))).lower;
      in_gaps.push_back(std::fabs(u) / gap_of(t, m, (w < 0) != (u < 0)));
    }
  }
  [[nodiscard]] update_counts counts() const {
    return loft::count_updates<F>(weights.data(), updates.data(), static_cast<std::int64_t>(weights.size()));
  }
  [[nodiscard]] double below_half(double factor) const {
    double n = 0;
    for (double const x : in_gaps) n += x * factor < 0.5;
    return n / static_cast<double>(in_gaps.size());
  }
};

}  // namespace

TEST_CASE_TEMPLATE("lost updates and gaps are those of the oracle's tables", F, loft::e2m1, loft::e4m3, loft::e5m2,
                   loft::e4m3fnuz, loft::int8, loft::fp16, loft::bf16) {
  oracle::table const& t = test::table_of<F>();
  std::uint32_t const step = t.max_code > 1000 ? 97 : 1;
  long wrong = 0, compared = 0, lost = 0;
  for (std::uint32_t m = 0; m <= t.max_code; m += step) {
    for (double const factor : {0x1p-30, 0.25, 0.4999, 0.5, 0.5001, 0.75, 1.0, 1.49, 3.0, 1000.0}) {
      for (int const signs : {0, 1, 2, 3}) {
        double const w = (signs & 1) != 0 ? -t.value(m) : t.value(m);
        bool const towards_zero = m > 0 && ((signs & 1) != 0) != ((signs & 2) != 0);
        double const gap = gap_of(t, m, towards_zero);
        auto const u = static_cast<double>(static_cast<float>((signs & 2) != 0 ? -factor * gap : factor * gap));
        if (u == 0 || !std::isfinite(u)) continue;
        update_counts const c = count_one<F>(w, u);
        bool const expected = t.decode(t.encode(w + u)) == w;
        int const bin = std::max(0, std::min(std::ilogb(std::fabs(u) / gap) + 40, update_counts::bins - 1));
        ++compared, lost += expected;
        wrong += c.updates != 1 || c.lost != (expected ? 1 : 0) || c.zero != 0 || c.nonfinite != 0 || bin_of(c) != bin;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(lost > compared / 5);
  CHECK(lost < compared * 4 / 5);
}

TEST_CASE("gaps of tapered precision") {
  using loft::hifloat8;
  auto const gap = [](float w, bool towards_zero) { return loft::detail::gap_exponent<hifloat8>(w, towards_zero); };
  CHECK(gap(1.0f, false) == -3);
  CHECK(gap(1.0f, true) == -4);
  CHECK(gap(16.0f, false) == 2);  // two bits of mantissa from here on
  CHECK(gap(16.0f, true) == 0);   // below it three, in a binade half as wide
  CHECK(gap(0.0f, false) == -22);
}

TEST_CASE("zero, non-finite and scaled updates") {
  float const weights[] = {1, 1, not_a_number, 1, -0.0f, 1};
  float const updates[] = {0, -0.0f, 1, std::numeric_limits<float>::infinity(), 0x1p-149f, 0x1p-9f};
  update_counts const c = loft::count_updates<loft::bf16>(weights, updates, 6);
  CHECK(c.updates == 2);
  CHECK(c.zero == 2);
  CHECK(c.nonfinite == 2);
  CHECK(c.lost == 2);
  CHECK(c.histogram[40 - 2] == 1);  // 2^-9 of a gap of 2^-7
  // Stored numbers are worth 4: an update of 4 * 2^-7 is one gap above 1.
  float const one = 1, update = 0x1p-5f;
  CHECK(loft::count_updates<loft::bf16>(&one, &update, 1, 4.0).histogram[40] == 1);
  for (double const bad : {0.0, static_cast<double>(not_a_number)})
    CHECK(loft::count_updates<loft::bf16>(&one, &update, 1, bad).nonfinite == 1);
  CHECK(loft::count_updates<loft::bf16>(&one, &update, -1).updates == 0);
  CHECK(count_one<loft::e4m3>(448, 1000).lost == 1);  // nothing lies above
  CHECK(count_one<loft::e4m3>(448, -1000).lost == 0);
}

TEST_CASE("counts add up over shards") {
  sample<loft::bf16> const all{20000, 3};
  update_counts sum;
  for (std::int64_t first = 0; first < 20000; first += 5000)
    sum = sum + loft::count_updates<loft::bf16>(all.weights.data() + first, all.updates.data() + first, 5000);
  update_counts const whole = all.counts();
  CHECK(sum.updates == whole.updates);
  CHECK(sum.lost == whole.lost);
  for (int b = 0; b < update_counts::bins; ++b) CHECK(sum.histogram[b] == whole.histogram[b]);
  static_assert(sizeof(update_counts) == 64 * sizeof(double));
}

TEST_CASE_TEMPLATE("the share that a factor loses is that of counting", F, loft::bf16, loft::e4m3, loft::e5m2) {
  sample<F> const all{40000, 5};
  update_counts const c = all.counts();
  CHECK(loft::lost_share(c) == doctest::Approx(all.below_half(1)));
  CHECK(loft::lost_share(c) == doctest::Approx(c.lost / c.updates).epsilon(0.01));  // ties apart
  double last = 1;
  for (int e = -20; e <= 30; ++e) {  // while half a gap lies in the histogram
    CHECK(loft::lost_share(c, std::ldexp(1.0, e)) == all.below_half(std::ldexp(1.0, e)));
    double const between = std::ldexp(1.37, e);
    CHECK(loft::lost_share(c, between) == doctest::Approx(all.below_half(between)).epsilon(0.02));
    CHECK(loft::lost_share(c, between) <= last);
    last = loft::lost_share(c, between);
  }
}

TEST_CASE("shares at the ends") {
  update_counts c;
  CHECK(loft::lost_share(c) == 0);
  CHECK(loft::lost_share(c, 0) == 0);
  c.updates = 4, c.histogram[0] = 1, c.histogram[38] = 1, c.histogram[39] = 1, c.histogram[59] = 1;
  CHECK(loft::lost_share(c, 0) == 1);
  CHECK(loft::lost_share(c, 1) == 0.5);
  CHECK(loft::lost_share(c, 0.5) == 0.75);
  CHECK(loft::lost_share(c, 1 / 1.5) == 0.625);  // threshold 0.75: half of the bin from 0.5
  CHECK(loft::lost_share(c, 0x1p-1000) == 1);
  CHECK(loft::lost_share(c, 0x1p-1070) == 1);
  CHECK(loft::lost_share(c, 0x1p1000) == 0);
  for (double const bad : {infinite, -1.0, static_cast<double>(not_a_number)}) CHECK(loft::lost_share(c, bad) == 0);
}

TEST_CASE("the step at which a decaying learning rate freezes a share of the weights") {
  sample<loft::bf16> const all{40000, 9};
  update_counts const c = all.counts();
  auto const cosine = [](std::int64_t t) {
    return 1e-3 * (1 + std::cos(3.14159265358979 * static_cast<double>(t) / 1000)) / 2;
  };
  for (double const share : {0.5, 0.7, 0.9, 0.99}) {
    CAPTURE(share);
    std::int64_t const predicted = loft::freeze_step(c, share, 1e-3, cosine, 0, 1001);
    std::int64_t observed = 0;
    while (all.below_half(cosine(observed) / 1e-3) < share) ++observed;
    CHECK(predicted >= observed - 10);
    CHECK(predicted <= observed + 10);
  }
  CHECK(loft::freeze_step(
            c, 0.99, 1e-3, [](std::int64_t) { return 1e-3; }, 5, 50) == 50);
  CHECK(loft::freeze_step(c, 0.01, 1e-3, cosine, 7, 50) == 7);
}

TEST_CASE("a weight trained in bf16 without a copy stops where it is predicted to stop") {
  // Descent with updates of 2^-6 * rate, at a weight between 1 and 2 where the gap is 2^-7.
  float const start = 1.5f + 0x1p-7f, update = 0x1p-6f;
  update_counts const c = loft::count_updates<loft::bf16>(&start, &update, 1);
  auto const rate = [](std::int64_t t) { return 1.0 / static_cast<double>(t + 1); };
  std::int64_t stopped = -1;
  loft::bf16_t w{start};
  for (std::int64_t t = 0; t < 10; ++t) {
    loft::bf16_t const next{static_cast<double>(static_cast<float>(w)) + 0x1p-6 * rate(t)};
    if (next == w && stopped < 0) stopped = t;
    w = next;
  }
  CHECK(stopped == 4);  // 2^-6 / 5 is below half a gap; 2^-6 / 4 is a tie, which an odd weight still takes
  CHECK(loft::freeze_step(c, 1e-6, 1.0, rate, 0, 1000) == 4);  // two gaps are the lower end of their bin,
  CHECK(loft::freeze_step(c, 1.0, 1.0, rate, 0, 1000) == 7);   // and four the upper: no more is known of one update
}

TEST_CASE("the noise of a quantized gradient") {
  std::mt19937_64 random{12};
  std::normal_distribution<float> normal;
  std::vector<float> exact(50000);
  std::vector<loft::e4m3_t> quantized;
  std::vector<float> noise;
  for (float& x : exact) {
    x = normal(random);
    quantized.emplace_back(x);
    noise.push_back(static_cast<float>(quantized.back()) - x);
  }
  auto const got = loft::partial_noise(exact.data(), quantized.data(), 50000);
  CHECK(got == loft::partial_norm(noise.data(), 50000));
  CHECK(got.sum_of_squares > 0);
  exact[17] = not_a_number;
  CHECK(loft::partial_noise(exact.data(), quantized.data(), 50000).nonfinite == 1);
  CHECK(loft::partial_noise(exact.data(), exact.data(), 17).sum_of_squares == 0);
}

TEST_CASE("risks have their threshold at 1") {
  CHECK(loft::noise_threshold == std::sqrt(3.0));
  CHECK(loft::noise_risk(std::sqrt(3.0), 1) == 1);
  CHECK(loft::noise_risk(1, 1) == std::sqrt(3.0));
  CHECK(loft::noise_risk(10, 1) < 1);
  CHECK(loft::noise_risk(0, 0) == 0);
  CHECK(loft::noise_risk(5, 0) == 0);
  CHECK(loft::noise_risk(0, 5) == infinite);
  CHECK(loft::noise_risk(infinite, 5) == infinite);
  CHECK(loft::noise_risk(infinite, 0) == infinite);
  CHECK(loft::noise_risk(5, infinite) == infinite);

  update_counts c;
  CHECK(loft::freeze_risk(c, 0.5) == 0);
  c.updates = 100, c.lost = 75;
  CHECK(loft::freeze_risk(c, 0.5) == 1.5);
  c.nonfinite = 1;
  CHECK(loft::freeze_risk(c, 0.5) == infinite);
}

TEST_CASE("a freezing unit is moved to the safe path") {
  loft::gnmr<> const controller{{.max_active = 1}};
  std::vector<loft::gnmr_unit> units(3);
  std::vector<double> const norms(3, 1.0);
  update_counts frozen, alive;
  frozen.updates = alive.updates = 100, frozen.lost = 90, alive.lost = 20;
  std::vector<double> const risks{loft::freeze_risk(alive, 0.5), loft::freeze_risk(frozen, 0.5), 0};
  auto const report = controller.step(units, norms, risks, [](std::int64_t unit, double) { CHECK(unit == 1); });
  CHECK(report.active == 1);
}

TEST_CASE("compile time and run time agree") {
  constexpr auto count = [] {
    float const weights[] = {1, -2, 0.5f}, updates[] = {1e-3f, 0x1p-7f, -0.25f};
    return loft::count_updates<loft::bf16>(weights, updates, 3);
  };
  constexpr update_counts compiled = count();
  static_assert(compiled.updates == 3 && compiled.lost == 1);
  CHECK(count().lost == compiled.lost);
  constexpr double share = loft::lost_share(compiled, 0.25);
  CHECK(loft::lost_share(count(), 0.25) == share);
}
