// SPDX-License-Identifier: Apache-2.0
// The layers that stay in float32, forward and backward: embedding, layer norm, attention, GELU, cross-entropy.
//
// Matrices are row-major. A row is one token: there are batch * time of them, sequence after sequence.
// Backward functions add to the gradients of parameters and of `dinp`, except where said otherwise.
#pragma once

#include <cstdint>

#include "char_gpt/support/thread_pool.hpp"

namespace char_gpt {

struct sizes {
  int batch, time;  // sequences in a batch, tokens in a sequence
  constexpr std::int64_t rows() const noexcept { return std::int64_t{batch} * time; }
};

/// The size of a matrix that has a row for each token.
struct extent {
  std::int64_t rows;
  int width;
};

/// The two tables of an embedding, or their gradients: a row for each byte value, and one for each place in a sequence.
template <class T> struct embedding_tables { T *token, *position; };

/// out[rows, width] = tables.token[token] + tables.position[place of the token in its sequence]
template <class T>
void embedding_forward(T* out, std::uint8_t const* tokens, embedding_tables<T> tables, sizes s, int width,
                       thread_pool& pool);
template <class T>
void embedding_backward(embedding_tables<T> gradients, T const* dout, std::uint8_t const* tokens, sizes s, int width,
                        thread_pool& pool);

/// A layer norm: its parameters, and the mean and 1 / deviation of each row, which are kept for the backward pass.
template <class T> struct layer_norm {
  T const *weight, *bias;
  T *mean, *inverse;
  extent size;
};
template <class T> struct layer_norm_gradients { T *inp, *weight, *bias; };

/// out = (inp - mean) / deviation * weight + bias over each row.
template <class T> void layer_norm_forward(T* out, T const* inp, layer_norm<T> const& norm, thread_pool& pool);
template <class T>
void layer_norm_backward(layer_norm_gradients<T> gradients, T const* dout, T const* inp, layer_norm<T> const& norm,
                         thread_pool& pool);

/// Causal attention of `heads` heads. `qkv` [rows, 3 * width] holds queries, keys, values; `probabilities` [batch, heads,
/// time, time] is kept for the backward pass.
template <class T> struct attention {
  T const* qkv;
  T* probabilities;
  T scale;
  sizes size;
  int width, heads;
};

/// out [rows, width] = softmax(scale * q k) v for each head.
template <class T> void attention_forward(T* out, attention<T> const& how, thread_pool& pool);
/// Writes the gradient of qkv; `scratch` has the size of the probabilities.
template <class T>
void attention_backward(T* dqkv, T* scratch, T const* dout, attention<T> const& how, thread_pool& pool);

/// The tanh form of GELU. The backward pass replaces `gradient`, given with respect to the output, in place.
template <class T> void gelu_forward(T* out, T const* inp, std::int64_t count, thread_pool& pool);
template <class T> void gelu_backward(T* gradient, T const* inp, std::int64_t count, thread_pool& pool);

/// Mean over rows of -log softmax(logits)[target], in nats; a row has size.width classes. Replaces the logits by their
/// gradient.
template <class T>
double cross_entropy(T* logits, T* row_losses, std::uint8_t const* targets, extent size, thread_pool& pool);

}  // namespace char_gpt
