// SPDX-License-Identifier: Apache-2.0
// quantize_lanes of one lane on the CPU against quantize_block, and the arithmetic of piecewise_linear.hpp against the
// oracle of number formats. Several lanes: tests/device.
#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "loft/block.hpp"
#include "loft/loft.hpp"
#include "oracle.hpp"

using namespace loft;

// What hosts lack; by the processor's own rounding mode.
float native::fma_toward_zero(float a, float b, float c) noexcept {
  float const volatile x = a, y = b, z = c;
  std::fesetround(FE_TOWARDZERO);
  float const volatile result = std::fma(x, y, z);
  std::fesetround(FE_TONEAREST);
  return result;
}

namespace {

/// Numbers of many magnitudes in runs of 32; runs of zeros, of subnormals, of huge numbers; a rare NaN or infinity.
template <class T> std::vector<T> hard_values(std::size_t count, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t const run = i / 32;
    float x = std::ldexp(normal(random), static_cast<int>(run % 23) - 11);
    if (run % 19 == 3) x = std::ldexp(x, -125);
    if (run % 17 == 5) x = std::ldexp(x, 110);
    if (run % 13 == 4) x = std::copysign(0.0f, x);
    if (random() % 900 == 0) x = std::numeric_limits<float>::quiet_NaN();
    if (random() % 1100 == 0) x = -std::numeric_limits<float>::infinity();
    values[i] = static_cast<T>(x);
    if constexpr (!std::is_same_v<T, float>)
      if (std::isinf(x)) values[i] = T::from_bits(0xff80);  // the conversion saturates
  }
  return values;
}

/// True where a lane's codes and scales are those of quantize_block, block by block.
template <class Operand, int Count, class T>
bool equal(lane_codes<typename Operand::format, Count> const& found, T const* values, int valid, Operand const& how,
           tensor_scale t, std::uint64_t index) {
  using format = typename Operand::format;
  constexpr int cols = format::shape.cols, bytes = cols * format::element::spec.bits() / 8;
  bool same = true;
  for (int b = 0; b < Count / cols; ++b) {
    int const here = detail::clamp(valid - b * cols, 0, cols);
    auto const right = quantize_block(values + b * cols, here, how, t, index + static_cast<std::uint64_t>(b * cols));
    std::uint8_t packed[bytes];
    pack<typename format::element>(right.codes, cols, packed);
    same = same && std::memcmp(&found.scales[b], &right.scale, sizeof right.scale) == 0;
    same = same && std::memcmp(reinterpret_cast<unsigned char const*>(found.words) + b * bytes, packed, bytes) == 0;
  }
  return same;
}

/// Lanes of `Count` values that differ from quantize_block as `expected_how` has it.
template <class Operand, int Count, class T> int differences(Operand const& how, Operand const& expected_how) {
  using format = typename Operand::format;
  tensor_scale t{};
  if constexpr (has_tensor_scale<format>) t = tensor_scale_for<format>(700.0f, detail::tensor_range<Operand>());
  auto const values = hard_values<T>(Count * 600, 3);
  int wrong = 0;
  for (std::size_t first = 0; first < values.size(); first += Count) {
    T mine[Count];
    std::memcpy(static_cast<void*>(mine), values.data() + first, sizeof mine);
    // Aligned indices, and some that no word of random bits starts at.
    std::uint64_t const index = first + (first / Count % 3 == 2 ? 1 : 0) * Count / 2;
    auto const found = quantize_lanes<Operand, Count>(mine, how, t, index, one_lane{});
    wrong += equal<Operand, Count>(found, mine, Count, expected_how, t, index) ? 0 : 1;
  }
  return wrong;
}

template <class Operand> void check(Operand const& how = {}) {
  constexpr int cols = Operand::format::shape.cols;
  CAPTURE(cols);
  CHECK(differences<Operand, cols, float>(how, how) == 0);
  CHECK(differences<Operand, 2 * cols, bf16_t>(how, how) == 0);
}

/// The form that launches use: bfloat16 as it lies in memory, and blocks that end early.
template <class Operand> int differences_of_pairs(Operand const& how) {
  using format = typename Operand::format;
  constexpr int cols = format::shape.cols;
  auto const values = hard_values<bf16_t>(cols * 600, 4);
  tensor_scale t = detail::constant_of<Operand>();
  if constexpr (has_tensor_scale<format>) t = tensor_scale_for<format>(700.0f, detail::tensor_range<Operand>());
  int wrong = 0;
  for (std::size_t first = 0; first < values.size(); first += cols) {
    int const valid = first % 5 == 0 ? static_cast<int>(first / cols) % cols + 1 : cols;
    detail::lane_values<bf16_t, cols> held{};
    for (int i = 0; i < valid; ++i)
      held.words[i / 2] |= static_cast<std::uint32_t>(values[first + static_cast<std::size_t>(i)].bits()) << i % 2 * 16;
    auto const found = detail::quantize_prepared<Operand, cols>(held, valid, how, t, first, one_lane{});
    wrong += equal<Operand, cols>(found, values.data() + first, valid, how, t, first) ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("one lane gives the codes and scales of quantize_block, for all formats with blocks of one row") {
  all_block_formats::for_each([]<class B>(B) {
    if constexpr (B::shape.rows == 1) {
      check<operand<B>>();
      check<operand<B, default_rule<B>, stochastic<8>>>({{}, {3, 5}, {}});
      CHECK(differences_of_pairs(operand<B>{}) == 0);
      CHECK(differences_of_pairs(operand<B, default_rule<B>, stochastic<16>>{{}, {3, 5}, {}}) == 0);
    }
  });
}

TEST_CASE("one lane gives the codes and scales of quantize_block, for rules and roundings") {
  check<operand<mxfp4, ceil_scale>>();
  check<operand<mxfp4, even_scale, nearest_away>>();
  check<operand<nvfp4, two_level, nearest_upward>>();
  check<operand<mxfp4, nearest_scale, toward_zero>>();
  check<operand<mxfp4, floor_four_thirds>>();
  check<operand<mxfp4, quest_scale>>();
  check<operand<mxfp4, fixed_scale>>({{0.5f}, {}, {}});
  check<operand<nvfp4, four_over_six<>>>();
  check<operand<nvfp4, four_over_six<maximal_error>>>();
  check<operand<nvfp4, unbiased_two_level_256, stochastic<>>>({{}, {7, 1}, {}});
  check<operand<mxfp4, ocp_floor, stochastic<4>>>({{}, {3, 5}, {}});
  check<operand<mxfp4, ocp_floor, truncated_stochastic<8>>>({{}, {3, 5}, {}});
  check<operand<mxfp4, ocp_floor, nearest_even, hadamard<32>>>();
  check<operand<nvfp4, two_level, stochastic<8>, signed_hadamard<16>>>({{}, {3, 5}, {0xd7e8}});
  check<operand<mxfp4, ocp_floor, nearest_even, no_rotation, nonfinite::saturate>>();
  using random = operand<mxfp4, ocp_floor, stochastic<8>>;
  CHECK(differences<random, 32, float>({{}, {3, 5}, {}}, {{}, {4, 5}, {}}) > 300);  // the control: another seed
}

TEST_CASE("the piecewise encoder gives the code of every bfloat16, and of a sweep of floats, to nearest even") {
  oracle::table const table{oracle::e2m1};
  using pieces = detail::piecewise_linear<e2m1>;
  auto const ordinal = [](float magnitude) {
    return bit_cast<std::uint32_t>(pieces::nearest(magnitude)) - 0x4b00'0000u;
  };
  long wrong = 0, cut = 0;
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    float const x = bit_cast<float>(bits << 16);
    wrong += ordinal(x) != table.encode(x) ? 1 : 0;
    cut += ordinal(x) != table.encode(x, oracle::rounding::toward_zero) ? 1 : 0;
  }
  for (std::uint32_t i = 0; i < 1u << 21; ++i) {
    std::uint32_t const bits = i * 2'654'435'761u % 0x7f80'0000u;
    float const x =
        bit_cast<float>(i % 2 == 0 ? bits : bits % 0x0400'0000u + 0x3d00'0000u);  // half of them near the codes
    wrong += ordinal(x) != table.encode(x) ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(cut > 100);  // the control: another rounding
}

/// The codes of eight values, each x times a sign, under eight words of random bits.
template <int Bits, bool Centred, bool Short>
std::uint32_t stochastic_nibbles(float const (&values)[8], float factor, std::uint32_t const (&words)[8]) {
  float magnitudes[8];
  std::uint32_t signs[4] = {}, random[4] = {};
  for (int i = 0; i < 8; ++i) {
    magnitudes[i] = std::fabs(values[i]);
    signs[i / 2] |= (bit_cast<std::uint32_t>(values[i]) >> 16) << i % 2 * 16;
    random[i * Bits / 32] |= (words[i] & ((1u << Bits) - 1)) << i * Bits % 32;
  }
  return detail::stochastic_codes<e2m1, Bits, Centred, Short>(magnitudes, factor / 4, signs, random);
}

TEST_CASE("the stochastic piecewise encoder gives the code under every random word of 8 bits, and many of 16") {
  oracle::table const table{oracle::e2m1};
  std::mt19937 random{9};
  long wrong = 0, control = 0;
  auto const try_eight = [&]<bool Short>(std::bool_constant<Short>, float const(&values)[8],
                                         std::uint32_t const(&words)[8]) {
    using enum oracle::rounding;
    int const exponent = static_cast<int>(random() % 254) - 126;  // of a factor, where that changes no value
    float scaled[8];
    bool exact = true;
    for (int i = 0; i < 8; ++i) {
      scaled[i] = std::ldexp(values[i], -exponent);
      exact = exact && std::ldexp(scaled[i], exponent) == values[i] && std::isfinite(scaled[i]);
    }
    auto const& given = exact ? scaled : values;
    float const factor = exact ? std::ldexp(1.0f, exponent) : 1.0f;
    auto const check = [&](oracle::rounding r, int bits, std::uint32_t found) {
      for (int i = 0; i < 8; ++i) {
        float const x = std::fabs(values[i]);
        std::uint32_t const right =
            table.encode(x, table.locate(x), r, oracle::overflow::saturate, {bits, words[i] & ((1u << bits) - 1)}) |
            (std::signbit(values[i]) ? 8u : 0u);
        wrong += (found >> 4 * i & 15u) != right ? 1 : 0;
        control += (found >> 4 * i & 7u) != table.encode(x, table.locate(x), away_from_zero, {}) ? 1 : 0;
      }
    };
    check(stochastic, 8, stochastic_nibbles<8, true, Short>(given, factor, words));
    check(truncated_stochastic, 8, stochastic_nibbles<8, false, Short>(given, factor, words));
    check(stochastic, 16, stochastic_nibbles<16, true, Short>(given, factor, words));
    check(truncated_stochastic, 16, stochastic_nibbles<16, false, Short>(given, factor, words));
  };
  float values[8];
  std::uint32_t words[8];
  for (std::uint32_t bits = 0x3980; bits < 0x4120; bits += 3)
    for (std::uint32_t word = 0; word < 256; word += 8) {
      for (std::uint32_t i = 0; i < 8; ++i) {
        values[i] = std::copysign(bit_cast<float>(bits << 16), random() % 2 == 0 ? 1.0f : -1.0f);
        words[i] = (word + i) | (random() & 0xff00u);
      }
      try_eight(std::true_type{}, values, words);
      try_eight(std::false_type{}, values, words);
    }
  for (int i = 0; i < 40000; ++i) {
    for (int k = 0; k < 8; ++k) {
      words[k] = static_cast<std::uint32_t>(random());
      std::uint32_t bits = static_cast<std::uint32_t>(random()) % 0x7f80'0000u;
      if (k % 4 != 0) bits = bits % 0x0800'0000u + 0x3900'0000u;
      if (k % 4 == 1)
        bits = bit_cast<std::uint32_t>(static_cast<float>(1 + random() % 0x6'0000) * 0x1p-16f);  // on the grid of words
      if (k == 5) bits -= 1;
      values[k] = bit_cast<float>(bits | static_cast<std::uint32_t>(random() & 0x8000'0000u));
    }
    try_eight(std::false_type{}, values, words);
    for (float& x : values) x = bit_cast<float>(bit_cast<std::uint32_t>(x) & 0xffff'0000u);
    try_eight(std::true_type{}, values, words);
  }
  CHECK(wrong == 0);
  CHECK(control > 1000);  // another rounding
}

/// As the rounding of a kernel whose lanes start at a call of the generator; a part of what they have need not.
struct from_a_call : stochastic<8> {
  static constexpr bool starts_with_a_call = true;
};

TEST_CASE("random bits come for neighbours at once, wherever they start") {
  auto const check_words = []<int Bits>(std::integral_constant<int, Bits>) {
    long wrong = 0;
    for (std::uint64_t index :
         {0ull, 16ull, 64ull, 4ull, 8ull, 12ull, 1ull, 7ull, 1023ull, (1ull << 34) - 8, ~0ull - 63}) {
      detail::random_run<Bits, 32> const run{stochastic<Bits>{11, 13}, index};
      for (std::uint64_t i = 0; i < 32; ++i) {
        std::uint32_t const found = run.words[i * Bits / 32] >> i * Bits % 32 & ((1u << Bits) - 1);
        wrong += found != random_bits<Bits>(11, 13, index + i) ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  };
  check_words(std::integral_constant<int, 8>{});
  check_words(std::integral_constant<int, 16>{});
  for (std::uint64_t const index : {0ull, 8ull, 16ull, 24ull}) {
    detail::random_run<8, 8> const run{from_a_call{{11, 13}}, index};
    for (std::uint64_t i = 0; i < 8; ++i)
      CHECK((run.words[i / 4] >> i % 4 * 8 & 0xffu) == random_bits<8>(11, 13, index + i));
  }
}

TEST_CASE("eight numbers become eight nibbles, eight signs their top bits") {
  std::mt19937 random{2};
  long wrong = 0;
  for (int round = 0; round < 2000; ++round) {
    float ordinals[8];
    std::uint32_t right = 0, right_signs = 0;
    detail::lane_values<float, 8> floats{};
    detail::lane_values<bf16_t, 8> pairs{};
    for (int i = 0; i < 8; ++i) {
      auto const nibble = static_cast<std::uint32_t>(random() % 16), bits = static_cast<std::uint32_t>(random());
      ordinals[i] = 0x1p23f + static_cast<float>(nibble);
      right |= nibble << 4 * i;
      right_signs |= (bits >> 31) << (4 * i + 3);
      floats.values[i] = bit_cast<float>(bits);
      pairs.words[i / 2] |= (bits >> 16) << i % 2 * 16;
    }
    wrong += detail::gather_nibbles(ordinals) != right ? 1 : 0;
    wrong += detail::nibble_signs(floats, 0) != right_signs ? 1 : 0;
    wrong += detail::nibble_signs(pairs, 0) != right_signs ? 1 : 0;
  }
  CHECK(wrong == 0);
}
