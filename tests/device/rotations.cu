// SPDX-License-Identifier: Apache-2.0
// Kernels for rotations that lanes do not hold, a call each, in the dialect of the compiler, as kernels.cu. They use no
// local memory.
#if defined(__HIP__) || defined(LOFT_HIP_DIALECT)
#include "loft/hip.hpp"
using chip = loft::hip;
#else
#include "loft/cuda.hpp"
using chip = loft::cuda;
#endif

using loft::bf16_t;
template <class T> using view = loft::matrix_view<T>;
template <class B, class Rule, class R, class Rotation> using how = loft::operand<B, Rule, R, Rotation>;

template <class Operand>
loft::status quantized(view<bf16_t const> in, loft::quantized_view<typename Operand::format> out) {
  return chip::quantize(in, out, Operand{}, {});
}

using long_runs = how<loft::mxfp4, loft::even_scale, loft::nearest_even, loft::random_hadamard<4096>>;
using paley_runs = how<loft::nvfp4, loft::two_level, loft::stochastic<>, loft::random_hadamard<48>>;
using tiles = how<loft::square<loft::mxfp4, 32>, loft::ocp_floor, loft::nearest_even, loft::hadamard<3584>>;
using random_lanes = how<loft::mxfp4, loft::even_scale, loft::nearest_even, loft::random_hadamard<32>>;

loft::status all(view<bf16_t const> in, view<bf16_t> out, loft::quantized_view<loft::mxfp4> fp4,
                 loft::quantized_view<loft::nvfp4> nv, loft::quantized_view<loft::square<loft::mxfp4, 32>> square) {
  loft::status const results[] = {quantized<long_runs>(in, fp4),
                                  quantized<paley_runs>(in, nv),
                                  quantized<tiles>(in, square),
                                  quantized<random_lanes>(in, fp4),
                                  chip::rotate(in, out, loft::hadamard<1024>{}, {}),
                                  chip::rotate_back(in, out, loft::random_hadamard<3584>{}, {}),
                                  chip::rotate(in, out, loft::signed_hadamard<20>{}, {}),
                                  chip::dequantize(fp4, out, long_runs{}, {})};
  for (loft::status const s : results)
    if (s != loft::status::ok) return s;
  return loft::status::ok;
}
