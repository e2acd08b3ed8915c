// SPDX-License-Identifier: Apache-2.0
// Every legal width of the random words in a block: 1, 2, 4, 8, 16 and 32 bits, with and without the half.
#include <cstdint>
#include <cstdio>

#include "loft/loft.hpp"

namespace {

template <class R> int quantized(R rounding) {
  float const values[32] = {1.1f, -2.3f, 5.9f, 0.2f};
  auto const block =
      loft::quantize_block(values, 32, loft::operand<loft::mxfp4, loft::ocp_floor, R>{.rounding = rounding});
  int differing = 0;
  for (int i = 0; i < 4; ++i)
    differing += block.codes[i] != loft::encode<loft::e2m1>(values[i], rounding, static_cast<std::uint64_t>(i));
  return differing;
}

template <int Bits> int both() {
  return quantized(loft::stochastic<Bits>{1, 2}) + quantized(loft::truncated_stochastic<Bits>{1, 2});
}

}  // namespace

int main() {
  // 5.9 gives the scale 2^(2 - 2) = 1, so that the block's codes are encode's.
  int const differing = both<1>() + both<2>() + both<4>() + both<8>() + both<16>() + both<32>();
  std::printf("%d codes differ from encode's\n", differing);
  return differing == 0 ? 0 : 1;
}
