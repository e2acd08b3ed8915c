// SPDX-License-Identifier: Apache-2.0
// A correction is over a group of values, whose size the rule says.
// expect: the rule has .corrected., but no .correction_group. that says over how many values
#include <loft/block.hpp>

struct rule {
#ifdef LOFT_FAIL
  static constexpr int group = 32;
#else
  static constexpr int correction_group = 32;
#endif
  template <class B>
  constexpr loft::code<typename B::scale> corrected(loft::code<typename B::scale> scale, double,
                                                    std::uint64_t) const noexcept {
    return scale;
  }
  template <class B> constexpr loft::code<typename B::scale> scale(float amax, loft::tensor_scale t) const noexcept {
    return loft::ocp_floor{}.scale<B>(amax, t);
  }
};

int main() {
  loft::operand<loft::mxfp4, rule> const how{};
  static_cast<void>(how);
}
