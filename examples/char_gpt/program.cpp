// SPDX-License-Identifier: Apache-2.0
// Options, text, one training for each recipe, and the reports.
#include "char_gpt/program.hpp"

#include <exception>
#include <filesystem>
#include <ostream>
#include <vector>

#include "char_gpt/command_line.hpp"
#include "char_gpt/model/recipe_table.hpp"
#include "char_gpt/report/files.hpp"
#include "char_gpt/report/results.hpp"
#include "char_gpt/studies/studies.hpp"
#include "char_gpt/support/errors.hpp"
#include "char_gpt/training/trainer.hpp"

namespace char_gpt {
namespace {

std::vector<std::uint8_t> read_text_of(options const& o) {
  std::error_code ignored;
  if (o.text == default_text && !std::filesystem::exists(o.text, ignored))
    throw usage_error{"there is no text to learn: install the Debian package dict-jargon, or name a file with --text"};
  return read_text(o.text);
}

/// A recipe that is as good as the safe one has nothing to be moved to.
control control_of(options const& o, std::string const& recipe) {
  if (o.controller == "none" || recipe == o.safe || recipe == "fp32" || recipe == "bf16") return {};
  return {.who = chooser::gnmr, .options = {.alpha = o.alpha, .beta = o.beta, .max_active = budget_of(o)}};
}

void compare(options const& o, split_text const& text, thread_pool& pool, std::ostream& out, std::ostream& err) {
  std::vector<result> results;
  auto const safe = find_recipe(o.safe, "--safe").layers.at({}, 0);
  for (auto const& name : o.recipes)
    results.push_back(train(o, text, {name, find_recipe(name, "--recipes").layers, safe, control_of(o, name)}, pool));
  out << table(results) << std::flush;
  err << times(results) << std::flush;
  if (!o.csv.empty()) write_file(o.csv, csv(results));
  if (!o.plot.empty()) write_file(o.plot, plot(results));
}

void work(options const& o, std::ostream& out, std::ostream& err) {
  auto const bytes = read_text_of(o);
  auto const text = split(bytes, o.shape.context);
  thread_pool pool{o.threads};
  switch (o.what) {
    case task::compare:
      return compare(o, text, pool, out, err);
    case task::study_gnmr:
      return study_gnmr(o, text, pool, out);
    case task::study_freeze:
      return study_freeze(o, text, pool, out);
    case task::study_wgrad:
      return study_wgrad(o, text, out);
    case task::study_blocks:
      return study_blocks(o, text, out);
    case task::study_ngpt:
      return study_ngpt(o, text, out);
    case task::study_league:
      return study_league(o, text, out);
  }
}

}  // namespace

int run(int argc, char const* const* argv, std::ostream& out, std::ostream& err) {
  try {
    if (auto const o = parse_options(argc, argv, out)) work(*o, out, err);
    if (!out.flush()) throw std::runtime_error{"cannot write the table to the standard output"};
    return 0;
  } catch (usage_error const& error) {
    err << "char_gpt: " << error.what() << '\n';
    return 2;
  } catch (std::exception const& error) {
    err << "char_gpt: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace char_gpt
