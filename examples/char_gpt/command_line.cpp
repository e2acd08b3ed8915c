// SPDX-License-Identifier: Apache-2.0
// The command line, and what is refused before any work is done.
#include "char_gpt/command_line.hpp"

#include <algorithm>
#include <array>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <ostream>
#include <thread>

#include "char_gpt/model/recipe_table.hpp"
#include "char_gpt/report/files.hpp"
#include "char_gpt/report/tables.hpp"
#include "char_gpt/support/errors.hpp"
#include "char_gpt/training/moments.hpp"

namespace char_gpt {
namespace {

void require(bool holds, std::string const& sentence) {
  if (!holds) throw usage_error{sentence};
}

void require_within(char const* name, double value, double least, double most) {  // false for NaN
  require(value >= least && value <= most,
          std::string{name} + " must be from " + spelt(least) + " to " + spelt(most) + ", not " + spelt(value));
}

void check_recipes(options const& o) {
  require(!o.recipes.empty(), "--recipes names no recipe");
  for (auto const& name : o.recipes) {
    require(std::count(o.recipes.begin(), o.recipes.end(), name) == 1, "--recipes names '" + name + "' more than once");
    check_runs(find_recipe(name, "--recipes"), o.shape);
  }
}

/// Of controllers and studies.
void check_choices(options const& o) {
  require(o.controller == "none" || o.controller == "gnmr", "--controller must be none or gnmr, not " + o.controller);
  auto const& safe = find_recipe(o.safe, "--safe");
  if (o.controller == "gnmr") check_runs(safe, o.shape);
  require_within("--alpha", o.alpha, 1e-12, 1e12);
  require_within("--beta", o.beta, 1e-12, 1e12);
  require_within("--budget", o.budget, 0, 4000);
  require_within("--seeds", o.seeds, 1, 1000);
  for (int const bits : o.bits)
    require(bits >= 2 && bits <= 4, "--bits must be 2, 3 or 4, not " + std::to_string(bits));
  require(!o.bits.empty(), "--bits names no number");
  for (int const bits : o.bits)
    require(std::count(o.bits.begin(), o.bits.end(), bits) == 1,
            "--bits names " + std::to_string(bits) + " more than once");
}

void check(options const& o) {
  require_within("--layers", o.shape.layers, 1, 1000);
  require_within("--width", o.shape.width, 1, 65536);
  require_within("--heads", o.shape.heads, 1, 65536);
  require_within("--context", o.shape.context, 1, 65536);
  require_within("--batch", o.shape.batch, 1, 65536);
  require_within("--steps", o.steps, 1, 1e8);
  require_within("--eval-every", o.eval_every, 1, 1e8);
  require_within("--eval-batches", o.eval_batches, 1, 1e4);
  require_within("--threads", o.threads, 0, 256);
  require(o.seed >= 0, "--seed must not be negative, and is " + std::to_string(o.seed));
  require_within("--lr", o.learning_rate, 1e-12, 1);
  require_within("--weight-decay", o.weight_decay, 0, 1);
  require_within("--clip", o.clip, 1e-12, 1e12);
  require_within("--max-memory", o.max_memory, 0.001, 1e6);
  require_within("--finish-from", o.finish_from, 0, 1);
  require(o.arch == "gpt" || o.arch == "ngpt", "--arch must be gpt or ngpt, not '" + o.arch + "'");
  require(moment_format_of(o.adam_state).has_value(),
          "--adam-state must be fp32, bf16, fp8 or fp4, not '" + o.adam_state + "'");
  require(o.shape.width % o.shape.heads == 0, "--width must be a multiple of --heads, and " +
                                                  std::to_string(o.shape.width) + " is none of " +
                                                  std::to_string(o.shape.heads));
  double const gibibytes = training_bytes(o.shape, moment_bytes(*moment_format_of(o.adam_state))) / (1 << 30);
  require(gibibytes <= o.max_memory, "a model of this size needs " + spelt(gibibytes) +
                                         " GiB of memory, above --max-memory " + spelt(o.max_memory));
  check_choices(o);
  if (o.what == task::compare || o.what == task::study_league) check_recipes(o);
  for (auto const* path : {&o.csv, &o.plot})
    if (!path->empty()) check_writable(*path);
  auto const canonical = [](std::string const& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(path, ignored);
  };
  require(o.csv.empty() || o.plot.empty() || canonical(o.csv) != canonical(o.plot),
          "--csv and --plot name the same file, '" + o.csv + "'");
  std::error_code ignored;
  for (auto const* path : {&o.csv, &o.plot})
    require(path->empty() || !std::filesystem::equivalent(*path, o.text, ignored),
            "'" + *path + "' is the text to learn and must not be replaced");
}

/// What every training has.
void declare_training(CLI::App& app, options& o) {
  app.option_defaults()->always_capture_default();
  app.add_option("--text", o.text, "text to learn, plain or gzip");
  app.add_option("--steps", o.steps, "training steps");
  app.add_option("--seed", o.seed, "seed of weights, batches and stochastic rounding");
  app.add_option("--csv", o.csv, "write what the table is made from to this file");
  app.add_option("--arch", o.arch,
                 "gpt, or ngpt: weights and states of norm 1, its own --lr and --weight-decay, no warm-up");
  app.add_option("--adam-state", o.adam_state,
                 "AdamW's moments: fp32, bf16, fp8 or fp4, of 8, 4, 2.1 or 1.1 bytes a parameter");
  app.add_option("--layers", o.shape.layers, "transformer layers");
  app.add_option("--width", o.shape.width, "width of the residual stream");
  app.add_option("--heads", o.shape.heads, "attention heads");
  app.add_option("--context", o.shape.context, "bytes in a sequence");
  app.add_option("--batch", o.shape.batch, "sequences in a batch");
  app.add_option("--lr", o.learning_rate, "peak learning rate, that of GPT where a study trains both");
  app.add_option("--weight-decay", o.weight_decay, "weight decay of AdamW");
  app.add_option("--clip", o.clip, "largest norm of the gradients");
  app.add_option("--finish-from", o.finish_from,
                 "share of the steps from which on all layers take the safe recipe of their plan, 1 for never");
  app.add_option("--eval-every", o.eval_every, "steps between evaluations");
  app.add_option("--eval-batches", o.eval_batches, "batches of an evaluation");
  app.add_option("--threads", o.threads, "threads, 0 for one a core; results do not depend on it");
  app.add_option("--max-memory", o.max_memory, "refuse models that need more, in GiB");
  app.add_flag("--quiet", o.quiet, "no progress line");
}

void declare_plot(CLI::App& app, options& o) {
  app.add_option("--plot", o.plot, "write a plot of the validation loss (SVG) to this file");
}

void declare_comparison(CLI::App& app, options& o) {
  declare_training(app, o);
  declare_plot(app, o);
  app.add_option("--recipes", o.recipes, "LOFT recipes to compare, separated by commas")->delimiter(',');
  app.add_option("--controller", o.controller, "none, or gnmr: moves linear layers to a safe recipe and back");
  app.add_option("--safe", o.safe, "the safe recipe");
  app.add_option("--alpha", o.alpha, "gnmr's threshold of the ratio");
  app.add_option("--beta", o.beta, "gnmr's threshold of the jump");
  app.add_option("--budget", o.budget, "linear layers on the safe recipe at most, 0 for a quarter of them");
}

/// --arch, which leaves alone what the command line says.
void apply_architecture(CLI::App const& line, options& o) {
  auto const said = o;
  if (o.arch == "ngpt") set_architecture(o, architecture::ngpt);
  if (line.count("--lr") > 0) o.learning_rate = said.learning_rate;
  if (line.count("--weight-decay") > 0) o.weight_decay = said.weight_decay;
}

/// The studies have sizes of their own: many trainings that take minutes together.
options study_defaults(task what) {
  options o;
  o.what = what;
  o.shape = {.layers = 4, .width = 64, .heads = 2, .context = 32, .batch = 8};
  o.steps = 800;
  if (what == task::study_gnmr || what == task::study_freeze) o.threads = 1;
  if (what == task::study_freeze) o.learning_rate = 1e-2;
  if (what == task::study_league) {  // wide enough for every rotation, at a rate that suits the width
    o.shape.width = 128;
    o.shape.heads = 4;
    o.learning_rate = 1.5e-3;
    o.recipes.clear();
    for (auto const& recipe : all_recipes()) o.recipes.push_back(recipe.name);
  }
  return o;
}

struct study_command {
  char const* name;
  task what;
  char const* question;
};
constexpr study_command study_commands[] = {
    {"gnmr", task::study_gnmr, "Activations kept in few bits, with and without GNMR"},
    {"freeze", task::study_freeze, "Weights kept without a copy in float: when do they freeze?"},
    {"wgrad", task::study_wgrad, "MXFP4 product by product: what each costs, and what mends the weights' gradient"},
    {"blocks", task::study_blocks, "Rows of 32 against square tiles, at two learning rates"},
    {"ngpt", task::study_ngpt, "GPT and nGPT in NVFP4, with and without rotation and tensor scale"},
    {"league", task::study_league, "All recipes, or those of --recipes"},
};

/// Declares one study; what its options say goes to `o`.
CLI::App* declare_study(CLI::App& studies, study_command const& command, options& o) {
  o = study_defaults(command.what);
  auto* const app = studies.add_subcommand(command.name, command.question);
  declare_training(*app, o);
  if (command.what == task::study_ngpt) app->remove_option(app->get_option("--arch"));  // it trains both
  if (command.what == task::study_freeze) return app;
  declare_plot(*app, o);
  app->add_option("--seeds", o.seeds, "trainings of each kind, with seeds from --seed on");
  if (command.what == task::study_gnmr)
    app->add_option("--bits", o.bits, "bits of kept activations, 2 to 4, separated by commas")->delimiter(',');
  if (command.what == task::study_league)
    app->add_option("--recipes", o.recipes, "LOFT recipes to compare, separated by commas")->delimiter(',');
  return app;
}

}  // namespace

std::optional<options> parse_options(int argc, char const* const* argv, std::ostream& out) {
  options o;
  CLI::App app{"Trains a byte-level GPT once for each recipe and compares the losses.", "char_gpt"};
  declare_comparison(app, o);
  auto* const study = app.add_subcommand("study", "A question that takes many trainings")->require_subcommand(1);
  std::array<options, std::size(study_commands)> of_study;
  std::array<CLI::App*, std::size(study_commands)> apps{};
  for (std::size_t i = 0; i < apps.size(); ++i) apps[i] = declare_study(*study, study_commands[i], of_study[i]);
  try {
    app.parse(argc, argv);
  } catch (CLI::CallForHelp const&) {
    out << app.help();
    return std::nullopt;
  } catch (CLI::ParseError const& error) {
    throw usage_error{error.what()};
  }
  apply_architecture(app, o);
  for (std::size_t i = 0; i < apps.size(); ++i) {
    apply_architecture(*apps[i], of_study[i]);
    if (apps[i]->parsed()) o = of_study[i];
  }
  check(o);
  if (o.threads == 0) o.threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
  return o;
}

}  // namespace char_gpt
