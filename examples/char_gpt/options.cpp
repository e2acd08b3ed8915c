// SPDX-License-Identifier: Apache-2.0
// The command line, and what is refused before any work is done.
#include "options.hpp"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <thread>

#include "errors.hpp"
#include "report.hpp"

namespace char_gpt {
namespace {

std::string spelt(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

void require(bool holds, std::string const& sentence) {
  if (!holds) throw usage_error{sentence};
}

void require_within(char const* name, double value, double least, double most) {  // false for NaN
  require(value >= least && value <= most,
          std::string{name} + " must be from " + spelt(least) + " to " + spelt(most) + ", not " + spelt(value));
}

/// The values that the rotation of an operand takes at once.
template <class O>
constexpr int run_of(O const&) {
  if constexpr (std::is_same_v<O, loft::none>) return 1;
  else return decltype(O::rotation)::size;
}

template <class P>
constexpr int run_of_product(P const& product) {
  return std::max(run_of(product.left), run_of(product.right));
}

template <class R>
void check_rotations(std::string const& name, R const& recipe, model_shape const& shape) {
  int const widths = std::max(run_of_product(recipe.fprop), run_of_product(recipe.dgrad));
  int const rows = run_of_product(recipe.wgrad);
  require(shape.width % widths == 0, "--width must be a multiple of " + std::to_string(widths) +
                                         " for the rotation of " + name + ", not " + std::to_string(shape.width));
  auto const tokens = shape.batch_sizes().rows();
  require(tokens % rows == 0, "--batch times --context must be a multiple of " + std::to_string(rows) +
                                  " for the rotation of " + name + ", not " + std::to_string(tokens));
}

void check_recipes(options const& o) {
  require(!o.recipes.empty(), "--recipes names no recipe");
  for (auto const& name : o.recipes) {
    require(std::count(o.recipes.begin(), o.recipes.end(), name) == 1, "--recipes names '" + name + "' more than once");
    if (loft::visit_recipe(name, [&](auto const& recipe) { check_rotations(name, recipe, o.shape); })) continue;
    std::string known;
    for (auto const& other : loft::recipe_names) known += (known.empty() ? "" : ", ") + std::string{other};
    throw usage_error{"unknown recipe '" + name + "'; known are " + known};
  }
}

/// Of controllers and studies.
void check_choices(options const& o) {
  require(o.controller == "none" || o.controller == "gnmr", "--controller must be none or gnmr, not " + o.controller);
  require(loft::visit_recipe(o.safe, [](auto const&) {}), "unknown recipe '" + o.safe + "' for --safe");
  require_within("--alpha", o.alpha, 1e-12, 1e12);
  require_within("--beta", o.beta, 1e-12, 1e12);
  require_within("--budget", o.budget, 0, 4000);
  require_within("--seeds", o.seeds, 1, 1000);
  for (int const bits : o.bits)
    require(bits >= 2 && bits <= 4, "--bits must be 2, 3 or 4, not " + std::to_string(bits));
  require(!o.bits.empty(), "--bits names no number");
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
  require(o.seed >= 0, "--seed must not be negative");
  require_within("--lr", o.learning_rate, 1e-12, 1);
  require_within("--weight-decay", o.weight_decay, 0, 1);
  require_within("--clip", o.clip, 1e-12, 1e12);
  require_within("--max-memory", o.max_memory, 0.001, 1e6);
  require(o.shape.width % o.shape.heads == 0, "--width must be a multiple of --heads, and " +
                                                  std::to_string(o.shape.width) + " is none of " +
                                                  std::to_string(o.shape.heads));
  double const gibibytes = training_bytes(o.shape) / (1 << 30);
  require(gibibytes <= o.max_memory, "a model of this size needs " + spelt(gibibytes) +
                                         " GiB of memory, above --max-memory " + spelt(o.max_memory));
  check_choices(o);
  if (o.what == task::compare) check_recipes(o);
  for (auto const* path : {&o.csv, &o.plot})
    if (!path->empty()) check_writable(*path);
  require(o.csv.empty() || o.csv != o.plot, "--csv and --plot name the same file");
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
  app.add_option("--layers", o.shape.layers, "transformer layers");
  app.add_option("--width", o.shape.width, "width of the residual stream");
  app.add_option("--heads", o.shape.heads, "attention heads");
  app.add_option("--context", o.shape.context, "bytes in a sequence");
  app.add_option("--batch", o.shape.batch, "sequences in a batch");
  app.add_option("--lr", o.learning_rate, "peak learning rate");
  app.add_option("--weight-decay", o.weight_decay, "weight decay of AdamW");
  app.add_option("--clip", o.clip, "largest norm of the gradients");
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

/// The studies have sizes of their own: many trainings that take minutes together.
options study_defaults(task what) {
  options o;
  o.what = what;
  o.shape = {.layers = 4, .width = 64, .heads = 2, .context = 32, .batch = 8};
  o.threads = 1;
  o.steps = 800;
  if (what == task::study_freeze) o.learning_rate = 1e-2;
  return o;
}

}  // namespace

int budget_of(options const& o) noexcept {
  int const units = o.shape.layers * linears_per_layer;
  return o.budget > 0 ? o.budget : (units + 3) / 4;
}

std::optional<options> parse_options(int argc, char const* const* argv, std::ostream& out) {
  options o, gnmr = study_defaults(task::study_gnmr), freeze = study_defaults(task::study_freeze);
  CLI::App app{"Trains a byte-level GPT once for each recipe and compares the losses.", "char_gpt"};
  declare_comparison(app, o);
  auto* const study = app.add_subcommand("study", "A question that takes many trainings")->require_subcommand(1);
  auto* const of_gnmr = study->add_subcommand("gnmr", "Activations kept in few bits, with and without GNMR");
  auto* const of_freeze = study->add_subcommand("freeze", "Weights kept without a copy in float: when do they freeze?");
  declare_training(*of_gnmr, gnmr);
  declare_plot(*of_gnmr, gnmr);
  of_gnmr->add_option("--seeds", gnmr.seeds, "trainings of each kind, with seeds from --seed on");
  of_gnmr->add_option("--bits", gnmr.bits, "bits of kept activations, 2 to 4, separated by commas")->delimiter(',');
  declare_training(*of_freeze, freeze);
  try {
    app.parse(argc, argv);
  } catch (CLI::CallForHelp const&) {
    out << app.help();
    return std::nullopt;
  } catch (CLI::ParseError const& error) {
    throw usage_error{error.what()};
  }
  if (of_gnmr->parsed()) o = gnmr;
  if (of_freeze->parsed()) o = freeze;
  check(o);
  if (o.threads == 0) o.threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
  return o;
}

}  // namespace char_gpt
