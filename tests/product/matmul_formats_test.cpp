// SPDX-License-Identifier: Apache-2.0
// The emulated product of every block format, by itself and on either side of others, with every accumulator.
#include "matmul_check.hpp"

using namespace matmul_check;

TEST_CASE("every accumulator sums in the stated order, within the stated bound, for every block format") {
  loft::all_block_formats::for_each([]<class B>(B) { check_format<B>(); });
  check_format<loft::square<loft::nvfp4, 16>>();
  check_format<loft::square<loft::mxfp4, 32>>();
  check_format<loft::square<loft::mxfp8_e4m3, 8>>();
}
