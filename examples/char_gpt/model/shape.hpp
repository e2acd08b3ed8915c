// SPDX-License-Identifier: Apache-2.0
// What kind of model it is, and how large.
#pragma once

#include "char_gpt/model/layers.hpp"

namespace char_gpt {

inline constexpr int byte_values = 256;
inline constexpr int linears_per_layer = 4;  // that are quantized
inline constexpr int expansion = 4;          // the MLP is this much wider than the residual stream

/// Both have learned positions, causal attention, an MLP with GELU and a head of its own.
enum class architecture {
  gpt,   // GPT-2: gpt_parts.hpp
  ngpt,  // weights and states of norm 1: ngpt_parts.hpp
};

struct model_shape {
  int layers = 2, width = 128, heads = 4, context = 64, batch = 8;
  architecture arch = architecture::gpt;
  constexpr sizes batch_sizes() const noexcept { return {batch, context}; }
  constexpr int head_size() const noexcept { return width / heads; }
};

/// Bytes that training takes: parameters, gradients, AdamW's moments of a parameter, activations. In double, as it must
/// not overflow.
double training_bytes(model_shape const&, double moment_bytes = 2 * sizeof(float)) noexcept;

}  // namespace char_gpt
