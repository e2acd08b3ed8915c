// SPDX-License-Identifier: Apache-2.0
// A plan describes a network, not an operand.
// expect: this describes no operand; a plan has recipes
#include <loft/recipes.hpp>

int main() {
  loft::plan<loft::recipes::nvfp4> const plan;
  float x[16] = {}, y[16];
  loft::matrix_view<float const> const in{x, 1, 16, 16};
  loft::matrix_view<float> const out{y, 1, 16, 16};
#ifdef LOFT_FAIL
  return loft::fake_quantize(in, out, plan) == loft::status::ok ? 0 : 1;
#else
  return loft::fake_quantize(in, out, plan.main.fprop.left) == loft::status::ok ? 0 : 1;
#endif
}
