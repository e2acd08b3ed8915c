// SPDX-License-Identifier: Apache-2.0
// A plan is no recipe: it has one for most layers and another for those that it leaves out.
// expect: reseed: a plan holds several recipes; reseed the one that serves
#include <loft/recipes.hpp>

int main() {
  loft::plan<loft::recipes::nvfp4> const plan;
#ifdef LOFT_FAIL
  auto const how = loft::reseed(plan, 1, 2);
#else
  auto const how = loft::reseed(plan.main, 1, 2);
#endif
  return sizeof(how) > 0 ? 0 : 1;
}
