// SPDX-License-Identifier: Apache-2.0
// Codes, scales and values of every block format are frozen: a change of bits is a change of the interface.
#include <doctest/doctest.h>

#include "golden_blocks.hpp"

TEST_CASE("codes, scales and values of every block format are the frozen ones") {
  std::string const frozen = test::read_golden("all_blocks.txt"), got = test::golden_blocks();
  CHECK(frozen.size() > 10000);
  CHECK_MESSAGE(got == frozen, test::first_difference(got, frozen));
  // The control: one digit more or less is seen.
  std::string changed = frozen;
  changed[changed.size() / 2] ^= 1;
  CHECK(got != changed);
  CHECK(!test::first_difference(got, changed).empty());
}

// Run with --no-skip to write the file anew; block_rules_test has the references that say whether it is right.
TEST_CASE("write golden file" * doctest::skip()) {
  test::write_golden("all_blocks.txt", "Codes, scales (and tensor scale) and every 7th value of a fixed 3 x 48 tensor.",
                     test::golden_blocks());
}
