// SPDX-License-Identifier: Apache-2.0
// encode and decode of every format against the oracle: all codes, all 16-bit sources, constant expressions.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <array>

#include "encode_check.hpp"
#include "loft/number.hpp"

namespace {

using loft::overflow;
using test::check_nearest_and_directed;
using test::inputs;
using test::tally;

// All codes of a 16-bit format, as values of that format.
template <class S> inputs<loft::minifloat<S>> minifloat_inputs(oracle::table const& table) {
  inputs<loft::minifloat<S>> in;
  oracle::table const& source = test::table_of<S>();
  for (std::uint32_t c = 0; c < source.code_count; ++c) {
    in.add(loft::minifloat<S>::from_bits(static_cast<loft::code<S>>(c)), source.decode(c), table);
  }
  return in;
}

}  // namespace

TEST_CASE("every code decodes to its value, bit for bit") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    tally count, shifted;
    for (std::uint32_t c = 0; c < table.code_count; ++c) {
      float const got = loft::decode<F>(static_cast<loft::code<F>>(c));
      auto const expected = static_cast<float>(table.decode(c));
      count.add(c, test::same(got, expected), true);
      shifted.add(c, test::same(got, static_cast<float>(table.decode(c ^ 1))), true);
    }
    CHECK_MESSAGE(count.wrong == 0, count.first());
    CHECK(shifted.wrong > 0);
  });
}

TEST_CASE("every finite code encodes to itself, whatever the rounding") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    tally count;
    for (std::uint32_t c = 0; c < table.code_count; ++c) {
      double const value = table.decode(c);
      if (!table.is_canonical(c)) continue;
      auto const x = static_cast<float>(value);
      count.add(x, loft::encode<F>(x), c);
      count.add(x, loft::encode<F, overflow::special>(value), c);
      count.add(x, loft::encode<F>(x, loft::away_from_zero{}), c);
      count.add(x, loft::encode<F>(x, loft::toward_zero{}), c);
      count.add(x, loft::encode<F>(x, loft::to_odd{}), c);
      count.add(x, loft::encode<F>(x, loft::stochastic_word<32>{0xffffffffu}), c);
    }
    CHECK_MESSAGE(count.wrong == 0, count.first());
    CHECK(count.compared > 0);
  });
}

TEST_CASE("all bf16 values, as bf16") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    auto const in = minifloat_inputs<loft::bf16>(table);
    if constexpr (std::is_same_v<F, loft::bf16>) return;  // nothing to round: the round trip above
    check_nearest_and_directed<F>(in);
  });
}

TEST_CASE("all fp16 values, as fp16") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    auto const in = minifloat_inputs<loft::fp16>(table);
    if constexpr (std::is_same_v<F, loft::fp16>) return;
    check_nearest_and_directed<F>(in);
  });
}

TEST_CASE("all codes of an 8-bit format as a source") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    auto const e4m3 = minifloat_inputs<loft::e4m3>(table);
    auto const e5m2 = minifloat_inputs<loft::e5m2>(table);
    tally count = test::compare<F, overflow::special>(e4m3, loft::nearest_even{}, oracle::rounding::nearest_even,
                                                      oracle::overflow::special);
    CHECK_MESSAGE(count.wrong == 0, count.first());
    count = test::compare<F, overflow::special>(e5m2, loft::nearest_even{}, oracle::rounding::nearest_even,
                                                oracle::overflow::special);
    CHECK_MESSAGE(count.wrong == 0, count.first());
  });
}

// The documented decisions, one by one; each is a constant of the language too.
static_assert(loft::encode<loft::e8m0>(3.0f) == 0x80 && loft::encode<loft::e8m0>(0.75f) == 0x7e);
static_assert(loft::encode<loft::e8m0>(0.0f) == 0x00 && loft::encode<loft::e8m0>(-0.0f) == 0x00);
static_assert(loft::encode<loft::e8m0>(-1.0f) == 0x00 && loft::encode<loft::e8m0, overflow::special>(-1.0f) == 0xff);
static_assert(loft::encode<loft::e4m3>(464.0f) == 0x7e && loft::encode<loft::e4m3, overflow::special>(464.0f) == 0x7e);
static_assert(loft::encode<loft::e4m3>(464.00003f) == 0x7e);
static_assert(loft::encode<loft::e4m3, overflow::special>(464.00003f) == 0x7f);
static_assert(loft::encode<loft::e4m3, overflow::special>(-464.00003f) == 0xff);
static_assert(loft::encode<loft::e4m3, overflow::special>(1e9f, loft::toward_zero{}) == 0x7e);
static_assert(loft::encode<loft::e5m2>(61440.0f) == 0x7b &&
              loft::encode<loft::e5m2, overflow::special>(61440.0f) == 0x7c);
static_assert(loft::encode<loft::e5m2, overflow::special>(61439.996f) == 0x7b);
static_assert(loft::encode<loft::e2m1>(0.25) == 0 && loft::encode<loft::e2m1>(0x1.000002p-2) == 1);
static_assert(loft::encode<loft::e2m1>(-0.0f) == 8 && loft::encode<loft::e2m1, overflow::special>(-1e30) == 0xf);
static_assert(loft::encode<loft::e2m1>(std::numeric_limits<float>::quiet_NaN()) == 7);
static_assert(loft::encode<loft::e4m3>(-std::numeric_limits<float>::quiet_NaN()) == 0x7f);
static_assert(loft::encode<loft::bf16>(-std::numeric_limits<double>::quiet_NaN()) == 0x7fff);
static_assert(loft::encode<loft::ue4m3>(-0.0f) == 0 && loft::encode<loft::ue4m3, overflow::special>(-1e-30f) == 0x7f);
static_assert(loft::decode<loft::e4m3>(0x7e) == 448.0f && loft::decode<loft::e8m0>(0x00) == 0x1p-127f);
static_assert(loft::decode<loft::e2m1>(0xf) == -6.0f && loft::decode<loft::e5m2>(0x01) == 0x1p-16f);
static_assert(loft::decode<loft::fp16>(0xfc00) == -std::numeric_limits<float>::infinity());

namespace {

constexpr std::array<float, 12> samples{0.0f,     -0.0f,  0.1f,      -3.3f,
                                        5.0f,     447.0f, 1e-6f,     -1e-40f,
                                        65519.0f, 3e38f,  -61440.0f, std::numeric_limits<float>::infinity()};
template <class F, class R> constexpr auto encode_samples(std::array<float, 12> const& x, R rounding) {
  std::array<loft::code<F>, 12> codes{};
  for (std::size_t i = 0; i < x.size(); ++i) codes[i] = loft::encode<F, overflow::special>(x[i], rounding, i);
  return codes;
}

}  // namespace

TEST_CASE("compile time and run time agree") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    std::array<float, 12> at_run_time{};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      float const volatile x = samples[i];
      at_run_time[i] = x;
    }
    constexpr auto nearest = encode_samples<F>(samples, loft::nearest_even{});
    CHECK(nearest == encode_samples<F>(at_run_time, loft::nearest_even{}));
    constexpr auto drawn = encode_samples<F>(samples, loft::stochastic<8>{7, 11});
    CHECK(drawn == encode_samples<F>(at_run_time, loft::stochastic<8>{7, 11}));
  });
}
