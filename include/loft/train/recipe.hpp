// SPDX-License-Identifier: Apache-2.0
// Which operand of a linear layer's three products is quantized how, in which layers, and from which step on.
// Source: design section 1; products and operands as in arXiv 2509.25149 figure 5. Recipes with a name: recipes.hpp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "loft/block/reseed.hpp"
#include "loft/core/exact.hpp"
#include "loft/number/convert.hpp"
#include "loft/number/format.hpp"
#include "loft/number/rounding.hpp"
#include "loft/tensor/quantize.hpp"
#include "loft/tensor/view.hpp"
#include "loft/train/detail/visit.hpp"

namespace loft {

// ---- what an operand can be, beside an operand<...> ----------------------------------------------------------------

/// An operand that stays as it is.
struct none {};

/// An operand whose elements are rounded to F one by one, without a scale: cast<bf16> of mixed precision. What is too
/// large becomes F's infinity.
template <Format F, Rounding R = nearest_even> struct cast {
  using element = F;
  R rounding{};
};

/// An operand that is read a second time, along its other dimension: `first` is how the forward product had it, and
/// what was stored of it; `then`, an operand<...> or none, quantizes that once more along the dimension of this
/// product.
template <class First, class Then = none> struct stored {
  static_assert(
      std::is_same_v<Then, none> || requires { typename Then::format; },
      "stored<First, Then>: Then is an operand<...>, or none");
  First first{};
  Then then{};
};

/// Copies the matrix. in, out: as for the operands that are quantized; `out` may be `in`.
template <class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out,
                                                              none const&) noexcept {
  if (status const s = detail::check_pair(in, out); s != status::ok) return s;
  detail::map_elements(in, out, [](float x) { return x; });
  return status::ok;
}

/// Rounds each element to F. The element index that stochastic rounding sees is row * cols + col.
template <Format F, Rounding R, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out,
                                                              cast<F, R> const& how) noexcept {
  if (status const s = detail::check_pair(in, out); s != status::ok) return s;
  for (std::int64_t row = 0; row < in.rows; ++row)
    for (std::int64_t col = 0; col < in.cols; ++col)
      out(row, col) = decode<F>(encode<F, overflow::special>(detail::to_float(in(row, col)), how.rounding,
                                                             static_cast<std::uint64_t>(row * in.cols + col)));
  return status::ok;
}

/// What `first` makes of the transpose, then quantized along the rows.
///
/// in: the operand as this product reads it: the
/// transpose of what `first` saw. out: `in` itself where `first` allows that. error: a status other than ok, with
/// nothing written.
template <class First, class Then, class T>
[[nodiscard]] LOFT_HOST_DEVICE constexpr status fake_quantize(matrix_view<T> in, matrix_view<float> out,
                                                              stored<First, Then> const& how) noexcept {
  if constexpr (!std::is_same_v<Then, none>)  // before the first write, whatever `first` is
    if (status const s = detail::check_operand(in.cols, how.then); s != status::ok) return s;
  if (status const s = fake_quantize(transposed(in), transposed(out), how.first); s != status::ok) return s;
  if constexpr (std::is_same_v<Then, none>) return status::ok;
  else return fake_quantize(out, out, how.then);
}

// ---- products and recipes ------------------------------------------------------------------------------------------

/// The operands of one product [M, K] x [N, K]^T; each is quantized along K, the dimension that is summed over.
template <class Left = none, class Right = none> struct product {
  Left left{};
  Right right{};
};

/// The three products of a linear layer Y = X W^T, with X [tokens, in] and W [out, in]:
///   fprop  Y  [tokens, out] = X . W          left X,    right W
///   dgrad  dX [tokens, in]  = dY . W^T       left dY,   right W^T  (W read by columns)
///   wgrad  dW [out, in]     = dY^T . X^T     left dY^T, right X^T  (both read by columns)
/// A recipe of another type has these three members, and may have an `estimator` for the weights' gradient.
template <class Fprop = product<>, class Dgrad = product<>, class Wgrad = product<>> struct recipe {
  Fprop fprop{};
  Dgrad dgrad{};
  Wgrad wgrad{};
};

/// The product whose operands have the streams 2 * stream and 2 * stream + 1.
template <class Left, class Right>
LOFT_HOST_DEVICE constexpr product<Left, Right> reseed(product<Left, Right> how, std::uint64_t seed,
                                                       std::uint64_t stream) noexcept {
  return {reseed(how.left, seed, 2 * stream), reseed(how.right, seed, 2 * stream + 1)};
}

/// The recipe for one use of one layer: its operands have streams 6 * stream to 6 * stream + 5, in the order above, and
/// what was stored has that of Fprop. A trainer gives every layer of every step a stream of its own.
template <class Recipe>
  requires requires(Recipe how) { how.fprop, how.dgrad, how.wgrad; }
LOFT_HOST_DEVICE constexpr Recipe reseed(Recipe how, std::uint64_t seed, std::uint64_t stream) noexcept {
  how.fprop = reseed(how.fprop, seed, 3 * stream);
  how.dgrad = reseed(how.dgrad, seed, 3 * stream + 1);
  how.wgrad = reseed(how.wgrad, seed, 3 * stream + 2);
  // What was stored is what Fprop had.
  if constexpr (requires { how.dgrad.right.first; })
    how.dgrad.right.first = reseed(how.dgrad.right.first, seed, 6 * stream + 1);
  if constexpr (requires { how.wgrad.right.first; })
    how.wgrad.right.first = reseed(how.wgrad.right.first, seed, 6 * stream);
  return how;
}

// ---- the shapes that a recipe serves -------------------------------------------------------------------------------

/// What the sizes of a linear layer have to be multiples of, so that every run of a rotation is whole.
struct layer_multiples {
  int in = 1, out = 1, tokens = 1;
};

namespace detail {

/// The run that an operand of a product rotates, along the dimension that is summed over; 1 for none.
template <class O> constexpr int run_of(O const& how) noexcept {
  if constexpr (requires { how.rotation; }) return rotation_size<O>;
  else if constexpr (requires { how.then; }) return run_of(how.then);
  else if constexpr (requires { how.how; }) return run_of(how.how);
  else return 1;
}
template <class Left, class Right> constexpr int run_of(product<Left, Right> const& how) noexcept {
  return least_common_multiple(run_of(how.left), run_of(how.right));
}

}  // namespace detail

/// A layer Y [tokens, out] = X [tokens, in] W^T can take the recipe where these divide its sizes. With other sizes the
/// operand that meets them returns status::rotation_does_not_divide.
template <class Recipe> constexpr layer_multiples multiples_of(Recipe const& how) noexcept {
  return {detail::run_of(how.fprop), detail::run_of(how.dgrad), detail::run_of(how.wgrad)};
}

// ---- layers and steps ----------------------------------------------------------------------------------------------

/// What a linear layer computes.
enum class layer_role { query_key, value, attention_projection, mlp_up, mlp_down, head };

/// Where a linear layer is in a network: in block `block` of `blocks`, from 0.
struct layer_place {
  int block = 0, blocks = 1;
  layer_role role = layer_role::mlp_up;
};

/// The layers and steps that take the safe recipe of a plan.
struct exceptions {
  double first = 0, last = 0;  ///< shares of the blocks at either end, from 0 to 1; rounded to whole blocks, halves up
  bool query_key = false;      ///< the layers that make queries and keys
  bool mlp_down = false;       ///< the layers that read the hidden values of an MLP
  double from = 1;             ///< all layers, once this share of the training is over

  /// `progress`: the share of the training that is over, in [0, 1]; at 1 every layer is safe.
  LOFT_HOST_DEVICE constexpr bool apply_to(layer_place at, double progress) const noexcept {
    auto const blocks_of = [&](double share) {
      if (!(share > 0)) return 0;
      return share >= 1 ? at.blocks : static_cast<int>(exact::sum(exact::product(share, at.blocks), 0.5));
    };
    return at.block < blocks_of(first) || at.block >= at.blocks - blocks_of(last) ||
           (query_key && at.role == layer_role::query_key) || (mlp_down && at.role == layer_role::mlp_down) ||
           progress >= from;
  }
};

/// A recipe for a whole network and a whole training: the main one, and a safe one for the exceptions. The head that
/// makes logits is never quantized.
template <class Main, class Safe = recipe<>> struct plan {
  Main main{};
  Safe safe{};
  exceptions except{};
  static constexpr recipe<> unquantized{};

  /// Calls f(recipe) with the recipe of one layer at one time, a reference to what lives as long as the plan, or
  /// longer. out: what f returns, of one type for all recipes.
  template <class Function> constexpr decltype(auto) visit(layer_place at, double progress, Function&& f) const {
    if (at.role == layer_role::head) return f(unquantized);
    if (except.apply_to(at, progress)) return f(safe);
    return f(main);
  }
};

}  // namespace loft
