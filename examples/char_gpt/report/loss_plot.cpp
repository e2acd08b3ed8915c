// SPDX-License-Identifier: Apache-2.0
// The plot of a comparison: one line for each recipe, axes with ticks, a legend.
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "char_gpt/report/results.hpp"
#include "char_gpt/report/svg.hpp"

namespace char_gpt {
namespace {

constexpr double width = 760, height = 460, left = 70, top = 40, bottom = 56;
constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};  // Okabe and Ito

std::string grid(axis const& x, axis const& y) {
  std::string out;
  for (double v = x.least; v < x.most + x.tick / 2; v += x.tick)
    out += svg_line(x(v), y.from, x(v), y.from + 5, "#444", 1) +
           svg_text(x(v), y.from + 20, "middle", svg_number(v, x.tick));
  for (double v = y.least; v < y.most + y.tick / 2; v += y.tick)
    out += svg_line(x.from, y(v), x.to, y(v), "#ddd", 1) + svg_text(x.from - 8, y(v) + 4, "end", svg_number(v, y.tick));
  out += svg_line(x.from, y.from, x.to, y.from, "#444", 1) + svg_line(x.from, y.from, x.from, y.to, "#444", 1);
  return out + svg_text((x.from + x.to) / 2, height - 12, "middle", "training step") +
         svg_text(width / 2, 22, "middle", "Validation loss by recipe", "font-size='16'") +
         svg_text(20, (y.from + y.to) / 2, "middle", "nats a byte",
                  "transform='rotate(-90 20 " + svg_number((y.from + y.to) / 2, 1) + ")'");
}

}  // namespace

std::string plot(std::span<result const> results) {
  double last = 1, low = 1e30, high = -1e30, right = 130;
  for (auto const& r : results) {
    right = std::max(right, 60 + 8 * static_cast<double>(r.recipe.size()));  // room for the legend
    for (auto const& point : r.curve) {
      last = std::max(last, static_cast<double>(point.step));
      if (point.step == 0 || !std::isfinite(point.validation_loss)) continue;  // the start would dwarf the rest
      low = std::min(low, point.validation_loss);
      high = std::max(high, point.validation_loss);
    }
  }
  if (low > high) low = 0, high = 1;
  axis const x{0, last, left, width - right}, y{low, high, height - bottom, top};
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << width << ' ' << height
      << "' font-family='sans-serif' font-size='13' fill='#222'>\n<rect width='100%' height='100%' fill='white'/>\n"
      << grid(x, y);
  for (std::size_t i = 0; i < results.size(); ++i) {
    char const* const colour = colours[i % colours.size()];
    double const legend = top + 10 + 22 * static_cast<double>(i);
    out << "<polyline fill='none' stroke-width='2' stroke='" << colour << "' points='";
    for (auto const& point : results[i].curve)
      if (point.step != 0 && std::isfinite(point.validation_loss))
        out << x(point.step) << ',' << y(point.validation_loss) << ' ';
    out << "'/>\n"
        << svg_line(width - right + 16, legend, width - right + 40, legend, colour, 3)
        << svg_text(width - right + 48, legend + 4, "start", results[i].recipe);
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace char_gpt
