// SPDX-License-Identifier: Apache-2.0
// The command line of the training example: what it refuses, and with which words.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "char_gpt/program.hpp"
#include "char_gpt_program.hpp"

using namespace char_gpt;

namespace {

TEST_CASE("bad options end with exit code 2 and one sentence") {
  scratch_folder const folder;
  save(folder / "short", "too short");
  fs::create_directory(folder / "taken");
  using arguments = std::vector<std::string>;
  std::vector<std::pair<arguments, std::string>> const cases{
      {{"--no-such-option"}, "no-such-option"},
      {{"extra"}, "extra"},
      {{"--text", folder / "short", "--steps"}, "--steps"},
      {{"--steps", "many"}, "--steps"},
      {{"--steps", "0"}, "--steps must be from 1"},
      {{"--steps", "-3"}, "--steps must be from 1"},
      {{"--steps", "99999999999999999999"}, "--steps"},
      {{"--layers", "0"}, "--layers must be"},
      {{"--width", "-1"}, "--width must be"},
      {{"--heads", "0"}, "--heads must be"},
      {{"--context", "0"}, "--context must be"},
      {{"--batch", "0"}, "--batch must be"},
      {{"--eval-every", "0"}, "--eval-every must be"},
      {{"--eval-batches", "0"}, "--eval-batches must be"},
      {{"--threads", "-1"}, "--threads must be"},
      {{"--lr", "0"}, "--lr must be"},
      {{"--lr", "nan"}, "--lr must be"},
      {{"--lr", "inf"}, "--lr must be"},
      {{"--clip", "0"}, "--clip must be"},
      {{"--weight-decay", "-1"}, "--weight-decay must be"},
      {{"--seed", "-1"}, "--seed"},
      {{"--width", "130"}, "multiple of --heads"},
      {{"--layers", "1000", "--width", "65536"}, "GiB of memory"},
      {{"--context", "65536", "--batch", "65536"}, "GiB of memory"},
      {{"--recipes", "fp31"}, "unknown recipe 'fp31' for --recipes; known are fp32, bf16, mxfp8"},
      {{"--recipes", "fp32,fp32"}, "more than once"},
      {{"--recipes", ""}, "unknown recipe ''"},
      {{"--recipes", "nvfp4", "--batch", "1", "--context", "20"}, "multiple of 16 for the rotation of nvfp4"},
      {{"--controller", "best"}, "--controller must be none or gnmr"},
      {{"--safe", "fp31"}, "unknown recipe 'fp31' for --safe"},
      {{"--arch", "rnn"}, "--arch must be gpt or ngpt, not 'rnn'"},
      {{"--adam-state", "int2"}, "--adam-state must be fp32, bf16, fp8 or fp4, not 'int2'"},
      {{"--alpha", "0"}, "--alpha must be"},
      {{"--beta", "inf"}, "--beta must be"},
      {{"--budget", "-1"}, "--budget must be"},
      {{"--finish-from", "1.5"}, "--finish-from must be from 0 to 1, not 1.5"},
      {{"--text", folder / "absent"}, "cannot read"},
      {{"--text", folder.path.string()}, "it is a directory"},
      {{"--text", folder / "short"}, "too short"},
      {{"--csv", folder / "absent/losses.csv"}, "cannot write"},
      {{"--plot", folder / "taken"}, "not a plain file"},
      {{"--plot", "/dev/null"}, "not a plain file"},
      {{"--csv", folder / "same", "--plot", folder / "same"}, "the same file"},
      {{"--csv", folder / "same", "--plot", folder / "./same"}, "the same file"},
      {{"--steps", "100000001"}, "--steps must be from 1 to 100000000, not 100000001"},
      {{"--controller", "gnmr", "--safe", "hif4", "--width", "96"},
       "--width must be a multiple of 64 for the rotation of hif4, not 96"},
      {{"--text", folder / "short", "--csv", folder / "short"}, "must not be replaced"},
  };
  for (auto const& one : cases) {
    auto options = one.first;
    auto const& words = one.second;
    if (std::count(options.begin(), options.end(), "--text") == 0)  // so that none of them trains, nor needs a text
      options.insert(options.end(), {"--text", folder / "absent"});
    auto const r = run_program(options);
    CAPTURE(r.err);
    CAPTURE(words);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK(r.err.starts_with("char_gpt: "));
    CHECK(r.err.find(words) != std::string::npos);
    CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  }
  CHECK(load(folder / "short") == "too short");
  CHECK(std::distance(fs::directory_iterator{folder.path}, {}) == 2);  // nothing was left behind
}

TEST_CASE("a study has options of its own, which are checked too") {
  std::vector<std::pair<std::vector<std::string>, std::string>> const cases{
      {{"study"}, "subcommand"},
      {{"study", "everything"}, "subcommand"},
      {{"study", "gnmr", "--bits", "8"}, "--bits must be 2, 3 or 4"},
      {{"study", "gnmr", "--bits", "2,2"}, "--bits names 2 more than once"},
      {{"study", "ngpt", "--arch", "ngpt"}, "--arch"},
      {{"study", "gnmr", "--seeds", "0"}, "--seeds must be"},
      {{"study", "gnmr", "--recipes", "mxfp4"}, "--recipes"},
      {{"study", "freeze", "--plot", "x.svg"}, "--plot"},
      {{"study", "freeze", "--steps", "0"}, "--steps must be"},
      {{"study", "wgrad", "--recipes", "mxfp4"}, "--recipes"},
      {{"study", "blocks", "--seeds", "0"}, "--seeds must be"},
      {{"study", "league", "--recipes", "mxfp5"}, "unknown recipe 'mxfp5' for --recipes"},
      {{"study", "league", "--recipes", "quartet2", "--width", "64"}, "--width must be a multiple of 128"},
      {{"study", "league", "--text", "absent"}, "cannot read"},
  };
  for (auto const& [arguments, words] : cases) {
    auto const r = run_program(arguments);
    CAPTURE(r.err);
    CHECK(r.code == 2);
    CHECK(r.err.find(words) != std::string::npos);
  }
}

TEST_CASE("a table that cannot be written is an error") {
  scratch_folder const folder;
  save(folder / "text", std::string(5000, 'a'));
  std::vector<std::string> const arguments{"char_gpt",
                                           "--text",
                                           folder / "text",
                                           "--steps",
                                           "1",
                                           "--width",
                                           "8",
                                           "--heads",
                                           "1",
                                           "--layers",
                                           "1",
                                           "--context",
                                           "4",
                                           "--batch",
                                           "1",
                                           "--eval-batches",
                                           "1",
                                           "--recipes",
                                           "fp32",
                                           "--threads",
                                           "1"};
  std::vector<char const*> argv;
  for (auto const& a : arguments) argv.push_back(a.c_str());
  std::ofstream full{"/dev/full"};
  std::ostringstream err;
  CHECK(run(static_cast<int>(argv.size()), argv.data(), full, err) == 1);
  CHECK(err.str().find("cannot write the table") != std::string::npos);
}

TEST_CASE("help is no error") {
  auto const r = run_program({"--help"});
  CHECK(r.code == 0);
  CHECK(r.out.find("--recipes") != std::string::npos);
  CHECK(r.err.empty());
}

}  // namespace
