// SPDX-License-Identifier: Apache-2.0
// AdamW in the training example: the update itself, and moments that are kept in few bits between steps.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "char_gpt/training/adamw.hpp"
#include "normal_values.hpp"

using namespace char_gpt;

namespace {

constexpr moment_format coded[] = {moment_format::bf16, moment_format::fp8, moment_format::fp4};

/// Two tensors: a matrix of more than one stretch with a ragged end, and a vector.
constexpr std::int64_t matrix_size = 2 * stretch_size + 1001, vector_size = 37, all_size = matrix_size + vector_size;

std::vector<tensor_place> tensors() {
  return {{"matrix", 0, matrix_size, true}, {"vector", matrix_size, vector_size, false}};
}

struct trained {
  std::vector<float> parameters;
  std::size_t bytes;
};

trained train_with(moment_format format, int steps, std::uint64_t seed = 1, int threads = 2) {
  thread_pool pool{threads};
  adamw optimizer{tensors(), all_size, 0.1, format, seed};
  trained result{normal_values(all_size, 3), 0};
  for (int step = 0; step < steps; ++step)
    optimizer.step(result.parameters, normal_values(all_size, 10u + static_cast<unsigned>(step)), 0.5, 1e-2, pool);
  result.bytes = optimizer.state_bytes();
  return result;
}

TEST_CASE("with moments in float the update is AdamW's") {
  auto const r = train_with(moment_format::fp32, 5);
  auto const start = normal_values(all_size, 3);
  std::vector<double> p{start.begin(), start.end()}, mean(p.size()), square(p.size());
  for (int step = 1; step <= 5; ++step) {
    auto const gradients = normal_values(all_size, 9u + static_cast<unsigned>(step));
    for (std::size_t i = 0; i < p.size(); ++i) {
      double const g = 0.5 * static_cast<double>(gradients[i]);
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      square[i] = 0.95 * square[i] + 0.05 * g * g;
      if (i < matrix_size) p[i] *= 1 - 1e-2 * 0.1;
      p[i] -= 1e-2 * (mean[i] / (1 - std::pow(0.9, step))) / (std::sqrt(square[i] / (1 - std::pow(0.95, step))) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < p.size(); ++i)
    if (std::abs(static_cast<double>(r.parameters[i]) - p[i]) > 2e-6) FAIL_CHECK(i);
  CHECK(r.bytes == 2 * sizeof(float) * all_size);
}

TEST_CASE("a checkpoint reads and writes moments in float, and no others") {
  thread_pool pool{2};
  adamw whole{tensors(), all_size, 0.1}, first{tensors(), all_size, 0.1}, second{tensors(), all_size, 0.1};
  auto p = normal_values(all_size, 3), q = p;
  for (unsigned step = 0; step < 4; ++step) {
    auto const gradients = normal_values(all_size, step);
    whole.step(p, gradients, 1, 1e-2, pool);
    if (step == 2) {
      std::ranges::copy(first.means(), second.means().begin());
      std::ranges::copy(first.squares(), second.squares().begin());
      second.resume_at(first.steps());
    }
    (step < 2 ? first : second).step(q, gradients, 1, 1e-2, pool);
  }
  CHECK(p == q);
  for (auto const format : coded) {
    adamw other{tensors(), all_size, 0.1, format};
    CHECK_THROWS_AS(other.means(), std::bad_variant_access);
    CHECK_THROWS_AS(other.squares(), std::bad_variant_access);
  }
}

TEST_CASE("moments in few bits are stored in few bits") {
  auto const bytes_of = [](moment_format format) { return train_with(format, 0).bytes; };
  CHECK(bytes_of(moment_format::bf16) == 2 * 2 * all_size);
  constexpr std::size_t full = 2 * stretch_size / 32, last = 1001 / 32 + 1,
                        vector_scales = 2;  // scales, of a byte each
  constexpr std::size_t scales = full + last + vector_scales;
  CHECK(bytes_of(moment_format::fp8) == 2 * all_size + 2 * scales);
  CHECK(bytes_of(moment_format::fp4) == 2 * stretch_size + 1002 + 38 + 2 * scales);
  // What a model is said to need holds for tensors of whole blocks.
  for (auto const format : {moment_format::fp32, moment_format::bf16, moment_format::fp8, moment_format::fp4})
    CHECK(static_cast<double>(adamw{{{"matrix", 0, 64 * 1000, true}}, 64 * 1000, 0, format}.state_bytes()) ==
          64 * 1000 * moment_bytes(format));
}

TEST_CASE("a run with coded moments repeats itself on any number of threads, and follows its seed") {
  for (auto const format : coded) {
    auto const first = train_with(format, 6, 1, 1);
    CHECK(train_with(format, 6, 1, 3).parameters == first.parameters);
    CHECK(train_with(format, 6, 2, 1).parameters != first.parameters);
    CHECK(train_with(moment_format::fp32, 6).parameters != first.parameters);
  }
}

/// The mean of what a store holds of one stretch after `count` rounds with different streams.
template <class Store> std::vector<double> mean_of_stored(std::vector<float> const& values, int count) {
  Store store{std::vector<stretch>{{0, static_cast<int>(values.size())}}};
  std::vector<double> means(values.size());
  std::vector<float> loaded(values.size());
  for (int i = 0; i < count; ++i) {
    store.store(0, values.data(), 5, static_cast<std::uint64_t>(i));
    store.load(0, loaded.data());
    for (std::size_t j = 0; j < means.size(); ++j) means[j] += static_cast<double>(loaded[j]) / count;
  }
  return means;
}

template <class Store> void check_mean(double gap_of_largest) {
  auto const values = normal_values(96, 7);
  constexpr int count = 4000;
  auto const means = mean_of_stored<Store>(values, count);
  for (std::size_t first = 0; first < values.size(); first += 32) {
    double largest = 0;
    for (std::size_t i = first; i < first + 32; ++i)
      largest = std::max(largest, static_cast<double>(std::abs(values[i])));
    // A value between two codes has a deviation of at most half their gap: 5 deviations of the mean, for 96 of them.
    double const bound = 5 * gap_of_largest * largest / 2 / std::sqrt(double{count});
    for (std::size_t i = first; i < first + 32; ++i)
      if (std::abs(means[i] - static_cast<double>(values[i])) > bound) FAIL_CHECK(i);
  }
}

TEST_CASE("the mean is kept without bias") {
  check_mean<number_store<loft::bf16>>(1.0 / 128);
  check_mean<block_store<stochastic_operand<loft::mxfp8_e4m3>>>(1.0 / 7);  // 32 of at least 224
  check_mean<block_store<stochastic_operand<loft::mxfp4>>>(2.0 / 3);       // 2 of more than 3
  // The control: nearest even is biased.
  using nearest = loft::operand<loft::mxfp4, loft::ceil_scale>;
  auto const values = normal_values(32, 7);
  auto const means = mean_of_stored<block_store<nearest>>(values, 1);
  double worst = 0;
  for (std::size_t i = 0; i < 32; ++i) worst = std::max(worst, std::abs(means[i] - static_cast<double>(values[i])));
  CHECK(worst > 0.1);
}

using square8 = square_store<stochastic_operand<mx_moment8>>;
using square4 = square_store<stochastic_operand<loft::mx_moment4>>;

/// Squares that halve from one to the next: `normal` of each block of 32 are met to `error` of their root.
template <class Store> void check_squares(int normal, double error) {
  constexpr int count = 64;
  std::vector<float> squares;
  for (int i = 0; i < count; ++i) squares.push_back(std::ldexp(1.0f + 0.01f * static_cast<float>(i), -i));
  Store store{{{0, count}}};
  std::vector<float> loaded(count);
  for (std::uint64_t stream = 0; stream < 50; ++stream) {
    store.store(0, squares.data(), 5, stream);
    store.load(0, loaded.data());
    for (int i = 0; i < count; ++i) {
      auto const at = static_cast<std::size_t>(i);
      CHECK(loaded[at] > 0);
      if (i % 32 < normal) CHECK(std::abs(std::sqrt(loaded[at] / squares[at]) - 1) < error);
    }
  }
  std::vector<float> const zeros(count);
  store.store(0, zeros.data(), 5, 0);
  store.load(0, loaded.data());
  CHECK(loaded == zeros);
}

TEST_CASE("the square is kept to its format's gap, and nothing beside a large one becomes 0") {
  check_squares<square8>(20, 1.0 / 16);
  check_squares<square4>(8, 1.0 / 2);
}

/// Gradients of +-1 for a hundred steps, then of +-1/16 for as many: the root of the second moment must follow.
template <class Store> double root_after_the_fall() {
  Store store{std::vector<stretch>{{0, 64}}};
  std::vector<float> v(64);
  for (std::uint64_t step = 0; step < 200; ++step) {
    float const g = step < 100 ? 1.0f : 1.0f / 16;
    for (auto& x : v) x += 0.05f * (g * g - x);
    store.store(0, v.data(), 5, step);
    store.load(0, v.data());
  }
  double root = 0;
  for (float const x : v) root += std::sqrt(static_cast<double>(x)) / 64;
  return root;
}

TEST_CASE("a second moment in few bits decays when its gradients do, as it would not if it were rounded to nearest") {
  double const exact = root_after_the_fall<number_store<loft::fp32>>();
  auto const error = [&](double root) { return std::abs(root / exact - 1); };
  CHECK(error(root_after_the_fall<number_store<loft::bf16>>()) < 0.05);
  CHECK(error(root_after_the_fall<square8>()) < 0.05);
  CHECK(error(root_after_the_fall<square4>()) < 0.3);
  CHECK(error(root_after_the_fall<square_store<loft::operand<mx_moment8>>>()) > 1);  // the controls
  CHECK(error(root_after_the_fall<square_store<loft::operand<loft::mx_moment4>>>()) > 1);
}

/// The distance that is left from the minimum of a quadratic bowl, where it was 1: of every `octaves` neighbours each is
/// half as steep as the one before.
double distance_left(moment_format format, unsigned octaves) {
  thread_pool pool{2};
  constexpr std::size_t size = 256;
  adamw optimizer{{{"bowl", 0, size, false}}, size, 0, format, 4};
  auto p = normal_values(size, 3);
  std::vector<float> gradients(size);
  for (int step = 0; step < 400; ++step) {
    for (std::size_t i = 0; i < size; ++i) gradients[i] = p[i] * std::ldexp(1.0f, -static_cast<int>(i % octaves));
    optimizer.step(p, gradients, 1, learning_rate(3e-2, step, 400), pool);
  }
  double squares = 0;
  for (float const x : p) squares += static_cast<double>(x * x);
  return std::sqrt(squares / size);
}

TEST_CASE("AdamW finds a minimum whatever its moments are kept in, unless a block spans more than 4 bits can") {
  CHECK(distance_left(moment_format::fp32, 10) < 1e-2);
  CHECK(distance_left(moment_format::bf16, 10) < 1e-2);
  CHECK(distance_left(moment_format::fp8, 10) < 1e-2);
  CHECK(distance_left(moment_format::fp4, 6) < 1e-2);
  CHECK(distance_left(moment_format::fp4, 10) > 1e-1);  // a mean that rounds to 0 or to 32 times its size
}

TEST_CASE("nGPT has no warm-up") {
  CHECK(learning_rate(1, 0, 100) == doctest::Approx(0.2));
  CHECK(learning_rate(1, 4, 100) == doctest::Approx(1));
  CHECK(learning_rate(1, 0, 100, architecture::ngpt) == doctest::Approx(1));
  CHECK(learning_rate(1, 50, 100, architecture::ngpt) == doctest::Approx(0.55));
  CHECK(learning_rate(1, 99, 100, architecture::ngpt) == doctest::Approx(0.1).epsilon(0.01));
}

}  // namespace
