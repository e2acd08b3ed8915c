// SPDX-License-Identifier: Apache-2.0
// A rule that counts candidates gives a scale for each.
// expect: the rule has .candidates., but no scale<B>.amax, t, candidate. to tell them apart
#include <loft/block.hpp>

struct rule {
#ifdef LOFT_FAIL
  static constexpr int candidates = 2;
#else
  static constexpr int wishes = 2;
#endif
  template <class B> constexpr loft::code<typename B::scale> scale(float amax, loft::tensor_scale t) const noexcept {
    return loft::ocp_floor{}.scale<B>(amax, t);
  }
};

int main() {
  loft::operand<loft::mxfp4, rule> const how{};
  static_cast<void>(how);
}
