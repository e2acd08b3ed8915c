// SPDX-License-Identifier: Apache-2.0
// The study of all recipes side by side.
#include <algorithm>
#include <ostream>

#include "char_gpt/studies/studies.hpp"
#include "char_gpt/studies/trials.hpp"

namespace char_gpt {
namespace {

std::string noise_of(trial const& t, slot at) {
  std::vector<double> values;
  for (auto const& r : t.results) {
    auto const& entry = r.quantization.slots[at];
    if (entry.tensors != 0) values.push_back(entry.decibels / entry.tensors);
  }
  return values.empty() ? "-" : fixed(summary(values).mean, 1);
}

}  // namespace

void study_league(options const& o, split_text const& text, std::ostream& out) {
  std::vector<trial> trials;
  auto const add = [&](std::string const& name, std::string const& recipe, architecture arch) {
    trials.push_back({{name}, find_recipe(recipe, "--recipes"), o});
    set_architecture(trials.back().how, arch);
  };
  for (auto const& name : o.recipes) {
    bool const unit = name == "nvfp4_ngpt" && o.shape.arch == architecture::gpt;  // it is for networks of unit norms
    if (unit) add("fp32, nGPT", "fp32", architecture::ngpt);
    add(unit ? name + ", nGPT" : name, name, unit ? architecture::ngpt : o.shape.arch);
  }
  train_all(o, text, trials);
  auto const base_of = [&](trial const& t) {  // float, of the same architecture
    return std::find_if(trials.begin(), trials.end(), [&](trial const& other) {
      return other.what.name == "fp32" && other.how.shape.arch == t.how.shape.arch;
    });
  };
  std::vector<row> rows{{"recipe", "bits", "validation loss", "gap to fp32", "SQNR W", "SQNR X", "SQNR dY"}};
  std::vector<dots> shown;
  for (auto const& t : trials) {
    auto const base = base_of(t);
    bool const compares = base != trials.end() && t.what.name != "fp32";
    auto const& q = t.results.front().quantization;
    rows.push_back({t.labels.front(), fixed(q.bits / q.elements, 2), mean_of(final_losses(t), 4),
                    compares ? mean_of(gaps(t, *base), 2) + " %" : "-", noise_of(t, fprop_right),
                    noise_of(t, fprop_left), noise_of(t, dgrad_left)});
    if (compares) shown.push_back({t.labels.front(), gaps(t, *base)});
  }
  out << aligned(rows) << "Mean and deviation over " << o.seeds << " seeds of " << o.steps
      << " steps. Bits: of an operand's element, codes and scales, over all six operands of all\n"
         "layers. Gap: of the loss to that of fp32 with the same seed and architecture. SQNR: of weights, activations "
         "and\ngradients, in dB.\n";
  if (!o.csv.empty()) write_file(o.csv, csv_of({"recipe"}, trials));
  if (!o.plot.empty()) write_file(o.plot, plot_dots("All recipes", "gap to fp32, per cent", shown));
}

}  // namespace char_gpt
