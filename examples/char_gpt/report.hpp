// SPDX-License-Identifier: Apache-2.0
// What the program hands over: the table of results, the times, a CSV of the losses, a plot of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer.hpp"

namespace char_gpt {

using row = std::vector<std::string>;

/// Rows with aligned columns: the first to the left, the others to the right.
std::string aligned(std::vector<row> const& rows);

/// A number with so many digits after the point.
std::string fixed(double value, int digits);

/// A number as short as twelve digits allow: 0.003.
std::string spelt(double value);

/// The share of unit-steps on the safe path, and of the steps with more candidates than the budget; 0 without steps.
double recovered_share(result const& r) noexcept;
double budget_hit_share(result const& r) noexcept;

/// The same for the same options: it holds no times.
std::string table(std::span<result const> results);
std::string times(std::span<result const> results);
std::string csv(std::span<result const> results);

/// Validation loss by step, as SVG.
std::string plot(std::span<result const> results);

/// Throws usage_error where `path` cannot become a file.
void check_writable(std::string const& path);

/// Writes all of `contents` or nothing: what was at `path` stays until the new file is whole.
void write_file(std::string const& path, std::string const& contents);

}  // namespace char_gpt
