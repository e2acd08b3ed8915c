// SPDX-License-Identifier: Apache-2.0
// The training example: its gradients, its quantized products, what it refuses, and that it repeats itself.
#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include <loft/recipes.hpp>
#include "controller.hpp"
#include "errors.hpp"
#include "linear.hpp"
#include "model.hpp"
#include "normal_values.hpp"
#include "program.hpp"
#include "report.hpp"
#include "text.hpp"

using namespace char_gpt;

namespace {

namespace fs = std::filesystem;

constexpr loft::recipe<> plain{};

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

void save(std::string const& path, std::string const& bytes) { std::ofstream{path, std::ios::binary} << bytes; }

std::string load(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// ---- gradients ----

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
template <class T>
void scatter_parameters(model<T>& gpt) {
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

// ---- the linear layer ----

// Each sum is over as many numbers as the longest rotation takes, or a multiple of that.
constexpr int batch_size = 2, time_size = 64, in_size = 128, out_size = 256, row_count = batch_size * time_size;
constexpr output_columns whole_rows{out_size, out_size};

struct linear_data {
  std::vector<float> inp = normal_values(row_count * in_size, 1), weight = normal_values(out_size * in_size, 2),
                     bias = normal_values(out_size, 3), dout = normal_values(row_count * out_size, 4);
};

struct linear_result {
  std::vector<float> out = std::vector<float>(row_count * out_size), dinp = std::vector<float>(row_count * in_size),
                     dweight = std::vector<float>(out_size * in_size), dbias = std::vector<float>(out_size);
};

template <class R>
linear_result run_linear(linear_data const& d, R const& recipe, int threads = 2) {
  thread_pool pool{threads};
  workspace<float> work{.pool = pool, .seed = 11, .stream = 100};
  linear_result r;
  matmul_forward(r.out.data(), d.inp.data(), d.weight.data(), d.bias.data(), batch_size, time_size, in_size, whole_rows,
                 recipe, work);
  matmul_backward(r.dinp.data(), r.dweight.data(), r.dbias.data(), d.dout.data(), d.inp.data(), d.weight.data(),
                  batch_size, time_size, in_size, whole_rows, recipe, work);
  return r;
}

/// [rows, cols] -> [cols, rows], moved in memory.
std::vector<float> moved(std::vector<float> const& m, int rows, int cols) {
  std::vector<float> result(m.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      result[static_cast<std::size_t>(c * rows + r)] = m[static_cast<std::size_t>(r * cols + c)];
  return result;
}

template <class O>
std::vector<float> quantized(std::vector<float> const& m, int rows, int cols, O const& how) {
  std::vector<float> result(m.size());
  REQUIRE(fake_quantize(loft::matrix_view<float const>{m.data(), rows, cols, cols},
                        loft::matrix_view<float>{result.data(), rows, cols, cols}, how) == loft::status::ok);
  return result;
}

/// left [rows, depth] * right [cols, depth]^T in double.
std::vector<double> product_of(std::vector<float> const& left, std::vector<float> const& right, int rows, int cols,
                               int depth) {
  std::vector<double> result;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) {
      double sum = 0;
      for (int i = 0; i < depth; ++i)
        sum += static_cast<double>(left[static_cast<std::size_t>(r * depth + i)]) *
               static_cast<double>(right[static_cast<std::size_t>(c * depth + i)]);
      result.push_back(sum);
    }
  return result;
}

double distance(std::vector<float> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double error = 0, power = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    power += b[i] * b[i];
  }
  return std::sqrt(error / power);
}

/// The three products from transposes that were really moved, so that every operand is quantized along its rows.
template <class R>
struct expected_products {
  std::vector<double> out, dinp, dweight;

  expected_products(linear_data const& d, R const& r) {
    auto const weight_t = moved(d.weight, out_size, in_size), dout_t = moved(d.dout, row_count, out_size),
               inp_t = moved(d.inp, row_count, in_size);
    out = product_of(quantized(d.inp, row_count, in_size, r.fprop.left),
                     quantized(d.weight, out_size, in_size, r.fprop.right), row_count, out_size, in_size);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += static_cast<double>(d.bias[i % out_size]);
    dinp = product_of(quantized(d.dout, row_count, out_size, r.dgrad.left),
                      quantized(weight_t, in_size, out_size, r.dgrad.right), row_count, in_size, out_size);
    dweight = product_of(quantized(dout_t, out_size, row_count, r.wgrad.left),
                         quantized(inp_t, in_size, row_count, r.wgrad.right), out_size, in_size, row_count);
    if constexpr (requires { r.estimator; }) {
      std::vector<float> factors(d.weight.size(), 1);
      loft::matrix_view<float const> const w{d.weight.data(), out_size, in_size, in_size};
      REQUIRE(loft::estimate_gradient(loft::matrix_view<float>{factors.data(), out_size, in_size, in_size}, w,
                                      r.fprop.right, r.estimator) == loft::status::ok);
      for (std::size_t i = 0; i < factors.size(); ++i) dweight[i] *= static_cast<double>(factors[i]);
    }
  }
};

TEST_CASE("with every named recipe the three products are those of explicit transposes") {
  linear_data const d;
  loft::for_each_recipe([&](char const* name, auto const& plan) {
    CAPTURE(name);
    expected_products const expected{d, loft::reseed(plan.main, 11, 100)};
    auto const r = run_linear(d, plan.main);
    CHECK(distance(r.out, expected.out) < 1e-6);
    CHECK(distance(r.dinp, expected.dinp) < 1e-6);
    CHECK(distance(r.dweight, expected.dweight) < 1e-6);
    for (std::size_t i = 0; i < out_size; ++i) {
      double sum = 0;
      for (std::size_t row = 0; row < row_count; ++row) sum += static_cast<double>(d.dout[row * out_size + i]);
      CHECK(static_cast<double>(r.dbias[i]) == doctest::Approx(sum).epsilon(1e-3));
    }
  });
}

TEST_CASE("a layer that writes columns of a wider matrix is the layer") {
  linear_data const d;
  loft::recipes::mxfp4 const recipe;
  auto const whole = run_linear(d, recipe);
  thread_pool pool{2};
  workspace<float> work{.pool = pool, .seed = 11, .stream = 100};
  constexpr int wide = out_size + 40;
  std::vector<float> out(row_count * wide, 7), dout(row_count * wide, 7);
  for (std::size_t row = 0; row < row_count; ++row)
    std::copy_n(d.dout.begin() + static_cast<std::ptrdiff_t>(row * out_size), out_size,
                dout.begin() + static_cast<std::ptrdiff_t>(row * wide + 24));
  linear_result r;
  matmul_forward(out.data() + 24, d.inp.data(), d.weight.data(), d.bias.data(), batch_size, time_size, in_size,
                 {out_size, wide}, recipe, work);
  matmul_backward(r.dinp.data(), r.dweight.data(), r.dbias.data(), dout.data() + 24, d.inp.data(), d.weight.data(),
                  batch_size, time_size, in_size, {out_size, wide}, recipe, work);
  for (std::size_t row = 0; row < row_count; ++row)
    for (std::size_t col = 0; col < wide; ++col) {
      bool const inside = col >= 24 && col < 24 + out_size;
      CHECK(out[row * wide + col] == (inside ? whole.out[row * out_size + col - 24] : 7));
    }
  CHECK(r.dinp == whole.dinp);
  CHECK(r.dweight == whole.dweight);
  CHECK(r.dbias == whole.dbias);
}

TEST_CASE("each of the six operands is quantized by its own entry of the recipe") {
  using coarse = loft::operand<loft::mxfp4>;
  linear_data const d;
  expected_products const exact{d, plain};
  auto const changed = [&](auto const& recipe) {  // the products that quantizing moved by more than rounding
    expected_products const expected{d, recipe};
    auto const r = run_linear(d, recipe);
    CHECK(distance(r.out, expected.out) < 1e-6);
    CHECK(distance(r.dinp, expected.dinp) < 1e-6);
    CHECK(distance(r.dweight, expected.dweight) < 1e-6);
    return std::string{distance(r.out, exact.out) > 1e-2 ? "F" : "-"} +
           (distance(r.dinp, exact.dinp) > 1e-2 ? "D" : "-") + (distance(r.dweight, exact.dweight) > 1e-2 ? "W" : "-");
  };
  using left = loft::product<coarse, loft::none>;
  using right = loft::product<loft::none, coarse>;
  using both_none = loft::product<>;
  CHECK(changed(plain) == "---");
  CHECK(changed(loft::recipe<left, both_none, both_none>{}) == "F--");
  CHECK(changed(loft::recipe<right, both_none, both_none>{}) == "F--");
  CHECK(changed(loft::recipe<both_none, left, both_none>{}) == "-D-");
  CHECK(changed(loft::recipe<both_none, right, both_none>{}) == "-D-");
  CHECK(changed(loft::recipe<both_none, both_none, left>{}) == "--W");
  CHECK(changed(loft::recipe<both_none, both_none, right>{}) == "--W");
}

TEST_CASE("blocks along the wrong dimension are told apart") {
  linear_data const d;
  loft::recipe<loft::product<>, loft::product<loft::none, loft::operand<loft::mxfp4>>> const recipe;
  auto const wrong =
      product_of(d.dout, moved(quantized(d.weight, out_size, in_size, recipe.dgrad.right), out_size, in_size),
                 row_count, in_size, out_size);
  CHECK(distance(run_linear(d, recipe).dinp, wrong) > 1e-2);
}

/// 4 bits, and a float for the values of a token.
struct by_token {
  using element = loft::int4;
  using scale = loft::fp32;
  static constexpr loft::block_shape shape{1, 512};
};

TEST_CASE("what is kept for the backward pass is quantized token by token, and only there") {
  linear_data const d;
  struct keeping {
    loft::product<> fprop{}, dgrad{};
    loft::product<loft::none, loft::stored<loft::operand<by_token>>> wgrad{};
    loft::operand<by_token> keeps{};
  } const recipe;
  auto const r = run_linear(d, recipe), exact = run_linear(d, plain);
  CHECK(r.out == exact.out);
  CHECK(r.dinp == exact.dinp);
  std::vector<float> inp = d.inp;
  for (std::size_t row = 0; row < row_count; ++row) {  // the oracle: 7 steps to the largest magnitude of the token
    float largest = 0;
    for (std::size_t i = 0; i < in_size; ++i) largest = std::max(largest, std::abs(inp[row * in_size + i]));
    for (std::size_t i = 0; i < in_size; ++i) {
      float& x = inp[row * in_size + i];
      x = std::nearbyint(x / (largest / 7)) * (largest / 7);
    }
  }
  auto const expected =
      product_of(moved(d.dout, row_count, out_size), moved(inp, row_count, in_size), out_size, in_size, row_count);
  CHECK(distance(r.dweight, expected) < 1e-5);
  loft::recipe<loft::product<>, loft::product<>, loft::product<loft::none, loft::operand<by_token>>> const by_channel;
  CHECK(distance(run_linear(d, by_channel).dweight, expected) > 1e-2);  // the control

  auto values = d.inp;
  linear<float>{recipe}.keep(values.data(), row_count, in_size);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(inp[i]).epsilon(1e-5));
  linear<float>{plain}.keep(values.data(), 0, in_size);
}

// ---- controllers ----

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

TEST_CASE("the type-erased layer is the layer, backward accumulates, and threads change nothing") {
  linear_data const d;
  loft::recipes::nvfp4 const recipe;
  auto const once = run_linear(d, recipe, 1);
  thread_pool pool{3};
  workspace<float> work{.pool = pool, .seed = 11, .stream = 100};
  linear<float> const layer{recipe};
  linear_result r;
  layer.forward(r.out.data(), d.inp.data(), d.weight.data(), d.bias.data(), batch_size, time_size, in_size, whole_rows,
                work);
  for (int i = 0; i < 2; ++i)
    layer.backward(r.dinp.data(), r.dweight.data(), r.dbias.data(), d.dout.data(), d.inp.data(), d.weight.data(),
                   batch_size, time_size, in_size, whole_rows, work);
  CHECK(r.out == once.out);
  for (std::size_t i = 0; i < r.dinp.size(); ++i) CHECK(r.dinp[i] == 2 * once.dinp[i]);
  for (std::size_t i = 0; i < r.dweight.size(); ++i) CHECK(r.dweight[i] == 2 * once.dweight[i]);
}

TEST_CASE("the report tells bits and noise of each operand") {
  using how = loft::operand<loft::mxfp8_e4m3>;
  linear_data const d;
  thread_pool pool{1};
  quantization_report report;
  workspace<float> work{.pool = pool, .report = &report};
  loft::recipe<loft::product<loft::none, how>> const recipe;
  std::vector<float> out(row_count * out_size);
  matmul_forward(out.data(), d.inp.data(), d.weight.data(), d.bias.data(), batch_size, time_size, in_size, whole_rows,
                 recipe, work);
  auto const copy = quantized(d.weight, out_size, in_size, how{});
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < copy.size(); ++i) {
    signal += std::pow(static_cast<double>(d.weight[i]), 2);
    noise += std::pow(static_cast<double>(d.weight[i]) - static_cast<double>(copy[i]), 2);
  }
  CHECK(report.slots[fprop_left].tensors == 0);
  CHECK(report.slots[fprop_right].tensors == 1);
  CHECK(report.slots[fprop_right].decibels == doctest::Approx(10 * std::log10(signal / noise)));
  CHECK(report.elements == row_count * in_size + out_size * in_size);
  CHECK(report.bits == 32 * row_count * in_size + (8 + 8.0 / 32) * out_size * in_size);
}

TEST_CASE("what LOFT refuses is an error with its message") {
  thread_pool pool{1};
  workspace<float> work{.pool = pool};
  using turned = loft::operand<loft::nvfp4, loft::two_level, loft::nearest_even, loft::hadamard<16>>;
  loft::recipe<loft::product<turned, turned>> const recipe;
  std::vector<float> values(1000);
  CHECK_THROWS_WITH_AS(matmul_forward<>(values.data(), values.data() + 100, values.data() + 500,
                                        static_cast<float const*>(nullptr), 1, 4, 24, {8, 8}, recipe, work),
                       loft::message(loft::status::rotation_does_not_divide), std::runtime_error);
}

// ---- text ----

TEST_CASE("texts are read plain and compressed, and bad ones are refused") {
  scratch_folder const folder;
  std::string const words = "in the beginning was the word ";
  save(folder / "plain", words);
  gzFile const file = gzopen((folder / "packed").c_str(), "wb");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += words + std::to_string(i * i);
  REQUIRE(gzwrite(file, many.data(), static_cast<unsigned>(many.size())) == static_cast<int>(many.size()));
  REQUIRE(gzclose(file) == Z_OK);
  auto const text_of = [](std::vector<std::uint8_t> const& bytes) { return std::string{bytes.begin(), bytes.end()}; };
  CHECK(text_of(read_text(folder / "plain")) == words);
  CHECK(text_of(read_text(folder / "packed")) == many);

  std::string packed = load(folder / "packed");
  save(folder / "cut", packed.substr(0, packed.size() / 2));
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  save(folder / "damaged", packed);
  CHECK_THROWS_AS(read_text(folder / "cut"), usage_error);
  CHECK_THROWS_AS(read_text(folder / "damaged"), usage_error);
  CHECK_THROWS_AS(read_text(folder / "absent"), usage_error);
  CHECK_THROWS_AS(read_text(folder.path.string()), usage_error);
}

TEST_CASE("a text is split 9 to 1, and one that is too short is refused") {
  std::vector<std::uint8_t> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  auto const parts = split(bytes, 9);
  CHECK(parts.train.size() == 90);
  CHECK(parts.validation.size() == 10);
  CHECK(parts.validation.front() == 90);
  CHECK_THROWS_AS(split(bytes, 10), usage_error);
  CHECK_THROWS_AS(split({}, 1), usage_error);
}

TEST_CASE("batches stay within their text, targets follow tokens, one seed gives one sequence") {
  std::vector<std::uint8_t> bytes(40);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(100 + i);
  sizes const s{3, 8};
  random_batches a{bytes, s, 4}, b{bytes, s, 4};
  auto all = even_batches(bytes, s, 2);
  CHECK(all.front().tokens.front() == 100);
  CHECK(all.back().targets.back() == 139);
  for (int i = 0; i < 50; ++i) {
    all.push_back(a.next());
    CHECK(all.back().tokens == b.next().tokens);
  }
  for (auto const& batch : all) {
    REQUIRE(batch.tokens.size() == 24);
    REQUIRE(batch.targets.size() == 24);
    for (std::size_t i = 0; i < 24; ++i) {
      CHECK(batch.targets[i] == batch.tokens[i] + 1);
      CHECK(batch.tokens[i] >= 100);
      CHECK(batch.targets[i] < 140);
    }
  }
}

// ---- the program ----

struct outcome {
  int code;
  std::string out, err;
};

outcome run_program(std::vector<std::string> const& arguments) {
  std::vector<char const*> argv{"char_gpt"};
  for (auto const& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  int const code = run(static_cast<int>(argv.size()), argv.data(), out, err);
  return {code, out.str(), err.str()};
}

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

std::string synthetic_text() {
  std::mt19937 generator{1};
  std::string text;
  while (text.size() < 20000) text += std::array{"tick ", "tock ", "the clock ", "strikes\n"}[generator() % 4];
  return text;
}

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

std::vector<std::string> small_run(scratch_folder const& folder, std::vector<std::string> arguments) {
  save(folder / "text", synthetic_text());
  for (auto const* more : {"--width", "32", "--heads", "2", "--layers", "1", "--context", "16", "--batch", "4",
                           "--eval-batches", "2", "--quiet", "--threads", "1"})
    arguments.emplace_back(more);
  arguments.insert(arguments.end(), {"--text", folder / "text", "--csv", folder / "out.csv"});
  return arguments;
}

std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream in{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
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
    auto const with_threads = [&](char const* threads) {
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

TEST_CASE("a file that cannot be written whole is not written") {
  scratch_folder const folder;
  CHECK_THROWS_AS(write_file(folder / "absent/file", "contents"), std::runtime_error);
  write_file(folder / "file", "old");
  write_file(folder / "file", "new");
  CHECK(load(folder / "file") == "new");
  CHECK(std::distance(fs::directory_iterator{folder.path}, {}) == 1);
}

}  // namespace
