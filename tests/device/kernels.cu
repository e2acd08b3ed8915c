// SPDX-License-Identifier: Apache-2.0
// The main kernels of gpu/, one call each, in the dialect of the compiler: HIP's under clang -x hip, or where
// LOFT_HIP_DIALECT is defined; else CUDA's.
#if defined(__HIP__) || defined(LOFT_HIP_DIALECT)
#include "loft/hip.hpp"
using chip = loft::hip;
#else
#include "loft/cuda.hpp"
using chip = loft::cuda;
#endif

using loft::bf16_t;
template <class T> using view = loft::matrix_view<T>;

template <class Operand, class T>
loft::status rows(view<T const> in, loft::quantized_view<typename Operand::format> out) {
  return chip::quantize(in, out, Operand{}, {});
}
template <class Operand>
loft::status both(view<bf16_t const> in, loft::quantized_view<typename Operand::format> out,
                  loft::quantized_view<typename Operand::format> transposed) {
  return chip::quantize_both(in, out, Operand{}, transposed, Operand{}, {});
}

using mxfp4 = loft::operand<loft::mxfp4>;
using mxfp8 = loft::operand<loft::mxfp8_e4m3>;
using nvfp4 = loft::operand<loft::nvfp4>;
using mxfp4_stochastic = loft::operand<loft::mxfp4, loft::ocp_floor, loft::stochastic<8>>;
using mxfp4_rotated = loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<32>>;
using nvfp4_gradient = loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<8>, loft::signed_hadamard<16>>;
using nvfp4_square = loft::operand<loft::square<loft::nvfp4, 16>>;

loft::status all_rows(view<bf16_t const> in, view<float const> floats, loft::quantized_view<loft::mxfp4> fp4,
                      loft::quantized_view<loft::mxfp8_e4m3> fp8, loft::quantized_view<loft::nvfp4> nv) {
  loft::status const results[] = {rows<mxfp4>(in, fp4),
                                  rows<mxfp8>(in, fp8),
                                  rows<nvfp4>(in, nv),
                                  rows<mxfp4>(floats, fp4),
                                  rows<mxfp4_stochastic>(in, fp4),
                                  rows<mxfp4_rotated>(in, fp4),
                                  rows<nvfp4_gradient>(in, nv),
                                  both<mxfp8>(in, fp8, fp8),
                                  both<mxfp4>(in, fp4, fp4)};
  for (loft::status const s : results)
    if (s != loft::status::ok) return s;
  return loft::status::ok;
}

loft::status all_others(view<bf16_t const> in, view<bf16_t> out, loft::quantized_view<loft::mxfp4> fp4,
                        loft::quantized_view<loft::square<loft::nvfp4, 16>> square, float* amax,
                        chip::norm_item<bf16_t> const* items, loft::norm_partial* norms) {
  loft::status const results[] = {both<nvfp4_square>(in, square, square),
                                  chip::rotate(in, out, loft::hadamard<16>{}, {}),
                                  chip::rotate(in, out, loft::hadamard<32>{}, {}),
                                  chip::rotate(in, out, loft::hadamard<128>{}, {}),
                                  chip::rotate_back(in, out, loft::hadamard<16>{}, {}),
                                  chip::rotate_back(in, out, loft::hadamard<32>{}, {}),
                                  chip::rotate_back(in, out, loft::hadamard<128>{}, {}),
                                  chip::dequantize(fp4, out, mxfp4{}, {}),
                                  chip::tensor_amax(in, nvfp4{}, amax, {}),
                                  chip::partial_norms(items, 146, 146, norms, {}),
                                  chip::quantize_with_norm(in, fp4, mxfp4{}, norms, {})};
  for (loft::status const s : results)
    if (s != loft::status::ok) return s;
  return loft::status::ok;
}
