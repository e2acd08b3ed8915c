// SPDX-License-Identifier: Apache-2.0
// Which row of the oracle describes which format of the library, and the counting of disagreements.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "loft/number.hpp"
#include "oracle.hpp"

namespace test {

template <class F> struct no_row {
  static_assert(sizeof(F) == 0, "this format has no row in the oracle: add one here, from its standard");
};
template <class F> inline constexpr oracle::format row_of = no_row<F>::row;
template <> inline constexpr oracle::format row_of<loft::e1m2> = oracle::e1m2;
template <> inline constexpr oracle::format row_of<loft::e2m1> = oracle::e2m1;
template <> inline constexpr oracle::format row_of<loft::e2m3> = oracle::e2m3;
template <> inline constexpr oracle::format row_of<loft::e3m2> = oracle::e3m2;
template <> inline constexpr oracle::format row_of<loft::ue3m1> = oracle::ue3m1;
template <> inline constexpr oracle::format row_of<loft::e3m4> = oracle::e3m4;
template <> inline constexpr oracle::format row_of<loft::e4m3> = oracle::e4m3;
template <> inline constexpr oracle::format row_of<loft::e5m2> = oracle::e5m2;
template <> inline constexpr oracle::format row_of<loft::e6m2> = oracle::e6m2;
template <> inline constexpr oracle::format row_of<loft::e8m0> = oracle::e8m0;
template <> inline constexpr oracle::format row_of<loft::ue4m3> = oracle::ue4m3;
template <> inline constexpr oracle::format row_of<loft::ue5m3> = oracle::ue5m3;
template <> inline constexpr oracle::format row_of<loft::e4m3fnuz> = oracle::e4m3fnuz;
template <> inline constexpr oracle::format row_of<loft::e5m2fnuz> = oracle::e5m2fnuz;
template <> inline constexpr oracle::format row_of<loft::int8> = oracle::int8;
template <> inline constexpr oracle::format row_of<loft::int8_over_64> = oracle::int8_over_64;
template <> inline constexpr oracle::format row_of<loft::ue5m3_ieee> = oracle::ue5m3_ieee;
template <> inline constexpr oracle::format row_of<loft::int4> = oracle::int4;
template <> inline constexpr oracle::format row_of<loft::int6> = oracle::int6;
template <>
inline constexpr oracle::format row_of<loft::p3109<8, 1, true, true>> = oracle::p3109("p3109<8, 1, true, true>", 8, 1,
                                                                                      true, true);
template <>
inline constexpr oracle::format row_of<loft::p3109<8, 3, true, true>> = oracle::p3109("p3109<8, 3, true, true>", 8, 3,
                                                                                      true, true);
template <>
inline constexpr oracle::format row_of<loft::p3109<8, 4, true, false>> = oracle::p3109("p3109<8, 4, true, false>", 8, 4,
                                                                                       true, false);
template <>
inline constexpr oracle::format row_of<loft::p3109<8, 4, false, true>> = oracle::p3109("p3109<8, 4, false, true>", 8, 4,
                                                                                       false, true);
template <>
inline constexpr oracle::format row_of<loft::p3109<6, 3, true, true>> = oracle::p3109("p3109<6, 3, true, true>", 6, 3,
                                                                                      true, true);
template <>
inline constexpr oracle::format row_of<loft::p3109<4, 2, true, false>> = oracle::p3109("p3109<4, 2, true, false>", 4, 2,
                                                                                       true, false);
template <>
inline constexpr oracle::format row_of<loft::p3109<8, 1, false, true>> = oracle::p3109("p3109<8, 1, false, true>", 8, 1,
                                                                                       false, true);
template <> inline constexpr oracle::format row_of<loft::fp16> = oracle::fp16;
template <> inline constexpr oracle::format row_of<loft::fp32> = oracle::fp32;
template <> inline constexpr oracle::format row_of<loft::bf16> = oracle::bf16;

template <class F> oracle::table const& table_of() {
  static oracle::table const table{row_of<F>};
  return table;
}

// Calls f(F{}, table) for every format of the library that a format_spec describes in at most 16 bits.
template <class Function> void for_each_format(Function&& f) {
  loft::all_formats::for_each([&]<class F>(F) {
    if constexpr (std::is_same_v<decltype(F::spec), loft::format_spec const>) {
      if constexpr (F::spec.bits() <= 16) f(F{}, table_of<F>());
    }
  });
}

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
// Equal bits, or both NaN.
inline bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : bits_of(a) == bits_of(b); }

// How many comparisons were made, how many failed, and the first that did.
struct tally {
  std::int64_t compared = 0, wrong = 0;
  double input = 0;
  std::uint32_t got = 0, expected = 0;

  void add(double x, std::uint32_t library, std::uint32_t reference) {
    ++compared;
    if (library == reference) return;
    if (wrong++ == 0) input = x, got = library, expected = reference;
  }
  [[nodiscard]] std::string first() const {
    char text[120];
    std::snprintf(text, sizeof text, "first of %lld/%lld: %a gives 0x%x, not 0x%x", static_cast<long long>(wrong),
                  static_cast<long long>(compared), input, got, expected);
    return text;
  }
};

// Inputs with their values and their places among the codes of one format.
template <class T> struct inputs {
  std::vector<T> x;
  std::vector<double> value;
  std::vector<oracle::place> place;

  void add(T input, double exact, oracle::table const& table) {
    x.push_back(input);
    value.push_back(exact);
    place.push_back(table.locate(exact));
  }
};

template <class F, loft::overflow O, class R, class T>
tally compare(inputs<T> const& in, R rounding, oracle::rounding mode, oracle::overflow over, oracle::draw draw = {}) {
  tally count;
  oracle::table const& table = table_of<F>();
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    std::uint32_t const expected = table.encode(in.value[i], in.place[i], mode, over, draw);
    count.add(in.value[i], loft::encode<F, O>(in.x[i], rounding), expected);
  }
  return count;
}

// A small generator for test inputs (xorshift64*), nothing of the library.
struct noise {
  std::uint64_t state;
  std::uint32_t operator()() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<std::uint32_t>((state * 2685821657736338717u) >> 32);
  }
  // Uniform in [-1, 1), times 2^e with e uniform in [low, high].
  float value(int low, int high) {
    double const unit = static_cast<double>((*this)()) / 2147483648.0 - 1.0;
    int const e = low + static_cast<int>((*this)() % static_cast<std::uint32_t>(high - low + 1));
    return static_cast<float>(std::ldexp(unit, e));
  }
};

}  // namespace test
