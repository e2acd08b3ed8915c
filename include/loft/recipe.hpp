// SPDX-License-Identifier: Apache-2.0
// Which operand of a linear layer's three products is quantized how, and recipes with a name.
// Source: see each recipe; products and operands as in arXiv 2509.25149 figure 5.
#ifndef LOFT_RECIPE_HPP
#define LOFT_RECIPE_HPP

#include <cstdint>
#include <string_view>

#include "loft/block.hpp"
#include "loft/config.hpp"
#include "loft/rotation.hpp"
#include "loft/rounding.hpp"
#include "loft/tensor.hpp"

namespace loft {

/// An operand that stays as it is.
struct none {};

/// The operands of one product [M, K] x [N, K]^T; each is quantized along K, the dimension that is summed over.
template <class Left = none, class Right = none>
struct product {
  Left left{};
  Right right{};
};

/// The three products of a linear layer Y = X W^T, with X [tokens, in] and W [out, in]:
///   fprop  Y  [tokens, out] = X . W          left X,    right W
///   dgrad  dX [tokens, in]  = dY . W^T       left dY,   right W^T  (W read by columns)
///   wgrad  dW [out, in]     = dY^T . X^T     left dY^T, right X^T  (both read by columns)
template <class Fprop = product<>, class Dgrad = product<>, class Wgrad = product<>>
struct recipe {
  Fprop fprop{};
  Dgrad dgrad{};
  Wgrad wgrad{};
};

/// The operand with its stochastic rounding set to a seed and a stream; other operands come back as they are. A trainer
/// gives every step, layer and operand a stream of its own.
template <class Operand>
LOFT_HOST_DEVICE constexpr Operand reseed(Operand how, std::uint64_t seed, std::uint64_t stream) noexcept {
  if constexpr (requires { how.rounding.seed = seed; }) {
    how.rounding.seed = seed;
    how.rounding.stream = stream;
  }
  return how;
}

namespace recipes {

/// Nothing is quantized.
using fp32 = recipe<>;

/// All six operands in one format along the summed dimension.
template <class Operand>
using uniform = recipe<product<Operand, Operand>, product<Operand, Operand>, product<Operand, Operand>>;

/// MXFP8 E4M3 for all operands, scales by the OCP rule. source: OCP MX 1.0.
using mxfp8 = uniform<operand<mxfp8_e4m3>>;

/// MXFP4 for all operands, scales by the OCP rule, nearest even. source: OCP MX 1.0; the plain recipe of arXiv
/// 2605.09825.
using mxfp4 = uniform<operand<loft::mxfp4>>;

/// The sign vector that NVFP4 training uses for all layers and steps: + + + - + - - - - - - + - + - -.
inline constexpr std::uint64_t nvfp4_signs = 0b1101'0111'1110'1000;

/// NVFP4: weights in 16 x 16 tiles, activations and gradients in 1 x 16, stochastic gradients, and a signed Hadamard
/// transform of 16 on both operands of Wgrad. source: arXiv 2509.25149 section 4.
struct nvfp4 {
  using weight = operand<square<loft::nvfp4, 16>>;
  using activation = operand<loft::nvfp4>;
  using gradient = operand<loft::nvfp4, two_level, stochastic<>>;
  using rotated_activation = operand<loft::nvfp4, two_level, nearest_even, signed_hadamard<16>>;
  using rotated_gradient = operand<loft::nvfp4, two_level, stochastic<>, signed_hadamard<16>>;

  product<activation, weight> fprop{};
  product<gradient, weight> dgrad{};
  product<rotated_gradient, rotated_activation> wgrad{{.rotation = {nvfp4_signs}}, {.rotation = {nvfp4_signs}}};
};

}  // namespace recipes

/// The names that visit_recipe knows.
inline constexpr std::string_view recipe_names[] = {"fp32", "mxfp8", "mxfp4", "nvfp4"};

/// Calls f(recipe) with the recipe of that name; false, without a call, for an unknown name.
template <class Function>
constexpr bool visit_recipe(std::string_view name, Function&& f) {
  if (name == "fp32") return f(recipes::fp32{}), true;
  if (name == "mxfp8") return f(recipes::mxfp8{}), true;
  if (name == "mxfp4") return f(recipes::mxfp4{}), true;
  if (name == "nvfp4") return f(recipes::nvfp4{}), true;
  return false;
}

}  // namespace loft

#endif
