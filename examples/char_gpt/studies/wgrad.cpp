// SPDX-License-Identifier: Apache-2.0
// The study of the three products in MXFP4: which one costs what, and what mends the weights' gradient.
#include <algorithm>
#include <cmath>
#include <ostream>

#include "char_gpt/studies/studies.hpp"
#include "char_gpt/studies/trials.hpp"

namespace char_gpt {
namespace {

/// The recipes of the ladder, what they add, and what arXiv 2605.09825 says of the tokens they take.
struct rung {
  char const *recipe, *adds, *paper;
};
constexpr rung ladder[] = {
    {"mxfp4_fprop", "Fprop", "8-9 %"},
    {"mxfp4_fprop_dgrad", "+ Dgrad", "10-11 %"},
    {"mxfp4", "+ Wgrad", "26-27 %"},
    {"mxfp4_sr", "+ Wgrad, stochastic", "fails"},
    {"mxfp4_random_hadamard", "+ Wgrad, random signs", "fails"},
    {"mxfp4_hadamard", "+ Wgrad, Hadamard 16", "8-9 %"},
    {"mxfp4_hadamard32", "+ Wgrad, Hadamard 32", "8-9 %"},
};

/// Lengths of the trainings, in per cent of the steps; each has the whole schedule of the learning rate.
constexpr int lengths[] = {100, 120, 150};

trial trial_of(options const& o, char const* recipe, char const* adds, int length) {
  trial t{{recipe, adds, std::to_string(length)}, find_recipe(recipe, "the study"), o};
  t.how.steps = o.steps * length / 100;
  return t;
}

/// How much longer, in per cent, a training has to be until its mean loss comes down to `target`, from trainings of rising
/// length; between two lengths the loss is taken to fall evenly.
std::string extra_tokens(trial const* of_lengths, double target) {
  double before = 0;
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    double const loss = summary(final_losses(of_lengths[i])).mean;
    if (!std::isfinite(loss)) return "diverged";
    if (loss <= target) {
      double const share = i == 0 ? 0 : (before - target) / (before - loss);
      return fixed(i == 0 ? 0 : lengths[i - 1] - 100 + share * (lengths[i] - lengths[i - 1]), 0) + " %";
    }
    before = loss;
  }
  return "> " + std::to_string(std::end(lengths)[-1] - 100) + " %";
}

}  // namespace

void study_wgrad(options const& o, split_text const& text, std::ostream& out) {
  std::vector<trial> trials{trial_of(o, "fp32", "nothing", 100)};
  for (auto const& r : ladder)
    for (int const length : lengths) trials.push_back(trial_of(o, r.recipe, r.adds, length));
  train_all(o, text, trials);
  auto const& base = trials.front();
  double const target = summary(final_losses(base)).mean;
  std::vector<row> rows{{"recipe", "quantized", "validation loss", "gap", "extra tokens", "in the paper"},
                        {"fp32", "nothing", mean_of(final_losses(base), 4), "-", "-", "-"}};
  std::vector<dots> shown;
  for (std::size_t i = 0; i < std::size(ladder); ++i) {
    auto const* const of_lengths = &trials[1 + i * std::size(lengths)];
    rows.push_back({ladder[i].recipe, ladder[i].adds, mean_of(final_losses(of_lengths[0]), 4),
                    mean_of(gaps(of_lengths[0], base), 2) + " %", extra_tokens(of_lengths, target), ladder[i].paper});
    shown.push_back({ladder[i].recipe, gaps(of_lengths[0], base)});
  }
  out << aligned(rows) << "Mean and deviation over " << o.seeds << " seeds of " << o.steps
      << " steps. Gap: of the loss to that of fp32 with the same seed. Extra tokens: how much longer\n"
         "a training has to be until its mean loss is that of fp32, from trainings of 100, 120 and 150 % of the "
         "steps. The paper\ncounts tokens beyond FP8's, for Llama-3.1-8B.\n";
  if (!o.csv.empty()) write_file(o.csv, csv_of({"recipe", "quantized", "per_cent_of_steps"}, trials));
  if (!o.plot.empty()) write_file(o.plot, plot_dots("MXFP4 product by product", "gap to fp32, per cent", shown));
}

}  // namespace char_gpt
