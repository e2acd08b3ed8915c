// SPDX-License-Identifier: Apache-2.0
// The branch-free and the vectorised forms of encode, decode, pack, Hadamard and random words against the generic ones,
// to the bit. A vectorised function says how much it has done: nothing where vectors are not to be had.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
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
    if (kind < 3) bits &= 0xfff0'0000u;   // few mantissa bits: ties and exact values
    if (kind == 5) bits &= 0x807f'ffffu;  // subnormal floats and zeros
    if ((bits & 0x7f80'0000u) == 0x7f80'0000u)
      bits ^= 0x4000'0000u;  // blocks with NaN or infinity never reach the lanes
    values[i] = bit_cast<float>(bits);
  }
  return values;
}

/// hard_values with NaN, infinities and numbers beyond every small format among them.
std::vector<float> all_values(std::size_t count, unsigned seed) {
  auto values = hard_values(count, seed);
  using limits = std::numeric_limits<float>;
  float const special[] = {limits::quiet_NaN(),
                           -limits::quiet_NaN(),
                           limits::infinity(),
                           -limits::infinity(),
                           limits::max(),
                           -limits::max(),
                           limits::denorm_min(),
                           0.0f,
                           -0.0f,
                           bit_cast<float>(0x7f80'0001u),
                           464.0f,
                           6.5f};
  for (std::size_t i = 0; i < count; i += 5) values[i] = special[i / 5 % (sizeof special / sizeof *special)];
  return values;
}

template <class F, class R> long lane_mismatches(std::vector<float> const& values, R rounding, int bias_of_control) {
  long mismatches = 0;
  for (int scale : {0, 3, -5, 40, -40, detail::least_branchless_scale<F>, 126}) {
    if (scale < detail::least_branchless_scale<F>) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const expected =
          detail::encode_scaled<F, overflow::saturate>(values[i], scale + bias_of_control, rounding, i);
      mismatches += detail::encode_branchless<F>(values[i], scale, rounding, i) != expected;
    }
  }
  return mismatches;
}

/// Against encode: the codes of 96 values in three groups, in bytes and, where they have 4 bits, packed.
template <class F, class R> long vector_mismatches(std::vector<float> const& values, R rounding) {
  long mismatches = 0;
  detail::rounding_word<R> words[96] = {};
  detail::fill_rounding_words(rounding, 0, 96, words);
  constexpr float multipliers[] = {1.0f, 0.25f, 3.7f};
  for (std::size_t i = 0; i + 96 <= values.size(); i += 96) {
    std::uint8_t codes[96], packed[96], expected[96];
    float const* const from = values.data() + i;
    if (native::encode_groups<F, R, 32, false>(from, multipliers, 3, words, nullptr, 0, codes) != 3) return -1;
    for (int k = 0; k < 96; ++k) {
      expected[k] = detail::encode_scaled<F, overflow::saturate>(from[k] * multipliers[k / 32], 0, rounding, 0);
      mismatches += codes[k] != expected[k];
    }
    if constexpr (F::spec.bits() == 4) {
      if (native::encode_groups<F, R, 32, true>(from, multipliers, 3, words, nullptr, 0, packed) != 3) return -1;
      unpack<F>(packed, 96, codes);
      for (int k = 0; k < 96; ++k) mismatches += codes[k] != expected[k];
    }
  }
  return mismatches;
}

/// Packed codes of blocks of 16 under any scales: four registers at once, one, and half of one.
template <class F, class R> long scaled_mismatches(std::vector<float> const& values, R rounding) {
  long mismatches = 0;
  constexpr int groups = 11, count = 16 * groups;
  constexpr float multipliers[groups] = {1, 0.25f, 3.7f, 0.3f, 8, 1.1f, 0.9f, 2.5f, 0.01f, 77, 5};
  for (std::size_t i = 0; i + count <= values.size(); i += count) {
    std::uint8_t codes[count], packed[count / 2];
    float const* const from = values.data() + i;
    std::uint8_t const* const no_words = nullptr;
    if (native::encode_groups<F, R, 16, true>(from, multipliers, groups, no_words, nullptr, 0, packed) != groups)
      return -1;
    unpack<F>(packed, count, codes);
    for (int k = 0; k < count; ++k)
      mismatches +=
          codes[k] != detail::encode_scaled<F, overflow::saturate>(from[k] * multipliers[k / 16], 0, rounding, 0);
  }
  return mismatches;
}

/// Packed codes under scales that are powers of two, the least and the largest that vectors serve among them.
template <class F, class T, class R> long half_mismatches(std::vector<T> const& values, R rounding) {
  long mismatches = 0;
  constexpr int groups = 7, count = 32 * groups, least = detail::least_vector_scale<F>;
  for (std::size_t i = 0; i + count <= values.size(); i += count) {
    std::uint8_t codes[count], packed[count / 2];
    int exponents[groups] = {0, 3, -5, 40, -40, least, 126};
    float multipliers[groups];
    for (int g = 0; g < groups; ++g) multipliers[g] = detail::power_of_two(-exponents[g]);
    T const* const from = values.data() + i;
    std::uint8_t const* const no_words = nullptr;
    if (native::encode_groups<F, R, 32, true, true>(from, multipliers, groups, no_words, nullptr, 0, packed) != groups)
      return -1;
    unpack<F>(packed, count, codes);
    for (int k = 0; k < count; ++k)
      mismatches += codes[k] != detail::encode_scaled<F, overflow::saturate>(static_cast<float>(from[k]),
                                                                             exponents[k / 32], rounding, 0);
  }
  return mismatches;
}

/// encode and decode of many numbers against those of one.
template <class F, overflow O, class T, class R> long bulk_mismatches(std::vector<T> const& values, R rounding) {
  std::vector<code<F>> codes(values.size());
  std::vector<float> decoded(values.size());
  long mismatches = 0;
  for (std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{33}, values.size()}) {
    encode<F, O>(values.data(), static_cast<std::int64_t>(count), codes.data(), rounding, 12345);
    decode<F>(codes.data(), static_cast<std::int64_t>(count), decoded.data());
    for (std::size_t i = 0; i < count; ++i) {
      mismatches += codes[i] != encode<F, O>(values[i], rounding, 12345 + i);
      mismatches += bit_cast<std::uint32_t>(decoded[i]) != bit_cast<std::uint32_t>(decode<F>(codes[i]));
    }
  }
  return mismatches;
}

template <class T> long amax_mismatches(std::vector<T> const& values) {
  long mismatches = 0;
  auto const compare = [&]<int N>(std::integral_constant<int, N>) {
    std::uint32_t amax[64];
    for (int count : {N, 3 * N, 16 * N, 16 * N + N / 2, 37 * N + 1}) {
      detail::amax_of_groups<N>(values.data(), count, amax);
      for (int b = 0; b * N < count; ++b) {
        std::uint32_t expected = 0;
        for (int i = b * N; i < count && i < (b + 1) * N; ++i)
          expected =
              detail::max(expected, detail::magnitude_bits(static_cast<float>(values[static_cast<std::size_t>(i)])));
        bool const both_nan = expected > detail::float_infinity && amax[b] > detail::float_infinity;
        mismatches += !both_nan && amax[b] != expected;
      }
    }
  };
  compare(std::integral_constant<int, 16>{});
  compare(std::integral_constant<int, 32>{});
  compare(std::integral_constant<int, 64>{});
  return mismatches;
}

}  // namespace

TEST_CASE("encode_branchless equals encode for every format and rounding") {
  auto const values = hard_values(1500, 1);
  all_formats::for_each([&]<class F>(F) {
    if constexpr (detail::has_float_layout<F> && F::spec.has_zero && F::spec.is_signed && F::spec.mantissa_bits < 23) {
      CAPTURE(F::spec.exponent_bits);
      CAPTURE(F::spec.mantissa_bits);
      CHECK(lane_mismatches<F>(values, nearest_even{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, nearest_away{}, 0) == 0);
      CHECK(lane_mismatches<F>(values, nearest_upward{}, 0) == 0);
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
    if constexpr (native::has_encode_lanes<F, nearest_even> && F::spec.bits() <= 8) {
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

TEST_CASE("blocks of packed 4-bit codes, of bf16 and float, equal encode") {
  auto const values = hard_values(32 * 7 * 40, 7);
  std::vector<bf16_t> halves;
  for (float value : values)
    halves.push_back(bf16_t::from_bits(static_cast<std::uint16_t>(bit_cast<std::uint32_t>(value) >> 16)));
  int formats = 0;
  all_formats::for_each([&]<class F>(F) {
    if constexpr (native::has_encode_lanes<F, nearest_even> && F::spec.bits() == 4) {
      if (half_mismatches<F>(values, nearest_even{}) < 0) return;
      ++formats;
      auto const check = [](auto const& numbers) {
        CHECK(half_mismatches<F>(numbers, nearest_even{}) == 0);
        CHECK(half_mismatches<F>(numbers, nearest_away{}) == 0);
        CHECK(half_mismatches<F>(numbers, toward_zero{}) == 0);
      };
      check(halves);
      check(values);
      CHECK(scaled_mismatches<F>(values, nearest_even{}) == 0);
      CHECK(scaled_mismatches<F>(values, nearest_away{}) == 0);
      CHECK(scaled_mismatches<F>(values, toward_zero{}) == 0);
    }
  });
  if (LOFT_HAS_HOST_VECTORS) CHECK(formats >= 3);
}

TEST_CASE("decoding in lanes and vectors equals decode") {
  all_formats::for_each([&]<class F>(F) {
    if constexpr (detail::has_branchless_decode<F> && F::spec.bits() <= 16) {
      long mismatches = 0;
      for (std::uint32_t c = 0; c < 1u << F::spec.bits(); ++c) {
        auto const bits = static_cast<code<F>>(c);
        mismatches +=
            bit_cast<std::uint32_t>(detail::decode_branchless<F>(bits)) != bit_cast<std::uint32_t>(decode<F>(bits));
        code<F> codes[16];
        float values[16];
        for (auto& each : codes) each = bits;
        float const factor = 1;
        if (native::decode_groups<F, 16, false>(codes, &factor, 1.0f, 1, values))
          for (float value : values)
            mismatches += bit_cast<std::uint32_t>(value) != bit_cast<std::uint32_t>(decode<F>(bits));
      }
      CHECK(mismatches == 0);
    }
  });
}

TEST_CASE("encode and decode of many numbers are those of one") {
  auto const values = all_values(3000, 4);
  std::vector<bf16_t> halves;
  for (float value : values) halves.push_back(bf16_t{value});
  std::vector<double> const doubles(values.begin(), values.begin() + 300);
  all_formats::for_each([&]<class F>(F) {
    CAPTURE(F::spec.bits());
    CAPTURE(F::spec.mantissa_bits);
    CHECK(bulk_mismatches<F, overflow::saturate>(values, nearest_even{}) == 0);
    CHECK(bulk_mismatches<F, overflow::special>(values, nearest_even{}) == 0);
    CHECK(bulk_mismatches<F, overflow::special>(values, nearest_away{}) == 0);
    CHECK(bulk_mismatches<F, overflow::special>(values, nearest_upward{}) == 0);
    CHECK(bulk_mismatches<F, overflow::special>(values, toward_zero{}) == 0);
    CHECK(bulk_mismatches<F, overflow::special>(values, downward{}) == 0);
    CHECK(bulk_mismatches<F, overflow::special>(values, stochastic<8>{7, 9}) == 0);
    CHECK(bulk_mismatches<F, overflow::saturate>(values, truncated_stochastic<16>{7, 9}) == 0);
    CHECK(bulk_mismatches<F, overflow::saturate>(values, stochastic_word<4>{5}) == 0);
    CHECK(bulk_mismatches<F, overflow::saturate>(halves, nearest_even{}) == 0);
    CHECK(bulk_mismatches<F, overflow::special>(doubles, nearest_even{}) == 0);
  });
}

TEST_CASE("the largest magnitudes of runs, of floats and of halves") {
  auto values = hard_values(64 * 64, 5);
  std::vector<bf16_t> upper;
  std::vector<fp16_t> halves;
  for (std::size_t i = 0; i < values.size(); i += 97)
    values[i] = bit_cast<float>(i % 2 == 0 ? 0x7fc1'0000u : 0xff80'0000u);
  for (float value : values) {
    upper.push_back(bf16_t{value});
    halves.push_back(fp16_t{value});
  }
  CHECK(amax_mismatches(values) == 0);
  CHECK(amax_mismatches(upper) == 0);
  CHECK(amax_mismatches(halves) == 0);
}

TEST_CASE("4-bit codes are decoded from their bytes, and packed and unpacked in order") {
  std::mt19937 random{6};
  for (std::size_t count : {std::size_t{1}, std::size_t{31}, std::size_t{32}, std::size_t{96}, std::size_t{255}}) {
    std::vector<std::uint8_t> codes(count), packed(count / 2 + 1), back(count);
    for (auto& each : codes) each = static_cast<std::uint8_t>(random() & 15u);
    pack<e2m1>(codes.data(), static_cast<std::int64_t>(count), packed.data());
    unpack<e2m1>(packed.data(), static_cast<std::int64_t>(count), back.data());
    CHECK(codes == back);
    for (std::size_t i = 0; i < count; ++i) CHECK((packed[i / 2] >> (i % 2 * 4) & 15) == codes[i]);
    float factors[8];
    for (float& factor : factors) factor = static_cast<float>(random() % 100) * 0.125f;
    std::vector<float> values(count);
    int const groups = static_cast<int>(count / 32);
    long mismatches = 0;
    if (native::decode_groups<e2m1, 32, true>(packed.data(), factors, 0.75f, groups, values.data()) == groups)
      for (std::size_t i = 0; i < count / 32 * 32; ++i)
        mismatches += bit_cast<std::uint32_t>(values[i]) !=
                      bit_cast<std::uint32_t>(decode<e2m1>(codes[i]) * factors[i / 32] * 0.75f);
    CHECK(mismatches == 0);
  }
}

TEST_CASE("the vector Hadamard transform adds in the order of the generic one") {
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  auto const compare = [&]<int N>(std::integral_constant<int, N>) {
    float generic[N], vectors[N];
    for (int i = 0; i < N; ++i) generic[i] = vectors[i] = normal(random);
    constexpr float norm = detail::inverse_sqrt_of_order<float>(N);
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
    for (int i = 0; i < N; ++i)
      mismatches += bit_cast<std::uint32_t>(generic[i]) != bit_cast<std::uint32_t>(vectors[i]);
    CHECK(mismatches == 0);
  };
  for (int repeat = 0; repeat < 50; ++repeat) {
    compare(std::integral_constant<int, 16>{});
    compare(std::integral_constant<int, 32>{});
    compare(std::integral_constant<int, 128>{});
    compare(std::integral_constant<int, 256>{});
  }
}

TEST_CASE("runs that are rotated together equal those that are rotated alone") {
  std::mt19937 random{8};
  std::normal_distribution<float> normal;
  auto const compare = [&]<int N>(std::integral_constant<int, N>) {
    for (int runs = 0; runs <= 7; ++runs) {
      std::vector<float> values(static_cast<std::size_t>(runs * N) + 1, 77.0f), apart(values), alone;
      for (int i = 0; i < runs * N; ++i) values[static_cast<std::size_t>(i)] = normal(random);
      alone = values;
      for (int run = 0; run < runs; ++run) hadamard<N>{}.apply(alone.data() + run * N);
      hadamard<N>{}.apply_runs(values.data(), runs * N, apart.data());
      hadamard<N>{}.apply_runs(values.data(), runs * N, values.data());
      CHECK(apart == alone);
      CHECK(values == alone);
    }
  };
  compare(std::integral_constant<int, 2>{});
  compare(std::integral_constant<int, 16>{});
  compare(std::integral_constant<int, 32>{});
  compare(std::integral_constant<int, 64>{});
  compare(std::integral_constant<int, 256>{});
}

TEST_CASE("filling a run with random words equals asking for each") {
  for (std::uint64_t first :
       {0ull, 3ull, 15ull, 16ull, 1000001ull, 0xffff'ffffull, 0xf'ffff'ff80ull, 0xffff'ffff'ffffull}) {
    long mismatches = 0;
    auto const compare = [&]<int Bits, int Rounds>(std::integral_constant<int, Bits>,
                                                   std::integral_constant<int, Rounds>) {
      detail::code_word<Bits> words[400];
      for (int count : {0, 1, 69, 128, 255, 400}) {
        detail::fill_random_words<Bits, philox4x32<Rounds>>(0x1'0000'0011, 0x2'0000'0016, first, count, words);
        for (int i = 0; i < count; ++i)
          mismatches += words[i] != random_bits<Bits, philox4x32<Rounds>>(0x1'0000'0011, 0x2'0000'0016,
                                                                          first + static_cast<std::uint64_t>(i));
      }
    };
    compare(std::integral_constant<int, 1>{}, std::integral_constant<int, 10>{});
    compare(std::integral_constant<int, 4>{}, std::integral_constant<int, 7>{});
    compare(std::integral_constant<int, 8>{}, std::integral_constant<int, 10>{});
    compare(std::integral_constant<int, 16>{}, std::integral_constant<int, 7>{});
    compare(std::integral_constant<int, 32>{}, std::integral_constant<int, 10>{});
    CHECK(mismatches == 0);
  }
}
