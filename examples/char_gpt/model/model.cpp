// SPDX-License-Identifier: Apache-2.0
// What both architectures share: embeddings, then layers of attention and an MLP, then the head.
#include "char_gpt/model/model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace char_gpt {
namespace {

loft::recipe<> const float_recipe{};

}  // namespace

double training_bytes(model_shape const& s, double moment_bytes) noexcept {
  bool const unit = s.arch == architecture::ngpt;
  double const width = s.width, layers = s.layers, context = s.context, rows = context * s.batch;
  double const matrices = 12 * layers * width * width + (2 * byte_values + context) * width;
  double const vectors = unit ? 7 * layers * width + byte_values : (13 * layers + 2) * width;
  double const scores = s.heads * context;
  double const shared = layers * (16 * width + 4 + scores) + 26 * width + 4 + scores + byte_values;
  double const per_row = shared + (unit ? 8 * width + 2 * s.heads + byte_values : 0);
  return (2 * sizeof(float) + moment_bytes) * (matrices + vectors) + sizeof(float) * rows * per_row;
}

template <class T>
model<T>::model(model_shape const& shape, linear<T> quantized, thread_pool& pool, std::uint64_t seed)
    : shape_{shape},
      sizes_{shape.batch_sizes()},
      quantized_(static_cast<std::size_t>(shape.layers * linears_per_layer), quantized),
      for_values_(quantized_.size()),
      plain_{float_recipe},
      work_{.pool = pool, .seed = seed},
      plain_work_{.pool = pool},
      pool_{pool},
      parts_{parts_of(shape.arch)} {
  std::visit([&](auto& p) { add_tensors(p); }, parts_);
  parameters_.initialize(seed);
  constrain();
  allocate();
}

template <class T> auto model<T>::parts_of(architecture arch) -> parts {
  if (arch == architecture::ngpt) return ngpt_parts<T>{shape_, parameters_, pool_};
  return gpt_parts<T>{shape_, parameters_, pool_};
}

template <class T> template <class P> void model<T>::add_tensors(P& p) {
  int const width = shape_.width;
  double const deviation = 0.55 / std::sqrt(width);                 // GPT-2's 0.02 at its width of 768
  double const added = deviation / std::sqrt(2.0 * shape_.layers);  // of what is added to the stream
  token_table_ = parameters_.add_matrix("token embedding", std::int64_t{byte_values} * width, deviation);
  position_table_ = parameters_.add_matrix("position embedding", std::int64_t{shape_.context} * width, deviation);
  auto const add = [&](std::string const& name, int in, int out, double d) {
    return add_linear(name, in, out, d, P::has_biases);
  };
  for (int i = 0; i < shape_.layers; ++i) {
    std::string const layer = "layer " + std::to_string(i) + " ";
    layer_tensors at;
    p.add_attention(layer);
    at.qkv = add(layer + "qkv", width, 3 * width, deviation);
    at.projection = add(layer + "attention projection", width, width, added);
    p.add_mlp(layer);
    at.expand = add(layer + "fc", width, expansion * width, deviation);
    at.contract = add(layer + "fc projection", expansion * width, width, added);
    layers_.push_back(at);
  }
  p.add_head();
  head_ = parameters_.add_matrix("head", std::int64_t{byte_values} * width, deviation);
}

template <class T>
auto model<T>::add_linear(std::string const& name, int in, int out, double deviation, bool has_bias) -> affine {
  auto const weight = parameters_.add_matrix(name + " weight", std::int64_t{in} * out, deviation);
  auto const bias = has_bias ? parameters_.add_vector(name + " bias", out, 0) : std::int64_t{-1};
  linears_.push_back({name, weight, std::int64_t{in} * out + (has_bias ? out : 0), true});
  return {.weight = weight, .bias = bias, .in = in, .out = out, .number = linears_.size() - 1};
}

template <class T> void model<T>::allocate() {
  auto const rows = static_cast<std::size_t>(sizes_.rows()), width = static_cast<std::size_t>(shape_.width);
  auto const scores = rows * static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.context);
  auto const of_size = [](std::size_t count) { return values(count); };
  embedded_ = dstream_ = dnarrow_ = of_size(rows * width);
  logits_ = of_size(rows * byte_values);
  row_losses_ = of_size(rows);
  for (int i = 0; i < shape_.layers; ++i)
    values_.push_back({.qkv = of_size(rows * 3 * width),
                       .probabilities = of_size(scores),
                       .mixed = of_size(rows * width),
                       .middle = of_size(rows * width),
                       .expanded = of_size(rows * expansion * width),
                       .activated = of_size(rows * expansion * width),
                       .out = of_size(rows * width)});
  dwide_ = of_size(rows * expansion * width);
  dqkv_ = of_size(rows * 3 * width);
  dscores_ = of_size(scores);
}

template <class T> void model<T>::constrain() {
  if (shape_.arch == architecture::gpt) return;
  int const width = shape_.width;
  auto const rows = [&](std::int64_t begin, int count) {
    unit_rows_forward<T>(parameters_.values(begin), nullptr, {count, width}, pool_);
  };
  auto const columns = [&](std::int64_t begin, int in) { unit_columns(parameters_.values(begin), {width, in}, pool_); };
  rows(token_table_, byte_values);
  rows(position_table_, shape_.context);
  rows(head_, byte_values);
  for (auto const& at : layers_) {
    rows(at.qkv.weight, 3 * width);
    columns(at.projection.weight, width);
    rows(at.expand.weight, expansion * width);
    columns(at.contract.weight, expansion * width);
  }
}

template <class T> loft::layer_place model<T>::place_of(std::size_t number) const noexcept {
  constexpr loft::layer_role roles[linears_per_layer] = {loft::layer_role::query_key,
                                                         loft::layer_role::attention_projection,
                                                         loft::layer_role::mlp_up, loft::layer_role::mlp_down};
  return {static_cast<int>(number / linears_per_layer), shape_.layers, roles[number % linears_per_layer]};
}

/// Calls f(layer, first output, outputs) for the products that a linear layer consists of: one, or two where values have
/// a recipe of their own. Each has a stream of its own.
template <class T> template <class F> void model<T>::for_products(affine const& at, F const& f) {
  work_.stream = pass_ * static_cast<std::uint64_t>(shape_.layers * linears_per_layer) + at.number;
  auto const& own = for_values_[at.number];
  int const first = own ? at.out / 3 * 2 : at.out;  // queries, keys, values
  f(quantized_[at.number], 0, first);
  if (!own) return;
  work_.stream += std::uint64_t{1} << 50;
  f(*own, first, at.out - first);
}

template <class T> void model<T>::apply(values& out, values const& inp, affine const& at) {
  for_products(at, [&](linear<T> const& layer, int first, int count) {
    linear_inputs<T> const from{.inp = inp.data(),
                                .weight = parameters_.values(at.weight) + std::int64_t{first} * at.in,
                                .bias = at.bias < 0 ? nullptr : parameters_.values(at.bias) + first};
    layer.forward(out.data() + first, from, {sizes_.rows(), at.in, count, at.out}, work_);
  });
}

template <class T>
void model<T>::apply_backward(values& dinp, values const& dout, values const& inp, affine const& at) {
  std::fill(dinp.begin(), dinp.end(), T{0});
  for_products(at, [&](linear<T> const& layer, int first, int count) {
    std::int64_t const weight = at.weight + std::int64_t{first} * at.in;
    linear_gradients<T> const to{.inp = dinp.data(),
                                 .weight = parameters_.gradients(weight),
                                 .bias = at.bias < 0 ? nullptr : parameters_.gradients(at.bias) + first};
    linear_inputs<T> const from{.inp = inp.data(), .weight = parameters_.values(weight), .bias = nullptr};
    layer.backward(to, dout.data() + first, from, {sizes_.rows(), at.in, count, at.out}, work_);
  });
}

template <class T> attention<T> model<T>::attention_of(layer_values& v, values const& heads, T scale) {
  return {.qkv = heads.data(),
          .probabilities = v.probabilities.data(),
          .scale = scale,
          .size = sizes_,
          .width = shape_.width,
          .heads = shape_.heads};
}

template <class T> template <class P> void model<T>::layer_forward(P& p, std::size_t layer) {
  auto const& at = layers_[layer];
  auto const& inp = input_of(layer);
  auto& v = values_[layer];
  std::size_t const attention = 2 * layer, mlp = attention + 1;
  apply(v.qkv, p.read(attention, inp), at.qkv);
  attention_forward(v.mixed.data(), attention_of(v, p.heads(layer, v.qkv), p.attention_scale()), pool_);
  apply(v.middle, v.mixed, at.projection);
  p.join(attention, v.middle, inp);

  apply(v.expanded, p.read(mlp, v.middle), at.expand);
  gelu_forward(v.activated.data(), p.expanded(layer, v.expanded).data(), static_cast<std::int64_t>(v.expanded.size()),
               pool_);
  apply(v.out, v.activated, at.contract);
  p.join(mlp, v.out, v.middle);
}

/// Takes the gradient of the layer's output in dstream_ and leaves there that of its input.
template <class T> template <class P> void model<T>::layer_backward(P& p, std::size_t layer) {
  auto const& at = layers_[layer];
  auto const& inp = input_of(layer);
  auto& v = values_[layer];
  std::size_t const attention = 2 * layer, mlp = attention + 1;
  quantized_[at.qkv.number].keep(v.qkv.data(), sizes_.rows(), at.qkv.out);
  quantized_[at.expand.number].keep(v.expanded.data(), sizes_.rows(), at.expand.out);
  apply_backward(dwide_, p.join_backward(mlp, dstream_, v.out, v.middle), v.activated, at.contract);
  gelu_backward(dwide_.data(), p.expanded(layer, v.expanded).data(), static_cast<std::int64_t>(v.expanded.size()),
                pool_);
  p.expanded_backward(layer, dwide_, v.expanded);
  apply_backward(dnarrow_, dwide_, p.last_read(mlp, v.middle), at.expand);
  p.read_backward(mlp, dstream_, dnarrow_, v.middle);

  apply_backward(dnarrow_, p.join_backward(attention, dstream_, v.middle, inp), v.mixed, at.projection);
  attention_backward(dqkv_.data(), dscores_.data(), dnarrow_.data(),
                     attention_of(v, p.heads(layer, v.qkv), p.attention_scale()), pool_);
  p.heads_backward(layer, dqkv_, v.qkv);
  apply_backward(dnarrow_, dqkv_, p.last_read(attention, inp), at.qkv);
  p.read_backward(attention, dstream_, dnarrow_, inp);
}

template <class T> linear_inputs<T> model<T>::head_inputs(values const& inp) {
  return {.inp = inp.data(), .weight = parameters_.values(head_), .bias = nullptr};
}

template <class T> template <class P> void model<T>::stack_forward(P& p) {
  p.embed(embedded_);
  for (std::size_t i = 0; i < depth(); ++i) layer_forward(p, i);
  plain_.forward(logits_.data(), head_inputs(p.read(2 * depth(), input_of(depth()))), head_shape(), plain_work_);
  p.logits(logits_);
}

template <class T> template <class P> void model<T>::stack_backward(P& p) {
  auto const& last = input_of(depth());
  p.logits_backward(logits_);
  plain_.backward({.inp = dnarrow_.data(), .weight = parameters_.gradients(head_), .bias = nullptr}, logits_.data(),
                  head_inputs(p.last_read(2 * depth(), last)), head_shape(), plain_work_);
  p.read_backward(2 * depth(), dstream_, dnarrow_, last);
  for (std::size_t i = depth(); i-- > 0;) layer_backward(p, i);
  p.embed_backward(dstream_, embedded_);
}

template <class T>
double model<T>::forward(std::uint8_t const* tokens, std::uint8_t const* targets, std::uint64_t pass) {
  pass_ = pass;
  tokens_.assign(tokens, tokens + sizes_.rows());
  embedding_forward<T>(embedded_.data(), tokens,
                       {.token = parameters_.values(token_table_), .position = parameters_.values(position_table_)},
                       sizes_, shape_.width, pool_);
  std::visit([&](auto& p) { stack_forward(p); }, parts_);
  return cross_entropy(logits_.data(), row_losses_.data(), targets, {sizes_.rows(), byte_values}, pool_);
}

template <class T> void model<T>::backward() {
  std::ranges::fill(parameters_.gradients(), T{0});
  std::fill(dstream_.begin(), dstream_.end(), T{0});
  std::fill(dnarrow_.begin(), dnarrow_.end(), T{0});
  std::visit([&](auto& p) { stack_backward(p); }, parts_);
  embedding_backward<T>(
      {.token = parameters_.gradients(token_table_), .position = parameters_.gradients(position_table_)},
      dstream_.data(), tokens_.data(), sizes_, shape_.width, pool_);
}

template class model<float>;
template class model<double>;  // for the gradient tests

}  // namespace char_gpt
