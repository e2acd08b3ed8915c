// SPDX-License-Identifier: Apache-2.0
// The kernels that need most shared memory: tiles of floats, and what lies beside them. In HIP's dialect.
#include "loft/hip.hpp"

namespace {

using chip = loft::hip;

using mxfp4_rotated = loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<128>>;
using square_fp4 = loft::operand<loft::square<loft::mxfp4, 32>>;
using square_fp8 = loft::operand<loft::square<loft::mxfp8_e4m3, 16>>;
using square_four_over_six = loft::operand<loft::square<loft::nvfp4, 16>, loft::four_over_six<>>;
using tile_fp8 = loft::operand<loft::fp8_128x128>;
using tile_stochastic = loft::operand<loft::fp8_128x128, loft::default_rule<loft::fp8_128x128>, loft::stochastic<8>>;

constexpr int side = 128;

template <class Operand> using result = loft::quantized_view<typename Operand::format>;
template <class Operand> loft::status one(float const* in, result<Operand> out) {
  return chip::quantize(loft::matrix_view<float const>{in, side, side, side}, out, Operand{}, {});
}
template <class Operand> loft::status both(float const* in, result<Operand> out) {
  return chip::quantize_both(loft::matrix_view<float const>{in, side, side, side}, out, Operand{}, out, Operand{}, {});
}

}  // namespace

/// A call of each kind for a matrix of 128 x 128; `factors`: a scale or a tensor's scale in float.
loft::status all_float_tiles(float const* in, std::uint8_t* codes, std::uint8_t* scales, std::uint32_t* factors) {
  result<mxfp4_rotated> const fp4{codes, scales, nullptr, side, side};
  result<square_fp4> const squares{codes, scales, nullptr, side, side};
  result<square_fp8> const bytes{codes, scales, nullptr, side, side};
  result<square_four_over_six> const nv{codes, scales, reinterpret_cast<float*>(factors), side, side};
  result<tile_fp8> const tile{codes, factors, nullptr, side, side};
  loft::status const results[] = {
      one<mxfp4_rotated>(in, fp4),   both<mxfp4_rotated>(in, fp4), one<square_fp4>(in, squares),
      both<square_fp4>(in, squares), both<square_fp8>(in, bytes),  one<square_four_over_six>(in, nv),
      one<tile_fp8>(in, tile),       both<tile_fp8>(in, tile),     both<tile_stochastic>(in, tile)};
  for (loft::status const s : results)
    if (s == loft::status::launch_failed) return s;
  return loft::status::ok;
}
