// SPDX-License-Identifier: Apache-2.0
// What a comparison of recipes hands over: the table of results, the times, a CSV of the losses, a plot of them.
#pragma once

#include <span>
#include <string>

#include "char_gpt/training/trainer.hpp"

namespace char_gpt {

/// The share of unit-steps on the safe path, and of the steps with more candidates than the budget; 0 without steps.
double recovered_share(result const& r) noexcept;
double budget_hit_share(result const& r) noexcept;

/// The same for the same options: it holds no times.
std::string table(std::span<result const> results);
std::string times(std::span<result const> results);
std::string csv(std::span<result const> results);

/// Validation loss by step, as SVG.
std::string plot(std::span<result const> results);

}  // namespace char_gpt
