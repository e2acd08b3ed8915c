// SPDX-License-Identifier: Apache-2.0
// A byte-level GPT or nGPT: its parameters, its forward pass to a loss, its backward pass to gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "char_gpt/model/gpt_parts.hpp"
#include "char_gpt/model/layers.hpp"
#include "char_gpt/model/linear.hpp"
#include "char_gpt/model/ngpt_parts.hpp"
#include "char_gpt/model/parameters.hpp"
#include "char_gpt/model/shape.hpp"

namespace char_gpt {

template <class T> class model {
 public:
  model(model_shape const& shape, linear<T> quantized, thread_pool& pool, std::uint64_t seed);
  model(model const&) = delete;
  model& operator=(model const&) = delete;

  /// The mean loss, in nats a byte, of predicting targets[i] from the tokens up to i; both [batch, context].
  /// `pass` numbers the streams of stochastic rounding: passes with one number round alike.
  double forward(std::uint8_t const* tokens, std::uint8_t const* targets, std::uint64_t pass);

  /// The gradients of the last forward pass, which it uses up.
  void backward();

  /// What the architecture asks of the weights, to be called after each step of an optimizer: nothing of gpt; those of
  /// ngpt get norm 1 along the dimension that is the width of the residual stream.
  void constrain();

  std::vector<tensor_place> const& tensors() const noexcept { return parameters_.tensors(); }

  /// The quantized linear layers, in the order of the forward pass: where the weight and the bias of each lie together.
  std::vector<tensor_place> const& linears() const noexcept { return linears_; }
  /// Where one of them is. The one that makes queries, keys and values has the place of queries and keys.
  loft::layer_place place_of(std::size_t number) const noexcept;
  /// How the following passes calculate one of them.
  void use(std::size_t number, linear<T> how) {
    quantized_[number] = how;
    for_values_[number].reset();
  }
  /// The same for one that makes queries, keys and values, the last of which are a product of their own.
  void use(std::size_t number, linear<T> for_queries_and_keys, linear<T> for_values) {
    quantized_[number] = for_queries_and_keys;
    for_values_[number] = for_values;
  }

  std::span<T> parameters() noexcept { return parameters_.values(); }
  std::span<T> gradients() noexcept { return parameters_.gradients(); }

  /// Where the following passes note what quantizing does to the operands; null: nowhere.
  void report_to(quantization_report* report) noexcept { work_.report = report; }

 private:
  using values = std::vector<T>;
  using parts = std::variant<gpt_parts<T>, ngpt_parts<T>>;

  struct affine {               // one of linears()
    std::int64_t weight, bias;  // where they lie among the parameters; bias is below 0 where there is none
    int in, out;
    std::size_t number;
  };
  struct layer_tensors {
    affine qkv, projection, expand, contract;
  };
  struct layer_values {
    values qkv, probabilities, mixed, middle, expanded, activated, out;
  };

  parts parts_of(architecture arch);
  template <class P> void add_tensors(P& p);
  affine add_linear(std::string const& name, int in, int out, double deviation, bool has_bias);
  void allocate();

  template <class F> void for_products(affine const& at, F const& f);
  void apply(values& out, values const& inp, affine const& at);
  void apply_backward(values& dinp, values const& dout, values const& inp, affine const& at);
  attention<T> attention_of(layer_values& v, values const& heads, T scale);
  linear_inputs<T> head_inputs(values const& inp);
  linear_shape head_shape() const { return {sizes_.rows(), shape_.width, byte_values, byte_values}; }
  template <class P> void layer_forward(P& p, std::size_t layer);
  template <class P> void layer_backward(P& p, std::size_t layer);
  template <class P> void stack_forward(P& p);
  template <class P> void stack_backward(P& p);
  values const& input_of(std::size_t layer) const { return layer == 0 ? embedded_ : values_[layer - 1].out; }
  std::size_t depth() const noexcept { return static_cast<std::size_t>(shape_.layers); }

  model_shape shape_;
  sizes sizes_;
  std::vector<linear<T>> quantized_;                  // one for each of linears()
  std::vector<std::optional<linear<T>>> for_values_;  // of each that has two
  linear<T> plain_;
  workspace<T> work_, plain_work_;
  thread_pool& pool_;
  std::uint64_t pass_ = 0;

  parameter_set<T> parameters_;
  parts parts_;
  std::vector<tensor_place> linears_;
  std::int64_t token_table_, position_table_, head_;
  std::vector<layer_tensors> layers_;

  std::vector<std::uint8_t> tokens_;
  values embedded_, logits_, row_losses_;
  std::vector<layer_values> values_;
  values dstream_, dnarrow_, dwide_, dqkv_, dscores_;  // of the residual stream and within a layer
};

}  // namespace char_gpt
