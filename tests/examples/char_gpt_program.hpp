// SPDX-License-Identifier: Apache-2.0
// Runs of the training example as a program, in a folder that is gone afterwards.
#pragma once

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "char_gpt/program.hpp"

namespace char_gpt {

namespace fs = std::filesystem;

/// A folder that is gone with the test.
struct scratch_folder {
  fs::path path = fs::temp_directory_path() / ("char_gpt_test-" + std::to_string(getpid()));
  scratch_folder() {
    fs::remove_all(path);
    fs::create_directory(path);
  }
  scratch_folder(scratch_folder const&) = delete;
  scratch_folder& operator=(scratch_folder const&) = delete;
  ~scratch_folder() { fs::remove_all(path); }
  std::string operator/(char const* name) const { return (path / name).string(); }
};

inline void save(std::string const& path, std::string const& bytes) { std::ofstream{path, std::ios::binary} << bytes; }

inline std::string load(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// What one run left: its exit code, its standard output, its standard error.
struct outcome {
  int code;
  std::string out, err;
};

inline outcome run_program(std::vector<std::string> const& arguments) {
  std::vector<char const*> argv{"char_gpt"};
  for (auto const& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  int const code = run(static_cast<int>(argv.size()), argv.data(), out, err);
  return {code, out.str(), err.str()};
}

inline std::string synthetic_text() {
  std::mt19937 generator{1};
  std::string text;
  while (text.size() < 20000) text += std::array{"tick ", "tock ", "the clock ", "strikes\n"}[generator() % 4];
  return text;
}

/// Arguments of a training that takes seconds; what its table is made from goes to out.csv.
inline std::vector<std::string> small_run(scratch_folder const& folder, std::vector<std::string> arguments) {
  save(folder / "text", synthetic_text());
  for (auto const* more : {"--width", "32", "--heads", "2", "--layers", "1", "--context", "16", "--batch", "4",
                           "--eval-batches", "2", "--quiet", "--threads", "1"})
    arguments.emplace_back(more);
  arguments.insert(arguments.end(), {"--text", folder / "text", "--csv", folder / "out.csv"});
  return arguments;
}

inline std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream in{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace char_gpt
