// SPDX-License-Identifier: Apache-2.0
// The GNMR controller: decisions against a plain reference over random and hostile sequences, worked examples, laws,
// refusals. It includes gnmr.hpp alone, as a trainer would.
#include "loft/gnmr.hpp"

#include <doctest/doctest.h>

#include "gnmr_reference.hpp"

namespace {

using loft::gnmr, loft::gnmr_options, loft::gnmr_report, loft::gnmr_unit, loft::status;
using test::mean_of, test::reference_options, test::reference_unit;
using units = std::vector<gnmr_unit>;
using doubles = std::vector<double>;

constexpr double infinite = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr auto ignore = [](int, double) {};

gnmr_options options_of(reference_options const& o) {
  return {o.alpha, o.alpha_warmup, o.warmup_steps, o.beta, o.window, o.max_active, o.lock_steps, o.safe_steps};
}

// Calls f with the controller that the options describe.
template <class Function> auto with_controller(reference_options const& o, Function f) {
  gnmr_options const options = options_of(o);
  loft::exponential const exponential{o.rate};
  loft::windowed const windows{static_cast<std::int64_t>(o.length)};
  if (o.history == mean_of::exponential) return f(gnmr<loft::exponential>{options, exponential});
  if (o.history == mean_of::windows) return f(gnmr<loft::windowed>{options, windows});
  if (!o.jumps) return f(gnmr<loft::arithmetic_mean, loft::ratio_alone>{options});
  return f(gnmr<>{options});
}

bool same_bits(double a, double b) { return loft::bit_cast<std::uint64_t>(a) == loft::bit_cast<std::uint64_t>(b); }

// Runs the library and the reference side by side and counts the steps that differ in anything; units join on the way.
int differing_steps(std::string const& kind, reference_options const& o, std::uint64_t seed, std::size_t steps = 60) {
  return with_controller(o, [&](auto const& controller) {
    std::mt19937_64 random{seed};
    units now(5);
    std::vector<reference_unit> expected(5);
    int differing = 0;
    for (std::size_t t = 0; t < steps; ++t) {
      if (t == 25) now.resize(12), expected.resize(12);
      doubles norms, called;
      for (std::size_t i = 0; i < now.size(); ++i) norms.push_back(test::norm_of_kind(kind, i, t, random));
      auto const act = [&](std::int64_t unit, double risk) {
        called.push_back(static_cast<double>(unit) + 0 * (risk > 0));
      };
      gnmr_report const got = controller.step(now, norms, act);
      auto const right = test::reference_step(expected, norms, o);
      bool same = got.outcome == status::ok && got.triggered == right.triggered && got.active == right.active &&
                  got.evicted == right.evicted && got.nonfinite == right.nonfinite &&
                  got.budget_hit == right.budget_hit;
      doubles active;
      for (std::size_t i = 0; i < now.size(); ++i) {
        same = same && same_bits(now[i].risk, expected[i].risk) && now[i].active == expected[i].active &&
               now[i].lock == expected[i].lock && now[i].steps == expected[i].steps &&
               now[i].count == static_cast<std::int64_t>(expected[i].norms.size());
        if (expected[i].active) active.push_back(static_cast<double>(i));
      }
      differing += !same || called != active;
    }
    return differing;
  });
}

reference_options random_options(std::mt19937_64& random) {
  double const thresholds[] = {0.4, 0.9, 1.0, 1.1, 1.5, 3.0};
  reference_options o;
  o.alpha = thresholds[random() % 6], o.alpha_warmup = thresholds[random() % 6], o.beta = thresholds[random() % 6];
  o.warmup_steps = static_cast<std::int64_t>(random() % 3 * 5), o.safe_steps = random() % 3 == 0 ? 4 : 0;
  o.window = 1 + static_cast<int>(random() % 16), o.max_active = static_cast<int>(random() % 7);
  o.lock_steps = static_cast<int>(random() % 4);
  o.history = static_cast<mean_of>(random() % 3);
  o.rate = 0.25, o.length = 1 + random() % 8;
  o.jumps = o.history != mean_of::all || random() % 4 != 0;
  return o;
}

// One unit, one norm a step: the risk of each step.
doubles risks_of(gnmr_options const& o, doubles const& norms, units* last = nullptr) {
  units one(1);
  doubles risks;
  for (double const n : norms) {
    (void)gnmr<>{o}.step(one, doubles{n}, ignore);
    risks.push_back(one[0].risk);
  }
  if (last != nullptr) *last = one;
  return risks;
}

}  // namespace

TEST_CASE("every decision equals the reference, whatever the sequence and the options") {
  std::mt19937_64 random{2606};
  for (char const* const kind : test::sequence_kinds) {
    for (int i = 0; i < 40; ++i) {
      CAPTURE(kind);
      CAPTURE(i);
      CHECK(differing_steps(kind, random_options(random), random()) == 0);
    }
  }
  reference_options wrong;
  wrong.mistake = true;  // the comparison can fail
  CHECK(differing_steps("noise", wrong, 1) > 30);
}

TEST_CASE("worked examples") {
  gnmr_options const ratio_only{.alpha = 1, .beta = 1e9};
  CHECK(risks_of(ratio_only, {1, 2, 3, 6}) == doubles{1, 2, 2, 3});  // 6 over the mean of 1, 2, 3
  units last;
  CHECK(risks_of(ratio_only, {1, 1, 1, 1, not_a_number, 1}, &last) == doubles{1, 1, 1, 1, infinite, 1});
  CHECK(last[0].mean == 1);
  CHECK(last[0].nonfinite == 1);
  CHECK(risks_of(ratio_only, {1, 1, 1, 1, infinite, 1}) == doubles{1, 1, 1, 1, infinite, 1});
  CHECK(risks_of(ratio_only, {0, 0, 0, 1, 3}) == doubles{1, 1, 1, 1, 3});
  CHECK(risks_of(ratio_only, {0, 0, 0, 0}, &last) == doubles{1, 1, 1, 1});
  CHECK(last[0].count == 0);
  CHECK(risks_of(ratio_only, {3, 0, 0, 1.5}) == doubles{1, 1 / 1e9, 1 / 1e9, 1.5});  // once awake, zeros count
  // Ratios 1, 1, 4, 0.5; the jump of the fourth step is 0.5 over the mean of 1 and 4, of the third 4 over 1.
  CHECK(risks_of({.alpha = 1e9, .beta = 1, .window = 2}, {2, 2, 8, 2}) == doubles{1, 1, 4, 0.5 / 2.5});
  // The second threshold holds for the first two steps, the broken one included.
  CHECK(risks_of({.alpha = 1, .alpha_warmup = 2, .warmup_steps = 2, .beta = 1e9}, {1, not_a_number, 1, 2}) ==
        doubles{0.5, infinite, 1, 2});
}

TEST_CASE("the published choice: budget, lock, eviction") {
  gnmr<> const c{{.alpha = 2, .beta = 1e9, .max_active = 1, .lock_steps = 2}};
  units u(3);
  (void)c.step(u, doubles{1, 1, 1}, ignore);
  auto report = c.step(u, doubles{5, 1, 1}, ignore);
  CHECK(report.active == 1);
  CHECK(u[0].lock == 2);
  report = c.step(u, doubles{1, 1, 1}, ignore);  // a locked unit keeps its place while nobody is worse
  CHECK(u[0].active);
  CHECK(u[0].lock == 1);
  report = c.step(u, doubles{1, 1, 9}, ignore);  // and loses it, with its lock, to one that triggers
  CHECK(!u[0].active);
  CHECK(u[0].lock == 0);
  CHECK(u[2].active);
  CHECK(report.evicted == 1);
  CHECK(report.budget_hit);
  CHECK(u[0].evicted == 1);
  CHECK(u[0].activated == 2);
  CHECK(u[0].triggered == 1);
}

TEST_CASE("laws: the budget holds, the evicted are unlocked, the chosen are the worst") {
  std::mt19937_64 random{17};
  for (int run = 0; run < 200; ++run) {
    reference_options o = random_options(random);
    o.safe_steps = 0;
    with_controller(o, [&](auto const& controller) {
      units now(9);
      for (std::size_t t = 0; t < 40; ++t) {
        doubles norms;
        for (std::size_t i = 0; i < 9; ++i)
          norms.push_back(test::norm_of_kind(test::sequence_kinds[run % 10], i, t, random));
        units const before = now;
        auto const report = controller.step(now, norms, ignore);
        CHECK(report.active <= o.max_active);
        double least_chosen = infinite, largest_refused = 0;
        int candidates = 0;
        for (std::size_t i = 0; i < 9; ++i) {
          bool const candidate = now[i].risk > 1 || before[i].lock > 0;
          candidates += candidate;
          if (!now[i].active) CHECK(now[i].lock == 0);
          if (now[i].active) CHECK(candidate);
          if (now[i].active) least_chosen = std::min(least_chosen, now[i].risk);
          else if (candidate) largest_refused = std::max(largest_refused, now[i].risk);
        }
        CHECK(report.active == std::min(candidates, o.max_active));
        if (report.active > 0) CHECK(least_chosen >= largest_refused);
      }
    });
  }
}

TEST_CASE("under the cap no other choice has a larger sum of risks") {
  std::mt19937_64 random{4};
  for (int run = 0; run < 100; ++run) {
    int const budget = static_cast<int>(random() % 5);
    gnmr<> const c{{.alpha = 0.5, .beta = 0.5, .max_active = budget}};
    units u(8);
    doubles ones(8, 1.0), norms;
    (void)c.step(u, ones, ignore);
    for (int i = 0; i < 8; ++i) norms.push_back(std::ldexp(static_cast<double>(random() % 1024), -8));
    (void)c.step(u, norms, ignore);
    double chosen = 0, best = 0;
    for (auto const& unit : u) chosen += unit.active ? unit.risk : 0;
    for (unsigned set = 0; set < 256; ++set) {
      double sum = 0;
      int members = 0;
      for (unsigned i = 0; i < 8; ++i)
        if ((set >> i & 1) != 0 && u[i].risk > 1) sum += u[i].risk, ++members;
      if (members <= budget) best = std::max(best, sum);
    }
    CHECK(chosen == best);  // the sums are exact
  }
}

TEST_CASE("ties go to the lower unit, at every place of the order") {
  for (int budget = 0; budget <= 6; ++budget) {
    gnmr<> const c{{.alpha = 2, .beta = 1e9, .max_active = budget}};
    units u(6);
    (void)c.step(u, doubles(6, 1.0), ignore);
    (void)c.step(u, doubles{4, 8, 4, 4, 8, 4}, ignore);
    std::size_t const order[] = {1, 4, 0, 2, 3, 5};
    for (int place = 0; place < 6; ++place) CHECK(u[order[place]].active == (place < budget));
  }
}

TEST_CASE("the order of the units does not matter, ties apart") {
  std::mt19937_64 random{23};
  std::size_t const n = 40;
  std::vector<std::size_t> place(n);
  for (std::size_t i = 0; i < n; ++i) place[i] = i;
  std::shuffle(place.begin(), place.end(), random);
  gnmr<> const c{{.max_active = 5, .lock_steps = 2}};
  units a(n), b(n);
  for (std::size_t t = 0; t < 200; ++t) {
    doubles norms_a(n), norms_b(n);
    for (std::size_t i = 0; i < n; ++i) norms_a[i] = test::norm_of_kind("noise", i, t, random);
    for (std::size_t i = 0; i < n; ++i) norms_b[place[i]] = norms_a[i];
    (void)c.step(a, norms_a, ignore);
    (void)c.step(b, norms_b, ignore);
    int different = 0;
    for (std::size_t i = 0; i < n; ++i) different += a[i].active != b[place[i]].active || a[i].lock != b[place[i]].lock;
    CHECK(different == 0);
  }
}

TEST_CASE("the selection by digits finds any bound") {
  std::mt19937_64 random{31};
  for (int run = 0; run < 300; ++run) {
    std::size_t const n = 1 + random() % 60;
    units u(n);
    doubles risks;
    for (auto& unit : u) {  // keys that differ in some digits only
      std::uint64_t const mask = std::uint64_t{0xff} << (8 * (random() % 8)) | random() % 3;
      unit.risk = loft::bit_cast<double>(0x4000'0000'0000'0000u | (random() & mask & 0x3fff'ffff'ffff'ffffu));
      if (!(unit.risk < infinite)) unit.risk = infinite;
      risks.push_back(unit.risk);
    }
    std::sort(risks.rbegin(), risks.rend());
    std::size_t const budget = 1 + random() % n;
    std::uint64_t const any = loft::bit_cast<std::uint64_t>(u[0].risk);
    std::uint64_t differing = 0;
    for (auto const& unit : u) differing |= loft::bit_cast<std::uint64_t>(unit.risk) ^ any;
    for (auto& unit : u) unit.steps = 1;
    auto bound = loft::detail::find_bound(
        u, gnmr_options{}, {any, differing, static_cast<std::int64_t>(n), static_cast<std::int64_t>(budget)});
    doubles chosen;
    for (auto const& unit : u)
      if (bound.has_place(loft::bit_cast<std::uint64_t>(unit.risk))) chosen.push_back(unit.risk);
    std::sort(chosen.rbegin(), chosen.rend());
    CHECK(chosen == doubles(risks.begin(), risks.begin() + static_cast<std::ptrdiff_t>(budget)));
  }
}

TEST_CASE("risks of the user stand beside the others") {
  gnmr<> const c{{.max_active = 2}};
  units u(5), plain(5);
  doubles const ones(5, 1.0);
  (void)c.step(plain, ones, ignore);
  auto const report = c.step(u, ones, doubles{0.5, 3, -infinite, -not_a_number, 1}, ignore);
  CHECK(report.triggered == 2);
  CHECK(u[0].risk == plain[0].risk);
  CHECK(u[1].risk == 3);
  CHECK(u[2].risk == plain[2].risk);
  CHECK(u[3].risk == infinite);
  CHECK(u[4].risk == 1);
  CHECK(!u[4].active);
  CHECK(u[3].mean == 1);  // the norm was good, and counts
  CHECK(u[1].active);
  CHECK(u[3].active);
  units const before = u;
  CHECK(c.step(u, ones, doubles{1, 1}, ignore).outcome == status::norm_count_mismatch);
  CHECK(loft::state_hash(u) == loft::state_hash(before));
  CHECK(c.step(u, ones, doubles{}, ignore).outcome == status::ok);
}

TEST_CASE("first steps on the safe path stand outside the budget") {
  gnmr<> const c{{.alpha = 0.9, .max_active = 1, .safe_steps = 3}};
  units u(4);
  for (int t = 1; t <= 5; ++t) {
    if (t == 4) u.resize(5);  // a unit that joins has its own first steps
    auto const report = c.step(u, doubles(u.size(), 1.0), ignore);
    CHECK(report.active == (t <= 3 ? 4 : 2));
    CHECK(report.budget_hit == (t > 3));
    CHECK(report.triggered == static_cast<int>(u.size()));
  }
  CHECK(u[4].active);
}

TEST_CASE("both forms of the action are called in unit order") {
  gnmr<> const c{{.alpha = 2, .beta = 1e9, .max_active = 2}};
  units u(4);
  (void)c.step(u, doubles(4, 1.0), ignore);
  std::vector<std::pair<std::int64_t, double>> calls;
  (void)c.step(u, doubles{1, 6, 1, 4}, [&](std::int64_t unit, double risk) { calls.emplace_back(unit, risk); });
  CHECK(calls == std::vector<std::pair<std::int64_t, double>>{{1, 3.0}, {3, 2.0}});
  std::string paths;
  (void)c.step(u, doubles{1, 1, 1, 9}, [&](std::int64_t unit, double, loft::gnmr_path path) {
    paths += std::to_string(unit) + (path == loft::gnmr_path::safe ? "+" : "-");
  });
  CHECK(paths == "0-1+2-3+");  // unit 1 by its lock
}

TEST_CASE("a step throws what the action throws, and is noexcept only where the action is") {
  gnmr<> const c{{.safe_steps = 1}};
  units u(2);
  auto const throws = [](int unit, double) { throw unit; };
  auto const quiet = [](int, double) noexcept {};
  auto const quiet_for_all = [](int, double, loft::gnmr_path) noexcept {};
  std::span<double const> const norms{};
  static_assert(!noexcept(c.step(std::span{u}, norms, throws)) &&
                !noexcept(c.step(std::span{u}, norms, norms, throws)));
  static_assert(noexcept(c.step(std::span{u}, norms, quiet))&& noexcept(c.step(std::span{u}, norms, norms, quiet)));
  static_assert(noexcept(c.step(std::span{u}, norms, quiet_for_all)));
  CHECK_THROWS_AS((void)c.step(u, doubles{1, 1}, throws), int);
}

TEST_CASE("a bad option is a status of every call, and changes nothing") {
  auto const refused = [](auto const& controller, status why) {
    units u(2);
    std::vector<std::byte> bytes(1000, std::byte{0xa5});
    int calls = 0;
    auto const report = controller.step(u, doubles{1, not_a_number}, [&](std::int64_t, double) { ++calls; });
    CHECK(report.outcome == why);
    CHECK(report.triggered + report.active + report.evicted + report.nonfinite + calls == 0);
    CHECK(loft::state_hash(u) == loft::state_hash(units(2)));
    CHECK(controller.check() == why);
    CHECK(controller.save(u, bytes) == why);
    CHECK(controller.restore(bytes, u) == why);
    CHECK(bytes == std::vector<std::byte>(1000, std::byte{0xa5}));
    CHECK(loft::message(why) != loft::message(status::ok));
  };
  for (double const bad : {0.0, -0.0, -1.0, not_a_number, infinite, -infinite}) {
    refused(gnmr<>{{.alpha = bad}}, status::invalid_alpha);
    refused(gnmr<>{{.alpha_warmup = bad}}, status::invalid_alpha);
    refused(gnmr<>{{.beta = bad}}, status::invalid_beta);
    refused(gnmr<loft::exponential>{{}, {bad}}, status::invalid_history);
  }
  for (int const bad : {0, -1, 17}) refused(gnmr<>{{.window = bad}}, status::invalid_window);
  refused(gnmr<>{{.max_active = -1}}, status::invalid_budget);
  refused(gnmr<>{{.lock_steps = -1}}, status::invalid_lock);
  refused(gnmr<>{{.warmup_steps = -1}}, status::invalid_warmup);
  refused(gnmr<>{{.safe_steps = -1}}, status::invalid_warmup);
  refused(gnmr<loft::exponential>{{}, {1.5}}, status::invalid_history);
  refused(gnmr<loft::windowed>{{}, {0}}, status::invalid_history);
  CHECK(gnmr<>{{.alpha = 0.4, .window = 16, .max_active = 0, .lock_steps = 0}}.check() == status::ok);
}

TEST_CASE("norms and units must be as many") {
  units u(3);
  for (std::size_t const count : {0u, 2u, 4u}) {
    CHECK(gnmr<>{{}}.step(u, doubles(count, 1.0), ignore).outcome == status::norm_count_mismatch);
    CHECK(loft::state_hash(u) == loft::state_hash(units(3)));
  }
  auto const report = gnmr<>{{}}.step(std::span<gnmr_unit>{}, std::span<double const>{}, ignore);
  CHECK(report.outcome == status::ok);
  CHECK(!report.budget_hit);
}

TEST_CASE("ranks that sum their partials decide alike, and a NaN on one of them is seen by all") {
  constexpr std::size_t layers = 6, size = 4000;
  for (std::size_t const ranks : {2u, 4u}) {
    gnmr<> const c{{.max_active = 2, .lock_steps = 2}};
    std::vector<units> of_rank(ranks, units(layers));
    std::mt19937_64 random{ranks};
    for (int step = 0; step < 30; ++step) {
      std::vector<loft::norm_partial> sums(layers);
      for (std::size_t r = 0; r < ranks; ++r) {
        std::vector<std::vector<float>> gradients(layers, std::vector<float>(size / ranks));
        std::vector<loft::norm_input<float>> tensors;
        for (auto& g : gradients) {
          float const scale = random() % 10 == 0 ? 5.0f : 1.0f;
          for (float& x : g) x = scale * (static_cast<float>(random() % 2001) - 1000);
          tensors.push_back({g.data(), static_cast<std::int64_t>(g.size())});
        }
        if (step == 20 && r == ranks - 1) gradients[3][7] = std::numeric_limits<float>::quiet_NaN();
        std::vector<loft::norm_partial> partials(layers);
        REQUIRE(loft::partial_norms<float>(tensors, partials) == status::ok);
        for (std::size_t i = 0; i < layers; ++i) sums[i] = sums[i] + partials[i];  // what an all-reduce does
      }
      for (units& u : of_rank) {
        doubles norms(layers);
        REQUIRE(loft::norms_of(sums, norms) == status::ok);
        auto const report = c.step(u, norms, ignore);
        CHECK(report.nonfinite == (step == 20 ? 1 : 0));
        if (step == 20) CHECK(u[3].active);
        CHECK(loft::state_hash(u) == loft::state_hash(of_rank[0]));
      }
    }
  }
}

TEST_CASE("units of another window, copied past the restore, stay in their ring") {
  units u(1);
  for (int t = 0; t < 15; ++t) (void)gnmr<>{{.window = 16}}.step(u, doubles{1}, ignore);
  for (int t = 0; t < 300; ++t) {
    (void)gnmr<>{{.window = 4}}.step(u, doubles{1}, ignore);
    CHECK(u[0].next < 4);
  }
  CHECK(u[0].filled == 4);
}

TEST_CASE("compile time and run time agree") {
  constexpr auto run = [] {
    gnmr<> const c{{.alpha = 1.25, .window = 2, .max_active = 2, .lock_steps = 3}};
    gnmr_unit u[4];
    double norms[4] = {0, 1, 2, 3};
    std::uint64_t hash = 0;
    for (int t = 0; t < 12; ++t) {
      for (int i = 0; i < 4; ++i) norms[i] = 1.0 + static_cast<double>((i + 1) * (t + 3) * 7 % 11) / 3.0;
      (void)c.step(u, norms, [](std::int64_t, double) {});
      hash = hash * 31 + loft::state_hash(u);
    }
    return hash;
  };
  constexpr std::uint64_t compiled = run();
  CHECK(run() == compiled);
}
