// SPDX-License-Identifier: Apache-2.0
// The study of silent freeze: the linear layers' weights are stored in few bits, and the learning rate falls.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <loft/gnmr.hpp>
#include <loft/number.hpp>
#include <ostream>
#include <sstream>

#include "char_gpt/model/model.hpp"
#include "char_gpt/report/files.hpp"
#include "char_gpt/report/tables.hpp"
#include "char_gpt/studies/studies.hpp"
#include "char_gpt/training/adamw.hpp"

namespace char_gpt {
namespace {

constexpr double shares[] = {0.5, 0.75, 0.9, 0.99};
constexpr loft::recipe<> in_float;

/// Three decades down from the peak, after a warm-up over the first twentieth: every size of update has its time.
double falling_rate(double peak, int step, int steps) noexcept {
  int const warmup = std::max(1, steps / 20);
  if (step < warmup) return peak * (step + 1) / warmup;
  return peak * std::pow(10.0, -3.0 * (step - warmup) / std::max(1, steps - warmup));
}

struct outcome {
  std::string format;
  double loss = 0;
  std::vector<double> lost;         // the share of updates that rounding undid, at each step
  loft::update_counts at_forecast;  // at the step from which is predicted
};

/// One update of the linear layers as a store in F leaves it: `before` holds the weights that were stored.
template <class F> loft::update_counts store(model<float>& gpt, std::vector<float> const& before) {
  loft::update_counts counts;
  for (auto const& unit : gpt.linears()) {
    auto const weights =
        gpt.parameters().subspan(static_cast<std::size_t>(unit.begin), static_cast<std::size_t>(unit.size));
    auto const old = std::span{before}.subspan(static_cast<std::size_t>(unit.begin), weights.size());
    std::vector<float> updates(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) updates[i] = weights[i] - old[i];
    counts = counts + loft::count_updates<F>(old.data(), updates.data(), unit.size);
    for (auto& w : weights) w = loft::decode<F>(loft::encode<F>(w));
  }
  return counts;
}

/// The end of the warm-up, where the learning rate is at its peak.
int forecast_step(options const& o) { return std::max(1, o.steps / 20); }

template <class F>
outcome train_stored(options const& o, split_text const& text, thread_pool& pool, std::string const& name) {
  auto const seed = static_cast<std::uint64_t>(o.seed);
  model<float> gpt{o.shape, linear<float>{in_float}, pool, seed};
  adamw optimizer{gpt.tensors(), gpt.parameters().size(), o.weight_decay, *moment_format_of(o.adam_state), seed};
  random_batches batches{text.train, o.shape.batch_sizes(), seed};
  outcome result{name, 0, {}, {}};
  std::vector<float> before(gpt.parameters().begin(), gpt.parameters().end());
  store<F>(gpt, before);
  for (int step = 0; step < o.steps; ++step) {
    auto const batch = batches.next();
    gpt.forward(batch.tokens.data(), batch.targets.data(), static_cast<std::uint64_t>(step));
    gpt.backward();
    before.assign(gpt.parameters().begin(), gpt.parameters().end());
    optimizer.step(gpt.parameters(), gpt.gradients(), clip_factor(gpt.gradients(), o.clip),
                   falling_rate(o.learning_rate, step, o.steps), pool);
    gpt.constrain();
    auto const counts = store<F>(gpt, before);
    result.lost.push_back(counts.lost / std::max(1.0, counts.updates));
    if (step == forecast_step(o)) result.at_forecast = counts;
  }
  auto const validation = even_batches(text.validation, o.shape.batch_sizes(), o.eval_batches);
  for (auto const& batch : validation)
    result.loss += gpt.forward(batch.tokens.data(), batch.targets.data(), 0) / static_cast<double>(validation.size());
  return result;
}

/// The first step from that of the forecast on at which a share of the updates was lost.
int observed_step(options const& o, outcome const& r, double share) {
  int step = forecast_step(o);
  while (step < o.steps && r.lost[static_cast<std::size_t>(step)] < share) ++step;
  return step;
}

int predicted_step(options const& o, outcome const& r, double share) {
  int const from = forecast_step(o);
  auto const rate = [&](std::int64_t step) { return falling_rate(o.learning_rate, static_cast<int>(step), o.steps); };
  return static_cast<int>(loft::freeze_step(r.at_forecast, share, rate(from), rate, from, o.steps));
}

}  // namespace

void study_freeze(options const& o, split_text const& text, thread_pool& pool, std::ostream& out) {
  auto const in_full = train_stored<loft::fp32>(o, text, pool, "fp32");  // the updates are float: it loses none
  std::vector<outcome> const results{train_stored<loft::bf16>(o, text, pool, "bf16"),
                                     train_stored<loft::e4m3>(o, text, pool, "fp8 e4m3")};
  std::vector<row> rows{{"weights in", "validation loss", "share lost", "predicted step", "observed step"},
                        {in_full.format, fixed(in_full.loss, 4), "-", "-", "-"}};
  auto const spelt = [&](int step) {
    return step == o.steps ? "never" : step == forecast_step(o) ? "at once" : std::to_string(step);
  };
  std::ostringstream csv;
  csv << "format,step,lost_share\n" << std::setprecision(9);
  for (auto const& r : results) {
    for (double const share : shares)
      rows.push_back({r.format, fixed(r.loss, 4), fixed(100 * share, 0) + " %", spelt(predicted_step(o, r, share)),
                      spelt(observed_step(o, r, share))});
    for (std::size_t step = 0; step < r.lost.size(); ++step)
      csv << r.format << ',' << step << ',' << r.lost[step] << '\n';
  }
  out << aligned(rows) << "Predicted at step " << forecast_step(o) << " of " << o.steps
      << " from the updates of that step alone; observed: the first step from there on that loses the share.\n";
  if (!o.csv.empty()) write_file(o.csv, csv.str());
}

}  // namespace char_gpt
