// SPDX-License-Identifier: Apache-2.0
// Pieces of plots.
#include "char_gpt/report/svg.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace char_gpt {

axis::axis(double low, double high, double pixel_from, double pixel_to) : from{pixel_from}, to{pixel_to} {
  double const span = std::max(high - low, 1e-6), power = std::pow(10.0, std::floor(std::log10(span / 4)));
  tick = power * (span / power > 40 ? 10 : span / power > 20 ? 5 : span / power > 8 ? 2 : 1);
  least = std::floor(low / tick) * tick;
  most = std::ceil(high / tick) * tick;
}

std::string svg_text(double x, double y, char const* anchor, std::string const& words, std::string const& more) {
  std::ostringstream out;
  out << "<text x='" << x << "' y='" << y << "' text-anchor='" << anchor << "' " << more << '>' << words << "</text>\n";
  return out.str();
}

std::string svg_line(double x1, double y1, double x2, double y2, char const* colour, double stroke) {
  std::ostringstream out;
  out << "<line x1='" << x1 << "' y1='" << y1 << "' x2='" << x2 << "' y2='" << y2 << "' stroke='" << colour
      << "' stroke-width='" << stroke << "'/>\n";
  return out.str();
}

std::string svg_number(double value, double tick) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(std::max(0, static_cast<int>(-std::floor(std::log10(tick * 1.001))))) << value;
  return out.str();
}

}  // namespace char_gpt
