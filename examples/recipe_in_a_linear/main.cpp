// SPDX-License-Identifier: Apache-2.0
// A recipe in a linear layer: what a trainer writes to have its three products quantized as a paper says, and a student
// of two such layers that learns from a teacher.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <loft/eigen.hpp>
#include <loft/recipes.hpp>
#include <stdexcept>

using dense = loft::eigen_matrix;

// ---- the twenty lines ----

/// The operand as the product reads it.
template <class O, class M> dense read(M const& m, O const& how) {
  dense result(m.rows(), m.cols());
  loft::status const outcome = fake_quantize(loft::view_of(m), loft::view_of(result), how);
  if (outcome != loft::status::ok) throw std::runtime_error{loft::message(outcome)};
  return result;
}

/// y = x W^T for x [tokens, in] and W [out, in].
template <class Recipe> struct linear {
  Recipe recipe;
  std::uint64_t seed, uses = 0;  // everything random depends on the two alone
  dense weight, gradient{}, input{};

  dense forward(dense const& x) {
    auto const how = loft::reseed(recipe, seed, uses).fprop;
    input = x;
    return read(x, how.left) * read(weight, how.right).transpose();
  }
  dense backward(dense const& dy) {
    auto const how = loft::reseed(recipe, seed, uses++);
    gradient = read(dy.transpose(), how.wgrad.left) * read(input.transpose(), how.wgrad.right).transpose();
    if constexpr (requires { how.estimator; })
      if (estimate_gradient(loft::view_of(gradient), loft::view_of(weight), how.fprop.right, how.estimator) !=
          loft::status::ok)
        throw std::runtime_error{"the estimator returned a status"};
    return read(dy, how.dgrad.left) * read(weight.transpose(), how.dgrad.right).transpose();
  }
};

// ---- what they are used for ----

constexpr int tokens = 256, width = 128, steps = 200;

/// Numbers from -1 to 1 that depend on the seed alone.
dense random_matrix(int rows, int cols, std::uint64_t seed) {
  return dense::NullaryExpr(rows, cols, [&](Eigen::Index row, Eigen::Index col) {
    auto const index = static_cast<std::uint64_t>(row * cols + col);
    return static_cast<float>(loft::random_bits<32>(seed, 0, index)) * 0x1p-31f - 1.0f;
  });
}

/// The loss of the student after its training, half the mean square of the difference to the teacher.
template <class Recipe> float train(Recipe const& recipe) {
  float const scale = std::sqrt(3.0f / width);
  dense const x = random_matrix(tokens, width, 1);
  dense const target =
      (x * random_matrix(width, width, 2) * scale).cwiseMax(0.0f) * random_matrix(width, width, 3) * scale;
  linear<Recipe> first{recipe, 10, 0, random_matrix(width, width, 4) * scale};
  linear<Recipe> second{recipe, 11, 0, random_matrix(width, width, 5) * scale};
  float loss = 0;
  for (int step = 0; step < steps; ++step) {
    dense const hidden = first.forward(x), active = hidden.cwiseMax(0.0f);
    dense const difference = second.forward(active) - target;
    loss = difference.squaredNorm() / (2.0f * tokens * width);
    dense const dactive = second.backward(difference / tokens);
    first.backward((hidden.array() > 0.0f).select(dactive, 0.0f));
    for (auto* layer : {&first, &second}) layer->weight -= 0.1f * layer->gradient;
  }
  return loss;
}

int main(int argc, char** argv) {
  if (argc > 2) return std::fputs("usage: recipe_in_a_linear [name of a recipe]\n", stderr), 2;
  char const* const name = argc == 2 ? argv[1] : "nvfp4";
  bool const known = loft::visit_recipe(name, [&](auto const& plan) {
    std::printf("%s: loss %.4f, in float %.4f\n", name, static_cast<double>(train(plan.main)),
                static_cast<double>(train(loft::recipes::fp32{})));
  });
  if (known) return std::fflush(stdout) == 0 ? 0 : 1;
  std::fprintf(stderr, "recipe_in_a_linear: there is no recipe '%s'; there are", name);
  loft::for_each_recipe([](char const* each, auto const&) { std::fprintf(stderr, " %s", each); });
  std::fputc('\n', stderr);
  return 2;
}
