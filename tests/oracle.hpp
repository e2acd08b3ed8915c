// SPDX-License-Identifier: Apache-2.0
// An oracle for number formats: tables of values from the standards, rounding by neighbours in the sorted table.
// Sources: OCP Microscaling Formats 1.0 (E2M1, E2M3, E3M2, E4M3, E5M2, E8M0), IEEE 754 (fp16, bf16; E3M4 likewise),
// the published FNUZ variants, Philox4x32 (Salmon et al., SC 2011). It includes nothing of the library under test.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace oracle {

// What the top codes mean: nothing, one magnitude that is NaN, infinity and NaNs, the code of -0 as the only NaN, or
// (P3109) infinity as the top magnitude and NaN as the code of -0, or above infinity where there is no sign.
enum class specials { none, nan, ieee, fnuz, extended };

// has_zero false: field 0 is an ordinary binade, so the format has neither zero nor subnormals.
struct format {
  char const* name;
  int exponent_bits, mantissa_bits, bias;
  specials special;
  bool is_signed = true, has_zero = true, twos_complement = false;
};

inline constexpr format e1m2{"e1m2", 1, 2, 1, specials::none};
inline constexpr format e2m1{"e2m1", 2, 1, 1, specials::none};
inline constexpr format e2m3{"e2m3", 2, 3, 1, specials::none};
inline constexpr format e3m2{"e3m2", 3, 2, 3, specials::none};
inline constexpr format ue3m1{"ue3m1", 3, 1, 3, specials::none, false};
inline constexpr format e3m3{"e3m3", 3, 3, 3, specials::none};  // no standard: the format that tests define themselves
inline constexpr format e3m4{"e3m4", 3, 4, 3, specials::ieee};
inline constexpr format e4m3{"e4m3", 4, 3, 7, specials::nan};
inline constexpr format e5m2{"e5m2", 5, 2, 15, specials::ieee};
inline constexpr format e4m3fnuz{"e4m3fnuz", 4, 3, 8, specials::fnuz};
inline constexpr format e5m2fnuz{"e5m2fnuz", 5, 2, 16, specials::fnuz};
inline constexpr format ue4m3{"ue4m3", 4, 3, 7, specials::nan, false};
inline constexpr format ue5m3{"ue5m3", 5, 3, 15, specials::nan, false};
inline constexpr format ue5m3_ieee{"ue5m3_ieee", 5, 3, 15, specials::ieee, false};
inline constexpr format e6m2{"e6m2", 6, 2, 48, specials::nan, false, false};
inline constexpr format e8m0{"e8m0", 8, 0, 127, specials::nan, false, false};
inline constexpr format fp16{"fp16", 5, 10, 15, specials::ieee};
inline constexpr format bf16{"bf16", 8, 7, 127, specials::ieee};
inline constexpr format fp32{"fp32", 8, 23, 127, specials::ieee};
// Two's complement integers, and OCP's INT8 in units of 2^-6: subnormals and one binade with the same gap.
inline constexpr format int4{"int4", 1, 2, -1, specials::none, true, true, true};
inline constexpr format int6{"int6", 1, 4, -3, specials::none, true, true, true};
inline constexpr format int8{"int8", 1, 6, -5, specials::none, true, true, true};
inline constexpr format int8_over_64{"int8_over_64", 1, 6, 1, specials::none, true, true, true};

// IEEE P3109 interim report: width k, precision p, bias 2^(k-p-1), or 2^(k-p) without a sign; one zero, one NaN.
constexpr format p3109(char const* name, int k, int p, bool is_signed, bool extended) {
  specials const finite = is_signed ? specials::fnuz : specials::nan;
  return {name,
          k - p + (is_signed ? 0 : 1),
          p - 1,
          1 << (k - p - (is_signed ? 1 : 0)),
          extended ? specials::extended : finite,
          is_signed};
}

enum class rounding {
  nearest_even,
  nearest_away,
  nearest_upward,
  toward_zero,
  away_from_zero,
  upward,
  downward,
  to_odd,
  stochastic,
  truncated_stochastic
};
enum class overflow { saturate, special };

// The random word of a stochastic rounding, and how many bits it has.
struct draw {
  int bits = 16;
  std::uint32_t word = 0;
};

// Where a magnitude lies: between codes `lower` and `lower + 1`, `fraction` of the gap above the lower one.
// Every gap is a power of two and both differences are exact in double, so fraction is exact.
struct place {
  std::uint32_t lower;
  double fraction;
};

class table {
 public:
  explicit table(format const& f) : row(f) {
    std::uint32_t const magnitudes = 1u << (f.exponent_bits + f.mantissa_bits);
    std::uint32_t const last = magnitudes - 1;
    sign_bit = f.is_signed ? magnitudes : 0;
    code_count = magnitudes + sign_bit;
    switch (f.special) {
      case specials::none:
        max_code = last;
        break;
      case specials::nan:
        max_code = last - 1, nan_code = last;
        break;
      case specials::ieee:
        infinity_code = last - ((1u << f.mantissa_bits) - 1);
        max_code = infinity_code - 1, nan_code = last, has_infinity = true;
        break;
      case specials::fnuz:
        max_code = last, nan_code = sign_bit;
        break;
      case specials::extended:
        nan_code = f.is_signed ? sign_bit : last;
        infinity_code = f.is_signed ? last : last - 1;
        max_code = infinity_code - 1, has_infinity = true;
        break;
    }
    // One value above the largest finite one, as if the exponent had no upper end: overflow is decided against it.
    // A wider format has no table: its values are computed when they are asked for.
    for (std::uint32_t c = 0; magnitudes <= 0x10000 && c <= max_code + 1; ++c) values.push_back(magnitude_of(c));
  }

  [[nodiscard]] std::string name() const { return row.name; }
  // By magnitude code, from 0 to max_code + 1.
  [[nodiscard]] double value(std::uint32_t code) const { return values.empty() ? magnitude_of(code) : values[code]; }
  [[nodiscard]] double max() const { return value(max_code); }
  [[nodiscard]] bool has_nan() const { return row.special != specials::none; }

  [[nodiscard]] double decode(std::uint32_t code) const {
    double const nan = std::numeric_limits<double>::quiet_NaN();
    bool const negative = (code & sign_bit) != 0;
    std::uint32_t const magnitude = row.twos_complement && negative ? code_count - code : code & ~sign_bit;
    if (has_nan() && code == nan_code) return nan;
    double result = magnitude <= max_code || row.twos_complement ? value(magnitude) : nan;
    if (has_infinity && magnitude == infinity_code) result = std::numeric_limits<double>::infinity();
    return negative ? -result : result;
  }

  // Finite, and what its value encodes to: all finite codes but the -2^n of two's complement, which stays symmetric.
  [[nodiscard]] bool is_canonical(std::uint32_t code) const {
    return std::isfinite(decode(code)) && !(row.twos_complement && code == sign_bit);
  }

  [[nodiscard]] place locate(double x) const {
    double const a = std::fabs(x);
    std::uint32_t lower = 0, above = max_code + 1;
    if (!(a < value(above))) return {above, 0.0};
    if (a < value(lower)) return {lower, 0.0};  // below the least value of a format without zero
    while (above - lower > 1) {
      std::uint32_t const middle = lower + (above - lower) / 2;
      (a < value(middle) ? above : lower) = middle;
    }
    return {lower, (a - value(lower)) / (value(above) - value(lower))};
  }

  [[nodiscard]] std::uint32_t encode(double x, rounding r = rounding::nearest_even, overflow o = overflow::saturate,
                                     draw d = {}) const {
    return encode(x, locate(x), r, o, d);
  }

  // The same with the place already known, so that a sweep looks it up once for all modes.
  [[nodiscard, gnu::always_inline]] std::uint32_t encode(double x, place p, rounding r, overflow o, draw d = {}) const {
    if (std::isnan(x)) return has_nan() ? nan_code : max_code;
    bool const negative = std::signbit(x);
    if (!row.is_signed && negative) {
      if (x == 0) return 0;
      return o == overflow::special ? nan_code : 0;
    }
    std::uint32_t const code = std::isinf(x) ? max_code + 1 : p.lower + (goes_up(p, r, negative, d) ? 1 : 0);
    if (code <= max_code) return with_sign(code, negative);
    bool const stops_at_max = std::isfinite(x) && rounds_down_at_the_end(r, negative);
    if (o == overflow::saturate || stops_at_max) return with_sign(max_code, negative);
    if (has_infinity) return with_sign(infinity_code, negative);
    return with_sign(has_nan() ? nan_code : max_code, negative);
  }

  format row;
  std::uint32_t sign_bit = 0, code_count = 0, max_code = 0, nan_code = 0, infinity_code = 0;
  bool has_infinity = false;
  std::vector<double> values;

 private:
  [[nodiscard, gnu::always_inline]] std::uint32_t with_sign(std::uint32_t magnitude, bool negative) const {
    if (!negative) return magnitude;
    if (row.twos_complement) return (code_count - magnitude) % code_count;
    bool const one_zero = row.special == specials::fnuz || row.special == specials::extended;
    return magnitude == 0 && one_zero ? 0 : magnitude | sign_bit;
  }

  [[nodiscard]] double magnitude_of(std::uint32_t code) const {
    int const field = static_cast<int>(code >> row.mantissa_bits);
    int const fraction = static_cast<int>(code) & ((1 << row.mantissa_bits) - 1);
    bool const subnormal = field == 0 && row.has_zero;
    int const significand = subnormal ? fraction : fraction + (1 << row.mantissa_bits);
    return std::ldexp(significand, (subnormal ? 1 : field) - row.bias - row.mantissa_bits);
  }

  [[nodiscard, gnu::always_inline]] static bool goes_up(place p, rounding r, bool negative, draw d) {
    bool const odd = (p.lower & 1) != 0, inexact = p.fraction > 0;
    switch (r) {
      case rounding::nearest_even:
        return p.fraction > 0.5 || (p.fraction == 0.5 && odd);
      case rounding::nearest_away:
        return p.fraction >= 0.5;
      case rounding::nearest_upward:
        return negative ? p.fraction > 0.5 : p.fraction >= 0.5;
      case rounding::toward_zero:
        return false;
      case rounding::away_from_zero:
        return inexact;
      case rounding::upward:
        return inexact && !negative;
      case rounding::downward:
        return inexact && negative;
      case rounding::to_odd:
        return inexact && !odd;
      case rounding::stochastic: {
        // fraction + (word + 1/2) / 2^bits >= 1, times 2^(bits + 1): an exact product against an exact integer.
        auto const scale = static_cast<double>(std::uint64_t{2} << d.bits);
        return p.fraction * scale >= scale - (2.0 * d.word + 1.0);
      }
      case rounding::truncated_stochastic: {
        auto const scale = static_cast<double>(std::uint64_t{1} << d.bits);
        return p.fraction * scale >= scale - d.word;
      }
    }
    return false;
  }

  // IEEE 754, 7.4: which modes answer an overflow with the largest finite number.
  [[nodiscard]] static bool rounds_down_at_the_end(rounding r, bool negative) {
    return r == rounding::toward_zero || r == rounding::to_odd || (r == rounding::upward && negative) ||
           (r == rounding::downward && !negative);
  }
};

// Philox4x32, written from the paper: two multiplications a round, the key moves on by the Weyl constants.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    std::uint64_t const a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    auto const high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    auto const low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    c = {high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

// The word of element `index`: bits [slot * bits, (slot + 1) * bits) of the 128 that one counter gives.
inline std::uint32_t random_word(int bits, std::uint64_t seed, std::uint64_t stream, std::uint64_t index,
                                 int rounds = 10) {
  auto const low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  std::uint64_t const slots = 128 / static_cast<std::uint64_t>(bits), counter = index / slots;
  auto const words =
      philox({low(counter), low(counter >> 32), low(stream), low(stream >> 32)}, {low(seed), low(seed >> 32)}, rounds);
  int const first = static_cast<int>(index % slots) * bits;
  std::uint32_t word = 0;
  for (int i = 0; i < bits; ++i) {
    int const bit = first + i;
    word |= ((words[static_cast<std::size_t>(bit / 32)] >> (bit % 32)) & 1u) << i;
  }
  return word;
}

}  // namespace oracle
