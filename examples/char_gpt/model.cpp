// SPDX-License-Identifier: Apache-2.0
// The GPT of GPT-2's architecture: x += attention(norm(x)), x += mlp(norm(x)), then a norm and the head.
#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace char_gpt {
namespace {

constexpr int expansion = 4;  // the MLP is this much wider than the residual stream

loft::recipe<> const float_recipe{};

}  // namespace

double training_bytes(model_shape const& s) noexcept {
  double const width = s.width, layers = s.layers, context = s.context, rows = context * s.batch;
  double const parameters = 12 * layers * width * width + 13 * layers * width + (2 * byte_values + context + 2) * width;
  double const scores = s.heads * context;
  double const per_row = layers * (16 * width + 4 + scores) + 26 * width + 4 + scores + byte_values;
  return sizeof(float) * (4 * parameters + rows * per_row);
}

template <class T>
model<T>::model(model_shape const& shape, linear<T> quantized, thread_pool& pool, std::uint64_t seed)
    : shape_{shape},
      sizes_{shape.batch_sizes()},
      quantized_(static_cast<std::size_t>(shape.layers * linears_per_layer), quantized),
      plain_{float_recipe},
      work_{.pool = pool, .seed = seed},
      plain_work_{.pool = pool},
      pool_{pool} {
  int const width = shape_.width;
  token_table_ = add("token embedding", std::int64_t{byte_values} * width, true);
  position_table_ = add("position embedding", std::int64_t{shape_.context} * width, true);
  for (int i = 0; i < shape_.layers; ++i) {
    std::string const layer = "layer " + std::to_string(i) + " ";
    layers_.push_back({.norm1 = add_norm(layer + "norm 1"),
                       .qkv = add_linear(layer + "qkv", width, 3 * width),
                       .projection = add_linear(layer + "attention projection", width, width),
                       .norm2 = add_norm(layer + "norm 2"),
                       .expand = add_linear(layer + "fc", width, expansion * width),
                       .contract = add_linear(layer + "fc projection", expansion * width, width)});
  }
  final_norm_ = add_norm("final norm");
  head_ = add("head", std::int64_t{byte_values} * width, true);
  allocate();
  initialize(seed);
}

template <class T>
std::int64_t model<T>::add(std::string name, std::int64_t size, bool decays) {
  std::int64_t const begin = tensors_.empty() ? 0 : tensors_.back().begin + tensors_.back().size;
  tensors_.push_back({std::move(name), begin, size, decays});
  return begin;
}

template <class T>
auto model<T>::add_norm(std::string const& name) -> affine {
  auto const weight = add(name + " weight", shape_.width, false);
  return {weight, add(name + " bias", shape_.width, false)};
}

template <class T>
auto model<T>::add_linear(std::string const& name, int in, int out) -> affine {
  auto const weight = add(name + " weight", std::int64_t{in} * out, true);
  auto const bias = add(name + " bias", out, false);
  linears_.push_back({name, weight, bias + out - weight, true});
  return {weight, bias};
}

template <class T>
void model<T>::allocate() {
  auto const rows = static_cast<std::size_t>(sizes_.rows()), width = static_cast<std::size_t>(shape_.width);
  auto const scores = rows * static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.context);
  auto const values = [&](std::size_t count) { return std::vector<T>(count); };
  auto const norm = [&] { return normalized{values(rows * width), values(rows), values(rows)}; };
  parameters_ = gradients_ = values(static_cast<std::size_t>(tensors_.back().begin + tensors_.back().size));
  embedded_ = dstream_ = dnarrow_ = values(rows * width);
  logits_ = values(rows * byte_values);
  row_losses_ = values(rows);
  final_ = norm();
  for (int i = 0; i < shape_.layers; ++i)
    values_.push_back({.norm1 = norm(),
                       .norm2 = norm(),
                       .qkv = values(rows * 3 * width),
                       .probabilities = values(scores),
                       .mixed = values(rows * width),
                       .middle = values(rows * width),
                       .expanded = values(rows * expansion * width),
                       .activated = values(rows * expansion * width),
                       .out = values(rows * width)});
  dwide_ = values(rows * expansion * width);
  dqkv_ = values(rows * 3 * width);
  dscores_ = values(scores);
}

template <class T>
void model<T>::initialize(std::uint64_t seed) {
  std::mt19937_64 generator{seed};
  std::normal_distribution<double> normal;
  for (auto const& tensor : tensors_) {
    double deviation = 0.55 / std::sqrt(shape_.width);  // GPT-2's 0.02 at its width of 768
    if (tensor.name.ends_with("projection weight")) deviation /= std::sqrt(2.0 * shape_.layers);  // added to the stream
    T* const begin = parameters_.data() + tensor.begin;
    for (std::int64_t i = 0; i < tensor.size; ++i)
      begin[i] = tensor.decays ? static_cast<T>(deviation * normal(generator)) : T{0};
    if (!tensor.decays && tensor.name.ends_with("weight")) std::fill(begin, begin + tensor.size, T{1});  // of a norm
  }
}

template <class T>
void model<T>::normalize(normalized& to, std::vector<T> const& from, affine at) {
  T const* const p = parameters_.data();
  layer_norm_forward(to.out.data(), to.mean.data(), to.inverse.data(), from.data(), p + at.weight, p + at.bias,
                     sizes_.rows(), shape_.width, pool_);
}

template <class T>
void model<T>::normalize_backward(std::vector<T>& dinp, std::vector<T> const& dout, normalized const& values,
                                  std::vector<T> const& inp, affine at) {
  T* const g = gradients_.data();
  layer_norm_backward(dinp.data(), g + at.weight, g + at.bias, dout.data(), inp.data(), values.mean.data(),
                      values.inverse.data(), parameters_.data() + at.weight, sizes_.rows(), shape_.width, pool_);
}

template <class T>
void model<T>::apply(std::vector<T>& out, std::vector<T> const& inp, affine at, int in, int out_width, int number) {
  T const* const p = parameters_.data();
  work_.stream =
      (pass_ * static_cast<std::uint64_t>(shape_.layers * linears_per_layer) + static_cast<std::uint64_t>(number)) *
      slot_count;
  quantized_[static_cast<std::size_t>(number)].forward(out.data(), inp.data(), p + at.weight, p + at.bias, sizes_.batch,
                                                       sizes_.time, in, out_width, work_);
}

template <class T>
void model<T>::apply_backward(std::vector<T>& dinp, std::vector<T> const& dout, std::vector<T> const& inp, affine at,
                              int in, int out_width, int number) {
  T* const g = gradients_.data();
  work_.stream =
      (pass_ * static_cast<std::uint64_t>(shape_.layers * linears_per_layer) + static_cast<std::uint64_t>(number)) *
      slot_count;
  std::fill(dinp.begin(), dinp.end(), T{0});
  quantized_[static_cast<std::size_t>(number)].backward(dinp.data(), g + at.weight, g + at.bias, dout.data(),
                                                        inp.data(), parameters_.data() + at.weight, sizes_.batch,
                                                        sizes_.time, in, out_width, work_);
}

template <class T>
std::vector<T> const& model<T>::input_of(int layer) const {
  return layer == 0 ? embedded_ : values_[static_cast<std::size_t>(layer - 1)].out;
}

template <class T>
void model<T>::layer_forward(int layer, std::vector<T> const& inp) {
  auto const& at = layers_[static_cast<std::size_t>(layer)];
  auto& v = values_[static_cast<std::size_t>(layer)];
  int const width = shape_.width, first = layer * linears_per_layer;
  auto const add_input = [&](std::vector<T>& to, std::vector<T> const& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  normalize(v.norm1, inp, at.norm1);
  apply(v.qkv, v.norm1.out, at.qkv, width, 3 * width, first);
  attention_forward(v.mixed.data(), v.probabilities.data(), v.qkv.data(), sizes_, width, shape_.heads, pool_);
  apply(v.middle, v.mixed, at.projection, width, width, first + 1);
  add_input(v.middle, inp);

  normalize(v.norm2, v.middle, at.norm2);
  apply(v.expanded, v.norm2.out, at.expand, width, expansion * width, first + 2);
  gelu_forward(v.activated.data(), v.expanded.data(), static_cast<std::int64_t>(v.expanded.size()), pool_);
  apply(v.out, v.activated, at.contract, expansion * width, width, first + 3);
  add_input(v.out, v.middle);
}

/// Takes the gradient of the layer's output in dstream_ and leaves there that of its input.
template <class T>
void model<T>::layer_backward(int layer, std::vector<T> const& inp) {
  auto const& at = layers_[static_cast<std::size_t>(layer)];
  auto& v = values_[static_cast<std::size_t>(layer)];
  int const width = shape_.width, first = layer * linears_per_layer;
  quantized_[static_cast<std::size_t>(first)].keep(v.qkv.data(), sizes_.rows(), 3 * width);
  quantized_[static_cast<std::size_t>(first) + 2].keep(v.expanded.data(), sizes_.rows(), expansion * width);
  apply_backward(dwide_, dstream_, v.activated, at.contract, expansion * width, width, first + 3);
  gelu_backward(dwide_.data(), v.expanded.data(), static_cast<std::int64_t>(v.expanded.size()), pool_);
  apply_backward(dnarrow_, dwide_, v.norm2.out, at.expand, width, expansion * width, first + 2);
  normalize_backward(dstream_, dnarrow_, v.norm2, v.middle, at.norm2);

  apply_backward(dnarrow_, dstream_, v.mixed, at.projection, width, width, first + 1);
  attention_backward(dqkv_.data(), dscores_.data(), dnarrow_.data(), v.qkv.data(), v.probabilities.data(), sizes_,
                     width, shape_.heads, pool_);
  apply_backward(dnarrow_, dqkv_, v.norm1.out, at.qkv, width, 3 * width, first);
  normalize_backward(dstream_, dnarrow_, v.norm1, inp, at.norm1);
}

template <class T>
double model<T>::forward(std::uint8_t const* tokens, std::uint8_t const* targets, std::uint64_t pass) {
  T const* const p = parameters_.data();
  pass_ = pass;
  tokens_.assign(tokens, tokens + sizes_.rows());
  embedding_forward(embedded_.data(), tokens, p + token_table_, p + position_table_, sizes_, shape_.width, pool_);
  for (int i = 0; i < shape_.layers; ++i) layer_forward(i, input_of(i));
  normalize(final_, input_of(shape_.layers), final_norm_);
  plain_.forward(logits_.data(), final_.out.data(), p + head_, nullptr, sizes_.batch, sizes_.time, shape_.width,
                 byte_values, plain_work_);
  return cross_entropy(logits_.data(), row_losses_.data(), targets, sizes_.rows(), byte_values, pool_);
}

template <class T>
void model<T>::backward() {
  T* const g = gradients_.data();
  std::fill(gradients_.begin(), gradients_.end(), T{0});
  std::fill(dstream_.begin(), dstream_.end(), T{0});
  std::fill(dnarrow_.begin(), dnarrow_.end(), T{0});
  plain_.backward(dnarrow_.data(), g + head_, nullptr, logits_.data(), final_.out.data(), parameters_.data() + head_,
                  sizes_.batch, sizes_.time, shape_.width, byte_values, plain_work_);
  normalize_backward(dstream_, dnarrow_, final_, input_of(shape_.layers), final_norm_);
  for (int i = shape_.layers - 1; i >= 0; --i) layer_backward(i, input_of(i));
  embedding_backward(g + token_table_, g + position_table_, dstream_.data(), tokens_.data(), sizes_, shape_.width,
                     pool_);
}

template class model<float>;
template class model<double>;  // for the gradient tests

}  // namespace char_gpt
