// SPDX-License-Identifier: Apache-2.0
// The forms of encode, decode, pack and Hadamard that compilers vectorise, against the generic ones, to the bit.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "loft/loft.hpp"

using namespace loft;

namespace {

/// Floats whose exponents crowd around the range that a small format resolves, with everything else among them.
std::vector<float> hard_values(std::size_t count, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = static_cast<std::uint32_t>(random());
    unsigned const kind = static_cast<unsigned>(random() % 8);
    if (kind < 5) bits = (bits & 0x807f'ffffu) | (0x68u + static_cast<std::uint32_t>(random()) % 0x30u) << 23;
    if (kind < 3) bits &= 0xfff0'0000u;                      // few mantissa bits: ties and exact values
    if (kind == 5) bits &= 0x807f'ffffu;                     // subnormal floats and zeros
    if ((bits & 0x7f80'0000u) == 0x7f80'0000u) bits ^= 0x4000'0000u;  // blocks with NaN or infinity never reach the lanes
    values[i] = bit_cast<float>(bits);
  }
  return values;
}

template <class F, class R>
long lane_mismatches(std::vector<float> const& values, R rounding, int bias_of_control) {
  long mismatches = 0;
  for (int scale : {0, 3, -5, 40, -40, detail::least_lane_scale<F>, 126}) {
    if (scale < detail::least_lane_scale<F>) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const expected =
          detail::encode_scaled<F, overflow::saturate>(values[i], scale + bias_of_control, rounding, i);
      mismatches += detail::encode_lane<F>(values[i], scale, rounding, i) != expected;
    }
  }
  return mismatches;
}

template <class F, class R>
long vector_mismatches(std::vector<float> const& values, R rounding) {
  long mismatches = 0;
  std::uint32_t words[32] = {};
  if constexpr (requires { rounding.word; })
    for (auto& word : words) word = rounding.word & ((1u << R::bits) - 1);
  for (float multiplier : {1.0f, 0.25f, 3.7f}) {
    for (std::size_t i = 0; i + 32 <= values.size(); i += 32) {
      code<F> codes[32];
      if (!native::encode_groups<F, R, 32>(values.data() + i, &multiplier, 1, words, codes)) return -1;
      for (std::size_t k = 0; k < 32; ++k)
        mismatches += codes[k] != detail::encode_scaled<F, overflow::saturate>(values[i + k] * multiplier, 0, rounding, 0);
    }
  }
  return mismatches;
}

}  // namespace

TEST_CASE("encode_lane equals encode for every format and rounding") {
  auto const values = hard_values(1500, 1);
  all_formats::for_each([&]<class F>(F) {
    if constexpr (detail::has_lanes<F> && F::spec.has_zero && F::spec.is_signed && F::spec.mantissa_bits < 23) {
      CAPTURE(F::spec.exponent_bits);
      CAPTURE(F::spec.mantissa_bits);
      CHECK(lane_mismatches<F>(values, nearest_even{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, nearest_away{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, toward_zero{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, away_from_zero{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, upward{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, downward{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, to_odd{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, stochastic<8>{7, 9}, 0) == 0);
      CHECK(lane_mismatches<F>(values, truncated_stochastic_word<23>{0x5'1234u}, 0) == 0);
      CHECK_MESSAGE(lane_mismatches<F>(values, nearest_even{}, 1) > 0, "control: another scale must be seen");
    }
  });
}

TEST_CASE("native::encode_groups equals encode where it is there") {
  auto const values = hard_values(4096, 2);
  int formats = 0;
  all_formats::for_each([&]<class F>(F) {
    if constexpr (native::has_encode_lanes<F, nearest_even>) {
      if (vector_mismatches<F>(values, nearest_even{}) < 0) return;
      ++formats;
      CAPTURE(F::spec.exponent_bits);
      CAPTURE(F::spec.mantissa_bits);
      CHECK(vector_mismatches<F>(values, nearest_even{}) == 0);
      CHECK(vector_mismatches<F>(values, nearest_away{}) == 0);
      CHECK(vector_mismatches<F>(values, toward_zero{}) == 0);
      for (std::uint32_t word : {0u, 1u, 127u, 128u, 200u, 255u}) {
        CHECK(vector_mismatches<F>(values, stochastic_word<8>{word}) == 0);
        CHECK(vector_mismatches<F>(values, truncated_stochastic_word<8>{word}) == 0);
        CHECK(vector_mismatches<F>(values, stochastic_word<16>{word * 257}) == 0);
        CHECK(vector_mismatches<F>(values, stochastic_word<3>{word % 8}) == 0);
      }
    }
  });
  if (LOFT_HAS_HOST_VECTORS) CHECK(formats >= 8);
}

TEST_CASE("decoding in lanes and vectors equals decode") {
  all_formats::for_each([&]<class F>(F) {
    if constexpr (detail::has_decode_lane<F> && F::spec.bits() <= 16) {
      long mismatches = 0;
      for (std::uint32_t c = 0; c < 1u << F::spec.bits(); ++c) {
        auto const bits = static_cast<code<F>>(c);
        mismatches += bit_cast<std::uint32_t>(detail::decode_lane<F>(bits)) != bit_cast<std::uint32_t>(decode<F>(bits));
        code<F> codes[16];
        float values[16];
        for (auto& each : codes) each = bits;
        float const factor = 1;
        if (native::decode_groups<F, 16>(codes, &factor, 1.0f, 1, values))
          for (float value : values) mismatches += bit_cast<std::uint32_t>(value) != bit_cast<std::uint32_t>(decode<F>(bits));
      }
      CHECK(mismatches == 0);
    }
  });
}

TEST_CASE("the vector Hadamard transform adds in the order of the generic one") {
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  auto const compare = [&]<int N>(std::integral_constant<int, N>) {
    float generic[N], vectors[N];
    for (int i = 0; i < N; ++i) generic[i] = vectors[i] = normal(random);
    constexpr float norm = detail::inverse_sqrt_of_power_of_two<float>(N);
    for (int distance = 1; distance < N; distance *= 2)
      for (int i = 0; i < N; ++i)
        if ((i & distance) == 0) {
          float const a = generic[i], b = generic[i + distance];
          generic[i] = a + b;
          generic[i + distance] = a - b;
        }
    for (float& value : generic) value *= norm;
    hadamard<N>{}.apply(vectors);
    long mismatches = 0;
    for (int i = 0; i < N; ++i) mismatches += bit_cast<std::uint32_t>(generic[i]) != bit_cast<std::uint32_t>(vectors[i]);
    CHECK(mismatches == 0);
  };
  for (int repeat = 0; repeat < 50; ++repeat) {
    compare(std::integral_constant<int, 16>{});
    compare(std::integral_constant<int, 32>{});
    compare(std::integral_constant<int, 128>{});
    compare(std::integral_constant<int, 256>{});
  }
}

TEST_CASE("filling a run with random words equals asking for each") {
  for (std::uint64_t first : {0ull, 3ull, 15ull, 16ull, 1000001ull, 0xffff'ffffull, 0xffff'ffff'ffffull}) {
    std::uint32_t words[70];
    long mismatches = 0;
    detail::fill_random_bits<8, philox4x32<10>>(11, 22, first, 70, words);
    for (std::uint64_t i = 0; i < 70; ++i) mismatches += words[i] != random_bits<8>(11, 22, first + i);
    detail::fill_random_bits<32, philox4x32<7>>(11, 22, first, 69, words);
    for (std::uint64_t i = 0; i < 69; ++i) mismatches += words[i] != random_bits<32, philox4x32<7>>(11, 22, first + i);
    CHECK(mismatches == 0);
  }
}
