// SPDX-License-Identifier: Apache-2.0
// Golden files: bits are an interface, so codes of fixed inputs and seeds are frozen as text in tests/golden.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace test {

inline std::string golden_path(std::string const& name) { return std::string{LOFT_TEST_DATA} + "/../golden/" + name; }

// The lines of a golden file, comments left out.
inline std::string read_golden(std::string const& name) {
  std::ifstream file{golden_path(name)};
  std::string text, line;
  while (std::getline(file, line)) {
    if (!line.empty() && line[0] != '#') text += line + '\n';
  }
  return text;
}

inline void write_golden(std::string const& name, std::string const& comment, std::string const& text) {
  std::ofstream{golden_path(name)} << "# " << comment << '\n' << text;
}

// " 0a 1f ..." after a label.
class golden_line {
 public:
  explicit golden_line(std::string const& label) : text_{label + ':'} {}
  void add(std::uint32_t code, int digits = 2) {
    char hex[12];
    std::snprintf(hex, sizeof hex, " %0*x", digits, code);
    text_ += hex;
  }
  [[nodiscard]] std::string str() const { return text_ + '\n'; }

 private:
  std::string text_;
};

}  // namespace test
