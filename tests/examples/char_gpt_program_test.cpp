// SPDX-License-Identifier: Apache-2.0
// The training example as a program: it learns, repeats itself, and writes what it says.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "char_gpt_program.hpp"

using namespace char_gpt;

namespace {

TEST_CASE("a run learns, and repeats itself whatever the number of threads") {
  scratch_folder const folder;
  save(folder / "text", synthetic_text());
  save(folder / "losses.csv", "an older file");
  auto const train_with = [&](char const* threads, char const* seed) {
    return run_program({"--text",
                        folder / "text",
                        "--steps",
                        "60",
                        "--eval-every",
                        "20",
                        "--width",
                        "32",
                        "--heads",
                        "2",
                        "--layers",
                        "1",
                        "--context",
                        "16",
                        "--batch",
                        "4",
                        "--eval-batches",
                        "4",
                        "--quiet",
                        "--threads",
                        threads,
                        "--seed",
                        seed,
                        "--csv",
                        folder / "losses.csv",
                        "--plot",
                        folder / "losses.svg"});
  };
  auto const first = train_with("1", "7");
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  auto const csv_first = load(folder / "losses.csv"), svg_first = load(folder / "losses.svg");
  auto const second = train_with("2", "7"), other = train_with("2", "8");
  CHECK(second.out == first.out);
  CHECK(other.out != first.out);
  CHECK(csv_first != load(folder / "losses.csv"));
  REQUIRE(train_with("3", "7").code == 0);
  CHECK(csv_first == load(folder / "losses.csv"));
  CHECK(svg_first == load(folder / "losses.svg"));
  CHECK(svg_first.ends_with("</svg>\n"));

  std::istringstream lines{csv_first};
  std::string line;
  std::getline(lines, line);
  CHECK(line == "recipe,step,train_loss,validation_loss");
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    double const validation = std::stod(line.substr(line.rfind(',') + 1));
    if (line.find(",0,") != std::string::npos) CHECK(validation > 5);     // about log 256
    if (line.find(",60,") != std::string::npos) CHECK(validation < 2.5);  // 14 letters
  }
  CHECK(count == 4 * 4);  // recipes, points
}

TEST_CASE("both architectures learn, with moments of every format, and repeat themselves") {
  scratch_folder const folder;
  auto const losses = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"--steps", "60", "--eval-every", "60", "--recipes", "fp32,nvfp4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto const r = run_program(small_run(folder, arguments));
    CAPTURE(r.err);
    REQUIRE(r.code == 0);
    std::vector<double> last;
    for (auto const& line : lines_of(load(folder / "out.csv")))
      if (line.find(",60,") != std::string::npos) last.push_back(std::stod(line.substr(line.rfind(',') + 1)));
    REQUIRE(last.size() == 2);
    return last;
  };
  std::vector<std::vector<double>> all;
  for (std::string const arch : {"gpt", "ngpt"})
    for (std::string const state : {"fp32", "bf16", "fp8", "fp4"}) {
      CAPTURE(arch);
      CAPTURE(state);
      all.push_back(losses({"--arch", arch, "--adam-state", state}));
      for (double const loss : all.back()) CHECK(loss < 2.5);
    }
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());  // each is a training of its own
  CHECK(losses({"--arch", "ngpt", "--adam-state", "fp8"}) == losses({"--arch", "ngpt", "--adam-state", "fp8"}));
  // What the command line says goes before what the architecture would have.
  auto const plain_ngpt = losses({"--arch", "ngpt"});
  CHECK(losses({"--arch", "ngpt", "--lr", "5e-3", "--weight-decay", "0"}) == plain_ngpt);
  CHECK(losses({"--arch", "ngpt", "--lr", "3e-3"}) != plain_ngpt);
  CHECK(losses({"--arch", "ngpt", "--weight-decay", "0.1"}) != plain_ngpt);
}

TEST_CASE("with gnmr the CSV tells what it did at every step, and the table how much") {
  scratch_folder const folder;
  auto const r = run_program(small_run(folder, {"--steps", "20", "--eval-every", "10", "--recipes", "fp32,mxfp4",
                                                "--controller", "gnmr", "--alpha", "0.01", "--budget", "3"}));
  CAPTURE(r.err);
  REQUIRE(r.code == 0);
  CHECK(lines_of(r.out).front().ends_with("budget hit"));
  CHECK(r.out.find(" 75.00 %    100.00 %\n") !=
        std::string::npos);  // every layer is a candidate, three of four get a place
  auto const lines = lines_of(load(folder / "out.csv"));
  REQUIRE(lines.size() == 1 + 3 + 21);
  CHECK(lines.front() == "recipe,step,train_loss,validation_loss,triggered,active,evicted,nonfinite,budget_hit");
  for (auto const& line : lines) CHECK(std::count(line.begin(), line.end(), ',') == 8);
  CHECK(lines[1].ends_with(",,,,,"));  // fp32 has no controller
  CHECK(lines[5].starts_with("mxfp4,1,,,4,3,0,0,1"));
  CHECK(lines.back().starts_with("mxfp4,20,"));
  CHECK(lines.back().ends_with(",0,1"));
}

TEST_CASE("training can be finished in the safe recipe of a plan") {
  scratch_folder const folder;
  auto const last_losses = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--steps", "20", "--eval-every", "10", "--recipes", "fp32,mxfp4"});
    auto const r = run_program(small_run(folder, arguments));
    CAPTURE(r.err);
    REQUIRE(r.code == 0);
    auto const lines = lines_of(load(folder / "out.csv"));
    REQUIRE(lines.size() == 1 + 2 * 3);
    auto const loss = [&](std::size_t line) { return lines[line].substr(lines[line].find(',')); };
    return std::vector{loss(3), loss(5), loss(6)};  // fp32 at the end; mxfp4 half way, and at the end
  };
  auto const never = last_losses({}), half = last_losses({"--finish-from", "0.5"}),
             always = last_losses({"--finish-from", "0"});
  CHECK(half[0] == never[0]);
  CHECK(half[2] != never[2]);
  CHECK(always[2] == never[0]);  // its safe recipe is float
  CHECK(half[2] != always[2]);
}

}  // namespace
