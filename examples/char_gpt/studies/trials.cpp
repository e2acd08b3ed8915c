// SPDX-License-Identifier: Apache-2.0
// Trainings side by side, and what is told of them.
#include "char_gpt/studies/trials.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iomanip>
#include <limits>
#include <sstream>

#include "char_gpt/report/svg.hpp"

namespace char_gpt {

void train_all(options const& o, split_text const& text, std::vector<trial>& trials) {
  struct job {
    trial* of;
    int seed;
    std::exception_ptr failure{};
  };
  std::vector<job> jobs;
  for (auto& t : trials) {
    check_runs(t.what, t.how.shape);
    t.results.resize(static_cast<std::size_t>(o.seeds));
    for (int i = 0; i < o.seeds; ++i) jobs.push_back({&t, i});
  }
  thread_pool outer{o.threads};
  outer.run(static_cast<int>(jobs.size()), [&](int number) {
    auto& j = jobs[static_cast<std::size_t>(number)];
    try {
      options how = j.of->how;
      how.seed += j.seed;
      how.quiet = true;
      thread_pool alone{1};
      j.of->results[static_cast<std::size_t>(j.seed)] =
          train(how, text, {.name = j.of->what.name, .layers = j.of->what.layers, .measure = j.of->measure}, alone);
    } catch (...) {
      j.failure = std::current_exception();
    }
  });
  for (auto const& j : jobs)
    if (j.failure) std::rethrow_exception(j.failure);
}

mean_and_deviation summary(std::vector<double> const& values) {
  mean_and_deviation s;
  double squares = 0;
  for (double const v : values) s.mean += v / static_cast<double>(values.size());
  for (double const v : values) squares += (v - s.mean) * (v - s.mean);
  if (values.size() > 1) s.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return s;
}

double final_loss(result const& r) noexcept {
  return r.diverged ? std::numeric_limits<double>::quiet_NaN() : r.curve.back().validation_loss;
}

std::vector<double> final_losses(trial const& t) {
  std::vector<double> losses;
  for (auto const& r : t.results) losses.push_back(final_loss(r));
  return losses;
}

std::vector<double> gaps(trial const& t, trial const& base) {
  std::vector<double> result;
  for (std::size_t i = 0; i < t.results.size(); ++i)
    result.push_back(100 * (final_loss(t.results[i]) / final_loss(base.results[i]) - 1));
  return result;
}

std::string mean_of(std::vector<double> const& values, int digits) {
  auto const s = summary(values);
  if (!std::isfinite(s.mean)) return "diverged";
  return fixed(s.mean, digits) + " ± " + fixed(s.deviation, digits);
}

std::string csv_of(std::vector<std::string> const& label_names, std::vector<trial> const& trials) {
  std::ostringstream out;
  for (auto const& name : label_names) out << name << ',';
  out << "seed,steps,train_loss,validation_loss,diverged\n" << std::setprecision(9);
  for (auto const& t : trials)
    for (std::size_t i = 0; i < t.results.size(); ++i) {
      auto const& last = t.results[i].curve.back();
      for (auto const& label : t.labels)
        out << (label.find(',') == std::string::npos ? label : '"' + label + '"') << ',';
      out << t.how.seed + static_cast<std::int64_t>(i) << ',' << t.how.steps << ',' << last.train_loss << ','
          << last.validation_loss << ',' << (t.results[i].diverged ? 1 : 0) << '\n';
    }
  return out.str();
}

std::string plot_dots(std::string const& title, std::string const& unit, std::vector<dots> const& rows) {
  double low = 0, high = 1e-9;
  std::size_t longest = 0;
  for (auto const& each : rows) {
    longest = std::max(longest, each.name.size());
    for (double const v : each.values)
      if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  }
  double const left = 30 + 7.5 * static_cast<double>(longest), width = 760, pitch = 20, top = 44;
  double const bottom = top + pitch * static_cast<double>(rows.size());
  axis const x{low, high, left, width - 30};
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << width << ' ' << bottom + 50
      << "' font-family='sans-serif' font-size='13' fill='#222'>\n<rect width='100%' height='100%' fill='white'/>\n"
      << svg_text(width / 2, 22, "middle", title, "font-size='16'");
  for (double v = x.least; v < x.most + x.tick / 2; v += x.tick)
    out << svg_line(x(v), top - 6, x(v), bottom, "#ddd", 1)
        << svg_text(x(v), bottom + 18, "middle", svg_number(v, x.tick));
  out << svg_text((left + width - 30) / 2, bottom + 40, "middle", unit);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double const y = top + pitch * (static_cast<double>(i) + 0.5);
    out << svg_text(left - 10, y + 4, "end", rows[i].name);
    auto const s = summary(rows[i].values);
    if (!std::isfinite(s.mean)) {
      out << svg_text(left + 6, y + 4, "start", "diverged", "fill='#d55e00'");
      continue;
    }
    out << svg_line(x(s.mean), y - 7, x(s.mean), y + 7, "#d55e00", 2.5);
    for (double const v : rows[i].values)
      out << "<circle cx='" << x(v) << "' cy='" << y << "' r='3.2' fill='#0072b2' fill-opacity='0.7'/>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace char_gpt
