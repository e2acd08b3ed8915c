// SPDX-License-Identifier: Apache-2.0
// What the program hands over: the table of results, the times, a CSV of the losses, a plot of them.
#pragma once

#include <span>
#include <string>

#include "trainer.hpp"

namespace char_gpt {

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
