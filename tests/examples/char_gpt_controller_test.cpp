// SPDX-License-Identifier: Apache-2.0
// What chooses between the two recipes of a layer in the training example.
#include <doctest/doctest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "char_gpt/training/controller.hpp"

using namespace char_gpt;

namespace {

TEST_CASE("the controllers choose as they say") {
  loft::gnmr_options const how{.alpha = 1.5, .max_active = 2};
  controller none{{}, 5}, gnmr{{.who = chooser::gnmr, .options = how}, 5},
      random{{.who = chooser::random, .places = {0, 2, 5, 1}, .seed = 4}, 5},
      largest{{.who = chooser::largest, .options = how, .watched = 3}, 5};
  auto const paths = [](controller const& c) {
    std::string text;
    for (std::size_t i = 0; i < 5; ++i) text += c.safe(i) ? 's' : '-';
    return text;
  };
  for (int step = 0; step < 6; ++step) {
    std::vector<double> norms{1, 4, 2, 3, 1};
    if (step == 4) norms[4] = 2;
    CHECK(none.step(norms).active == 0);
    CHECK(gnmr.step(norms).active == (step == 4 || step == 5 ? 1 : 0));  // the lock keeps it for a step
    CHECK(random.step(norms).active == std::array{0, 2, 5, 1, 0, 0}[static_cast<std::size_t>(step)]);
    largest.step(norms);
    CHECK(paths(none) == "-----");
    CHECK(paths(gnmr) == (step == 4 || step == 5 ? "----s" : "-----"));
    CHECK(paths(largest) == (step < 2 ? "-----" : "-s-s-"));
    if (step == 2) CHECK(paths(random) == "sssss");
  }
  CHECK(paths(random) == "-----");
  controller bad{{.who = chooser::gnmr, .options = {.alpha = -1}}, 5};
  CHECK_THROWS_WITH_AS(bad.step(std::vector<double>(5)), loft::message(loft::status::invalid_alpha),
                       std::runtime_error);
}

}  // namespace
