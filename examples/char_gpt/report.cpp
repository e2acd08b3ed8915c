// SPDX-License-Identifier: Apache-2.0
// Tables as text, and files that are whole or absent.
#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "errors.hpp"

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

double recovered_share(result const& r) noexcept {
  double active = 0;
  for (auto const& step : r.steps) active += step.active;
  return r.steps.empty() ? 0 : active / static_cast<double>(r.steps.size() * r.units);
}

double budget_hit_share(result const& r) noexcept {
  double hits = 0;
  for (auto const& step : r.steps) hits += step.budget_hit ? 1 : 0;
  return r.steps.empty() ? 0 : hits / static_cast<double>(r.steps.size());
}

namespace {

result const* find_float(std::span<result const> results) {
  auto const found = std::find_if(results.begin(), results.end(), [](auto const& r) { return r.recipe == "fp32"; });
  return found == results.end() || found->diverged ? nullptr : &*found;
}

std::string noise(result const& r, slot at) {
  auto const& entry = r.quantization.slots[at];
  return entry.tensors == 0 ? "-" : fixed(entry.decibels / entry.tensors, 1);
}

bool has_steps(std::span<result const> results) {
  return std::any_of(results.begin(), results.end(), [](auto const& r) { return !r.steps.empty(); });
}

/// What the controller counted in one step, as the last columns of the CSV; empty ones where there is none.
std::string counts_of(result const& r, int step) {
  if (step == 0 || r.steps.empty()) return ",,,,,";
  auto const& s = r.steps[static_cast<std::size_t>(step - 1)];
  std::string out;
  for (int const count : {s.triggered, s.active, s.evicted, s.nonfinite, s.budget_hit ? 1 : 0})
    out += ',' + std::to_string(count);
  return out;
}

std::filesystem::path temporary_for(std::string const& path) { return path + ".partial-" + std::to_string(getpid()); }

}  // namespace

std::string table(std::span<result const> results) {
  auto const* const base = find_float(results);
  bool const controlled = has_steps(results);
  std::vector<row> rows{
      {"recipe", "bits", "train loss", "validation loss", "gap to fp32", "SQNR W", "SQNR X", "SQNR dY"}};
  if (controlled) rows.front().insert(rows.front().end(), {"safe path", "budget hit"});
  for (auto const& r : results) {
    auto const& last = r.curve.back();
    std::string gap = "-";
    if (base != nullptr && !r.diverged)
      gap = fixed(100 * (last.validation_loss / base->curve.back().validation_loss - 1), 2) + " %";
    rows.push_back({r.recipe, fixed(r.quantization.bits / r.quantization.elements, 2),
                    r.diverged ? "diverged" : fixed(last.train_loss, 4),
                    r.diverged ? "diverged" : fixed(last.validation_loss, 4), gap, noise(r, fprop_right),
                    noise(r, fprop_left), noise(r, dgrad_left)});
    if (!controlled) continue;
    bool const has = !r.steps.empty();
    rows.back().push_back(has ? fixed(100 * recovered_share(r), 2) + " %" : "-");
    rows.back().push_back(has ? fixed(100 * budget_hit_share(r), 2) + " %" : "-");
  }
  return aligned(rows) +
         "bits: of an operand's element, codes and scales. Losses: nats a byte; train: mean since the last "
         "evaluation.\n"
         "SQNR: signal to quantization noise, in dB, of weights, activations and gradients of the trained model as "
         "Fprop and\n"
         "Dgrad read them; the mean of the dB over all quantized layers.\n" +
         (controlled ? "Safe path: of a linear layer's steps, those with the safe recipe; budget hit: of all steps.\n"
                     : "");
}

std::string times(std::span<result const> results) {
  auto const* const base = find_float(results);
  std::vector<row> rows{{"recipe", "seconds", "ms a step", "step against fp32"}};
  for (auto const& r : results)
    rows.push_back({r.recipe, fixed(r.seconds, 1), fixed(1000 * r.step_seconds, 1),
                    base == nullptr ? "-" : fixed(r.step_seconds / base->step_seconds, 2) + " x"});
  return aligned(rows);
}

std::string csv(std::span<result const> results) {
  std::ostringstream out;
  bool const controlled = has_steps(results);
  out << "recipe,step,train_loss,validation_loss"
      << (controlled ? ",triggered,active,evicted,nonfinite,budget_hit" : "") << '\n'
      << std::setprecision(9);
  for (auto const& r : results) {
    int last = -1;
    for (auto const& point : r.curve) {
      for (int step = last + 1; controlled && step < point.step && !r.steps.empty(); ++step)
        if (step > 0) out << r.recipe << ',' << step << ",," << counts_of(r, step) << '\n';
      last = point.step;
      out << r.recipe << ',' << point.step << ',';
      if (point.step != 0) out << point.train_loss;  // no step has been taken at 0
      out << ',' << point.validation_loss << (controlled ? counts_of(r, point.step) : "") << '\n';
    }
  }
  return out.str();
}

void check_writable(std::string const& path) {
  std::error_code ignored;
  auto const kind = std::filesystem::status(path, ignored).type();
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular)
    throw usage_error{"cannot write '" + path + "': it is not a plain file"};
  auto const temporary = temporary_for(path);
  errno = 0;
  std::ofstream const file{temporary};
  if (!file) throw usage_error{"cannot write '" + path + "': " + std::strerror(errno)};
  std::filesystem::remove(temporary, ignored);
}

void write_file(std::string const& path, std::string const& contents) {
  auto const temporary = temporary_for(path);
  std::error_code error;
  std::ofstream file{temporary, std::ios::binary};
  file << contents;
  file.close();
  if (file) std::filesystem::rename(temporary, path, error);
  if (file && !error) return;
  std::filesystem::remove(temporary, error);
  throw std::runtime_error{"cannot write '" + path + "'"};
}

}  // namespace char_gpt
