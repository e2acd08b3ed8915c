// SPDX-License-Identifier: Apache-2.0
// Trees over groups of lanes in emulated warps of 32 and waves of 64, against loops over the same numbers.
#include "lane_emulator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace {

std::vector<std::uint32_t> random_words(int count) {
  std::mt19937 random{17};
  std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
  for (auto& word : words) word = static_cast<std::uint32_t>(random());
  return words;
}

/// reduce(a, b) over each group of Lanes, by a tree of exchanges: what every lane ends up with.
template <int Lanes, class Reduce>
std::vector<std::uint32_t> tree(std::vector<std::uint32_t> const& words, Reduce reduce) {
  std::vector<std::uint32_t> result(words.size(), 0xa5a5'a5a5u);
  emulator::wave wave{static_cast<int>(words.size())};
  bool const same = wave.run([&](int lane) {
    emulator::group<Lanes> const group{&wave, lane};
    std::uint32_t word = words[static_cast<std::size_t>(lane)];
    for (int mask = 1; mask < Lanes; mask *= 2) word = reduce(word, group.exchange(word, mask));
    result[static_cast<std::size_t>(lane)] = word;
  });
  CHECK(same);
  return result;
}

template <class Reduce>
std::vector<std::uint32_t> loop(std::vector<std::uint32_t> const& words, std::size_t lanes, Reduce reduce) {
  std::vector<std::uint32_t> result(words.size());
  for (std::size_t first = 0; first < words.size(); first += lanes) {
    std::uint32_t word = words[first];
    for (std::size_t i = 1; i < lanes; ++i) word = reduce(word, words[first + i]);
    for (std::size_t i = 0; i < lanes; ++i) result[first + i] = word;
  }
  return result;
}

template <int Lanes> void check_trees(int width) {
  CAPTURE(Lanes);
  CAPTURE(width);
  auto const words = random_words(width);
  auto const largest = [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); };
  auto const sum = [](std::uint32_t a, std::uint32_t b) { return a + b; };
  CHECK(tree<Lanes>(words, largest) == loop(words, Lanes, largest));
  CHECK(tree<Lanes>(words, sum) == loop(words, Lanes, sum));
}

}  // namespace

TEST_CASE("trees of exchanges give every lane what a loop gives") {
  for (int width : {32, 64}) {
    check_trees<1>(width);
    check_trees<2>(width);
    check_trees<4>(width);
    check_trees<8>(width);
    check_trees<16>(width);
    check_trees<32>(width);
  }
  check_trees<64>(64);
}

TEST_CASE("lanes know their rank in groups of any size") {
  emulator::wave wave{64};
  std::vector<int> ranks(64, -1);
  CHECK(wave.run([&](int lane) { ranks[static_cast<std::size_t>(lane)] = emulator::group<16>{&wave, lane}.rank(); }));
  for (int lane = 0; lane < 64; ++lane) CHECK(ranks[static_cast<std::size_t>(lane)] == lane % 16);
}

TEST_CASE("control: lanes that make different calls are found out") {
  emulator::wave masks{64}, counts{64}, outside{32};
  CHECK_FALSE(masks.run([&](int lane) { masks.exchange(lane, 1, lane == 5 ? 2 : 1); }));
  CHECK_FALSE(counts.run([&](int lane) {
    if (lane != 63) counts.exchange(lane, 1, 1);
  }));
  // A group of 64 in a warp of 32: it has no such lane.
  CHECK_FALSE(outside.run([&](int lane) { outside.exchange(lane, 1, 32); }));
}
