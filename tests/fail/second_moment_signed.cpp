// SPDX-License-Identifier: Apache-2.0
// expect: second_moment: the block format needs elements without a sign
#include "loft/train.hpp"

#ifdef LOFT_FAIL
using format = loft::mxfp4;
#else
using format = loft::mx_moment4;
#endif

loft::second_moment<loft::operand<format>> how{};

int main() { return how.round_up_from_zero ? 0 : 1; }
