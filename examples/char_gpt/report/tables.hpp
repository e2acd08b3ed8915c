// SPDX-License-Identifier: Apache-2.0
// Numbers and tables as text.
#pragma once

#include <string>
#include <vector>

namespace char_gpt {

using row = std::vector<std::string>;

/// Rows with aligned columns: the first to the left, the others to the right.
std::string aligned(std::vector<row> const& rows);

/// A number with so many digits after the point.
std::string fixed(double value, int digits);

/// A number as short as twelve digits allow: 0.003.
std::string spelt(double value);

}  // namespace char_gpt
