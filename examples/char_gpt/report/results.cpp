// SPDX-License-Identifier: Apache-2.0
// The tables and the CSV of a comparison.
#include "char_gpt/report/results.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "char_gpt/report/tables.hpp"

namespace char_gpt {

double recovered_share(result const& r) noexcept {
  double active = 0;
  for (auto const& step : r.steps) active += step.active;
  return r.steps.empty() ? 0 : active / static_cast<double>(r.steps.size() * r.units);
}

double budget_hit_share(result const& r) noexcept {
  double hits = 0;
  for (auto const& step : r.steps) hits += step.budget_hit ? 1 : 0;
  return r.steps.empty() ? 0 : hits / static_cast<double>(r.steps.size());
}

namespace {

result const* find_float(std::span<result const> results) {
  auto const found = std::find_if(results.begin(), results.end(), [](auto const& r) { return r.recipe == "fp32"; });
  return found == results.end() || found->diverged ? nullptr : &*found;
}

std::string noise(result const& r, slot at) {
  auto const& entry = r.quantization.slots[at];
  return entry.tensors == 0 ? "-" : fixed(entry.decibels / entry.tensors, 1);
}

bool has_steps(std::span<result const> results) {
  return std::any_of(results.begin(), results.end(), [](auto const& r) { return !r.steps.empty(); });
}

/// What the controller counted in one step, as the last columns of the CSV; empty ones where there is none.
std::string counts_of(result const& r, int step) {
  if (step == 0 || r.steps.empty()) return ",,,,,";
  auto const& s = r.steps[static_cast<std::size_t>(step - 1)];
  std::string out;
  for (int const count : {s.triggered, s.active, s.evicted, s.nonfinite, s.budget_hit ? 1 : 0})
    out += ',' + std::to_string(count);
  return out;
}

}  // namespace

std::string table(std::span<result const> results) {
  auto const* const base = find_float(results);
  bool const controlled = has_steps(results);
  std::vector<row> rows{
      {"recipe", "bits", "train loss", "validation loss", "gap to fp32", "SQNR W", "SQNR X", "SQNR dY"}};
  if (controlled) rows.front().insert(rows.front().end(), {"safe path", "budget hit"});
  for (auto const& r : results) {
    auto const& last = r.curve.back();
    std::string gap = "-";
    if (base != nullptr && !r.diverged)
      gap = fixed(100 * (last.validation_loss / base->curve.back().validation_loss - 1), 2) + " %";
    rows.push_back({r.recipe, fixed(r.quantization.bits / r.quantization.elements, 2),
                    r.diverged ? "diverged" : fixed(last.train_loss, 4),
                    r.diverged ? "diverged" : fixed(last.validation_loss, 4), gap, noise(r, fprop_right),
                    noise(r, fprop_left), noise(r, dgrad_left)});
    if (!controlled) continue;
    bool const has = !r.steps.empty();
    rows.back().push_back(has ? fixed(100 * recovered_share(r), 2) + " %" : "-");
    rows.back().push_back(has ? fixed(100 * budget_hit_share(r), 2) + " %" : "-");
  }
  return aligned(rows) +
         "bits: of an operand's element, codes and scales. Losses: nats a byte; train: mean since the last "
         "evaluation.\n"
         "SQNR: signal to quantization noise, in dB, of weights, activations and gradients of the trained model as "
         "Fprop and\n"
         "Dgrad read them; the mean of the dB over all quantized layers.\n" +
         (controlled ? "Safe path: of a linear layer's steps, those with the safe recipe; budget hit: of all steps.\n"
                     : "");
}

std::string times(std::span<result const> results) {
  auto const* const base = find_float(results);
  std::vector<row> rows{{"recipe", "seconds", "ms a step", "step against fp32"}};
  for (auto const& r : results)
    rows.push_back({r.recipe, fixed(r.seconds, 1), fixed(1000 * r.step_seconds, 1),
                    base == nullptr ? "-" : fixed(r.step_seconds / base->step_seconds, 2) + " x"});
  return aligned(rows);
}

std::string csv(std::span<result const> results) {
  std::ostringstream out;
  bool const controlled = has_steps(results);
  out << "recipe,step,train_loss,validation_loss"
      << (controlled ? ",triggered,active,evicted,nonfinite,budget_hit" : "") << '\n'
      << std::setprecision(9);
  for (auto const& r : results) {
    int last = -1;
    for (auto const& point : r.curve) {
      for (int step = last + 1; controlled && step < point.step && !r.steps.empty(); ++step)
        if (step > 0) out << r.recipe << ',' << step << ",," << counts_of(r, step) << '\n';
      last = point.step;
      out << r.recipe << ',' << point.step << ',';
      if (point.step != 0) out << point.train_loss;  // no step has been taken at 0
      out << ',' << point.validation_loss << (controlled ? counts_of(r, point.step) : "") << '\n';
    }
  }
  return out.str();
}

}  // namespace char_gpt
