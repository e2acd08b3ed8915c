// SPDX-License-Identifier: Apache-2.0
// encode from float against the oracle: a sweep over the patterns, every tie and its neighbours, a user's format.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "encode_check.hpp"

namespace {

using test::check_every_mode;
using test::inputs;
using test::tally;

// Every float pattern in steps of a prime, all values that are neighbours of the format's midpoints, and the corners.
constexpr std::uint64_t stride = 20011;

void add_both_signs(inputs<float>& in, float x, oracle::table const& table) {
  in.add(x, x, table);
  in.add(-x, -x, table);
}

inputs<float> float_inputs(oracle::table const& table) {
  inputs<float> in;
  for (std::uint64_t p = 0; p < (std::uint64_t{1} << 32); p += stride) {
    float const x = test::float_of(static_cast<std::uint32_t>(p));
    in.add(x, x, table);
  }
  for (std::uint32_t c = 0; c < 0x10000; ++c) {
    float const x = test::float_of(c << 16);
    in.add(x, x, table);
  }
  float const infinity = std::numeric_limits<float>::infinity();
  for (std::uint32_t c = 0; c <= table.max_code; ++c) {
    auto const value = static_cast<float>(table.values[c]);
    auto const middle = static_cast<float>((table.values[c] + table.values[c + 1]) / 2);
    for (float const x : {value, middle}) {
      add_both_signs(in, x, table);
      add_both_signs(in, std::nextafterf(x, infinity), table);
      add_both_signs(in, std::nextafterf(x, 0.0f), table);
    }
  }
  for (std::uint32_t const bits : {0u, 1u, 0x007fffffu, 0x00400000u, 0x00400001u, 0x00800000u, 0x7f7fffffu, 0x7f800000u,
                                   0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
    add_both_signs(in, test::float_of(bits), table);
    in.add(test::float_of(bits | 0x80000000u), test::float_of(bits | 0x80000000u), table);
  }
  return in;
}

// A format of the user's own: one struct.
struct e3m3 {
  static constexpr loft::format_spec spec{3, 3, 3};
};

}  // namespace

template <> inline constexpr oracle::format test::row_of<e3m3> = oracle::e3m3;

TEST_CASE("float to every format in every rounding and both overflow modes") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    check_every_mode<F>(float_inputs(table));
  });
}

TEST_CASE("a format defined by the user is encoded and decoded like the catalogue's") {
  static_assert(loft::Format<e3m3> && sizeof(loft::code<e3m3>) == 1);
  oracle::table const& table = test::table_of<e3m3>();
  tally count;
  for (std::uint32_t c = 0; c < table.code_count; ++c) {
    float const got = loft::decode<e3m3>(static_cast<loft::code<e3m3>>(c));
    count.add(c, test::bits_of(got), test::bits_of(static_cast<float>(table.decode(c))));
  }
  CHECK_MESSAGE(count.wrong == 0, count.first());
  check_every_mode<e3m3>(float_inputs(table));
}
