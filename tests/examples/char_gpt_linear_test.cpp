// SPDX-License-Identifier: Apache-2.0
// The linear layer of the training example: its three products and what is quantized of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <loft/recipes.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "char_gpt/model/linear.hpp"
#include "normal_values.hpp"

using namespace char_gpt;

namespace {

constexpr loft::recipe<> plain{};

// Each sum is over as many numbers as the longest rotation takes, or a multiple of that.
constexpr int row_count = 128, in_size = 128, out_size = 256;
constexpr linear_shape whole_rows{row_count, in_size, out_size, out_size};

struct linear_data {
  std::vector<float> inp = normal_values(row_count * in_size, 1), weight = normal_values(out_size * in_size, 2),
                     bias = normal_values(out_size, 3), dout = normal_values(row_count * out_size, 4);
  linear_inputs<float> inputs() const { return {inp.data(), weight.data(), bias.data()}; }
};

struct linear_result {
  std::vector<float> out = std::vector<float>(row_count * out_size), dinp = std::vector<float>(row_count * in_size),
                     dweight = std::vector<float>(out_size * in_size), dbias = std::vector<float>(out_size);
  linear_gradients<float> gradients() { return {dinp.data(), dweight.data(), dbias.data()}; }
};

template <class R> linear_result run_linear(linear_data const& d, R const& recipe, int threads = 2) {
  thread_pool pool{threads};
  workspace<float> work{.pool = pool, .seed = 11, .stream = 100};
  linear_result r;
  matmul_forward(r.out.data(), d.inputs(), whole_rows, recipe, work);
  matmul_backward(r.gradients(), d.dout.data(), d.inputs(), whole_rows, recipe, work);
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

template <class O> std::vector<float> quantized(std::vector<float> const& m, int rows, int cols, O const& how) {
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
template <class R> struct expected_products {
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
  linear_shape const shape{row_count, in_size, out_size, wide};
  matmul_forward(out.data() + 24, d.inputs(), shape, recipe, work);
  matmul_backward(r.gradients(), dout.data() + 24, d.inputs(), shape, recipe, work);
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

TEST_CASE("the type-erased layer is the layer, backward accumulates, and threads change nothing") {
  linear_data const d;
  loft::recipes::nvfp4 const recipe;
  auto const once = run_linear(d, recipe, 1);
  thread_pool pool{3};
  workspace<float> work{.pool = pool, .seed = 11, .stream = 100};
  linear<float> const layer{recipe};
  linear_result r;
  layer.forward(r.out.data(), d.inputs(), whole_rows, work);
  for (int i = 0; i < 2; ++i) layer.backward(r.gradients(), d.dout.data(), d.inputs(), whole_rows, work);
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
  matmul_forward(out.data(), d.inputs(), whole_rows, recipe, work);
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
  linear_inputs<float> const inputs{.inp = values.data() + 100, .weight = values.data() + 500, .bias = nullptr};
  CHECK_THROWS_WITH_AS(matmul_forward(values.data(), inputs, {4, 24, 8, 8}, recipe, work),
                       loft::message(loft::status::rotation_does_not_divide), std::runtime_error);
}

}  // namespace
