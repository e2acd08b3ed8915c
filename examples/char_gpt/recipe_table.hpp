// SPDX-License-Identifier: Apache-2.0
// The recipes of LOFT's catalogue, ready for the model: the one place that compiles all of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "linear.hpp"
#include "model.hpp"

namespace char_gpt {

/// A plan with a name, and what it asks of a model. Copies share the plan.
struct named_plan {
  std::string name;
  std::shared_ptr<void const> plan;
  planned_linears<float> layers;
  int width_run = 1, token_run = 1;  // the widths, and the tokens of a batch, must be multiples of these
};

/// `plan` kept for as long as any copy of the result is.
template <class Main, class Safe>
named_plan keep_plan(std::string name, loft::plan<Main, Safe> const& plan);

/// Those of the catalogue, in its order.
std::vector<named_plan> const& all_recipes();

/// Throws usage_error for a name that is not in the catalogue; `option` is where it came from.
named_plan const& find_recipe(std::string_view name, std::string_view option);

/// Throws usage_error where the model's sizes are no multiples of what the rotations of a plan take at once.
void check_runs(named_plan const& recipe, model_shape const& shape);

// ---- how long the runs of an operand's rotation are ----

template <class O>
constexpr int run_of(O const& operand) {
  if constexpr (requires { operand.rotation; }) return decltype(operand.rotation)::size;
  else if constexpr (requires { operand.then; }) return run_of(operand.then);
  else if constexpr (requires { operand.how; }) return run_of(operand.how);
  else return 1;
}

/// The longer of two runs is a multiple of the shorter one, as all rotations of a recipe have sizes of one family.
template <class P>
constexpr int run_of_product(P const& product) {
  return std::max(run_of(product.left), run_of(product.right));
}

template <class Main, class Safe>
named_plan keep_plan(std::string name, loft::plan<Main, Safe> const& plan) {
  auto const kept = std::make_shared<loft::plan<Main, Safe> const>(plan);
  auto const widths = [](auto const& r) { return std::max(run_of_product(r.fprop), run_of_product(r.dgrad)); };
  return {std::move(name), kept, planned_linears<float>{*kept}, std::max(widths(plan.main), widths(plan.safe)),
          std::max(run_of_product(plan.main.wgrad), run_of_product(plan.safe.wgrad))};
}

}  // namespace char_gpt
