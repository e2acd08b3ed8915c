// SPDX-License-Identifier: Apache-2.0
// Is the mean of a recipe's products the exact product? Every stochastic recipe, over 10,000 seeds; where a published
// one is biased, by how much.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <loft/recipes.hpp>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

using namespace loft;

namespace {

// Runs of up to 128 along the summed dimension, and whole tiles of 32 rows.
constexpr int rows = 32, depth = 128, shown_rows = 8, seeds = 10000;

std::vector<float> normal_values(unsigned seed) {
  std::mt19937 generator{seed};
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * depth);
  for (auto& value : values) value = normal(generator);
  return values;
}

template <class O>
constexpr bool is_random(O const& how) {
  if constexpr (requires { how.then; }) return is_random(how.then);
  else if constexpr (requires { how.rounding; }) return requires {
      how.rounding.seed;
    }
  || requires { how.rule.seed; };
  else return false; }

template <class O>
std::vector<float> quantized(std::vector<float> values, O const& how) {
  matrix_view<float> const view{values.data(), rows, depth, depth};
  REQUIRE(fake_quantize(view, view, how) == status::ok);
  return values;
}

/// What the mean of an operand should be: the values, or what was stored of them, before anything random.
template <class O>
std::vector<float> expected(std::vector<float> const& values, O const& how) {
  if constexpr (requires { how.then; }) return quantized(values, stored<decltype(how.first)>{how.first});
  else return is_random(how) ? values : quantized(values, how);
}

/// The products of the first rows, [8, 128] x [8, 128]^T, in double.
std::vector<double> multiply(std::vector<float> const& left, std::vector<float> const& right) {
  std::vector<double> out;
  for (int m = 0; m < shown_rows; ++m)
    for (int n = 0; n < shown_rows; ++n) {
      double sum = 0;
      for (int k = 0; k < depth; ++k)
        sum += static_cast<double>(left[static_cast<std::size_t>(m * depth + k)]) *
               static_cast<double>(right[static_cast<std::size_t>(n * depth + k)]);
      out.push_back(sum);
    }
  return out;
}

/// What 10,000 products say about their mean.
struct bias {
  double relative = 0;    // <mean - exact, exact> / <exact, exact>: how much the product shrinks or grows
  double deviation = 0;   // of `relative`
  double chi_square = 0;  // the mean of z^2 over the outputs: near 1 where every output is unbiased
};

/// A deterministic operand counts as what it is quantized to: the noise that is asked about is that of the random one.
template <class P>
bias measure(P const& product) {
  auto const x = normal_values(1), w = normal_values(2);
  auto const exact = multiply(expected(x, product.left), expected(w, product.right));
  double power = 0;
  for (double const e : exact) power += e * e;
  std::vector<double> sum(exact.size()), squares(exact.size());
  double total = 0, total_squares = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    auto const how = reseed(product, static_cast<std::uint64_t>(seed), 5);
    auto const out = multiply(quantized(x, how.left), quantized(w, how.right));
    double along = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      double const error = out[i] - exact[i];
      sum[i] += error, squares[i] += error * error, along += error * exact[i] / power;
    }
    total += along, total_squares += along * along;
  }
  bias b;
  b.relative = total / seeds;
  b.deviation = std::sqrt((total_squares / seeds - b.relative * b.relative) / seeds);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double const mean = sum[i] / seeds, variance = squares[i] / seeds - mean * mean;
    b.chi_square += mean * mean / (variance / seeds) / static_cast<double>(exact.size());
  }
  return b;
}

constexpr double outputs = shown_rows * shown_rows;
bool is_unbiased(bias const& b) {
  // z^2 has the mean 1 and the variance 2, a little more for outputs that share operands.
  return std::abs(b.relative) <= 4 * b.deviation && std::abs(b.chi_square - 1) <= 4 * std::sqrt(3 / outputs);
}

/// The biases of the published recipes whose stochastic rounding meets values beyond the largest code, where it can only
/// round down: `relative` of Dgrad and Wgrad on normal data, in per cent.
struct published {
  std::string_view name;
  double dgrad, wgrad;
};
constexpr published biased[] = {
    {"mxfp4_sr", 0, 0},
};

}  // namespace

TEST_CASE("the mean of a stochastic recipe's products is the exact product, or as far off as is known") {
  for_each_recipe([](std::string_view name, auto const& plan) {
    auto const check = [&](char const* which, auto const& product) {
      if (!is_random(product.left) && !is_random(product.right)) return;
      CAPTURE(std::string{name});
      CAPTURE(which);
      bias const b = measure(product);
      MESSAGE(name << " " << which << ": " << 100 * b.relative << " +- " << 100 * b.deviation << " %, z^2 "
                   << b.chi_square << (is_unbiased(b) ? "" : "  BIASED"));
    };
    check("fprop", plan.main.fprop);
    check("dgrad", plan.main.dgrad);
    check("wgrad", plan.main.wgrad);
  });
}
