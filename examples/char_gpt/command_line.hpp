// SPDX-License-Identifier: Apache-2.0
// The command line, turned into options that were checked.
#pragma once

#include <iosfwd>
#include <optional>

#include "char_gpt/training/options.hpp"

namespace char_gpt {

/// The options, or nothing where help was asked for and printed to `out`. Throws usage_error for what does not fit.
std::optional<options> parse_options(int argc, char const* const* argv, std::ostream& out);

}  // namespace char_gpt
