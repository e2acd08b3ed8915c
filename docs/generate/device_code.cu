// SPDX-License-Identifier: Apache-2.0
// Device code of the generic headers, to be compiled and not run: the table in docs/hardware.md says with what and for
// what. Every format is encoded and decoded, every block format that fits a thread is quantized, two tensors go through
// the verbs.
#ifdef __HIP__
#include <stdlib.h>  // clang's wrapper of <new> needs it where no HIP header came first
#define __global__ __attribute__((global))
#endif

#include <cstdint>

#include "loft/loft.hpp"

namespace {

template <class F> LOFT_HOST_DEVICE float through(float x, std::uint64_t index) {
  using loft::encode, loft::decode, loft::overflow;
  float sum = decode<F>(encode<F>(x)) + decode<F>(encode<F, overflow::special>(x, loft::upward{}));
  sum += decode<F>(encode<F>(x, loft::stochastic<8>{1, 2}, index));
  return sum + decode<F>(encode<F>(static_cast<double>(x), loft::truncated_stochastic<16>{3, 4}, index));
}

template <class... F> LOFT_HOST_DEVICE float through_all(loft::type_list<F...>, float x, std::uint64_t index) {
  return (through<F>(x, index) + ...);
}

using rotated = loft::operand<loft::nvfp4, loft::four_over_six<>, loft::stochastic<8>, loft::signed_hadamard<16>>;

}  // namespace

__global__ void numbers(float const* x, float* out, std::uint64_t index) {
  out[index] = through_all(loft::all_formats{}, x[index], index);
}

template <class Operand>
__global__ void one_block(float const* x, loft::block<typename Operand::format>* out, Operand how,
                          loft::tensor_scale t) {
  constexpr int rows = Operand::format::shape.rows, cols = Operand::format::shape.cols;
  // A tile of 128 x 128 is more than a thread can hold.
  if constexpr (rows * cols <= 1024) *out = loft::quantize_block(x, rows * cols, how, t, 7);
}

// A kernel each, so that the memory of a thread is that of one verb.
__global__ void tensor(loft::matrix_view<float const> in, loft::quantized_view<loft::mxfp4> mx, loft::status* outcome) {
  *outcome = loft::quantize<loft::operand<loft::mxfp4>>(in, mx);
}
__global__ void tensor_back(loft::quantized_view<loft::mxfp4> mx, loft::matrix_view<float> out, loft::status* outcome) {
  *outcome = loft::dequantize<loft::operand<loft::mxfp4>>(mx, out);
}
__global__ void rotated_tensor(loft::matrix_view<float const> in, loft::quantized_view<loft::nvfp4> nv,
                               loft::status* outcome) {
  *outcome = loft::quantize(in, nv, rotated{});
}
__global__ void fake_tensor(loft::matrix_view<float const> in, loft::matrix_view<float> out, loft::status* outcome) {
  *outcome = loft::fake_quantize(in, out, rotated{});
}

// Names a kernel for each block format, which makes the compiler write it.
template <class... B> bool block_kernels(loft::type_list<B...>) {
  return (... & (&one_block<loft::operand<B>> != nullptr)) & (&one_block<rotated> != nullptr);
}
bool const all_block_kernels = block_kernels(loft::all_block_formats{});
