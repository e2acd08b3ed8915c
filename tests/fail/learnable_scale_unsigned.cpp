// SPDX-License-Identifier: Apache-2.0
// expect: learnable scales: the format has a sign and a zero
#include "loft/train.hpp"

#ifdef LOFT_FAIL
using format = loft::ue4m3;
#else
using format = loft::int4;
#endif

int main() {
  float x[2] = {1, 2};
  float const scale = 1;
  loft::matrix_view<float> const m{x, 1, 2, 2};
  return loft::fake_quantize_learned<format>(m, {}, &scale, m) == loft::status::ok ? 0 : 1;
}
