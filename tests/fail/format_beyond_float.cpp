// SPDX-License-Identifier: Apache-2.0
// A format with values that no float holds cannot be decoded exactly.
// expect: constraints? not satisfied|template constraint failure|no matching function
#include <loft/number.hpp>

struct number {
#ifdef LOFT_FAIL
  static constexpr loft::format_spec spec{8, 3, 160};
#else
  static constexpr loft::format_spec spec{8, 3, 127, loft::specials::ieee};
#endif
};

int main() { return loft::encode<number>(0.0f); }
