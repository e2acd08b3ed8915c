// SPDX-License-Identifier: Apache-2.0
// Sweeps over the floats: every format, rounding and overflow mode against a reference in double that needs no search.
// Where a value lies among the codes comes from its exponent; rounding and overflow are the oracle's.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "oracle_of.hpp"

namespace test {

inline double exact_power_of_two(int exponent) {
  std::uint64_t const bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
  double x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// floor(log2 a) of a double that is a float, hence normal; far below everything for 0.
inline int exponent_of(double a) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &a, sizeof a);
  return static_cast<int>(bits >> 52 & 0x7ff) - 1023;
}

// oracle::table::locate of |x| without its search: the gap is known from the exponent.
inline oracle::place place_of(double x, oracle::format const& row, std::uint32_t max_code) {
  double const a = std::fabs(x);
  int const least = (row.has_zero ? 1 : 0) - row.bias;
  int const e = std::max(exponent_of(a), least);
  if (!row.has_zero && a < exact_power_of_two(least)) return {0, 0.0};
  if (!std::isfinite(a)) return {max_code + 1, 0.0};
  double const gaps = a * exact_power_of_two(row.mantissa_bits - e);
  auto const whole = static_cast<std::uint32_t>(gaps);
  std::uint64_t const code = (static_cast<std::uint64_t>(e - least) << row.mantissa_bits) + whole -
                             (row.has_zero ? 0u : 1u << row.mantissa_bits);
  if (code > max_code) return {max_code + 1, 0.0};
  return {static_cast<std::uint32_t>(code), gaps - whole};
}

// HiFloat8, arXiv 2409.16626: 3 mantissa bits for |E| up to 3, 2 up to 7, 1 up to 15, 0 from 2^-22 to 2^-16; the largest
// finite value is 2^15. Its numbers are counted up from 0; as a row of the oracle a count is the code.
inline constexpr oracle::format tapered_row{"hifloat8", 4, 3, 7, oracle::specials::extended};
inline int tapered_bits(int e) { return std::abs(e) < 4 ? 3 : std::abs(e) < 8 ? 2 : std::abs(e) < 16 ? 1 : 0; }
inline oracle::place tapered_place(double x) {
  double const a = std::fabs(x);
  int const e = exponent_of(a);
  if (!(a < 49152)) return {127, 0.0};
  if (e < -22) return {0, a * 0x1p22};
  std::uint32_t first = 1;
  for (int k = -22; k < e; ++k) first += 1u << tapered_bits(k);
  double const gaps = a * exact_power_of_two(tapered_bits(e) - e);
  auto const whole = static_cast<std::uint32_t>(gaps);
  return {first + whole - (1u << tapered_bits(e)), gaps - whole};
}

// What a sweep asks about a format: its table, the place of a value, and the code as the table counts it.
template <class F> struct subject {
  oracle::table const& table = table_of<F>();
  [[nodiscard]] oracle::place place(double x) const { return place_of(x, table.row, table.max_code); }
  [[nodiscard]] std::uint32_t counted(std::uint32_t code) const { return code; }
};
template <> struct subject<loft::hifloat8> {
  oracle::table table{tapered_row};
  std::uint32_t counts[256];

  subject() {
    for (std::uint32_t c = 0; c < 256; ++c) {
      auto const value = static_cast<double>(loft::decode<loft::hifloat8>(static_cast<std::uint8_t>(c)));
      std::uint32_t const sign = std::signbit(value) ? 0x80u : 0u;
      counts[c] = std::isnan(value) ? 0x80u : std::isinf(value) ? 127u | sign : tapered_place(value).lower | sign;
    }
  }
  [[nodiscard]] oracle::place place(double x) const { return tapered_place(x); }
  [[nodiscard]] std::uint32_t counted(std::uint32_t code) const { return counts[code]; }
};

// f(rounding, the oracle's name for it, its random word) for each rounding that a sweep tries; `word`: random bits.
template <class Function> [[gnu::always_inline]] inline void for_each_rounding(std::uint32_t word, Function const& f) {
  using oracle::rounding;
  f(loft::nearest_even{}, rounding::nearest_even, oracle::draw{});
  f(loft::nearest_away{}, rounding::nearest_away, oracle::draw{});
  f(loft::nearest_upward{}, rounding::nearest_upward, oracle::draw{});
  f(loft::toward_zero{}, rounding::toward_zero, oracle::draw{});
  f(loft::away_from_zero{}, rounding::away_from_zero, oracle::draw{});
  f(loft::upward{}, rounding::upward, oracle::draw{});
  f(loft::downward{}, rounding::downward, oracle::draw{});
  f(loft::to_odd{}, rounding::to_odd, oracle::draw{});
  f(loft::stochastic_word<16>{word & 0xffffu}, rounding::stochastic, oracle::draw{16, word & 0xffffu});
  f(loft::truncated_stochastic_word<8>{word & 0xffu}, rounding::truncated_stochastic, oracle::draw{8, word & 0xffu});
}

// Float patterns first, first + step, ...: every one of them for step 1.
struct slice {
  std::uint64_t first = 0, step = 1;
};

template <class F> struct sweep {
  subject<F> const about{};
  slice const part;
  tally same{}, control{};

  explicit sweep(slice s) : part{s} { run(); }

 private:
  template <class R> void both(float x, oracle::place p, R rounding, oracle::rounding mode, oracle::draw draw) {
    double const value = static_cast<double>(x);
    same.add(value, about.counted(loft::encode<F, loft::overflow::saturate>(x, rounding)),
             about.table.encode(value, p, mode, oracle::overflow::saturate, draw));
    same.add(value, about.counted(loft::encode<F, loft::overflow::special>(x, rounding)),
             about.table.encode(value, p, mode, oracle::overflow::special, draw));
  }

  void run() {
    using oracle::rounding;
    for (std::uint64_t bits = part.first; bits < std::uint64_t{1} << 32; bits += part.step) {
      float const x = float_of(static_cast<std::uint32_t>(bits));
      oracle::place const p = about.place(static_cast<double>(x));
      auto const word = static_cast<std::uint32_t>(bits * 0x9e3779b97f4a7c15u >> 40);
      for_each_rounding(word, [&](auto how, rounding mode, oracle::draw draw) { both(x, p, how, mode, draw); });
      // The control: a float one place above in its last bits, or with the other sign, is another number.
      float const other =
          float_of(static_cast<std::uint32_t>(bits) ^ 0x80000000u ^ (static_cast<std::uint32_t>(bits) & 0x00400000u));
      control.add(static_cast<double>(x), about.counted(loft::encode<F>(other)),
                  about.table.encode(static_cast<double>(x), p, rounding::nearest_even, oracle::overflow::saturate));
    }
  }
};

// As sweep, for many floats: under one rounding and one random word the reference is a step function of the magnitude.
// A bisection finds where it steps, and between two steps every float has to give one code.
template <class F> struct stepped_sweep {
  subject<F> const about{};
  slice const part;
  std::int64_t compared = 0;
  tally same{}, control{};

  explicit stepped_sweep(slice s) : part{s} { run(); }

 private:
  [[nodiscard]] std::uint64_t pattern(std::uint64_t i) const { return part.first + i * part.step; }
  [[nodiscard]] float number(std::uint64_t i) const { return float_of(static_cast<std::uint32_t>(pattern(i))); }
  // The first place of the slice whose pattern is at or beyond this one.
  [[nodiscard]] std::uint64_t place_from(std::uint64_t bits) const {
    return bits <= part.first ? 0 : (bits - part.first + part.step - 1) / part.step;
  }

  template <loft::overflow O, class R>
  void compare(tally& found, R rounding, oracle::rounding mode, oracle::draw draw = {}) {
    auto const overflow = O == loft::overflow::saturate ? oracle::overflow::saturate : oracle::overflow::special;
    auto const reference = [&](std::uint64_t i) {
      auto const value = static_cast<double>(number(i));
      return about.table.encode(value, about.place(value), mode, overflow, draw);
    };
    // Numbers, infinity and NaN of either sign: within each the reference never turns back.
    std::uint64_t begin = 0;
    for (std::uint64_t const sign : {0x0000'0000ull, 0x8000'0000ull})
      for (std::uint64_t const beyond : {0x7f80'0000ull, 0x7f80'0001ull, 0x8000'0000ull}) {
        for (std::uint64_t const end = place_from(sign + beyond); begin < end;) {
          std::uint32_t const expected = reference(begin);
          std::uint64_t last = begin, other = end;
          while (other - last > 1) {
            std::uint64_t const middle = last + (other - last) / 2;
            (reference(middle) == expected ? last : other) = middle;
          }
          std::int64_t differ = 0;
          for (std::uint64_t i = begin; i < other; ++i)
            differ += about.counted(loft::encode<F, O>(number(i), rounding)) != expected ? 1 : 0;
          for (std::uint64_t i = begin; differ != 0 && i < other; ++i)  // the first of them, to be shown
            found.add(static_cast<double>(number(i)), about.counted(loft::encode<F, O>(number(i), rounding)), expected);
          compared += static_cast<std::int64_t>(other - begin);
          begin = other;
        }
      }
  }

  void run() {
    using oracle::rounding;
    auto const word = static_cast<std::uint32_t>((part.first + 1) * 0x9e3779b97f4a7c15u >> 40);  // its own
    for_each_rounding(word, [&](auto how, rounding mode, oracle::draw draw) {
      compare<loft::overflow::saturate>(same, how, mode, draw);
      compare<loft::overflow::special>(same, how, mode, draw);
    });
    compare<loft::overflow::saturate>(control, loft::toward_zero{}, rounding::nearest_even);
  }
};

template <class F> void check_sweep(slice part) {
  sweep<F> const done{part};
  INFO(done.about.table.name());
  CHECK_MESSAGE(done.same.wrong == 0, done.same.first());
  CHECK(done.same.compared >= 18 * static_cast<std::int64_t>((std::uint64_t{1} << 32) / part.step - 1));
  CHECK(done.control.wrong > 0);
}

// Formats as fine as floats have a step at every one of them: there the plain sweep is as good.
template <class F> void check_stepped_sweep(slice part) {
  if constexpr (std::is_same_v<F, loft::fp32>) {
    check_sweep<F>(part);
  } else {
    stepped_sweep<F> const done{part};
    INFO(done.about.table.name());
    CHECK_MESSAGE(done.same.wrong == 0, done.same.first());
    auto const floats = static_cast<std::int64_t>(((std::uint64_t{1} << 32) - part.first + part.step - 1) / part.step);
    CHECK(done.compared == 19 * floats);
    CHECK(done.control.wrong > 0);
  }
}

}  // namespace test
