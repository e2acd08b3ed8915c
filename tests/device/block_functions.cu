// SPDX-License-Identifier: Apache-2.0
// quantize_block in a thread, for every block format a thread can hold, and with other rules, roundings and rotations.
#include <cstdint>

#include "words.hpp"
//
#include "loft/loft.hpp"

// Names for the table of budgets.
template <class B> struct by_default { using operand = loft::operand<B>; };
struct mxfp4_ceil_stochastic {
  using operand = loft::operand<loft::mxfp4, loft::ceil_scale, loft::stochastic<8>>;
};
struct mxfp4_even_hadamard {
  using operand = loft::operand<loft::mxfp4, loft::even_scale, loft::nearest_even, loft::hadamard<32>>;
};
struct nvfp4_stochastic_hadamard {
  using operand = loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<8>, loft::signed_hadamard<16>>;
};
struct nvfp4_four_over_six {
  using operand = loft::operand<loft::nvfp4, loft::four_over_six<>>;
};

template <class Name>
__global__ void one_block(float const* x, loft::block<typename Name::operand::format>* out, typename Name::operand how,
                          loft::tensor_scale t, std::uint64_t first_index) {
  constexpr auto shape = Name::operand::format::shape;
  // A tile of 128 x 128 is more than a thread can hold.
  if constexpr (shape.rows * shape.cols <= 128)
    *out = loft::quantize_block(x, shape.rows * shape.cols, how, t, first_index);
}

// Names the kernels, which makes the compiler write them.
template <class... Name> bool kernels() { return (... & (&one_block<Name> != nullptr)); }
template <class... B> bool kernels_of_formats(loft::type_list<B...>) {
  return kernels<by_default<B>..., mxfp4_ceil_stochastic, mxfp4_even_hadamard, nvfp4_stochastic_hadamard,
                 nvfp4_four_over_six>();
}
bool const all_kernels = kernels_of_formats(loft::all_block_formats{});
