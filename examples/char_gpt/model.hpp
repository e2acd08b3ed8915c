// SPDX-License-Identifier: Apache-2.0
// A byte-level GPT: its parameters, its forward pass to a loss, its backward pass to gradients.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layers.hpp"
#include "linear.hpp"

namespace char_gpt {

inline constexpr int byte_values = 256;
inline constexpr int linears_per_layer = 4;  // that are quantized

struct model_shape {
  int layers = 2, width = 128, heads = 4, context = 64, batch = 8;
  constexpr sizes batch_sizes() const noexcept { return {batch, context}; }
};

/// Bytes that training takes: parameters, gradients, AdamW's moments, activations. In double, as it must not overflow.
double training_bytes(model_shape const&) noexcept;

/// One tensor within the array of all parameters, and within the array of their gradients.
struct tensor_place {
  std::string name;
  std::int64_t begin, size;
  bool decays;  // weight decay acts on matrices, not on norms and biases
};

template <class T>
class model {
 public:
  model(model_shape const& shape, linear<T> quantized, thread_pool& pool, std::uint64_t seed);

  /// The mean loss, in nats a byte, of predicting targets[i] from the tokens up to i; both [batch, context].
  /// `pass` numbers the streams of stochastic rounding: passes with one number round alike.
  double forward(std::uint8_t const* tokens, std::uint8_t const* targets, std::uint64_t pass);

  /// The gradients of the last forward pass, which it uses up.
  void backward();

  std::vector<tensor_place> const& tensors() const noexcept { return tensors_; }

  /// The quantized linear layers, in the order of the forward pass: where the weight and the bias of each lie together.
  std::vector<tensor_place> const& linears() const noexcept { return linears_; }
  /// How the following passes calculate one of them.
  void use(std::size_t number, linear<T> how) { quantized_[number] = how; }

  std::span<T> parameters() noexcept { return parameters_; }
  std::span<T> gradients() noexcept { return gradients_; }

  /// Where the following passes note what quantizing does to the operands; null: nowhere.
  void report_to(quantization_report* report) noexcept { work_.report = report; }

 private:
  struct affine {  // offsets of a weight and its bias
    std::int64_t weight, bias;
  };
  struct layer_tensors {
    affine norm1, qkv, projection, norm2, expand, contract;
  };
  struct normalized {
    std::vector<T> out, mean, inverse;
  };
  struct layer_values {
    normalized norm1, norm2;
    std::vector<T> qkv, probabilities, mixed, middle, expanded, activated, out;
  };

  std::int64_t add(std::string name, std::int64_t size, bool decays);
  affine add_norm(std::string const& name);
  affine add_linear(std::string const& name, int in, int out);
  void allocate();
  void initialize(std::uint64_t seed);

  void normalize(normalized& to, std::vector<T> const& from, affine at);
  void normalize_backward(std::vector<T>& dinp, std::vector<T> const& dout, normalized const& values,
                          std::vector<T> const& inp, affine at);
  void apply(std::vector<T>& out, std::vector<T> const& inp, affine at, int in, int out_width, int number);
  void apply_backward(std::vector<T>& dinp, std::vector<T> const& dout, std::vector<T> const& inp, affine at, int in,
                      int out_width, int number);
  void layer_forward(int layer, std::vector<T> const& inp);
  void layer_backward(int layer, std::vector<T> const& inp);
  std::vector<T> const& input_of(int layer) const;

  model_shape shape_;
  sizes sizes_;
  std::vector<linear<T>> quantized_;  // one for each of linears()
  linear<T> plain_;
  workspace<T> work_, plain_work_;
  thread_pool& pool_;
  std::uint64_t pass_ = 0;

  std::vector<tensor_place> tensors_, linears_;
  std::int64_t token_table_, position_table_, head_;
  std::vector<layer_tensors> layers_;
  affine final_norm_;
  std::vector<T> parameters_, gradients_;

  std::vector<std::uint8_t> tokens_;
  std::vector<T> embedded_, logits_, row_losses_;
  std::vector<layer_values> values_;
  normalized final_;
  std::vector<T> dstream_, dnarrow_, dwide_, dqkv_, dscores_;  // of the residual stream and within a layer
};

}  // namespace char_gpt
