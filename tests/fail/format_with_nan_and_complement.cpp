// SPDX-License-Identifier: Apache-2.0
// Two's complement leaves no code for a NaN: such a description is no format.
// expect: constraints? not satisfied|template constraint failure|no matching function
#include <loft/number.hpp>

struct number {
#ifdef LOFT_FAIL
  static constexpr loft::format_spec spec{1, 2, 1, loft::specials::nan, true, true, true};
#else
  static constexpr loft::format_spec spec{1, 2, 1, loft::specials::none, true, true, true};
#endif
};

int main() { return loft::encode<number>(0.0f); }
