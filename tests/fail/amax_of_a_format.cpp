// SPDX-License-Identifier: Apache-2.0
// The amax is that of an operand, after its rotation.
// expect: this is a block format where an operand belongs
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  loft::mxfp4 const how;
#else
  loft::operand<loft::mxfp4> const how;
#endif
  loft::matrix_view<float const> const in{};
  float amax = 0;
  return loft::tensor_amax(in, how, amax) == loft::status::ok ? 0 : 1;
}
