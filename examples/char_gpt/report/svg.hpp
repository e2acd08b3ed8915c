// SPDX-License-Identifier: Apache-2.0
// Pieces of plots.
#pragma once

#include <string>

namespace char_gpt {

/// A linear scale with round ticks.
struct axis {
  double least, most, from, to, tick;

  axis(double low, double high, double pixel_from, double pixel_to);
  double operator()(double value) const { return from + (value - least) / (most - least) * (to - from); }
};

std::string svg_text(double x, double y, char const* anchor, std::string const& words, std::string const& more = "");
std::string svg_line(double x1, double y1, double x2, double y2, char const* colour, double stroke);

/// With the digits that tell neighbouring ticks apart.
std::string svg_number(double value, double tick);

}  // namespace char_gpt
