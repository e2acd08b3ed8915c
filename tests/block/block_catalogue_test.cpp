// SPDX-License-Identifier: Apache-2.0
// Every block format of the catalogue against the scalar reference, with its default rule: a new one is tested unasked.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "block_check.hpp"
#include "loft/loft.hpp"

namespace {

// What the reference describes: one kind of element, a shared power of two by the OCP rule or two levels of scales.
template <class B> constexpr bool described = !requires { typename B::alternative; }
&&(std::is_same_v<loft::default_rule<B>, loft::ocp_floor> ||
   (loft::has_tensor_scale<B> && std::is_same_v<loft::default_rule<B>, loft::two_level>));

}  // namespace

TEST_CASE("every block format equals the reference, nearest and stochastic") {
  int covered = 0, others = 0;
  loft::all_block_formats::for_each([&]<class B>(B) {
    if constexpr (described<B>) {
      CAPTURE(test::table_of<typename B::element>().name());
      test::check_all_tensors(test::plain<B>{}, {});
      test::settings const how{.mode = oracle::rounding::stochastic, .bits = 16, .seed = 17, .stream = 1};
      test::check_all_tensors(test::plain<B, loft::stochastic<16>>{.rounding = {how.seed, how.stream}}, how);
      ++covered;
    } else {
      ++others;
    }
  });
  MESSAGE(covered, " block formats compared, ", others, " with rules of their own left out");
  CHECK(covered >= 8);
}
