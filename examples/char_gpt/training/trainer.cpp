// SPDX-License-Identifier: Apache-2.0
// The training loop.
#include "char_gpt/training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "char_gpt/training/adamw.hpp"
#include "char_gpt/training/progress.hpp"

namespace char_gpt {
namespace {

using clock = std::chrono::steady_clock;

// Evaluations number their passes from here, training steps from 0: no two share a stream of stochastic rounding.
constexpr std::uint64_t first_evaluation_pass = std::uint64_t{1} << 32;

double seconds_since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

double evaluate(model<float>& gpt, std::vector<batch_of_text> const& batches) {
  double total = 0;
  for (std::size_t i = 0; i < batches.size(); ++i)
    total += gpt.forward(batches[i].tokens.data(), batches[i].targets.data(), first_evaluation_pass + i);
  return total / static_cast<double>(batches.size());
}

/// The time that a tenth of the steps beat: other work on the machine can only lengthen a step.
double undisturbed(std::vector<double> seconds) {
  auto const place = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 10);
  std::nth_element(seconds.begin(), place, seconds.end());
  return *place;
}

quantization_report measure(model<float>& gpt, batch_of_text const& batch) {
  quantization_report report;
  gpt.report_to(&report);
  gpt.forward(batch.tokens.data(), batch.targets.data(), first_evaluation_pass);
  gpt.backward();
  gpt.report_to(nullptr);
  return report;
}

/// The share of the training that is over before a step, as plans count it: all of it in a finish in safe recipes.
double progress_at(options const& o, int step) {
  double const share = static_cast<double>(step) / o.steps;
  return share >= o.finish_from ? 1 : share;
}

/// Gives each linear layer its recipe: the safe one where the controller says so, else that of the plan.
void choose_recipes(controller const& chooses, model<float>& gpt, trainee const& what, double progress) {
  for (std::size_t i = 0; i < gpt.linears().size(); ++i) {
    if (chooses.safe(i)) {
      gpt.use(i, *what.safe);
      continue;
    }
    auto place = gpt.place_of(i);
    auto const main = what.layers.at(place, progress);
    if (place.role == loft::layer_role::query_key) {
      place.role = loft::layer_role::value;
      auto const values = what.layers.at(place, progress);
      values == main ? gpt.use(i, main) : gpt.use(i, main, values);
    } else {
      gpt.use(i, main);
    }
  }
}

}  // namespace

result train(options const& o, split_text const& text, trainee const& what, thread_pool& pool) {
  auto const start = clock::now();
  auto const seed = static_cast<std::uint64_t>(o.seed);
  model<float> gpt{o.shape, what.layers.at({}, 0), pool, seed};
  controller chooses{what.who, gpt.linears().size()};
  adamw optimizer{gpt.tensors(), gpt.parameters().size(), o.weight_decay, *moment_format_of(o.adam_state), seed};
  random_batches batches{text.train, o.shape.batch_sizes(), seed};
  auto const validation = even_batches(text.validation, o.shape.batch_sizes(), o.eval_batches);
  progress line{what.name, o.steps, o.shape.batch_sizes().rows(), o.quiet};

  choose_recipes(chooses, gpt, what, progress_at(o, 0));
  bool const changes = what.who.who != chooser::none || what.layers.changes() || o.finish_from < 1;

  result r;
  r.recipe = what.name;
  r.units = gpt.linears().size();
  r.curve.push_back({0, std::numeric_limits<double>::quiet_NaN(), evaluate(gpt, validation)});
  std::vector<double> step_seconds;
  double total_loss = 0;
  for (int step = 0; step < o.steps && !r.diverged; ++step) {
    auto const batch = batches.next();
    auto const step_start = clock::now();
    double const loss = gpt.forward(batch.tokens.data(), batch.targets.data(), static_cast<std::uint64_t>(step));
    gpt.backward();
    optimizer.step(gpt.parameters(), gpt.gradients(), clip_factor(gpt.gradients(), o.clip),
                   learning_rate(o.learning_rate, step, o.steps, o.shape.arch), pool);
    gpt.constrain();
    if (what.who.who != chooser::none) r.steps.push_back(chooses.step(unit_norms(gpt)));
    if (changes) choose_recipes(chooses, gpt, what, progress_at(o, std::min(step + 1, o.steps - 1)));
    step_seconds.push_back(seconds_since(step_start));
    total_loss += loss;
    line.show(step + 1, loss);
    int const since = step + 1 - r.curve.back().step;
    if (since < o.eval_every && step + 1 < o.steps && std::isfinite(loss)) continue;
    r.curve.push_back({step + 1, total_loss / since, evaluate(gpt, validation)});
    total_loss = 0;
    r.diverged = !std::isfinite(loss) || !std::isfinite(r.curve.back().validation_loss);
  }
  r.quantization = measure(gpt, validation.front());
  if (what.measure) r.measured = what.measure(gpt);
  r.step_seconds = undisturbed(std::move(step_seconds));
  r.seconds = seconds_since(start);
  return r;
}

}  // namespace char_gpt
