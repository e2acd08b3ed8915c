// SPDX-License-Identifier: Apache-2.0
// The layers that only nGPT has, forward and backward, in float32: vectors of norm 1, and scales for each channel.
// Source: arXiv 2410.01131 (nGPT), arXiv 2605.06067 (nGPT in NVFP4) for justnorm and the residual step.
//
//   justnorm(x) = x / (||x|| + 1e-6)
//
// Matrices, rows and gradients: as in layers.hpp. A scale is a parameter times a constant factor, so that the parameter
// can start, and move, in steps of its own size.
#pragma once

#include "char_gpt/model/layers.hpp"

namespace char_gpt {

/// A scale for each channel: parameter[i] * factor, whose gradient goes to `gradient`.
template <class T> struct channel_scale {
  T const* parameter;
  T* gradient;
  T factor;
};

/// Each row becomes its justnorm, in place; the norms are kept for the backward pass, unless null, which takes the
/// gradient of `out` and leaves that of the row, in place.
template <class T> void unit_rows_forward(T* rows, T* norms, extent size, thread_pool& pool);
template <class T> void unit_rows_backward(T* gradient, T const* out, T const* norms, extent size, thread_pool& pool);

/// Each column of [rows, width] becomes its justnorm, in place.
template <class T> void unit_columns(T* matrix, extent size, thread_pool& pool);

/// A step on the unit sphere, from the stream towards the output of a branch. The norms of the branch and of the outer
/// vector, one of each a row, are kept for the backward pass.
template <class T> struct unit_step {
  T const *branch, *stream;
  T *branch_norms, *outer_norms;
  channel_scale<T> length;
  extent size;
};

/// out = justnorm(stream + a * (justnorm(branch) - stream)) over each row, a = |length|. The backward pass takes the
/// gradient of `out` in `dstream` and leaves that of the stream there; `dbranch` is written.
template <class T> void unit_step_forward(T* out, unit_step<T> const& step, thread_pool& pool);
template <class T>
void unit_step_backward(T* dstream, T* dbranch, T const* out, unit_step<T> const& step, thread_pool& pool);

/// The queries and keys of all heads, [rows, 3 * width] as attention takes them; `norms` [rows, 2 * heads] are kept for
/// the backward pass.
template <class T> struct unit_heads {
  T const* qkv;
  T* norms;
  channel_scale<T> scale;
  extent size;
  int heads;
};

/// out = scale * justnorm over the queries and the keys of each head; the values are copied. The backward pass takes the
/// gradient of `out` and leaves that of `qkv`, in place.
template <class T> void unit_heads_forward(T* out, unit_heads<T> const& how, thread_pool& pool);
template <class T> void unit_heads_backward(T* gradient, unit_heads<T> const& how, thread_pool& pool);

/// out = scale * inp. The backward pass replaces `gradient`, given with respect to the output, in place.
template <class T> void scale_forward(T* out, T const* inp, channel_scale<T> scale, extent size, thread_pool& pool);
template <class T>
void scale_backward(T* gradient, T const* inp, channel_scale<T> scale, extent size, thread_pool& pool);

}  // namespace char_gpt
