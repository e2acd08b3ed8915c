// SPDX-License-Identifier: Apache-2.0
// The study of unit-norm networks: nGPT against GPT in NVFP4, with and without rotation and tensor scale, and how the
// noise of a dot product grows with its length.
#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <loft/recipes.hpp>
#include <ostream>
#include <random>
#include <sstream>

#include "char_gpt/studies/studies.hpp"
#include "char_gpt/studies/trials.hpp"
#include "char_gpt/support/errors.hpp"

namespace char_gpt {
namespace {

/// The NVFP4 recipe of nvfp4_ngpt, with the signed rotation of nvfp4 on Wgrad where `Rotates`; no layer is left out.
/// Fixed: the tensor scale is that of an amax of 1.
template <bool Rotates> struct variant {
  using rotation = std::conditional_t<Rotates, loft::signed_hadamard<16>, loft::no_rotation>;
  using activation = loft::operand<loft::nvfp4>;
  using weight = loft::operand<loft::square<loft::nvfp4, 16>>;
  using gradient = loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<>>;
  using rotated_activation = loft::operand<loft::nvfp4, loft::two_level, loft::nearest_even, rotation>;
  using rotated_gradient = loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<>, rotation>;

  loft::product<activation, weight> fprop{};
  loft::product<gradient, weight> dgrad{};
  loft::product<rotated_gradient, rotated_activation> wgrad{};

  variant(bool fixed_weights, bool fixed_input) {
    if constexpr (Rotates) wgrad.left.rotation.signs = wgrad.right.rotation.signs = loft::recipes::nvfp4_signs;
    if (fixed_weights) fprop.right.rule.amax = dgrad.right.rule.amax = 1;
    if (fixed_input) fprop.left.rule.amax = wgrad.right.rule.amax = 1;
  }
};

/// The hidden values of an MLP are not known to lie within [-1, 1]: their amax is always computed.
template <bool Rotates> named_plan plan_of(bool fixed) {
  using how = variant<Rotates>;
  return keep_plan("nvfp4", loft::plan<how, how>{how{fixed, fixed}, how{fixed, false}, {.mlp_down = true}});
}

std::vector<trial> trials_of(options const& o) {
  std::vector<trial> trials;
  for (auto const arch : {architecture::gpt, architecture::ngpt}) {
    std::string const name = arch == architecture::gpt ? "GPT" : "nGPT";
    options how = o;
    set_architecture(how, arch);
    trials.push_back({{name, "fp32", "-", "-"}, find_recipe("fp32", "the study"), how});
    for (bool const fixed : {false, true}) {
      std::string const scale = fixed ? "fixed" : "computed";
      trials.push_back({{name, "nvfp4", "none", scale}, plan_of<false>(fixed), how});
      trials.push_back({{name, "nvfp4", "signed H16", scale}, plan_of<true>(fixed), how});
    }
  }
  return trials;
}

// ---- the dot product ----

/// Signal and noise of dot products; the noise is that of both operands together.
struct power {
  double signal = 0, noise = 0;
};

std::vector<float> random_unit_vector(std::mt19937_64& generator, std::size_t dimension) {
  std::normal_distribution<double> normal;
  std::vector<double> v(dimension);
  double squares = 0;
  for (auto& x : v) {
    x = normal(generator);
    squares += x * x;
  }
  std::vector<float> result(dimension);
  std::transform(v.begin(), v.end(), result.begin(),
                 [&](double x) { return static_cast<float>(x / std::sqrt(squares)); });
  return result;
}

std::vector<float> quantized(std::vector<float> v) {
  auto const cols = static_cast<std::int64_t>(v.size());
  loft::matrix_view<float> const view{v.data(), 1, cols, cols};
  require_ok(loft::fake_quantize(view, view, loft::operand<loft::nvfp4>{.rule = {1.0f}}));
  return v;
}

double dot(std::vector<float> const& a, std::vector<float> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

constexpr double cosines[] = {0, 0.02, 0.05, 0.1};
constexpr int pairs = 1000;

/// Over pairs of vectors of norm 1 with a fixed tensor scale, for each cosine c between them: x = c * w + the
/// rest at random, so that the products of their elements correlate by about c^2.
std::array<power, std::size(cosines)> measure_dots(std::size_t dimension, std::uint64_t seed) {
  std::mt19937_64 generator{seed};
  std::array<power, std::size(cosines)> result{};
  for (int i = 0; i < pairs; ++i) {
    auto const w = random_unit_vector(generator, dimension), other = random_unit_vector(generator, dimension);
    auto const w_quantized = quantized(w);
    for (std::size_t k = 0; k < result.size(); ++k) {
      double const c = cosines[k], rest = std::sqrt(1 - c * c);
      auto x = other;
      for (std::size_t j = 0; j < dimension; ++j)
        x[j] = static_cast<float>(c * static_cast<double>(w[j]) + rest * static_cast<double>(x[j]));
      double const exact = dot(w, x), error = dot(w_quantized, quantized(x)) - exact;
      result[k].signal += exact * exact / pairs;
      result[k].noise += error * error / pairs;
    }
  }
  return result;
}

/// Table and CSV of the experiment.
void dot_products(options const& o, std::ostream& out, std::ostringstream& csv) {
  std::vector<row> rows{{"dimension"}};
  for (double const c : cosines) rows.front().push_back("cosine " + fixed(c, 2));
  csv << "\ndimension,cosine,signal,noise\n" << std::setprecision(9);
  for (std::size_t dimension = 256; dimension <= 16384; dimension *= 2) {
    rows.push_back({std::to_string(dimension)});
    auto const powers = measure_dots(dimension, static_cast<std::uint64_t>(o.seed));
    for (std::size_t k = 0; k < powers.size(); ++k) {
      rows.back().push_back(fixed(10 * std::log10(powers[k].signal / powers[k].noise), 1) + " dB");
      csv << dimension << ',' << cosines[k] << ',' << powers[k].signal << ',' << powers[k].noise << '\n';
    }
  }
  out << "\nSignal to noise of the dot product of two vectors of norm 1 in NVFP4, tensor scale fixed, " << pairs
      << " pairs,\nby the cosine of the two:\n"
      << aligned(rows);
}

}  // namespace

void study_ngpt(options const& o, split_text const& text, std::ostream& out) {
  auto trials = trials_of(o);
  train_all(o, text, trials);
  std::vector<row> rows{{"model", "recipe", "rotation", "tensor scale", "validation loss", "gap to its fp32"}};
  std::vector<dots> shown;
  trial const* base = nullptr;
  for (auto const& t : trials) {
    bool const is_base = t.labels[1] == "fp32";
    if (is_base) base = &t;
    rows.push_back(t.labels);
    rows.back().push_back(mean_of(final_losses(t), 4));
    rows.back().push_back(is_base ? "-" : mean_of(gaps(t, *base), 2) + " %");
    if (!is_base) shown.push_back({t.labels[0] + ", " + t.labels[2] + ", " + t.labels[3], gaps(t, *base)});
  }
  out << aligned(rows) << "Mean and deviation over " << o.seeds << " seeds of " << o.steps
      << " steps. Rotation: of both operands of Wgrad. Fixed: the tensor scale of weights and activations\nis that of "
         "an amax of 1, beyond which values are clipped; that of gradients and of the hidden values of MLPs is always\n"
         "computed. No layer is left out.\n";
  std::ostringstream csv;
  csv << csv_of({"model", "recipe", "rotation", "tensor_scale"}, trials);
  dot_products(o, out, csv);
  if (!o.csv.empty()) write_file(o.csv, csv.str());
  if (!o.plot.empty())
    write_file(o.plot, plot_dots("NVFP4 in GPT and nGPT", "gap to the model's fp32, per cent", shown));
}

}  // namespace char_gpt
