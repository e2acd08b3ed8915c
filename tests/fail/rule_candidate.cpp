// SPDX-License-Identifier: Apache-2.0
// A rule with several scales says how many there are in `candidates`.
// expect: the rule has a scale<B>.amax, t, candidate., but no .candidates., the number of them
#include <loft/block.hpp>

struct rule {
#ifdef LOFT_FAIL
  static constexpr int candidate = 2;
#else
  static constexpr int candidates = 2;
#endif
  template <class B>
  constexpr loft::code<typename B::scale> scale(float amax, loft::tensor_scale t, int) const noexcept {
    return loft::ocp_floor{}.scale<B>(amax, t);
  }
};

int main() {
  loft::operand<loft::mxfp4, rule> const how{};
  static_cast<void>(how);
}
