// SPDX-License-Identifier: Apache-2.0
// The studies of the training example.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "char_gpt_program.hpp"

using namespace char_gpt;

namespace {

TEST_CASE("the studies run, and repeat themselves") {
  scratch_folder const folder;
  auto const gnmr = small_run(
      folder, {"study", "gnmr", "--steps", "12", "--seeds", "2", "--bits", "2", "--plot", folder / "out.svg"});
  auto const first = run_program(gnmr);
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  auto const csv_first = load(folder / "out.csv");
  CHECK(lines_of(csv_first).size() == 1 + 2 * 12);
  CHECK(load(folder / "out.svg").ends_with("</svg>\n"));
  CHECK(run_program(gnmr).out == first.out);
  CHECK(load(folder / "out.csv") == csv_first);

  auto const freeze = run_program(small_run(folder, {"study", "freeze", "--steps", "120", "--lr", "1e-2"}));
  REQUIRE(freeze.code == 0);
  auto const lines = lines_of(load(folder / "out.csv"));
  REQUIRE(lines.size() == 1 + 2 * 120);
  auto const lost = [&](std::size_t line) { return std::stod(lines[line].substr(lines[line].rfind(',') + 1)); };
  CHECK(lost(10) < 0.5);    // bf16, at the peak of the learning rate
  CHECK(lost(120) > 0.9);   // and at a thousandth of it
  CHECK(lost(240) > 0.99);  // where nothing that is stored in fp8 moves
}

TEST_CASE("the studies of recipes run, repeat themselves whatever the number of threads, and write what they say") {
  scratch_folder const folder;
  auto const check = [&](std::string const& study, std::size_t trainings, std::string const& words) {
    auto arguments = small_run(folder, {"study", study, "--steps", "4", "--seeds", "2", "--plot", folder / "out.svg"});
    auto const with_threads = [&](std::string const& threads) {
      *(std::find(arguments.begin(), arguments.end(), "--threads") + 1) = threads;
      return run_program(arguments);
    };
    auto const first = with_threads("1");
    CAPTURE(first.err);
    REQUIRE(first.code == 0);
    CHECK(first.out.find(words) != std::string::npos);
    auto const csv = load(folder / "out.csv");
    auto const lines = lines_of(csv);
    std::size_t count = 0;
    while (count < lines.size() && !lines[count].empty()) ++count;
    CHECK(count == 1 + 2 * trainings);
    CHECK(load(folder / "out.svg").ends_with("</svg>\n"));
    auto const second = with_threads("3");
    CHECK(second.out == first.out);
    CHECK(load(folder / "out.csv") == csv);
  };
  check("wgrad", 1 + 7 * 3, "mxfp4_hadamard32");
  check("blocks", 2 * (1 + 1 + 8), "64 x 64");
  check("ngpt", 2 * 5, "signed H16");
}

}  // namespace
