// SPDX-License-Identifier: Apache-2.0
// What makes a model nGPT: every state and every weight is a vector of norm 1, and scales that are learned give the sizes.
// Source: arXiv 2410.01131; the residual step as in arXiv 2605.06067.
//
//   h = justnorm(token + position)
//   h = justnorm(h + a (justnorm(f(h)) - h))    for each sub-layer f, a for each channel
//   q = s_qk justnorm(q), k = s_qk justnorm(k)  for each head and channel; attention multiplies q k by sqrt(head size)
//   gelu(s_u sqrt(width) fc(h))
//   logits = s_z head(h)
//
// No norms, no biases. Two things are this example's own, so that only what the papers change differs from gpt: GELU
// where they have SwiGLU, whose gate takes s_u sqrt(width) too, and learned positions, rows of norm 1 like those of the
// tokens, where they rotate queries and keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "char_gpt/model/ngpt_layers.hpp"
#include "char_gpt/model/parameters.hpp"
#include "char_gpt/model/shape.hpp"

namespace char_gpt {

/// As gpt_parts.
template <class T> class ngpt_parts {
 public:
  static constexpr bool has_biases = false;
  using values = std::vector<T>;

  ngpt_parts(model_shape const& shape, parameter_set<T>& parameters, thread_pool& pool)
      : shape_{shape},
        rows_{shape.batch_sizes().rows()},
        parameters_{&parameters},
        pool_{&pool},
        embedding_norms_(size_of(1)),
        head_norms_(size_of(2 * shape.heads)),
        heads_(size_of(3 * shape.width)),
        expanded_(size_of(expansion * shape.width)),
        dbranch_(size_of(shape.width)),
        products_(size_of(byte_values)) {}

  void add_attention(std::string const& layer) {
    add_step(layer + "attention step");
    head_scales_.push_back(add_scale(layer + "query and key scale", shape_.width, 1, deviation()));
  }
  void add_mlp(std::string const& layer) {
    add_step(layer + "mlp step");
    expansion_scales_.push_back(
        add_scale(layer + "fc scale", expansion * shape_.width, std::sqrt(double(shape_.width)), 1));
  }
  void add_head() { logit_scale_ = add_scale("logit scale", byte_values, first_logit_scale, deviation()); }

  T attention_scale() const noexcept { return std::sqrt(T(shape_.head_size())); }

  void embed(values& stream) { unit_rows_forward(stream.data(), embedding_norms_.data(), stream_size(), *pool_); }
  void embed_backward(values& dstream, values const& stream) {
    unit_rows_backward(dstream.data(), stream.data(), embedding_norms_.data(), stream_size(), *pool_);
  }

  values const& read(std::size_t, values const& stream) { return stream; }
  values const& last_read(std::size_t, values const& stream) const { return stream; }
  void read_backward(std::size_t, values& dstream, values const& dread, values const&) {
    for (std::size_t i = 0; i < dstream.size(); ++i) dstream[i] += dread[i];
  }

  void join(std::size_t sublayer, values& out, values const& stream) {
    auto& s = steps_[sublayer];
    s.branch = out;
    unit_step_forward(out.data(), step_of(s, stream), *pool_);
  }
  values const& join_backward(std::size_t sublayer, values& dstream, values const& out, values const& stream) {
    auto& s = steps_[sublayer];
    unit_step_backward(dstream.data(), dbranch_.data(), out.data(), step_of(s, stream), *pool_);
    return dbranch_;
  }

  values const& heads(std::size_t layer, values const& qkv) {
    unit_heads_forward(heads_.data(), heads_of(layer, qkv), *pool_);
    return heads_;
  }
  /// After heads() of the same layer, as the norms are shared by all.
  void heads_backward(std::size_t layer, values& gradient, values const& qkv) {
    unit_heads_backward(gradient.data(), heads_of(layer, qkv), *pool_);
  }

  values const& expanded(std::size_t layer, values const& inp) {
    scale_forward(expanded_.data(), inp.data(), of(expansion_scales_[layer]), hidden_size(), *pool_);
    return expanded_;
  }
  void expanded_backward(std::size_t layer, values& gradient, values const& inp) {
    scale_backward(gradient.data(), inp.data(), of(expansion_scales_[layer]), hidden_size(), *pool_);
  }

  void logits(values& products) {
    products_ = products;
    scale_forward(products.data(), products_.data(), of(logit_scale_), {rows_, byte_values}, *pool_);
  }
  void logits_backward(values& gradient) {
    scale_backward(gradient.data(), products_.data(), of(logit_scale_), {rows_, byte_values}, *pool_);
  }

 private:
  // nGPT starts s_z at 1, where logits within +-1 can say next to nothing, and has tens of thousands of steps to grow
  // it; the runs here have hundreds.
  static constexpr double first_logit_scale = 10;

  /// nGPT has 0.05, of the order of 1 / layers. Much less leaves a model of few layers next to its embedding for long.
  double first_step() const { return std::min(0.3, 1.0 / shape_.layers); }

  struct scale {
    std::int64_t parameter;
    T factor;
  };
  struct step {
    scale length;
    values branch, branch_norms, outer_norms;
  };

  /// Of the components of a random unit vector: where nGPT starts the parameters that act on such vectors.
  double deviation() const { return 1 / std::sqrt(double(shape_.width)); }

  /// A scale that starts at `first` while its parameter starts at `parameter`.
  scale add_scale(std::string const& name, int width, double first, double parameter) {
    return {parameters_->add_vector(name, width, parameter), static_cast<T>(first / parameter)};
  }
  void add_step(std::string const& name) {
    steps_.push_back({add_scale(name, shape_.width, first_step(), deviation()), values(size_of(shape_.width)),
                      values(size_of(1)), values(size_of(1))});
  }
  channel_scale<T> of(scale s) {
    return {parameters_->values(s.parameter), parameters_->gradients(s.parameter), s.factor};
  }
  unit_step<T> step_of(step& s, values const& stream) {
    return {.branch = s.branch.data(),
            .stream = stream.data(),
            .branch_norms = s.branch_norms.data(),
            .outer_norms = s.outer_norms.data(),
            .length = of(s.length),
            .size = stream_size()};
  }
  unit_heads<T> heads_of(std::size_t layer, values const& qkv) {
    return {.qkv = qkv.data(),
            .norms = head_norms_.data(),
            .scale = of(head_scales_[layer]),
            .size = stream_size(),
            .heads = shape_.heads};
  }
  extent stream_size() const { return {rows_, shape_.width}; }
  extent hidden_size() const { return {rows_, expansion * shape_.width}; }
  std::size_t size_of(int width) const { return static_cast<std::size_t>(rows_ * width); }

  model_shape shape_;
  std::int64_t rows_;
  parameter_set<T>* parameters_;
  thread_pool* pool_;

  std::vector<step> steps_;                            // of each sub-layer
  std::vector<scale> head_scales_, expansion_scales_;  // of each layer
  scale logit_scale_{};
  values embedding_norms_, head_norms_, heads_, expanded_, dbranch_, products_;
};

}  // namespace char_gpt
