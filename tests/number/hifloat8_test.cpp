// SPDX-License-Identifier: Apache-2.0
// HiFloat8, the format with tapered precision, against a table that is built from its definition (arXiv 2409.16626).
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "oracle_of.hpp"

namespace {

using loft::overflow;
using test::tally;

// The magnitude of seven bits: a prefix says how many bits the exponent has (sign first, leading one left out), the
// rest is mantissa; the prefix 0000 holds zero and seven powers of two. 0x6f is infinity, here the value it stands at.
double magnitude_of(std::uint32_t bits) {
  auto const exponent_of = [](std::uint32_t field, int width) {
    int const magnitude = static_cast<int>((1u << (width - 1)) | (field & ((1u << (width - 1)) - 1)));
    return (field >> (width - 1) & 1u) != 0 ? -magnitude : magnitude;
  };
  auto const value = [](int exponent, std::uint32_t mantissa, int width) {
    return std::ldexp(1.0 + std::ldexp(static_cast<double>(mantissa), -width), exponent);
  };
  if (bits >= 0b11'0000'0) return value(exponent_of(bits >> 1 & 15, 4), bits & 1, 1);
  if (bits >= 0b10'000'00) return value(exponent_of(bits >> 2 & 7, 3), bits & 3, 2);
  if (bits >= 0b01'00'000) return value(exponent_of(bits >> 3 & 3, 2), bits & 7, 3);
  if (bits >= 0b001'0'000) return value((bits >> 3 & 1) != 0 ? -1 : 1, bits & 7, 3);
  if (bits >= 0b0001'000) return value(0, bits & 7, 3);
  return bits == 0 ? 0.0 : std::ldexp(1.0, static_cast<int>(bits) - 23);
}

constexpr std::uint32_t infinity_code = 0x6f, nan_code = 0x80, max_code = 0x6e;

// All magnitudes in order, with their codes; the last one is where infinity stands.
std::vector<std::pair<double, std::uint32_t>> ladder() {
  std::vector<std::pair<double, std::uint32_t>> steps;
  for (std::uint32_t c = 0; c < 128; ++c) steps.emplace_back(magnitude_of(c), c);
  std::sort(steps.begin(), steps.end());
  return steps;
}

enum class mode { nearest_away, toward_zero, away_from_zero };

std::uint32_t encode(double x, mode m, bool saturate) {
  static auto const steps = ladder();
  if (std::isnan(x)) return nan_code;
  double const a = std::fabs(x);
  auto const above = std::upper_bound(steps.begin(), steps.end(), std::pair{a, 0xffffu});
  std::uint32_t code = infinity_code;
  if (above != steps.end()) {
    double const low = (above - 1)->first, fraction = (a - low) / (above->first - low);
    bool const up = m == mode::nearest_away ? fraction >= 0.5 : m == mode::away_from_zero && fraction > 0;
    code = up ? above->second : (above - 1)->second;
  }
  if (code == infinity_code && (saturate || (std::isfinite(x) && m == mode::toward_zero))) code = max_code;
  return code == 0 || !std::signbit(x) ? code : code | 0x80u;
}

}  // namespace

TEST_CASE("the table: 2^-22 to 2^15, three mantissa bits about 1 and none far below") {
  auto const steps = ladder();
  CHECK(steps[1].first == 0x1p-22);
  CHECK(steps[126].first == 0x1p15);
  CHECK(steps[126].second == max_code);
  CHECK(steps[127].first == 0x1.8p15);
  CHECK(steps[127].second == infinity_code);
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) CHECK(steps[i].first < steps[i + 1].first);
  CHECK(magnitude_of(0b0001'001) == 1.125);
}

TEST_CASE("every code decodes to its value and encodes back") {
  tally decoded, encoded;
  for (std::uint32_t c = 0; c < 256; ++c) {
    float expected = static_cast<float>(magnitude_of(c & 0x7f));
    if ((c & 0x7f) == infinity_code) expected = std::numeric_limits<float>::infinity();
    if (c == nan_code) expected = std::numeric_limits<float>::quiet_NaN();
    if (c > 0x80) expected = -expected;
    float const got = loft::decode<loft::hifloat8>(static_cast<std::uint8_t>(c));
    decoded.add(c, test::same(got, expected), true);
    encoded.add(c, loft::encode<loft::hifloat8, overflow::special>(expected), c);
  }
  CHECK_MESSAGE(decoded.wrong == 0, decoded.first());
  CHECK_MESSAGE(encoded.wrong == 0, encoded.first());
}

TEST_CASE("float and double are rounded to the neighbours of the table") {
  std::vector<double> inputs{0.0, -0.0, 0x1p-23, 0x1p-149, 40960, 1e30, 5e-324, 1e300, std::nan("")};
  inputs.push_back(std::numeric_limits<double>::infinity());
  auto const steps = ladder();
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    double const middle = (steps[i].first + steps[i + 1].first) / 2;
    for (double const x : {steps[i].first, middle}) {
      for (double const y : {x, std::nextafter(x, 1e9), std::nextafter(x, -1.0)}) inputs.push_back(y);
    }
    inputs.push_back(std::nextafterf(static_cast<float>(middle), 0.0f));
    inputs.push_back(std::nextafterf(static_cast<float>(middle), 1e9f));
  }
  for (std::uint64_t p = 0; p < (1ull << 31); p += 10007)
    inputs.push_back(test::float_of(static_cast<std::uint32_t>(p)));
  tally away, zero, outward, narrow, control;
  for (double const magnitude : inputs) {
    for (double const x : {magnitude, -magnitude}) {
      using F = loft::hifloat8;
      away.add(x, loft::encode<F>(x, loft::nearest_away{}), encode(x, mode::nearest_away, true));
      away.add(x, loft::encode<F, overflow::special>(x, loft::nearest_away{}), encode(x, mode::nearest_away, false));
      zero.add(x, loft::encode<F, overflow::special>(x, loft::toward_zero{}), encode(x, mode::toward_zero, false));
      outward.add(x, loft::encode<F, overflow::special>(x, loft::away_from_zero{}),
                  encode(x, mode::away_from_zero, false));
      auto const y = static_cast<float>(x);
      narrow.add(y, loft::encode<F, overflow::special>(y, loft::nearest_away{}), encode(y, mode::nearest_away, false));
      control.add(x, loft::encode<F>(x, loft::nearest_away{}), encode(x, mode::toward_zero, true));
    }
  }
  CHECK_MESSAGE(away.wrong == 0, "nearest: ", away.first());
  CHECK_MESSAGE(zero.wrong == 0, "toward zero: ", zero.first());
  CHECK_MESSAGE(outward.wrong == 0, "away from zero: ", outward.first());
  CHECK_MESSAGE(narrow.wrong == 0, "from float: ", narrow.first());
  CHECK(control.wrong > 0);
}
