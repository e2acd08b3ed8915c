// SPDX-License-Identifier: Apache-2.0
// The models of the training example: their gradients, the unit norms of nGPT, and which recipe each layer takes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <loft/recipes.hpp>
#include <random>
#include <string>
#include <vector>

#include "char_gpt/model/linear.hpp"
#include "char_gpt/model/model.hpp"

using namespace char_gpt;

namespace {

constexpr loft::recipe<> plain{};

constexpr model_shape tiny{.layers = 2, .width = 8, .heads = 2, .context = 6, .batch = 2};

constexpr model_shape tiny_of(architecture arch) {
  model_shape shape = tiny;
  shape.arch = arch;
  return shape;
}

constexpr architecture architectures[] = {architecture::gpt, architecture::ngpt};

struct tiny_batch {
  std::vector<std::uint8_t> tokens, targets;
  tiny_batch() {
    std::mt19937 generator{5};
    for (int i = 0; i < tiny.batch * tiny.context; ++i) {
      tokens.push_back(static_cast<std::uint8_t>(generator() % 7 + 60));  // few, so that embeddings are shared
      targets.push_back(static_cast<std::uint8_t>(generator() % 256));
    }
  }
};

/// Away from the zeros and ones that training starts with, where mistakes could hide.
template <class T> void scatter_parameters(model<T>& gpt) {
  std::mt19937 generator{9};
  std::normal_distribution<double> normal;
  for (auto& p : gpt.parameters()) p += static_cast<T>(0.3 * normal(generator));
}

/// (f(p + h) - f(p - h)) / 2h for every parameter of one tensor. In double with h = 1e-5 both of its errors, about
/// h^2 f''' and 1e-16 f / h, stay near 1e-10.
std::vector<double> differences(model<double>& gpt, tiny_batch const& batch, tensor_place const& tensor) {
  constexpr double h = 1e-5;
  std::vector<double> result;
  for (std::int64_t i = 0; i < tensor.size; ++i) {
    auto& p = gpt.parameters()[static_cast<std::size_t>(tensor.begin + i)];
    double const kept = p;
    p = kept + h;
    double const above = gpt.forward(batch.tokens.data(), batch.targets.data(), 0);
    p = kept - h;
    double const below = gpt.forward(batch.tokens.data(), batch.targets.data(), 0);
    p = kept;
    result.push_back((above - below) / (2 * h));
  }
  return result;
}

bool agree(std::vector<double> const& numeric, std::vector<double> const& analytic) {
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    largest = std::max(largest, std::abs(analytic[i]));
    worst = std::max(worst, std::abs(numeric[i] - analytic[i]));
  }
  return worst <= 1e-9 + 1e-6 * largest;
}

void check_gradients(architecture arch) {
  thread_pool pool{2};
  model<double> gpt{tiny_of(arch), linear<double>{plain}, pool, 3};
  scatter_parameters(gpt);
  tiny_batch const batch;
  gpt.forward(batch.tokens.data(), batch.targets.data(), 0);
  gpt.backward();
  std::vector<double> const all{gpt.gradients().begin(), gpt.gradients().end()};
  for (auto const& tensor : gpt.tensors()) {
    CAPTURE(tensor.name);
    std::vector<double> analytic{all.begin() + tensor.begin, all.begin() + tensor.begin + tensor.size};
    auto const numeric = differences(gpt, batch, tensor);
    CHECK(agree(numeric, analytic));
    // The control: one entry that is wrong by a thousandth is seen, and no tensor is all 0.
    auto const largest = std::max_element(analytic.begin(), analytic.end(),
                                          [](double a, double b) { return std::abs(a) < std::abs(b); });
    CHECK(std::abs(*largest) > 1e-5);
    *largest *= 1.001;
    CHECK_FALSE(agree(numeric, analytic));
  }
}

TEST_CASE("the gradient of every parameter agrees with central differences") {
  for (auto const arch : architectures) {
    CAPTURE(static_cast<int>(arch));
    check_gradients(arch);
  }
}

void check_precision(architecture arch) {
  thread_pool pool{2};
  tiny_batch const batch;
  model<double> sharp{tiny_of(arch), linear<double>{plain}, pool, 3};
  model<float> gpt{tiny_of(arch), linear<float>{plain}, pool, 3};
  scatter_parameters(sharp);
  std::copy(sharp.parameters().begin(), sharp.parameters().end(), gpt.parameters().begin());
  double const loss = sharp.forward(batch.tokens.data(), batch.targets.data(), 0);
  CHECK(gpt.forward(batch.tokens.data(), batch.targets.data(), 0) == doctest::Approx(loss).epsilon(1e-5));
  sharp.backward();
  gpt.backward();
  double error = 0, power = 0;
  for (std::size_t i = 0; i < sharp.gradients().size(); ++i) {
    error += std::pow(sharp.gradients()[i] - static_cast<double>(gpt.gradients()[i]), 2);
    power += std::pow(sharp.gradients()[i], 2);
  }
  CHECK(std::sqrt(error / power) < 1e-5);
}

TEST_CASE("float and double agree") {
  for (auto const arch : architectures) {
    CAPTURE(static_cast<int>(arch));
    check_precision(arch);
  }
}

TEST_CASE("the number of threads changes no gradient") {
  tiny_batch const batch;
  auto const gradients = [&](architecture arch, int threads) {
    thread_pool pool{threads};
    model<float> gpt{tiny_of(arch), linear<float>{plain}, pool, 3};
    gpt.forward(batch.tokens.data(), batch.targets.data(), 0);
    gpt.backward();
    return std::vector<float>{gpt.gradients().begin(), gpt.gradients().end()};
  };
  for (auto const arch : architectures) CHECK(gradients(arch, 1) == gradients(arch, 3));
}

// ---- nGPT ----

/// The largest distance from 1 of the norm of `count` vectors, `step` apart, whose `size` entries are `stride` apart.
double distance_from_unit(float const* first, std::int64_t count, std::int64_t step, int size, std::int64_t stride) {
  double worst = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    double squares = 0;
    for (int j = 0; j < size; ++j) squares += std::pow(static_cast<double>(first[i * step + j * stride]), 2);
    worst = std::max(worst, std::abs(std::sqrt(squares) - 1));
  }
  return worst;
}

/// Of every matrix along the width of the stream: the rows of those that read it, the columns of those that add to it.
double distance_from_unit(model<float>& gpt, int width) {
  double worst = 0;
  for (auto const& tensor : gpt.tensors()) {
    if (!tensor.decays) continue;
    float const* const first = gpt.parameters().data() + tensor.begin;
    auto const vectors = tensor.size / width;
    worst = std::max(worst, tensor.name.ends_with("projection weight")
                                ? distance_from_unit(first, vectors, 1, width, vectors)
                                : distance_from_unit(first, vectors, width, width, 1));
  }
  return worst;
}

TEST_CASE("the weights of nGPT have norm 1, at the start and whenever they are asked to; those of GPT are let be") {
  thread_pool pool{2};
  model<float> ngpt{tiny_of(architecture::ngpt), linear<float>{plain}, pool, 3},
      gpt{tiny, linear<float>{plain}, pool, 3};
  CHECK(distance_from_unit(ngpt, tiny.width) < 1e-5);
  for (auto* const one : {&ngpt, &gpt}) {
    scatter_parameters(*one);
    std::vector<float> const scattered{one->parameters().begin(), one->parameters().end()};
    CHECK(distance_from_unit(*one, tiny.width) > 0.1);
    one->constrain();
    CHECK(std::ranges::equal(one->parameters(), scattered) == (one == &gpt));
    for (auto const& tensor : one->tensors())  // scales are free
      if (!tensor.decays)
        CHECK(std::equal(scattered.begin() + tensor.begin, scattered.begin() + tensor.begin + tensor.size,
                         one->parameters().begin() + tensor.begin));
  }
  CHECK(distance_from_unit(ngpt, tiny.width) < 1e-5);
}

TEST_CASE("nGPT has four linear layers a transformer layer like GPT, without biases") {
  thread_pool pool{1};
  model<float> ngpt{tiny_of(architecture::ngpt), linear<float>{plain}, pool, 3},
      gpt{tiny, linear<float>{plain}, pool, 3};
  REQUIRE(ngpt.linears().size() == gpt.linears().size());
  std::array const outs{3 * 8, 8, 4 * 8, 8};
  for (std::size_t i = 0; i < gpt.linears().size(); ++i) {
    CHECK(ngpt.linears()[i].name == gpt.linears()[i].name);
    CHECK(ngpt.linears()[i].size == gpt.linears()[i].size - outs[i % 4]);
  }
}

TEST_CASE("a product of nGPT stays within what unit vectors allow") {
  thread_pool pool{2};
  tiny_batch const batch;
  model<float> ngpt{tiny_of(architecture::ngpt), linear<float>{plain}, pool, 3};
  // Logits are within +-s_z, and all s_z are 10: no loss can leave log 256 by more than 20.
  double const loss = ngpt.forward(batch.tokens.data(), batch.targets.data(), 0);
  CHECK(loss > std::log(256.0) - 20);
  CHECK(loss < std::log(256.0) + 20);
  // At s_z = 0 every logit is 0, and the loss is log 256 whatever the rest.
  for (auto const& tensor : ngpt.tensors())
    if (tensor.name == "logit scale")
      std::ranges::fill(ngpt.parameters().subspan(static_cast<std::size_t>(tensor.begin), 256), 0.0f);
  CHECK(ngpt.forward(batch.tokens.data(), batch.targets.data(), 0) == doctest::Approx(std::log(256.0)).epsilon(1e-6));
}

// ---- recipes of layers ----

TEST_CASE("each linear layer takes its own path") {
  thread_pool pool{2};
  constexpr model_shape shape{.layers = 2, .width = 32, .heads = 2, .context = 8, .batch = 2};
  loft::recipes::mxfp4 const coarse;
  std::vector<std::uint8_t> const tokens(16, 'a'), targets(16, 'b');
  model<float> gpt{shape, linear<float>{plain}, pool, 3};
  REQUIRE(gpt.linears().size() == 8);
  CHECK(gpt.linears()[1].name == "layer 0 attention projection");
  CHECK(gpt.linears()[1].size == 32 * 32 + 32);
  double const exact = gpt.forward(tokens.data(), targets.data(), 0);
  std::vector<double> losses;
  for (std::size_t i = 0; i < 8; ++i) {
    gpt.use(i, linear<float>{coarse});
    losses.push_back(gpt.forward(tokens.data(), targets.data(), 0));
    gpt.use(i, linear<float>{plain});
    CHECK(gpt.forward(tokens.data(), targets.data(), 0) == exact);
  }
  losses.push_back(exact);
  std::sort(losses.begin(), losses.end());
  CHECK(std::adjacent_find(losses.begin(), losses.end()) == losses.end());  // no two layers are the same one
}

TEST_CASE("a plan gives each layer its recipe, and values their own") {
  thread_pool pool{1};
  constexpr model_shape shape{.layers = 4, .width = 32, .heads = 2, .context = 16, .batch = 2};
  std::vector<std::uint8_t> const tokens(32, 'a'), targets(32, 'b');
  using coarse = loft::recipes::mxfp4;
  auto const loss_of = [&](loft::exceptions const& except) {
    loft::plan<coarse> const plan{.except = except};
    planned_linears<float> const layers{plan};
    model<float> gpt{shape, linear<float>{plain}, pool, 3};
    for (std::size_t i = 0; i < gpt.linears().size(); ++i) {
      auto place = gpt.place_of(i);
      auto const first = layers.at(place, 0);
      if (place.role != loft::layer_role::query_key) {
        gpt.use(i, first);
        continue;
      }
      place.role = loft::layer_role::value;
      gpt.use(i, first, layers.at(place, 0));
    }
    return gpt.forward(tokens.data(), targets.data(), 0);
  };
  CHECK(loss_of({.from = 0}) == [&] {
    model<float> gpt{shape, linear<float>{plain}, pool, 3};
    return gpt.forward(tokens.data(), targets.data(), 0);
  }());
  std::vector<double> losses;
  for (auto const& except :
       {loft::exceptions{}, loft::exceptions{.first = 0.25}, loft::exceptions{.last = 0.25},
        loft::exceptions{.last = 0.5}, loft::exceptions{.query_key = true}, loft::exceptions{.from = 0}})
    losses.push_back(loss_of(except));
  std::sort(losses.begin(), losses.end());
  CHECK(std::adjacent_find(losses.begin(), losses.end()) == losses.end());  // no two are the same

  // Two products of queries and keys, and of values, are what one product of all three is.
  model<float> whole{shape, linear<float>{plain}, pool, 3}, split{shape, linear<float>{plain}, pool, 3};
  for (std::size_t i = 0; i < 16; i += 4) split.use(i, linear<float>{plain}, linear<float>{plain});
  CHECK(whole.place_of(13).role == loft::layer_role::attention_projection);
  CHECK(whole.place_of(13).block == 3);
  CHECK(split.forward(tokens.data(), targets.data(), 0) ==
        doctest::Approx(whole.forward(tokens.data(), targets.data(), 0)).epsilon(1e-6));
  whole.backward();
  split.backward();
  for (std::size_t i = 0; i < whole.gradients().size(); ++i)
    CHECK(split.gradients()[i] == doctest::Approx(whole.gradients()[i]).epsilon(1e-3).scale(1e-3));
}

}  // namespace
