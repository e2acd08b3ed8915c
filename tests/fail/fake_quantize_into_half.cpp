// SPDX-License-Identifier: Apache-2.0
// What fake_quantize gives are floats; to round them once more is a choice of its own.
// expect: fake_quantize writes floats: its output is a matrix_view<float>
#include <loft/tensor.hpp>

int main() {
#ifdef LOFT_FAIL
  using number = loft::bf16_t;
#else
  using number = float;
#endif
  loft::matrix_view<float const> const in{};
  loft::matrix_view<number> const out{};
  return loft::fake_quantize(in, out, loft::operand<loft::mxfp4>{}) == loft::status::ok ? 0 : 1;
}
