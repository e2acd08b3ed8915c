// SPDX-License-Identifier: Apache-2.0
// Numbers and tables as text.
#include "char_gpt/report/tables.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace char_gpt {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string spelt(double value) {
  std::ostringstream out;
  out << std::setprecision(12) << value;
  return out.str();
}

std::string aligned(std::vector<row> const& rows) {
  std::ostringstream out;
  for (auto const& r : rows) {
    for (std::size_t column = 0; column < r.size(); ++column) {
      std::size_t width = 0;
      for (auto const& other : rows) width = std::max(width, other[column].size());
      out << (column == 0 ? "" : "  ") << (column == 0 ? std::left : std::right) << std::setw(static_cast<int>(width))
          << r[column];
    }
    out << '\n';
  }
  return out.str();
}

}  // namespace char_gpt
