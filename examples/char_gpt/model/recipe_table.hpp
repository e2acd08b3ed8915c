// SPDX-License-Identifier: Apache-2.0
// The recipes of LOFT's catalogue, ready for the model: the one place that compiles all of them.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "char_gpt/model/linear.hpp"
#include "char_gpt/model/model.hpp"

namespace char_gpt {

/// A plan with a name, and what it asks of a model. Copies share the plan.
struct named_plan {
  std::string name;
  std::shared_ptr<void const> plan;
  planned_linears<float> layers;
  int width_run = 1, token_run = 1;  // the widths, and the tokens of a batch, must be multiples of these
};

/// `plan` kept for as long as any copy of the result is.
template <class Main, class Safe> named_plan keep_plan(std::string name, loft::plan<Main, Safe> const& plan);

/// Those of the catalogue, in its order.
std::vector<named_plan> const& all_recipes();

/// Throws usage_error for a name that is not in the catalogue; `option` is where it came from.
named_plan const& find_recipe(std::string_view name, std::string_view option);

/// Throws usage_error where the model's sizes are no multiples of what the rotations of a plan take at once.
void check_runs(named_plan const& recipe, model_shape const& shape);

template <class Main, class Safe> named_plan keep_plan(std::string name, loft::plan<Main, Safe> const& plan) {
  auto const kept = std::make_shared<loft::plan<Main, Safe> const>(plan);
  auto const main = loft::multiples_of(plan.main), safe = loft::multiples_of(plan.safe);
  return {std::move(name), kept, planned_linears<float>{*kept},
          std::lcm(std::lcm(main.in, main.out), std::lcm(safe.in, safe.out)), std::lcm(main.tokens, safe.tokens)};
}

}  // namespace char_gpt
