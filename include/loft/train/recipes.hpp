// SPDX-License-Identifier: Apache-2.0
// The catalogue of recipes: the training methods of the papers, each with its source, and the table for choosing by
// name.
// Source: see each recipe. Where a paper leaves a choice open, the comment says which one was made.
#pragma once

#include <cstdint>

#include "loft/block/operand.hpp"
#include "loft/block/rules.hpp"
#include "loft/number/rounding.hpp"
#include "loft/rotation/rotation.hpp"
#include "loft/train/estimator.hpp"
#include "loft/train/outliers.hpp"
#include "loft/train/recipe.hpp"

namespace loft {
namespace recipes {

/// One operand in all six places.
template <class O> using uniform = recipe<product<O, O>, product<O, O>, product<O, O>>;

/// Nothing is quantized.
using fp32 = recipe<>;

/// Mixed precision: every operand is rounded to bfloat16, products are summed in float.
using bf16 = uniform<cast<loft::bf16>>;

// ---- 8 bits --------------------------------------------------------------------------------------------------------

/// MXFP8 E4M3 for all operands, scales by the OCP rule. source: OCP MX 1.0.
using mxfp8 = uniform<operand<mxfp8_e4m3>>;

/// E4M3 with float scales: 1 x 128 for activations and gradients, 128 x 128 for weights. source: DeepSeek-V3, arXiv
/// 2412.19437 section 3.3.
struct deepseek_fp8 {
  using token = operand<fp8_1x128>;
  using weight = operand<fp8_128x128>;

  product<token, weight> fprop{};
  product<token, weight> dgrad{};
  product<token, token> wgrad{};
};

// ---- MXFP4: the steps of arXiv 2605.09825 --------------------------------------------------------------------------
// Each quantizes one product more than the one before; then come three ways to mend Wgrad. Scales by the `even` rule,
// along the dimension of the product; no layer is left out.

/// MXFP4 with the scales of arXiv 2605.09825.
template <class R = nearest_even, class Rotation = no_rotation>
using even_mxfp4 = operand<loft::mxfp4, even_scale, R, Rotation>;

/// Fprop alone.
using mxfp4_fprop = recipe<product<even_mxfp4<>, even_mxfp4<>>>;
/// Fprop and Dgrad.
using mxfp4_fprop_dgrad = recipe<product<even_mxfp4<>, even_mxfp4<>>, product<even_mxfp4<>, even_mxfp4<>>>;
/// All three products.
using mxfp4 = uniform<even_mxfp4<>>;
/// All three products, with stochastic rounding of both operands of Wgrad.
using mxfp4_sr = recipe<product<even_mxfp4<>, even_mxfp4<>>, product<even_mxfp4<>, even_mxfp4<>>,
                        product<even_mxfp4<stochastic<>>, even_mxfp4<stochastic<>>>>;
/// All three products, each behind a Hadamard transform of 16, whose signs are drawn anew for each product.
using mxfp4_random_hadamard = uniform<even_mxfp4<nearest_even, random_hadamard<16>>>;
/// All three products, each behind a Hadamard transform of 16 without signs.
using mxfp4_hadamard = uniform<even_mxfp4<nearest_even, hadamard<16>>>;
/// As mxfp4_hadamard, of 32.
using mxfp4_hadamard32 = uniform<even_mxfp4<nearest_even, hadamard<32>>>;

/// Scales of MR-GPTQ: floor times 4/3, and a Hadamard transform of a block. source: arXiv 2509.23202, a method for
/// trained networks; here for all products.
using mr_gptq = uniform<operand<loft::mxfp4, floor_four_thirds, nearest_even, hadamard<32>>>;

/// Blocks that serve both directions: 32 x 32 tiles under truncation-free scales for all operands, and stochastic
/// gradients. Queries and keys are made in MXFP8. source: arXiv 2607.24953.
struct tibq {
  using forward = operand<square<loft::mxfp4, 32>, ceil_scale>;
  using gradient = operand<square<loft::mxfp4, 32>, ceil_scale, stochastic<>>;

  product<forward, forward> fprop{};
  product<gradient, forward> dgrad{};
  product<gradient, forward> wgrad{};
};

// ---- NVFP4 ---------------------------------------------------------------------------------------------------------

/// The sign vector that NVFP4 training uses for all layers and steps: + + + - + - - - - - - + - + - -.
inline constexpr std::uint64_t nvfp4_signs = 0b1101'0111'1110'1000;

/// NVFP4 as it was first trained with: stochastic gradients, and one signed Hadamard transform of 16 for both operands
/// of Wgrad.
template <class Activation, class Weight, class Gradient, class RotatedActivation, class RotatedGradient>
struct basic_nvfp4 {
  product<Activation, Weight> fprop{};
  product<Gradient, Weight> dgrad{};
  product<RotatedGradient, RotatedActivation> wgrad{{.rotation = {nvfp4_signs}}, {.rotation = {nvfp4_signs}}};
};

/// Weights in 16 x 16 tiles, so that Fprop and Dgrad read the same codes; activations and gradients in 1 x 16. source:
/// arXiv 2509.25149 section 4.
using nvfp4 =
    basic_nvfp4<operand<loft::nvfp4>, operand<square<loft::nvfp4, 16>>, operand<loft::nvfp4, two_level, stochastic<>>,
                operand<loft::nvfp4, two_level, nearest_even, signed_hadamard<16>>,
                operand<loft::nvfp4, two_level, stochastic<>, signed_hadamard<16>>>;

/// nvfp4 with two candidates a block in the forward pass, chosen by the squared error, and 16/17 of the range for the
/// stochastic gradients. source: arXiv 2512.02010.
using four_over_six =
    basic_nvfp4<operand<loft::nvfp4, loft::four_over_six<>>, operand<square<loft::nvfp4, 16>, loft::four_over_six<>>,
                operand<loft::nvfp4, unbiased_two_level_256, stochastic<>>,
                operand<loft::nvfp4, loft::four_over_six<>, nearest_even, signed_hadamard<16>>,
                operand<loft::nvfp4, unbiased_two_level_256, stochastic<>, signed_hadamard<16>>>;

/// nvfp4 with blocks of floats or integers, whichever has the smaller error; weights too are in 1 x 16, as a tile has
/// one kind of elements only. source: arXiv 2603.28765. Stochastic gradients stay in NVFP4: a choice by the error of
/// one draw would bias them.
using if4 = basic_nvfp4<operand<loft::if4>, operand<loft::if4>, operand<loft::nvfp4, unbiased_two_level, stochastic<>>,
                        operand<loft::if4, two_level, nearest_even, signed_hadamard<16>>,
                        operand<loft::nvfp4, unbiased_two_level, stochastic<>, signed_hadamard<16>>>;

/// NVFP4 for networks whose weights and activations have unit norms: no rotation, and the tensor scale of both fixed at
/// an amax of 1. source: arXiv 2605.06067. `input_amax`: that of activations; negative for those that are not known to
/// lie within [-1, 1], as the hidden values of an MLP.
struct nvfp4_ngpt {
  using activation = operand<loft::nvfp4>;
  using weight = operand<square<loft::nvfp4, 16>>;
  using gradient = operand<loft::nvfp4, two_level, stochastic<>>;

  float input_amax = 1;
  product<activation, weight> fprop{{.rule = {input_amax}}, {.rule = {1.0f}}};
  product<gradient, weight> dgrad{{}, {.rule = {1.0f}}};
  product<gradient, activation> wgrad{{}, {.rule = {input_amax}}};
};

/// NVFP4 in blocks of 1 x 16 throughout: stochastic gradients in both backward products, and stochastic activations in
/// Wgrad. source: arXiv 2505.19115.
struct fp4_all_the_way {
  using forward = operand<loft::nvfp4>;
  using noisy = operand<loft::nvfp4, two_level, stochastic<>>;

  product<forward, forward> fprop{};
  product<noisy, forward> dgrad{};
  product<noisy, noisy> wgrad{};
};

/// Four Over Six in the forward pass; the backward pass reads what was stored of activations and weights, and quantizes
/// all its operands without bias by MS-EDEN, in groups of `Group` that are rotated with signs drawn anew. source:
/// Quartet II, arXiv 2601.22813; the group is 128 there, or 32.
template <int Group = 128> struct basic_quartet2 {
  using forward = operand<loft::nvfp4, loft::four_over_six<>>;
  using backward = operand<loft::nvfp4, ms_eden<Group>, nearest_even, random_hadamard<Group>>;

  product<forward, forward> fprop{};
  product<backward, stored<forward, backward>> dgrad{};
  product<backward, stored<forward, backward>> wgrad{};
};
/// Quartet II with its rotations of 128.
using quartet2 = basic_quartet2<128>;
/// Quartet II with rotations of 32, for layers that 128 does not divide.
using quartet2_32 = basic_quartet2<32>;

/// NVFP4 with a float for each 128 elements in the place of the tensor's; the backward pass quantizes what was stored
/// once more, stochastically. source: TetraJet-v2, arXiv 2510.27527, without its treatment of oscillation and of
/// outlier channels.
struct tetrajet2 {
  using forward = operand<double_nvfp4>;
  using backward = operand<double_nvfp4, default_rule<double_nvfp4>, stochastic<>>;

  product<forward, forward> fprop{};
  product<backward, stored<forward, backward>> dgrad{};
  product<backward, stored<forward, backward>> wgrad{};
};

// ---- other 4-bit formats -------------------------------------------------------------------------------------------

/// HiFloat4 with a Hadamard transform of a block, its signs drawn anew, and gradients to nearest. source: arXiv
/// 2604.08826. The rotation is in all three products.
using hif4 = uniform<operand<loft::hif4, default_rule<loft::hif4>, default_rounding<loft::hif4>, random_hadamard<64>>>;

/// Integers in the place of E2M1, which pays off after a rotation: a Hadamard transform of 32 with signs drawn anew.
/// source: arXiv 2510.25602.
using nvint4_hadamard = uniform<operand<nvint4, two_level, nearest_even, random_hadamard<32>>>;

/// E2M1 with a float for each token and each output channel; outliers of activations beyond the quantile 0.99 stay as
/// they are; the gradient of the weights passes a differentiable estimator of the rounding. source: arXiv 2501.17116.
/// The backward pass multiplies with what the forward pass had; gradients stay as they are.
struct dge_occ {
  using scaled = operand<per_row<e2m1>, division_scale, nearest_upward>;
  using activation = clamped<scaled>;

  product<activation, scaled> fprop{};
  product<none, stored<scaled>> dgrad{};
  product<none, stored<activation>> wgrad{};
  differentiable_estimator estimator{};
};

}  // namespace recipes

// ---- by name -------------------------------------------------------------------------------------------------------

/// Calls f(name, plan) for every recipe of the catalogue, in its order: the only place that gives names. in: f, for a
/// name that ends in 0 and every type of plan. The plan is gone after the call: copy it.
template <class Function> constexpr void for_each_recipe(Function&& f) {
  // source: arXiv 2509.25149 section 4: of 62 blocks, the first 2 and the last 8 stay in bfloat16.
  constexpr exceptions ends{.first = 2.0 / 62, .last = 8.0 / 62};
  f("fp32", plan<recipes::fp32>{});
  f("bf16", plan<recipes::bf16>{});
  f("mxfp8", plan<recipes::mxfp8>{});
  f("deepseek_fp8", plan<recipes::deepseek_fp8>{});
  f("mxfp4_fprop", plan<recipes::mxfp4_fprop>{});
  f("mxfp4_fprop_dgrad", plan<recipes::mxfp4_fprop_dgrad>{});
  f("mxfp4", plan<recipes::mxfp4>{});
  f("mxfp4_sr", plan<recipes::mxfp4_sr>{});
  f("mxfp4_random_hadamard", plan<recipes::mxfp4_random_hadamard>{});
  f("mxfp4_hadamard", plan<recipes::mxfp4_hadamard>{});
  f("mxfp4_hadamard32", plan<recipes::mxfp4_hadamard32>{});
  f("nvfp4", plan<recipes::nvfp4, recipes::bf16>{.except = ends});
  f("tibq", plan<recipes::tibq, recipes::mxfp8>{.except = {.query_key = true}});
  f("nvfp4_ngpt", plan<recipes::nvfp4_ngpt, recipes::nvfp4_ngpt>{.safe = {-1.0f}, .except = {.mlp_down = true}});
  f("four_over_six", plan<recipes::four_over_six, recipes::bf16>{.except = ends});
  f("if4", plan<recipes::if4, recipes::bf16>{.except = ends});
  f("hif4", plan<recipes::hif4>{});
  f("nvint4_hadamard", plan<recipes::nvint4_hadamard>{});
  f("fp4_all_the_way", plan<recipes::fp4_all_the_way>{});
  f("mr_gptq", plan<recipes::mr_gptq>{});
  f("dge_occ", plan<recipes::dge_occ>{});
  f("quartet2", plan<recipes::quartet2>{});
  f("quartet2_32", plan<recipes::quartet2_32>{});
  f("tetrajet2", plan<recipes::tetrajet2>{});
}

namespace detail {

constexpr bool same_text(char const* a, char const* b) noexcept {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

}  // namespace detail

/// Calls f(plan) with the plan of that name. in: a text that ends in 0. out: false, without a call, for an unknown
/// name.
template <class Function> [[nodiscard]] constexpr bool visit_recipe(char const* name, Function&& f) {
  bool found = false;
  for_each_recipe([&](char const* each, auto const& plan) {
    if (detail::same_text(each, name)) f(plan), found = true;
  });
  return found;
}

}  // namespace loft
