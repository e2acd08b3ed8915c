// SPDX-License-Identifier: Apache-2.0
// All recipes, and what is said of names and sizes that do not fit.
#include "char_gpt/model/recipe_table.hpp"

#include <algorithm>
#include <loft/recipes.hpp>

#include "char_gpt/support/errors.hpp"

namespace char_gpt {

std::vector<named_plan> const& all_recipes() {
  static auto const table = [] {
    std::vector<named_plan> result;
    loft::for_each_recipe(
        [&](std::string_view name, auto const& plan) { result.push_back(keep_plan(std::string{name}, plan)); });
    return result;
  }();
  return table;
}

named_plan const& find_recipe(std::string_view name, std::string_view option) {
  auto const& table = all_recipes();
  auto const found = std::find_if(table.begin(), table.end(), [&](auto const& each) { return each.name == name; });
  if (found != table.end()) return *found;
  std::string known;
  for (auto const& other : table) known += (known.empty() ? "" : ", ") + other.name;
  throw usage_error{"unknown recipe '" + std::string{name} + "' for " + std::string{option} + "; known are " + known};
}

void check_runs(named_plan const& recipe, model_shape const& shape) {
  auto const require = [&](std::string const& what, std::int64_t value, int run) {
    if (value % run != 0)
      throw usage_error{what + " must be a multiple of " + std::to_string(run) + " for the rotation of " + recipe.name +
                        ", not " + std::to_string(value)};
  };
  require("--width", shape.width, recipe.width_run);
  require("--batch times --context", shape.batch_sizes().rows(), recipe.token_run);
}

}  // namespace char_gpt
