// SPDX-License-Identifier: Apache-2.0
// Every change: a sample of all floats, in steps of a prime, through every format, rounding and overflow mode.
#include <doctest/doctest.h>

#include "sweep.hpp"

namespace {

constexpr std::uint64_t stride = 8009;

}  // namespace

TEST_CASE("the places that sweeps compute are those that the oracle searches") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    INFO(table.name());
    std::int64_t wrong = 0, moved = 0;
    for (std::uint64_t bits = 0; bits < 0xff800000u; bits += 65537) {
      if ((bits & 0x7f800000u) == 0x7f800000u) continue;
      auto const x = static_cast<double>(test::float_of(static_cast<std::uint32_t>(bits)));
      oracle::place const fast = test::place_of(x, table.row, table.max_code), searched = table.locate(x);
      wrong += fast.lower != searched.lower || fast.fraction != searched.fraction;
      moved += test::place_of(x * 1.25, table.row, table.max_code).fraction != searched.fraction;
    }
    CHECK(wrong == 0);
    CHECK(moved > 0);
  });
}

TEST_CASE("a sample of all floats in every format") {
  loft::all_formats::for_each([]<class F>(F) { test::check_sweep<F>({stride / 2, stride}); });
}
