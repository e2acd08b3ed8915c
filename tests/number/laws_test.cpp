// SPDX-License-Identifier: Apache-2.0
// Laws of numbers, for every format of the catalogue without naming one: round trip, order, sign, error, limits.
// They ask decode for the values, which the oracle checks elsewhere, and reason about encode from there.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "loft/loft.hpp"
#include "oracle_of.hpp"

namespace {

using loft::overflow;

template <class F> constexpr bool is_wide = F::spec.bits() > 16;  // too many codes to visit all

// Formats whose least code of two's complement, -2^n, stays unused: symmetric integers.
template <class F> bool is_unused(std::uint32_t code) { return F::spec.twos_complement && code == F::spec.sign_mask(); }

template <class F, class Function> void for_each_finite_code(Function f) {
  constexpr std::uint64_t count = std::uint64_t{1} << F::spec.bits();
  for (std::uint64_t c = 0; c < count; c += is_wide<F> ? 9973 : 1) {
    float const value = loft::decode<F>(static_cast<loft::code<F>>(c));
    if (std::isfinite(value) && !is_unused<F>(static_cast<std::uint32_t>(c))) f(static_cast<std::uint32_t>(c), value);
  }
}

// Values next to each other, ascending. A wide format gives a sample of its codes, each with the code after it.
template <class F> std::vector<std::pair<double, double>> neighbours() {
  std::vector<std::pair<double, double>> result;
  if constexpr (is_wide<F>) {
    for (std::uint32_t c = 0; c + 1 <= F::spec.max_code(); c += 99991) {
      double const a = static_cast<double>(loft::decode<F>(c)), b = static_cast<double>(loft::decode<F>(c + 1));
      result.emplace_back(a, b);
      result.emplace_back(-b, -a);
    }
  } else {
    std::vector<double> values;
    for_each_finite_code<F>([&](std::uint32_t, float v) { values.push_back(static_cast<double>(v)); });
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (std::size_t i = 0; i + 1 < values.size(); ++i) result.emplace_back(values[i], values[i + 1]);
  }
  std::sort(result.begin(), result.end());
  return result;
}

// Both ends, the quarters, and the neighbours of ends and middle; ascending.
template <class T> std::vector<T> points_in(double low, double high) {
  auto const at = [&](double part) { return static_cast<T>(low + (high - low) * part); };
  T const a = at(0), b = at(1), middle = at(0.5);
  std::vector<T> points{a,      std::nextafter(a, b),      at(0.25), std::nextafter(middle, a),
                        middle, std::nextafter(middle, b), at(0.75), std::nextafter(b, a),
                        b};
  std::sort(points.begin(), points.end());
  return points;
}

// The value of x in F.
template <class F, class R, class T> double rounded(T x, R rounding) {
  return static_cast<double>(loft::decode<F>(loft::encode<F>(x, rounding)));
}

// Everything that any of the laws says, counted; a law of one rounding is the control of another.
struct violations {
  std::int64_t checked = 0, bracket = 0, half_gap = 0, order = 0, sign = 0, below = 0, above = 0, shrunk = 0, grown = 0;
};

template <class F, class T, class R, class Mirrored> violations look_at(R rounding, Mirrored mirrored) {
  violations v;
  double last = -std::numeric_limits<double>::infinity();
  for (auto const& [low, high] : neighbours<F>()) {
    for (T const x : points_in<T>(low, high)) {
      double const exact = static_cast<double>(x), got = rounded<F>(x, rounding);
      ++v.checked;
      v.bracket += got != low && got != high;
      v.half_gap += std::fabs(got - exact) > (high - low) / 2;
      v.order += got < last;
      v.sign += F::spec.is_signed && rounded<F>(-x, mirrored) != -got;
      v.below += got < exact;
      v.above += got > exact;
      v.shrunk += std::fabs(got) < std::fabs(exact);
      v.grown += std::fabs(got) > std::fabs(exact);
      last = got;
    }
  }
  return v;
}

// The mirror image of nearest_upward.
struct nearest_downward {
  template <class W> constexpr bool up(std::uint32_t, W fraction, bool negative, std::uint64_t) const {
    return fraction > loft::detail::half<W> - (negative ? 1u : 0u);
  }
};

struct all_violations {
  violations nearest, ties_away, ties_upward, zero, away, up, down, odd, drawn, cut, mirrored_wrongly;
};

template <class F, class T> all_violations look_at_all() {
  using namespace loft;
  return {look_at<F, T>(nearest_even{}, nearest_even{}),
          look_at<F, T>(nearest_away{}, nearest_away{}),
          look_at<F, T>(nearest_upward{}, nearest_downward{}),
          look_at<F, T>(toward_zero{}, toward_zero{}),
          look_at<F, T>(away_from_zero{}, away_from_zero{}),
          look_at<F, T>(upward{}, downward{}),
          look_at<F, T>(downward{}, upward{}),
          look_at<F, T>(to_odd{}, to_odd{}),
          look_at<F, T>(stochastic_word<16>{0x9a5c}, stochastic_word<16>{0x9a5c}),
          look_at<F, T>(truncated_stochastic_word<4>{9}, truncated_stochastic_word<4>{9}),
          look_at<F, T>(upward{}, upward{})};
}

void judge(all_violations const& of, bool is_signed) {
  for (violations const& v :
       {of.nearest, of.ties_away, of.ties_upward, of.zero, of.away, of.up, of.down, of.odd, of.drawn, of.cut}) {
    CHECK(v.checked > 8);
    CHECK(v.bracket == 0);  // so the error is below one gap, and exact values stay
    CHECK(v.order == 0);
    CHECK(v.sign == 0);
  }
  CHECK(of.nearest.half_gap == 0);
  CHECK(of.ties_away.half_gap == 0);
  CHECK(of.ties_upward.half_gap == 0);
  CHECK(of.zero.grown == 0);
  CHECK(of.away.shrunk == 0);
  CHECK(of.up.below == 0);
  CHECK(of.down.above == 0);
  // Controls: each law is broken by a rounding that does not have it.
  CHECK(of.zero.half_gap > 0);
  CHECK(of.odd.half_gap > 0);
  CHECK(of.nearest.grown > 0);
  CHECK(of.nearest.shrunk > 0);
  CHECK(of.nearest.below > 0);
  CHECK(of.nearest.above > 0);
  CHECK((of.mirrored_wrongly.sign > 0) == is_signed);
}

void judge(test::tally const& same, test::tally const& control) {
  CHECK_MESSAGE(same.wrong == 0, same.first());
  CHECK(same.compared > 8);
  CHECK(control.wrong > 0);
}

}  // namespace

TEST_CASE("decode, then encode, is the identity on finite codes") {
  loft::all_formats::for_each([]<class F>(F) {
    CAPTURE(F::spec.bits());
    CAPTURE(F::spec.mantissa_bits);
    test::tally same, shifted;
    for_each_finite_code<F>([&](std::uint32_t c, float value) {
      same.add(value, loft::encode<F>(value), c);
      same.add(value, loft::encode<F, overflow::special>(static_cast<double>(value), loft::away_from_zero{}), c);
      same.add(value, loft::encode<F>(value, loft::to_odd{}), c);
      same.add(value, loft::encode<F>(value, loft::stochastic<16>{c, 1}, c), c);
      shifted.add(value, loft::encode<F>(value * 2), c);
    });
    judge(same, shifted);
  });
}

TEST_CASE("roundings go to a neighbour, keep order and sign, and the side they promise") {
  loft::all_formats::for_each([]<class F>(F) {
    CAPTURE(F::spec.bits());
    CAPTURE(F::spec.mantissa_bits);
    CAPTURE(static_cast<int>(F::spec.special));
    judge(look_at_all<F, std::conditional_t<is_wide<F>, double, float>>(), F::spec.is_signed);
  });
}

TEST_CASE("beyond the ends saturation gives the ends, in every rounding") {
  loft::all_formats::for_each([]<class F>(F) {
    using limits = std::numeric_limits<loft::minifloat<F>>;
    CAPTURE(F::spec.bits());
    CAPTURE(F::spec.mantissa_bits);
    std::uint32_t const top = limits::max().bits(), bottom = limits::lowest().bits();
    auto const max = static_cast<double>(limits::max());
    test::tally count, within;
    auto const check = [&](auto rounding) {
      for (double const x : {max * 1.01, max * 2, 1e300, std::numeric_limits<double>::infinity()}) {
        count.add(x, loft::encode<F>(x, rounding), top);
        count.add(-x, loft::encode<F>(-x, rounding), bottom);
      }
      within.add(max / 4, loft::encode<F>(max / 4, rounding), top);
    };
    check(loft::nearest_even{}), check(loft::away_from_zero{}), check(loft::upward{}), check(loft::downward{});
    check(loft::to_odd{}), check(loft::stochastic<16>{1, 2});
    judge(count, within);
  });
}

namespace {

// What the codes of a format show, and what numeric_limits says of it.
struct limits_of_format {
  std::vector<double> values;  // finite, ascending
  bool infinity = false, nan = false, tapered = false;
  double max, lowest, min, denorm_min, epsilon, infinity_value, nan_value;
  bool is_signed, has_infinity, has_nan;
  int digits, min_exponent, max_exponent;
};

template <class F> limits_of_format look_at_limits() {
  using limits = std::numeric_limits<loft::minifloat<F>>;
  auto const value = [](loft::minifloat<F> x) { return static_cast<double>(x); };
  limits_of_format f{{}, false, false, !requires {F::spec.exponent_bits;
}
, value(limits::max()), value(limits::lowest()), value(limits::min()), value(limits::denorm_min()),
    value(limits::epsilon()), value(limits::infinity()), value(limits::quiet_NaN()), limits::is_signed,
    limits::has_infinity, limits::has_quiet_NaN, limits::digits, limits::min_exponent, limits::max_exponent
};  // namespace
for (std::uint32_t c = 0; c < 1u << F::spec.bits(); ++c) {
  float const v = loft::decode<F>(static_cast<loft::code<F>>(c));
  f.infinity = f.infinity || std::isinf(v);
  f.nan = f.nan || std::isnan(v);
  if (std::isfinite(v) && !is_unused<F>(c)) f.values.push_back(static_cast<double>(v));
}
std::sort(f.values.begin(), f.values.end());
f.values.erase(std::unique(f.values.begin(), f.values.end()), f.values.end());
return f;
}

void judge(limits_of_format const& f) {
  std::vector<double> const& values = f.values;
  auto const first_above = [&](double v) { return *std::upper_bound(values.begin(), values.end(), v); };
  CHECK(f.max == values.back());
  CHECK(f.lowest == values.front());
  CHECK(f.denorm_min == (values.front() > 0 ? values.front() : first_above(0)));
  CHECK(f.is_signed == (values.front() < 0));
  CHECK(f.has_infinity == f.infinity);
  CHECK(f.has_nan == f.nan);
  CHECK(std::isinf(f.infinity_value) == f.infinity);
  CHECK(std::isnan(f.nan_value) == f.nan);
  CHECK(std::binary_search(values.begin(), values.end(), 1.0));
  CHECK(f.epsilon == first_above(1.0) - 1.0);

  std::int64_t most = 0;
  double least_full = 0;  // the least binade that has all its values
  for (int e = 127; e >= -149; --e) {
    double const low = std::ldexp(1.0, e);
    auto const here =
        std::lower_bound(values.begin(), values.end(), 2 * low) - std::lower_bound(values.begin(), values.end(), low);
    most = std::max<std::int64_t>(most, here);
    if (here == 1 << (f.digits - 1)) least_full = low;
  }
  CHECK(most == 1 << (f.digits - 1));
  // A tapered format has fewer digits far from 1, so that its least normal number is in no full binade.
  if (!f.tapered) CHECK(f.min == least_full);
  CHECK(std::ldexp(1.0, f.min_exponent - 1) == f.min);
  CHECK(std::ldexp(1.0, f.max_exponent - 1) <= values.back());
  CHECK(std::ldexp(1.0, f.max_exponent) > values.back());
}

}  // namespace

TEST_CASE("numeric_limits says what the codes show") {
  loft::all_formats::for_each([]<class F>(F) {
    CAPTURE(F::spec.bits());
    CAPTURE(F::spec.mantissa_bits);
    CAPTURE(F::spec.twos_complement);
    if constexpr (!is_wide<F>) judge(look_at_limits<F>());
  });
  using limits = std::numeric_limits<loft::minifloat<loft::fp32>>;
  using machine = std::numeric_limits<float>;
  CHECK(static_cast<float>(limits::max()) == machine::max());
  CHECK(static_cast<float>(limits::lowest()) == machine::lowest());
  CHECK(static_cast<float>(limits::min()) == machine::min());
  CHECK(static_cast<float>(limits::denorm_min()) == machine::denorm_min());
  CHECK(static_cast<float>(limits::epsilon()) == machine::epsilon());
  CHECK(limits::digits == machine::digits);
  CHECK(limits::max_exponent == machine::max_exponent);
  CHECK(limits::min_exponent == machine::min_exponent);
}
