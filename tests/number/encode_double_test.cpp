// SPDX-License-Identifier: Apache-2.0
// encode from double against the oracle: rounded once, never through float.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "encode_check.hpp"

namespace {

using test::inputs;
using test::tally;

// Doubles beside each midpoint and beside the float nearest to it: going through float would round these twice.
inputs<double> double_inputs(oracle::table const& table) {
  inputs<double> in;
  double const infinity = std::numeric_limits<double>::infinity();
  auto const add = [&](double x) {
    for (double const y : {x, std::nextafter(x, infinity), std::nextafter(x, 0.0)}) {
      in.add(y, y, table);
      in.add(-y, -y, table);
    }
  };
  std::uint32_t const step = table.max_code > 4096 ? 7 : 1;
  for (std::uint32_t c = 0; c <= table.max_code; c += c + step > table.max_code ? 1 : step) {
    double const value = table.values[c], middle = (value + table.values[c + 1]) / 2;
    add(value);
    add(middle);
    add(static_cast<double>(std::nextafterf(static_cast<float>(middle), 0.0f)));
    add(middle + std::ldexp(middle, -30));
    add(middle - std::ldexp(middle, -30));
  }
  for (double const x : {5e-324, 2.2250738585072014e-308, 1e-60, 1e-45, 1e39, 1e300, 1.7976931348623157e308}) add(x);
  in.add(infinity, infinity, table);
  in.add(-infinity, -infinity, table);
  for (double const nan : {std::nan(""), -std::nan("")}) in.add(nan, nan, table);
  return in;
}

}  // namespace

TEST_CASE("double is rounded once") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    inputs<double> const in = double_inputs(table);
    test::check_every_mode<F>(in);
    // The control: through float, some of these inputs come out otherwise.
    tally through_float;
    for (std::size_t i = 0; i < in.x.size(); ++i) {
      auto const expected =
          table.encode(in.value[i], in.place[i], oracle::rounding::nearest_even, oracle::overflow::saturate);
      through_float.add(in.value[i], loft::encode<F>(static_cast<float>(in.x[i])), expected);
    }
    CHECK(through_float.wrong > 0);
  });
}

TEST_CASE("double to fp32, and a float is its own code") {
  oracle::table const& table = test::table_of<loft::fp32>();
  inputs<double> in;
  tally encoded, decoded;
  for (std::uint64_t p = 0; p < table.max_code; p += 200003) {
    auto const code = static_cast<std::uint32_t>(p);
    double const lower = table.value(code), middle = (lower + table.value(code + 1)) / 2;
    for (double const x : {lower, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 2 * middle)}) {
      in.add(x, x, table);
      in.add(-x, -x, table);
    }
    float const x = test::float_of(code | (p % 2 == 0 ? 0x80000000u : 0u));
    encoded.add(x, loft::encode<loft::fp32>(x), test::bits_of(x));
    decoded.add(x, test::bits_of(loft::decode<loft::fp32>(test::bits_of(x))), test::bits_of(x));
  }
  for (double const x : {0x1.ffffffp127, 0x1.fffffeffffffp127, 0x1p128, 1e300, 5e-324, 0x1p-149, 0x1p-150}) {
    for (double const y : {x, std::nextafter(x, 1.0), -x}) in.add(y, y, table);
  }
  for (double const x : {std::nan(""), -std::nan(""), std::numeric_limits<double>::infinity()}) in.add(x, x, table);
  test::check_every_mode<loft::fp32>(in);
  CHECK_MESSAGE(encoded.wrong == 0, encoded.first());
  CHECK_MESSAGE(decoded.wrong == 0, decoded.first());
}
