// SPDX-License-Identifier: Apache-2.0
// The layers that stay in float32, forward and backward: embedding, layer norm, attention, GELU, cross-entropy.
//
// Matrices are row-major. A row is one token: there are batch * time of them, sequence after sequence.
// Backward functions add to the gradients of parameters and of `dinp`, except where said otherwise.
#pragma once

#include <cstdint>

#include "thread_pool.hpp"

namespace char_gpt {

struct sizes {
  int batch, time;  // sequences in a batch, tokens in a sequence
  constexpr std::int64_t rows() const noexcept { return std::int64_t{batch} * time; }
};

/// out[rows, width] = token_table[token] + position_table[place of the token in its sequence]
template <class T>
void embedding_forward(T* out, std::uint8_t const* tokens, T const* token_table, T const* position_table, sizes s,
                       int width, thread_pool& pool);
template <class T>
void embedding_backward(T* dtoken_table, T* dposition_table, T const* dout, std::uint8_t const* tokens, sizes s,
                        int width, thread_pool& pool);

/// out = (inp - mean) / deviation * weight + bias over each row; mean and 1 / deviation are kept for the backward pass.
template <class T>
void layer_norm_forward(T* out, T* mean, T* inverse, T const* inp, T const* weight, T const* bias, std::int64_t rows,
                        int width, thread_pool& pool);
template <class T>
void layer_norm_backward(T* dinp, T* dweight, T* dbias, T const* dout, T const* inp, T const* mean, T const* inverse,
                         T const* weight, std::int64_t rows, int width, thread_pool& pool);

/// Causal attention of `heads` heads, softmax(scale * q k) v. qkv[rows, 3 * width] holds queries, keys, values;
/// probabilities[batch, heads, time, time] is kept for the backward pass, which writes dqkv and uses `scratch` of the
/// same size.
template <class T>
void attention_forward(T* out, T* probabilities, T const* qkv, T scale, sizes s, int width, int heads,
                       thread_pool& pool);
template <class T>
void attention_backward(T* dqkv, T* scratch, T const* dout, T const* qkv, T const* probabilities, T scale, sizes s,
                        int width, int heads, thread_pool& pool);

/// The tanh form of GELU. The backward pass replaces `gradient`, given with respect to the output, in place.
template <class T>
void gelu_forward(T* out, T const* inp, std::int64_t count, thread_pool& pool);
template <class T>
void gelu_backward(T* gradient, T const* inp, std::int64_t count, thread_pool& pool);

/// Mean over rows of -log softmax(logits)[target], in nats. Replaces the logits by their gradient.
template <class T>
double cross_entropy(T* logits, T* row_losses, std::uint8_t const* targets, std::int64_t rows, int classes,
                     thread_pool& pool);

}  // namespace char_gpt
