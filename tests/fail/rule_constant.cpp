// SPDX-License-Identifier: Apache-2.0
// A constant has two sides, the one that encodes and the one that decodes.
// expect: the .constant. of a rule is a tensor_scale
#include <loft/block.hpp>

struct rule {
#ifdef LOFT_FAIL
  static constexpr float constant = 0.75f;
#else
  static constexpr loft::tensor_scale constant{0.75f, 4.0f / 3.0f};
#endif
  template <class B> constexpr loft::code<typename B::scale> scale(float amax, loft::tensor_scale t) const noexcept {
    return loft::ocp_floor{}.scale<B>(amax, t);
  }
};

int main() {
  loft::operand<loft::mxfp4, rule> const how{};
  static_cast<void>(how);
}
