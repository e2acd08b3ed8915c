// SPDX-License-Identifier: Apache-2.0
// What makes a model GPT-2's: x += attention(norm(x)), x += mlp(norm(x)), a norm before the head, and biases.
//
// The parts of an architecture are what stands around the linear layers, attention and GELU, which all share. A
// sub-layer is an attention or an MLP; they count up through the layers, and the head is the last. A function that has
// a gradient has its `_backward` beside it, which adds to the gradients of the parameters.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "char_gpt/model/layers.hpp"
#include "char_gpt/model/parameters.hpp"
#include "char_gpt/model/shape.hpp"

namespace char_gpt {

template <class T> class gpt_parts {
 public:
  static constexpr bool has_biases = true;
  using values = std::vector<T>;

  gpt_parts(model_shape const& shape, parameter_set<T>& parameters, thread_pool& pool)
      : shape_{shape}, rows_{shape.batch_sizes().rows()}, parameters_{&parameters}, pool_{&pool} {}

  // Tensors, in the order of the forward pass: those before the linear layers of each.
  void add_attention(std::string const& layer) { add_norm(layer + "norm 1"); }
  void add_mlp(std::string const& layer) { add_norm(layer + "norm 2"); }
  void add_head() { add_norm("final norm"); }

  T attention_scale() const noexcept { return T{1} / std::sqrt(T(shape_.head_size())); }

  /// The embedding becomes the residual stream.
  void embed(values&) {}
  void embed_backward(values&, values const&) {}

  /// What a sub-layer reads of the stream.
  values const& read(std::size_t sublayer, values const& stream) {
    auto& n = norms_[sublayer];
    layer_norm_forward(n.out.data(), stream.data(), layer_of(n), *pool_);
    return n.out;
  }
  /// What it read in the last forward pass.
  values const& last_read(std::size_t sublayer, values const&) const { return norms_[sublayer].out; }
  void read_backward(std::size_t sublayer, values& dstream, values const& dread, values const& stream) {
    auto& n = norms_[sublayer];
    layer_norm_gradients<T> const gradients{dstream.data(), parameters_->gradients(n.weight),
                                            parameters_->gradients(n.bias)};
    layer_norm_backward(gradients, dread.data(), stream.data(), layer_of(n), *pool_);
  }

  /// Takes the output of a sub-layer in `out` and leaves the stream behind it there.
  void join(std::size_t, values& out, values const& stream) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += stream[i];
  }
  /// Takes the gradient of the stream behind the sub-layer and leaves there what passes it by; returns that of its
  /// output.
  values const& join_backward(std::size_t, values& dstream, values const&, values const&) { return dstream; }

  /// The queries, keys and values that attention sees.
  values const& heads(std::size_t, values const& qkv) { return qkv; }
  void heads_backward(std::size_t, values&, values const&) {}

  /// What GELU sees.
  values const& expanded(std::size_t, values const& inp) { return inp; }
  void expanded_backward(std::size_t, values&, values const&) {}

  /// From the products of the head to logits, in place.
  void logits(values&) {}
  void logits_backward(values&) {}

 private:
  struct norm {
    std::int64_t weight, bias;
    values out, mean, inverse;
  };

  void add_norm(std::string const& name) {
    auto const weight = parameters_->add_vector(name + " weight", shape_.width, 1);
    auto const bias = parameters_->add_vector(name + " bias", shape_.width, 0);
    auto const rows = static_cast<std::size_t>(rows_);
    norms_.push_back({weight, bias, values(rows * static_cast<std::size_t>(shape_.width)), values(rows), values(rows)});
  }

  layer_norm<T> layer_of(norm& n) {
    return {.weight = parameters_->values(n.weight),
            .bias = parameters_->values(n.bias),
            .mean = n.mean.data(),
            .inverse = n.inverse.data(),
            .size = {rows_, shape_.width}};
  }

  model_shape shape_;
  std::int64_t rows_;
  parameter_set<T>* parameters_;
  thread_pool* pool_;
  std::vector<norm> norms_;  // of each sub-layer
};

}  // namespace char_gpt
