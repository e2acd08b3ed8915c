// SPDX-License-Identifier: Apache-2.0
// What the studies of recipes share: trainings side by side over several seeds, their means, tables, CSV and plot.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "char_gpt/model/recipe_table.hpp"
#include "char_gpt/report/files.hpp"
#include "char_gpt/report/results.hpp"
#include "char_gpt/report/tables.hpp"
#include "char_gpt/training/options.hpp"
#include "char_gpt/training/text.hpp"
#include "char_gpt/training/trainer.hpp"

namespace char_gpt {

/// One kind of training. `labels` are its columns in the table and the CSV; `what` is trained with `how`, once a seed.
struct trial {
  std::vector<std::string> labels;
  named_plan what;
  options how;
  std::function<std::vector<double>(model<float>&)> measure{};  // of the trained model, for result::measured
  std::vector<result> results{};                                // one for each seed from how.seed on
};

/// Trains all, as many at a time as the options' threads; a training takes one thread. Results do not depend on it.
void train_all(options const& o, split_text const& text, std::vector<trial>& trials);

struct mean_and_deviation {
  double mean = 0, deviation = 0;  // of the sample; 0 for one value
};
mean_and_deviation summary(std::vector<double> const& values);

/// NaN where a training diverged.
double final_loss(result const& r) noexcept;
std::vector<double> final_losses(trial const& t);

/// Per cent by which the losses are above those of `base` with the same seeds.
std::vector<double> gaps(trial const& t, trial const& base);

/// "1.234 ± 0.005", or "diverged" where a value is not finite.
std::string mean_of(std::vector<double> const& values, int digits);

/// One line for each training: the labels, the seed, the losses.
std::string csv_of(std::vector<std::string> const& label_names, std::vector<trial> const& trials);

/// A dot for each value of a row, a bar at their mean. Values that are not finite are left out.
struct dots {
  std::string name;
  std::vector<double> values;
};
std::string plot_dots(std::string const& title, std::string const& unit, std::vector<dots> const& rows);

}  // namespace char_gpt
