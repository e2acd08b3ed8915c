// SPDX-License-Identifier: Apache-2.0
// A statistic is gathered for the scale that is made of it.
// expect: the rule has a .statistic., but no scale<B>.statistic, t. that reads it
#include <loft/block.hpp>

struct rule {
#ifdef LOFT_FAIL
  template <class> using statistic = loft::detail::moments;
#else
  template <class> using sums = loft::detail::moments;
#endif
  template <class B> constexpr loft::code<typename B::scale> scale(float amax, loft::tensor_scale t) const noexcept {
    return loft::ocp_floor{}.scale<B>(amax, t);
  }
};

int main() {
  loft::operand<loft::mxfp4, rule> const how{};
  static_cast<void>(how);
}
