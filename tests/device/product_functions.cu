// SPDX-License-Identifier: Apache-2.0
// dot in a thread: one element of an emulated product, for every block format and accumulator, in registers alone.
#include <cstdint>

#include "words.hpp"
//
#include "loft/loft.hpp"

template <class Left, class Right, class A>
__global__ void one_element(Left left, std::int64_t i, Right right, std::int64_t j, A how, float* out) {
  *out = loft::dot(left, i, right, j, how);
}

// Names the kernels, which makes the compiler write them.
template <class Left, class Right, class A> bool const kernel = &one_element<Left, Right, A> != nullptr;

template <class B, class Layout = loft::row_major> using rows = loft::quantized_rows<B, Layout>;
using floats = loft::plain_rows<float>;

template <class... B> bool kernels_of_formats(loft::type_list<B...>) {
  return (... & kernel<rows<B>, rows<loft::square<loft::nvfp4, 16>>, loft::float_accumulator>)&(
      ... & kernel<rows<B>, rows<B, loft::tiled_128x4>, loft::double_accumulator>);
}
bool const all_kernels =
    kernels_of_formats(loft::all_block_formats{}) & kernel<rows<loft::mxfp4>, floats, loft::float_accumulator> &
    kernel<floats, floats, loft::double_accumulator> &
    kernel<rows<loft::fp8_1x128>, rows<loft::fp8_128x128>, loft::chunked_accumulator<loft::bf16, 32, loft::fp32>> &
    kernel<rows<loft::mxfp8_e4m3>, floats, loft::chunked_accumulator<loft::fp16, 16>>;
