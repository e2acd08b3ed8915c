// SPDX-License-Identifier: Apache-2.0
// GNMR once more, slow and plain: whole histories in vectors, std::sort for the choice. It includes nothing of the
// library. Also the sequences of norms that the tests run.
#ifndef LOFT_TESTS_GNMR_REFERENCE_HPP
#define LOFT_TESTS_GNMR_REFERENCE_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace test {

enum class mean_of { all, exponential, windows };

struct reference_options {
  double alpha = 1.1, alpha_warmup = 1.5, beta = 1.5;
  std::int64_t warmup_steps = 0, safe_steps = 0;
  int window = 5, max_active = 1, lock_steps = 1;
  mean_of history = mean_of::all;
  double rate = 0.01;
  std::size_t length = 100;
  bool jumps = true;
  bool mistake = false;  // compares a norm with a mean that holds it already
};

struct reference_unit {
  std::vector<double> norms, ratios;  // those that entered
  std::int64_t steps = 0;
  double risk = 0, risk_of_user = 0;
  int lock = 0;
  bool active = false;
};

struct reference_report {
  int triggered = 0, active = 0, evicted = 0, nonfinite = 0;
  bool budget_hit = false;
};

inline double plain_mean(std::vector<double> const& values, std::size_t first, std::size_t end) {
  double mean = 0;
  for (std::size_t i = first; i < end; ++i) mean += (values[i] - mean) / static_cast<double>(i - first + 1);
  return mean;
}

inline double reference_mean(std::vector<double> const& norms, reference_options const& o) {
  std::size_t const count = norms.size();
  if (o.history == mean_of::all) return plain_mean(norms, 0, count);
  if (o.history == mean_of::exponential) {
    double mean = norms[0];
    for (std::size_t i = 1; i < count; ++i) mean += o.rate * (norms[i] - mean);
    return mean;
  }
  std::size_t const full = count / o.length * o.length;  // norms in full windows
  if (full == 0) return plain_mean(norms, 0, count);
  double const older = plain_mean(norms, full - o.length, full);
  if (full == count) return older;
  double const newer = plain_mean(norms, full, count), n = static_cast<double>(o.length);
  double const m = static_cast<double>(count - full);
  return (older * n + newer * m) / (n + m);
}

inline double at_most_largest(double x) { return std::min(x, std::numeric_limits<double>::max()); }

inline void reference_observe(reference_unit& u, double norm, reference_options const& o) {
  ++u.steps;
  if (!(norm >= 0) || std::isinf(norm)) {
    u.risk = std::numeric_limits<double>::infinity();
    return;
  }
  std::vector<double> seen = u.norms;
  if (o.mistake) seen.push_back(norm);
  double const mean = seen.empty() ? 0 : reference_mean(seen, o);
  double const ratio = mean == 0 ? 1 : at_most_largest(norm / mean);
  double jump = 1;
  if (u.ratios.size() >= static_cast<std::size_t>(o.window)) {
    double sum = 0;
    for (std::size_t i = u.ratios.size() - static_cast<std::size_t>(o.window); i < u.ratios.size(); ++i)
      sum += u.ratios[i];
    double const usual = sum / o.window;
    if (usual != 0) jump = at_most_largest(ratio / usual);
  }
  u.risk = at_most_largest(ratio / (u.steps <= o.warmup_steps ? o.alpha_warmup : o.alpha));
  if (o.jumps) u.risk = std::max(u.risk, at_most_largest(jump / o.beta));
  if (std::isnan(u.risk_of_user)) u.risk = std::numeric_limits<double>::infinity();
  else u.risk = std::max(u.risk, u.risk_of_user);
  if (u.norms.empty() && norm == 0) return;
  u.norms.push_back(norm);
  u.ratios.push_back(ratio);
}

inline reference_report reference_step(std::vector<reference_unit>& units, std::vector<double> const& norms,
                                       reference_options const& o) {
  reference_report report;
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < units.size(); ++i) {
    reference_observe(units[i], norms[i], o);
    report.triggered += units[i].risk > 1;
    report.nonfinite += !(norms[i] >= 0) || std::isinf(norms[i]);
    if (units[i].steps > o.safe_steps && (units[i].risk > 1 || units[i].lock > 0)) candidates.push_back(i);
  }
  report.budget_hit = candidates.size() > static_cast<std::size_t>(o.max_active);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](std::size_t a, std::size_t b) { return units[a].risk > units[b].risk; });
  if (report.budget_hit) candidates.resize(static_cast<std::size_t>(o.max_active));
  for (std::size_t i = 0; i < units.size(); ++i) {
    reference_unit& u = units[i];
    bool const fresh = u.steps <= o.safe_steps;
    bool const active = fresh || std::find(candidates.begin(), candidates.end(), i) != candidates.end();
    report.active += active;
    report.evicted += u.active && !active;
    u.active = active;
    if (!active || fresh) u.lock = 0;
    else u.lock = u.risk > 1 ? o.lock_steps : std::max(u.lock - 1, 0);
  }
  return report;
}

/// Norms of many steps: the names of the kinds, and the kinds.
inline constexpr char const* sequence_kinds[] = {"noise",  "waking late", "plateaus",   "spikes in all", "ties",
                                                 "broken", "extremes",    "subnormals", "decay",         "all zero"};

inline double norm_of_kind(std::string const& kind, std::size_t unit, std::size_t step, std::mt19937_64& random) {
  double const uniform = static_cast<double>(random() >> 11) * 0x1p-53, noise = std::exp(4 * uniform - 2);
  if (kind == "waking late") return step < 3 * unit ? (unit % 2 == 0 ? 0.0 : -0.0) : noise;
  if (kind == "plateaus") return static_cast<double>(1 + step / 7 * (1 + unit % 3));
  if (kind == "spikes in all") return step % 9 == 8 ? 50 * noise : 1 + 0.01 * noise;
  if (kind == "ties") return std::ldexp(1.0, static_cast<int>(random() % 3));
  if (kind == "broken") {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    double const bad[] = {nan, -nan, inf, -inf, -1.0};
    return random() % 4 == 0 ? bad[random() % 5] : noise;
  }
  if (kind == "extremes") {
    double const values[] = {0.0, 1e-300, 1e300, std::numeric_limits<double>::max(), 1.0, 1e-12};
    return values[random() % 6];
  }
  if (kind == "subnormals") return static_cast<double>(random() % 5) * std::numeric_limits<double>::denorm_min();
  if (kind == "decay") return noise / static_cast<double>(step + 1);
  if (kind == "all zero") return 0;
  return noise;
}

}  // namespace test

#endif
