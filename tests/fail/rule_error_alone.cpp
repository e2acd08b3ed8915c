// SPDX-License-Identifier: Apache-2.0
// An error compares candidates; without them it is never asked.
// expect: the rule has an .error., but neither it nor the format has .candidates. to compare by it
#include <loft/block.hpp>

struct rule {
#ifdef LOFT_FAIL
  using error = loft::absolute_error;
#else
  using measure = loft::absolute_error;
#endif
  template <class B> constexpr loft::code<typename B::scale> scale(float amax, loft::tensor_scale t) const noexcept {
    return loft::ocp_floor{}.scale<B>(amax, t);
  }
};

int main() {
  loft::operand<loft::mxfp4, rule> const how{};
  static_cast<void>(how);
}
