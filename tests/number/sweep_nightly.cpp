// SPDX-License-Identifier: Apache-2.0
// All 2^32 floats through every format, rounding and overflow mode, in shares: LOFT_SWEEP=3/64 takes the floats whose
// pattern is 3 modulo 64. Without it a share of 1/512, the day's of 512, so that nights in a row cover different ones.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "sweep.hpp"

namespace {

test::slice chosen_slice() {
  unsigned long long share = static_cast<unsigned long long>(std::time(nullptr) / 86400 % 512), of = 512;
  if (char const* const given = std::getenv("LOFT_SWEEP"); given != nullptr) {
    bool const read = std::sscanf(given, "%llu/%llu", &share, &of) == 2;
    REQUIRE_MESSAGE((read && of > 0 && share < of), "LOFT_SWEEP is a share like 3/64");
  }
  return {share, of};
}

}  // namespace

TEST_CASE("a share of all floats in every format") {
  test::slice const part = chosen_slice();
  std::printf("share %llu of %llu: LOFT_SWEEP=%llu/%llu repeats it\n", static_cast<unsigned long long>(part.first),
              static_cast<unsigned long long>(part.step), static_cast<unsigned long long>(part.first),
              static_cast<unsigned long long>(part.step));
  loft::all_formats::for_each([&]<class F>(F) {
    test::check_stepped_sweep<F>(part);
    std::printf("%s: %llu floats, 9 roundings, 2 overflow modes\n", test::subject<F>{}.table.row.name,
                static_cast<unsigned long long>(((std::uint64_t{1} << 32) - part.first + part.step - 1) / part.step));
    std::fflush(stdout);
  });
}
