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
namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

using row = std::vector<std::string>;

/// Rows with aligned columns: the first to the left, the others to the right.
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

result const* find_float(std::span<result const> results) {
  auto const found = std::find_if(results.begin(), results.end(), [](auto const& r) { return r.recipe == "fp32"; });
  return found == results.end() || found->diverged ? nullptr : &*found;
}

std::string noise(result const& r, slot at) {
  auto const& entry = r.quantization.slots[at];
  return entry.tensors == 0 ? "-" : fixed(entry.decibels / entry.tensors, 1);
}

std::filesystem::path temporary_for(std::string const& path) { return path + ".partial-" + std::to_string(getpid()); }

}  // namespace

std::string table(std::span<result const> results) {
  auto const* const base = find_float(results);
  std::vector<row> rows{
      {"recipe", "bits", "train loss", "validation loss", "gap to fp32", "SQNR W", "SQNR X", "SQNR dY"}};
  for (auto const& r : results) {
    auto const& last = r.curve.back();
    std::string gap = "-";
    if (base != nullptr && !r.diverged)
      gap = fixed(100 * (last.validation_loss / base->curve.back().validation_loss - 1), 2) + " %";
    rows.push_back({r.recipe, fixed(r.quantization.bits / r.quantization.elements, 2),
                    r.diverged ? "diverged" : fixed(last.train_loss, 4),
                    r.diverged ? "diverged" : fixed(last.validation_loss, 4), gap, noise(r, fprop_right),
                    noise(r, fprop_left), noise(r, dgrad_left)});
  }
  return aligned(rows) +
         "bits: of an operand's element, codes and scales. Losses: nats a byte; train: mean since the last "
         "evaluation.\n"
         "SQNR: signal to quantization noise, in dB, of weights, activations and gradients of the trained model as "
         "Fprop and\n"
         "Dgrad read them; the mean of the dB over all quantized layers.\n";
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
  out << "recipe,step,train_loss,validation_loss\n" << std::setprecision(9);
  for (auto const& r : results)
    for (auto const& point : r.curve) {
      out << r.recipe << ',' << point.step << ',';
      if (point.step != 0) out << point.train_loss;  // no step has been taken at 0
      out << ',' << point.validation_loss << '\n';
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
