// SPDX-License-Identifier: Apache-2.0
// The names and one-line descriptions of formats: the whole line for some, its facts against the oracle for all.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "loft/block.hpp"
#include "oracle_of.hpp"

namespace {

struct e3m3 {
  static constexpr loft::format_spec spec{3, 3, 3};
};
template <class F> struct outer {
  struct inner : F {};
};

// What stands between the last `label` and the next comma, or the end.
std::string after(std::string const& line, std::string const& label) {
  std::size_t const at = line.rfind(label);
  if (at == std::string::npos) return {};
  std::size_t const first = at + label.size();
  return line.substr(first, line.find(',', first) - first);
}

// The number that "448", "1.75", "2^-9" or "255 * 2^120" stands for.
double number_in(std::string const& text) {
  double odd = 1;
  int exponent = 0;
  if (std::sscanf(text.c_str(), "%lf * 2^%d", &odd, &exponent) == 2) return std::ldexp(odd, exponent);
  if (std::sscanf(text.c_str(), "2^%d", &exponent) == 1) return std::ldexp(1.0, exponent);
  REQUIRE(std::sscanf(text.c_str(), "%lf", &odd) == 1);
  return odd;
}

template <class T> std::string line_of() { return std::string{loft::describe<T>().view()}; }

}  // namespace

TEST_CASE("names are the types' own, without namespaces") {
  CHECK(loft::format_name<loft::e4m3>() == "e4m3");
  CHECK(loft::format_name<loft::nvfp4 const>() == "nvfp4");
  CHECK(loft::format_name<loft::square<loft::mxfp4, 32>>() == "square<mxfp4, 32>");
  CHECK(loft::format_name<loft::p3109<8, 4, true, false>>() == "p3109<8, 4, true, false>");
  CHECK(std::string{loft::format_name<loft::p3109<8, 3>>().data}.substr(0, 10) == "p3109<8, 3");
  CHECK(loft::format_name<e3m3>() == "e3m3");
  CHECK(loft::format_name<outer<e3m3>::inner>() == "inner");
  static_assert(loft::format_name<loft::bf16>() == "bf16");
}

TEST_CASE("whole lines of number formats") {
  CHECK(line_of<loft::e4m3>() ==
        "e4m3: 8 bits, sign 1, exponent 4, mantissa 3, bias 7, max 448, least normal 2^-6, least 2^-9, NaN 0x7f, no "
        "infinity");
  CHECK(line_of<loft::e8m0>() ==
        "e8m0: 8 bits, sign 0, exponent 8, mantissa 0, bias 127, max 2^127, least 2^-127, NaN 0xff, no infinity, no "
        "zero");
  CHECK(
      line_of<loft::int8>() ==
      "int8: 8 bits, sign 1, exponent 1, mantissa 6, bias -5, two's complement, max 127, least 1, no NaN, no infinity");
  CHECK(line_of<loft::int8_over_64>() ==
        "int8_over_64: 8 bits, sign 1, exponent 1, mantissa 6, bias 1, two's complement, max 1.984375, least 2^-6, no "
        "NaN, no infinity");
  CHECK(line_of<loft::hifloat8>() ==
        "hifloat8: 8 bits, sign 1, mantissa 0 to 3, max 32768, least 2^-22, NaN 0x80, infinity 0x6f");
  CHECK(line_of<loft::bf16>() ==
        "bf16: 16 bits, sign 1, exponent 8, mantissa 7, bias 127, max 255 * 2^120, least normal 2^-126, least 2^-133, "
        "NaN 0x7fff, infinity 0x7f80");
  static_assert(
      loft::describe<loft::e2m1>().view() ==
      "e2m1: 4 bits, sign 1, exponent 2, mantissa 1, bias 1, max 6, least normal 1, least 2^-1, no NaN, no infinity");
}

TEST_CASE("whole lines of block formats") {
  CHECK(line_of<loft::mxfp4>() == "mxfp4: e2m1 in blocks of 1 x 32, scale e8m0, 4.25 bits an element, no tensor scale");
  CHECK(line_of<loft::nvfp4>() ==
        "nvfp4: e2m1 in blocks of 1 x 16, scale ue4m3, 4.5 bits an element, tensor scale float");
  CHECK(line_of<loft::if4>() ==
        "if4: e2m1 or int4 in blocks of 1 x 16, scale e4m3, 4.5 bits an element, tensor scale float");
  CHECK(line_of<loft::hif4>() ==
        "hif4: e1m2 in blocks of 1 x 64, scale of 4 bytes in levels, 4.5 bits an element, no tensor scale");
  CHECK(line_of<loft::fp8_128x128>() ==
        "fp8_128x128: e4m3 in blocks of 128 x 128, scale fp32, 8.001953125 bits an element, no tensor scale");
  CHECK(line_of<loft::square<loft::nvfp4, 12>>() ==
        "square<nvfp4, 12>: e2m1 in blocks of 12 x 12, scale ue4m3, 4.055555556 bits an element, tensor scale float");
}

TEST_CASE("every format's facts are those of its codes") {
  loft::all_formats::for_each([]<class F>(F) {
    std::string const line = line_of<F>();
    CAPTURE(line);
    CHECK(line.size() < loft::description::capacity);
    CHECK(line.substr(0, line.find(':')) == std::string{loft::format_name<F>()});
    CHECK(number_in(after(line, ": ")) == F::spec.bits());
    if constexpr (F::spec.bits() <= 16) {
      // All codes, decoded: extremes and special codes are found here, and derived from the spec in the library.
      double most = 0, least = HUGE_VAL;
      bool nan = false, infinity = false, zero = false;
      for (std::uint32_t c = 0; c < 1u << F::spec.bits(); ++c) {
        double const x = loft::decode<F>(static_cast<loft::code<F>>(c));
        nan = nan || std::isnan(x);
        infinity = infinity || std::isinf(x);
        zero = zero || x == 0;
        if (std::isfinite(x) && x > 0) most = std::fmax(most, x), least = std::fmin(least, x);
      }
      CHECK(number_in(after(line, ", max ")) == most);
      CHECK(number_in(after(line, ", least ")) == least);
      CHECK((line.find("no NaN") == std::string::npos) == nan);
      CHECK((line.find("no infinity") == std::string::npos) == infinity);
      CHECK((line.find("no zero") == std::string::npos) == zero);
      auto const decoded = [&](std::string const& code) {
        return loft::decode<F>(static_cast<loft::code<F>>(std::stoul(code, nullptr, 16)));
      };
      if (nan) CHECK(std::isnan(decoded(after(line, ", NaN "))));
      if (infinity) CHECK(decoded(after(line, ", infinity ")) == HUGE_VALF);
    }
  });
}

TEST_CASE("every block format's line fits and starts with its name") {
  loft::all_block_formats::for_each([]<class B>(B) {
    std::string const line = line_of<B>();
    CHECK(line.size() < loft::description::capacity);
    CHECK(line.substr(0, line.find(':')) == std::string{loft::format_name<B>()});
    std::string const cost = after(line.substr(0, line.find(" bits an element")), ", ");
    CHECK(number_in(cost) == doctest::Approx(loft::bits_per_element<B>).epsilon(1e-9));
  });
}
