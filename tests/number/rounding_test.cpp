// SPDX-License-Identifier: Apache-2.0
// Random words and stochastic rounding: known answers, every word enumerated, means, independence, golden codes.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "golden.hpp"
#include "loft/number.hpp"
#include "oracle_of.hpp"

namespace {

using loft::overflow;
using test::tally;

struct known_answer {
  int rounds;
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> result;
};

// The known-answer file of Random123, for 10 and for 7 rounds.
constexpr known_answer philox_answers[] = {
    {10, {0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {7, {0, 0, 0, 0}, {0, 0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
    {10, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {7, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
    {10,
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    {7,
     {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}}};

constexpr std::array<std::uint32_t, 4> library_philox(known_answer const& a) {
  loft::u32x4 const counter{a.counter[0], a.counter[1], a.counter[2], a.counter[3]};
  loft::u32x2 const key{a.key[0], a.key[1]};
  loft::u32x4 const r = a.rounds == 7 ? loft::philox4x32<7>{}(counter, key) : loft::philox4x32<10>{}(counter, key);
  return {r.x, r.y, r.z, r.w};
}
static_assert(library_philox(philox_answers[0]) == philox_answers[0].result);
static_assert(library_philox(philox_answers[5]) == philox_answers[5].result);

constexpr std::uint64_t seeds[][2] = {{0, 0}, {1, 0}, {0, 1}, {0x0123456789abcdef, 0xfedcba9876543210}, {~0ull, ~0ull}};

template <int Bits, class G = loft::philox4x32<10>> void check_random_bits(int rounds = 10) {
  CAPTURE(Bits);
  tally count, shifted;
  auto const check = [&](std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    std::uint32_t const got = loft::random_bits<Bits, G>(seed, stream, index);
    count.add(static_cast<double>(index), got, oracle::random_word(Bits, seed, stream, index, rounds));
    shifted.add(static_cast<double>(index), got, oracle::random_word(Bits, seed, stream, index + 1, rounds));
  };
  for (auto const& [seed, stream] : seeds) {
    for (std::uint64_t i = 0; i < 1000; ++i) check(seed, stream, i);
    for (std::uint64_t const base : {1ull << 32, (1ull << 32) * 128, 1ull << 39, ~0ull - 600}) {
      for (std::uint64_t i = 0; i < 500; ++i) check(seed, stream, base - 250 + i);
    }
  }
  CHECK_MESSAGE(count.wrong == 0, count.first());
  CHECK(shifted.wrong > 0);
}

// Formats that are tried with every width of the random word; a few for the others keep the compile time in bounds.
template <class F>
constexpr bool all_widths = std::is_same_v<F, loft::e2m1> || std::is_same_v<F, loft::e4m3> ||
                            std::is_same_v<F, loft::e8m0> || std::is_same_v<F, loft::bf16>;

// Values that lie between codes, on codes, below the least and beyond the largest, of both signs.
test::inputs<double> values_for(oracle::table const& table, int how_many) {
  test::inputs<double> in;
  test::noise next{0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(table.row.bias)};
  for (int i = 0; i < how_many; ++i) {
    std::uint32_t const lower = next() % (table.max_code + 1);
    double const gap = table.values[lower + 1] - table.values[lower];
    double const fraction = i % 3 == 0 ? (next() % 512) / 512.0 : next() / 4294967296.0;
    double const x = table.values[lower] + gap * fraction;
    in.add(i % 2 == 0 ? x : -x, i % 2 == 0 ? x : -x, table);
  }
  double const infinity = std::numeric_limits<double>::infinity();
  for (double const x : {0.0, -0.0, 1e300, -1e300, 5e-324, -5e-324, infinity, -infinity, std::nan("")})
    in.add(x, x, table);
  return in;
}

template <int Bits, class F> void check_words(oracle::table const& table) {
  CAPTURE(Bits);
  test::inputs<double> const in = values_for(table, 400);
  tally centred, truncated, swapped, as_float;
  test::noise next{42};
  constexpr std::uint32_t mask = Bits == 32 ? ~0u : (1u << (Bits % 32)) - 1;
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    for (std::uint32_t const raw : {0u, mask, (mask >> 1) + 1, mask >> 1, next(), next(), next()}) {
      oracle::draw const draw{Bits, raw & mask};
      auto const expect = [&](double x, oracle::rounding r) {
        return table.encode(x, table.locate(x), r, oracle::overflow::special, draw);
      };
      double const x = in.value[i];
      std::uint32_t const c = loft::encode<F, overflow::special>(x, loft::stochastic_word<Bits>{raw});
      std::uint32_t const t = loft::encode<F, overflow::special>(x, loft::truncated_stochastic_word<Bits>{raw});
      centred.add(x, c, expect(x, oracle::rounding::stochastic));
      truncated.add(x, t, expect(x, oracle::rounding::truncated_stochastic));
      swapped.add(x, c, expect(x, oracle::rounding::nearest_even));
      auto const y = static_cast<float>(x);
      as_float.add(y, loft::encode<F, overflow::special>(y, loft::stochastic_word<Bits>{raw}),
                   expect(y, oracle::rounding::stochastic));
    }
  }
  CHECK_MESSAGE(centred.wrong == 0, "centred: ", centred.first());
  CHECK_MESSAGE(truncated.wrong == 0, "truncated: ", truncated.first());
  CHECK_MESSAGE(as_float.wrong == 0, "from float: ", as_float.first());
  CHECK(swapped.wrong > 0);
}

// What encode with an index does is encode with the word of that index.
template <int Bits, class F> void check_index(oracle::table const& table) {
  CAPTURE(Bits);
  test::inputs<double> const in = values_for(table, 500);
  tally library, reference, truncated, other_seed;
  for (auto const& [seed, stream] : seeds) {
    for (std::size_t i = 0; i < in.x.size(); ++i) {
      double const x = in.value[i];
      std::uint64_t const index = i * 977 + (i % 4 == 0 ? 1ull << 40 : 0);
      std::uint32_t const word = oracle::random_word(Bits, seed, stream, index);
      std::uint32_t const got = loft::encode<F>(x, loft::stochastic<Bits>{seed, stream}, index);
      auto const expect = [&](oracle::rounding r) {
        return table.encode(x, in.place[i], r, oracle::overflow::saturate, {Bits, word});
      };
      library.add(x, got,
                  loft::encode<F>(x, loft::stochastic_word<Bits>{loft::random_bits<Bits>(seed, stream, index)}));
      reference.add(x, got, expect(oracle::rounding::stochastic));
      truncated.add(x, loft::encode<F>(x, loft::truncated_stochastic<Bits>{seed, stream}, index),
                    expect(oracle::rounding::truncated_stochastic));
      other_seed.add(x, got, loft::encode<F>(x, loft::stochastic<Bits>{seed ^ 4, stream}, index));
    }
  }
  CHECK_MESSAGE(library.wrong == 0, library.first());
  CHECK_MESSAGE(reference.wrong == 0, reference.first());
  CHECK_MESSAGE(truncated.wrong == 0, truncated.first());
  CHECK(other_seed.wrong > 0);
}

// Fixed inputs for the golden codes, exact in float.
float golden_input(int i) { return static_cast<float>(i - 24) * 0x1.7p-3f + (i % 3 == 0 ? 0x1.3p-9f : 0.0f); }
constexpr std::uint64_t golden_seed = 0x0123456789abcdef, golden_stream = 42;

// One line of golden codes: `encode(x, bits, truncated, index)` is the library or the oracle.
template <class Encode>
std::string golden_codes(std::string const& name, int bits, bool truncated, int digits, Encode encode) {
  test::golden_line line{name + (truncated ? " truncated " : " centred ") + std::to_string(bits)};
  for (int i = 0; i < 48; ++i) line.add(encode(golden_input(i), static_cast<std::uint64_t>(i)), digits);
  return line.str();
}

std::string golden_words_of_library() {
  std::string text;
  auto const add = [&]<int Bits>(std::integral_constant<int, Bits>) {
    test::golden_line line{"words " + std::to_string(Bits)};
    for (std::uint64_t i = 0; i < 24; ++i)
      line.add(loft::random_bits<Bits>(golden_seed, golden_stream, i), (Bits + 3) / 4);
    text += line.str();
  };
  add(std::integral_constant<int, 1>{}), add(std::integral_constant<int, 4>{}), add(std::integral_constant<int, 8>{});
  add(std::integral_constant<int, 16>{}), add(std::integral_constant<int, 32>{});
  return text;
}

std::string golden_words_of_oracle() {
  std::string text;
  for (int const bits : {1, 4, 8, 16, 32}) {
    test::golden_line line{"words " + std::to_string(bits)};
    for (std::uint64_t i = 0; i < 24; ++i) {
      line.add(oracle::random_word(bits, golden_seed, golden_stream, i), (bits + 3) / 4);
    }
    text += line.str();
  }
  return text;
}

template <class F, int Bits> std::string golden_of_library() {
  std::string const name = test::row_of<F>.name;
  int const digits = sizeof(loft::code<F>) * 2;
  using loft::stochastic, loft::truncated_stochastic;
  return golden_codes(name, Bits, false, digits,
                      [](float x, std::uint64_t i) {
                        return loft::encode<F>(x, stochastic<Bits>{golden_seed, golden_stream}, i);
                      }) +
         golden_codes(name, Bits, true, digits, [](float x, std::uint64_t i) {
           return loft::encode<F>(x, truncated_stochastic<Bits>{golden_seed, golden_stream}, i);
         });
}

template <class F, int Bits> std::string golden_of_oracle() {
  oracle::table const& table = test::table_of<F>();
  auto const with = [&](oracle::rounding r) {
    return [&table, r](float x, std::uint64_t i) {
      oracle::draw const draw{Bits, oracle::random_word(Bits, golden_seed, golden_stream, i)};
      return table.encode(x, r, oracle::overflow::saturate, draw);
    };
  };
  int const digits = sizeof(loft::code<F>) * 2;
  return golden_codes(table.row.name, Bits, false, digits, with(oracle::rounding::stochastic)) +
         golden_codes(table.row.name, Bits, true, digits, with(oracle::rounding::truncated_stochastic));
}

std::string golden_text(bool library) {
  std::string text = library ? golden_words_of_library() : golden_words_of_oracle();
  auto const add = [&]<class F>(F) {
    text += library ? golden_of_library<F, 8>() : golden_of_oracle<F, 8>();
    text += library ? golden_of_library<F, 16>() : golden_of_oracle<F, 16>();
    text += library ? golden_of_library<F, 32>() : golden_of_oracle<F, 32>();
  };
  add(loft::e2m1{}), add(loft::e4m3{}), add(loft::e5m2{}), add(loft::ue4m3{}), add(loft::bf16{});
  return text;
}

}  // namespace

TEST_CASE("Philox4x32 gives the published answers") {
  for (known_answer const& a : philox_answers) {
    CHECK(library_philox(a) == a.result);
    CHECK(oracle::philox(a.counter, a.key, a.rounds) == a.result);
  }
}

TEST_CASE("random_bits is the slot of the element's counter") {
  check_random_bits<1>();
  check_random_bits<2>();
  check_random_bits<4>();
  check_random_bits<8>();
  check_random_bits<16>();
  check_random_bits<32>();
  check_random_bits<8, loft::philox4x32<7>>(7);
  static_assert(loft::random_bits<32>(0, 0, 0) == 0x6627e8d5 && loft::random_bits<32>(0, 0, 3) == 0x9b00dbd8);
  static_assert(loft::random_bits<8>(0, 0, 0) == 0xd5 && loft::random_bits<8>(0, 0, 15) == 0x9b);
}

TEST_CASE("given words of any width round as the definition says") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    check_words<8, F>(table);
    check_words<23, F>(table);
    check_words<32, F>(table);
    if constexpr (all_widths<F>) {
      check_words<1, F>(table);
      check_words<5, F>(table);
      check_words<16, F>(table);
      check_words<31, F>(table);
    }
  });
}

TEST_CASE("over all 256 words the number that goes up is the fraction, rounded half up or down to a word") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    test::inputs<double> const in = values_for(table, 300);
    tally centred, truncated;
    for (std::size_t i = 0; i < in.x.size(); ++i) {
      auto const [lower, fraction] = in.place[i];
      if (std::isnan(in.value[i]) || lower >= table.max_code || (!table.row.is_signed && in.value[i] < 0)) continue;
      std::uint32_t up = 0, up_truncated = 0, elsewhere = 0;
      for (std::uint32_t w = 0; w < 256; ++w) {
        double const x = std::fabs(in.value[i]);
        std::uint32_t const c = loft::encode<F>(x, loft::stochastic_word<8>{w});
        std::uint32_t const t = loft::encode<F>(x, loft::truncated_stochastic_word<8>{w});
        up += c - lower, up_truncated += t - lower;
        elsewhere += (c > lower + 1 || c < lower) + (t > lower + 1 || t < lower);
      }
      centred.add(in.value[i], up + 1000 * elsewhere, static_cast<std::uint32_t>(std::floor(fraction * 256 + 0.5)));
      truncated.add(in.value[i], up_truncated, static_cast<std::uint32_t>(std::floor(fraction * 256)));
    }
    CHECK_MESSAGE(centred.wrong == 0, centred.first());
    CHECK_MESSAGE(truncated.wrong == 0, truncated.first());
    CHECK(centred.compared > 100);
  });
}

TEST_CASE("over all fractions and words the centred mean error is zero, the truncated one half a word") {
  // Between 1.0 and 1.5 of e2m1 (codes 2 and 3), fractions (2j + 1) / 2^17: their sum is 2^15.
  std::int64_t up = 0, up_truncated = 0;
  for (std::uint32_t j = 0; j < 65536; ++j) {
    float const x = 1.0f + static_cast<float>(2 * j + 1) * 0x1p-18f;
    for (std::uint32_t w = 0; w < 256; ++w) {
      up += loft::encode<loft::e2m1>(x, loft::stochastic_word<8>{w}) - 2;
      up_truncated += loft::encode<loft::e2m1>(x, loft::truncated_stochastic_word<8>{w}) - 2;
    }
  }
  CHECK(up == 32768 * 256);                        // the sum of the fractions, times 256 words
  CHECK(up_truncated == 32768 * 256 - 65536 / 2);  // 1/512 of a gap low on average
}

TEST_CASE("exact values stay for every word width and for any index") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    tally count;
    std::uint32_t const step = table.code_count > 4096 ? 13 : 1;
    for (std::uint32_t c = 0; c < table.code_count; c += step) {
      double const x = table.decode(c);
      if (!table.is_canonical(c)) continue;
      count.add(x, loft::encode<F>(x, loft::stochastic_word<1>{1}), c);
      count.add(x, loft::encode<F>(x, loft::stochastic_word<31>{~0u}), c);
      count.add(x, loft::encode<F>(x, loft::truncated_stochastic_word<8>{255}), c);
      count.add(x, loft::encode<F>(x, loft::truncated_stochastic_word<32>{~0u}), c);
      for (std::uint64_t i = 0; i < 50; ++i) count.add(x, loft::encode<F>(x, loft::stochastic<2>{c, 5}, i), c);
    }
    CHECK_MESSAGE(count.wrong == 0, count.first());
    CHECK(count.compared > 0);
  });
}

TEST_CASE("nearest_upward has thresholds on the signed value: a tie is not below them, whatever its sign") {
  // E2M1 as a chain of comparisons `x < threshold` has it: the thresholds, and the values between them.
  constexpr double thresholds[] = {-5, -3.5, -2.5, -1.75, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  constexpr double values[] = {-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6};
  tally same, away;
  for (int i = -700; i <= 700; ++i) {
    double const x = i / 64.0;
    std::size_t which = 0;
    while (which < std::size(thresholds) && !(x < thresholds[which])) ++which;
    auto const value = [&](auto rounding) {
      return static_cast<std::uint32_t>(
          static_cast<int>(2 * loft::decode<loft::e2m1>(loft::encode<loft::e2m1>(x, rounding))));
    };
    same.add(x, value(loft::nearest_upward{}), static_cast<std::uint32_t>(static_cast<int>(2 * values[which])));
    away.add(x, value(loft::nearest_away{}), static_cast<std::uint32_t>(static_cast<int>(2 * values[which])));
  }
  CHECK_MESSAGE(same.wrong == 0, same.first());
  CHECK(away.wrong == 7);  // the control: the ties below zero
}

TEST_CASE("the index alone chooses the word") {
  test::for_each_format([]<class F>(F, oracle::table const& table) {
    CAPTURE(table.name());
    check_index<16, F>(table);
    if constexpr (all_widths<F>) {
      check_index<1, F>(table);
      check_index<8, F>(table);
      check_index<32, F>(table);
    }
  });
}

TEST_CASE("the mean over many elements is the value") {
  constexpr int count = 100000;
  for (float const x : {1.1f, 2.7f, 4.9f, -0.3f, 0x1p-6f}) {
    double sum = 0, squares = 0;
    for (int i = 0; i < count; ++i) {
      auto const index = static_cast<std::uint64_t>(i);
      double const y = loft::decode<loft::e2m1>(loft::encode<loft::e2m1>(x, loft::stochastic<16>{2024, 3}, index));
      sum += y, squares += y * y;
    }
    double const mean = sum / count, sigma = std::sqrt((squares / count - mean * mean) / count);
    CAPTURE(x);
    CHECK(std::fabs(mean - x) < 4 * sigma + 0x1p-17);  // half a word of 16 bits, times the largest gap met here, 2
    CHECK(std::fabs(mean - loft::decode<loft::e2m1>(loft::encode<loft::e2m1>(x))) > 4 * sigma);  // control: nearest
  }
}

TEST_CASE("codes for a fixed seed are frozen") {
  std::string const frozen = test::read_golden("stochastic.txt");
  CHECK(frozen.size() > 1000);
  CHECK(golden_text(true) == frozen);
  CHECK(golden_text(false) == frozen);
}

// Run with --no-skip to write the file anew from the oracle, which knows nothing of the library.
TEST_CASE("write golden file" * doctest::skip()) {
  test::write_golden("stochastic.txt", "Words and codes for seed 0123456789abcdef, stream 42, element i of 48.",
                     golden_text(false));
}
