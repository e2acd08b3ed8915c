// SPDX-License-Identifier: Apache-2.0
// A view of a format that is const reads only.
// expect: quantize writes, and this quantized_view only reads
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using format = loft::mxfp4 const;
#else
  using format = loft::mxfp4;
#endif
  loft::matrix_view<float const> const in{};
  loft::quantized_view<format> const out{};
  return loft::quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
