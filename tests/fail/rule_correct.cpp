// SPDX-License-Identifier: Apache-2.0
// The hook that corrects a scale is spelt corrected.
// expect: the rule has a .correction_group., but no corrected<B>.scale, factor, index.
#include <loft/block.hpp>

struct rule {
#ifdef LOFT_FAIL
  template <class B>
  constexpr loft::code<typename B::scale> correct(loft::code<typename B::scale> scale, double,
                                                  std::uint64_t) const noexcept {
    return scale;
  }
#else
  template <class B>
  constexpr loft::code<typename B::scale> corrected(loft::code<typename B::scale> scale, double,
                                                    std::uint64_t) const noexcept {
    return scale;
  }
#endif
  static constexpr int correction_group = 32;
  template <class B> constexpr loft::code<typename B::scale> scale(float amax, loft::tensor_scale t) const noexcept {
    return loft::ocp_floor{}.scale<B>(amax, t);
  }
};

int main() {
  loft::operand<loft::mxfp4, rule> const how{};
  static_cast<void>(how);
}
