// SPDX-License-Identifier: Apache-2.0
// quantize_lanes in emulated warps of 32 and waves of 64 lanes against quantize_block: the same codes and scales,
// however many lanes share a block.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "lane_emulator.hpp"
#include "loft/block.hpp"
#include "loft/loft.hpp"

namespace {

/// Numbers of many magnitudes, among them blocks of zeros and of subnormals, infinities and NaNs.
std::vector<float> hard_values(std::size_t count, unsigned seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(normal(random), static_cast<int>(i / 16 % 9) * 4 - 16);
    if (i / 32 % 7 == 3) values[i] = std::ldexp(values[i], -128);
    if (i / 32 % 11 == 5) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
    if (random() % 301 == 0) values[i] = std::numeric_limits<float>::quiet_NaN();
    if (random() % 401 == 0) values[i] = -std::numeric_limits<float>::infinity();
  }
  return values;
}

/// Blocks that differ from those of quantize_block as `expected_how` has them, with `Count` values a lane and groups of
/// `Lanes` lanes.
template <class Operand, int Count, int Lanes>
int differences(int width, unsigned seed, Operand const& how, loft::tensor_scale t, Operand const& expected_how) {
  using format = typename Operand::format;
  using codes = loft::lane_codes<format, Count>;
  constexpr int cols = format::shape.cols, bytes = cols * format::element::spec.bits() / 8;
  auto const total = static_cast<std::size_t>(width) * Count;
  auto const values = hard_values(total, seed);
  std::vector<codes> found(static_cast<std::size_t>(width));
  std::memset(static_cast<void*>(found.data()), 0xa5, found.size() * sizeof(codes));
  emulator::wave wave{width};
  CHECK(wave.run([&](int lane) {
    float mine[Count];
    std::memcpy(mine, values.data() + lane * Count, sizeof mine);
    found[static_cast<std::size_t>(lane)] = loft::quantize_lanes<Operand, Count>(
        mine, how, t, static_cast<std::uint64_t>(lane * Count), emulator::group<Lanes>{&wave, lane});
  }));
  std::vector<std::uint8_t> packed;
  for (codes const& lane : found) {
    auto const* const words = reinterpret_cast<std::uint8_t const*>(lane.words);
    packed.insert(packed.end(), words, words + sizeof lane.words);
  }
  int wrong = 0;
  for (std::size_t first = 0; first < total; first += cols) {
    auto const expected = loft::quantize_block(values.data() + first, cols, expected_how, t, first);
    std::uint8_t expected_bytes[static_cast<std::size_t>(bytes)];
    loft::pack<typename format::element>(expected.codes, cols, expected_bytes);
    bool same = std::memcmp(expected_bytes, packed.data() + first / cols * bytes, sizeof expected_bytes) == 0;
    for (std::size_t i = first; i < first + cols; i += Count < cols ? Count : cols)
      same = same && found[i / Count].scales[i % Count / cols] == expected.scale;
    wrong += same ? 0 : 1;
  }
  return wrong;
}

/// The same for rules that correct the scales of several blocks together, against quantize of one long row. The rule
/// holds the tensor's amax.
template <class Operand, int Count, int Lanes>
int differences_of_row(int width, unsigned seed, Operand const& how, Operand const& expected_how) {
  using format = typename Operand::format;
  constexpr int cols = format::shape.cols;
  std::int64_t const total = std::int64_t{width} * Count;
  auto const values = hard_values(static_cast<std::size_t>(total), seed);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(loft::codes_bytes<format>(1, total)));
  std::vector<loft::code<typename format::scale>> scales(static_cast<std::size_t>(total / cols));
  float unused = 0;
  CHECK(loft::quantize(loft::matrix_view<float const>{values.data(), 1, total, total},
                       loft::quantized_view<format>{codes.data(), scales.data(), &unused, 1, total},
                       expected_how) == loft::status::ok);
  auto const t = loft::tensor_scale_for<format>(how.rule.amax, loft::detail::tensor_range<Operand>());
  std::vector<loft::lane_codes<format, Count>> found(static_cast<std::size_t>(width));
  emulator::wave wave{width};
  CHECK(wave.run([&](int lane) {
    float mine[Count];
    std::memcpy(mine, values.data() + lane * Count, sizeof mine);
    found[static_cast<std::size_t>(lane)] = loft::quantize_lanes<Operand, Count>(
        mine, how, t, static_cast<std::uint64_t>(lane * Count), emulator::group<Lanes>{&wave, lane});
  }));
  int wrong = 0;
  for (std::size_t lane = 0; lane < found.size(); ++lane) {
    auto const& got = found[lane];
    bool same = std::memcmp(got.words, codes.data() + lane * sizeof got.words, sizeof got.words) == 0;
    for (std::size_t i = 0; i < Count; i += Count < cols ? Count : cols)
      same = same && got.scales[i / cols] == scales[(lane * Count + i) / cols];
    wrong += same ? 0 : 1;
  }
  return wrong;
}

template <int Group, int Count, int Lanes, class Rotation = loft::no_rotation>
void check_corrected(Rotation const& rotation = {}) {
  using operand = loft::operand<loft::nvfp4, loft::ms_eden<Group>, loft::nearest_even, Rotation>;
  operand const how{{50000.0f, 3, 5}, {}, rotation}, other{{50000.0f, 4, 5}, {}, rotation};
  int control = 0;
  for (int width : {32, 64}) {
    if (Lanes > width) continue;
    for (unsigned seed = 1; seed <= 3; ++seed) {
      CAPTURE(Group);
      CAPTURE(Count);
      CAPTURE(Lanes);
      CAPTURE(width);
      CAPTURE(seed);
      CHECK(differences_of_row<operand, Count, Lanes>(width, seed, how, how) == 0);
      control += differences_of_row<operand, Count, Lanes>(width, seed, how, other);
    }
  }
  CHECK(control > 0);  // another seed
}

template <class Operand, int Count, int Lanes> void check(Operand const& how = {}) {
  loft::tensor_scale t;
  if constexpr (loft::has_tensor_scale<typename Operand::format>)
    t = loft::tensor_scale_for<typename Operand::format>(50000.0f);
  for (int width : {32, 64}) {
    if (Lanes > width) continue;
    for (unsigned seed = 1; seed <= 3; ++seed) {
      CAPTURE(Count);
      CAPTURE(Lanes);
      CAPTURE(width);
      CAPTURE(seed);
      CHECK(differences<Operand, Count, Lanes>(width, seed, how, t, how) == 0);
    }
  }
}

}  // namespace

TEST_CASE("blocks in lanes are those of one thread") {
  using mxfp4 = loft::operand<loft::mxfp4>;
  check<mxfp4, 32, 1>();
  check<mxfp4, 16, 2>();
  check<mxfp4, 8, 4>();
  check<mxfp4, 8, 8>();
  check<mxfp4, 8, 32>();
  check<mxfp4, 8, 64>();
  using mxfp8 = loft::operand<loft::mxfp8_e4m3, loft::ceil_scale>;
  check<mxfp8, 16, 2>();
  check<mxfp8, 4, 8>();
  check<mxfp8, 4, 64>();
  check<loft::operand<loft::nvfp4>, 16, 1>();
  check<loft::operand<loft::nvfp4>, 8, 2>();
}

TEST_CASE("rotated, stochastic and searched blocks in lanes are those of one thread") {
  check<loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, loft::hadamard<32>>, 8, 4>();
  check<loft::operand<loft::mxfp4, loft::even_scale, loft::nearest_even, loft::hadamard<32>>, 16, 64>();
  check<loft::operand<loft::mxfp4, loft::ocp_floor, loft::stochastic<8>>, 8, 4>({{}, {3, 5}, {}});
  using gradient = loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<8>, loft::signed_hadamard<16>>;
  check<gradient, 8, 2>({{}, {3, 5}, {0x5a5a'1234'5678'9abcu}});
  check<gradient, 8, 64>({{}, {3, 5}, {0x5a5a'1234'5678'9abcu}});
  check<loft::operand<loft::nvfp4, loft::four_over_six<>>, 8, 2>();
}

TEST_CASE("scales that are corrected together in lanes are those of quantize") {
  check_corrected<128, 8, 16>();
  check_corrected<128, 16, 8>();
  check_corrected<128, 32, 4>();
  check_corrected<128, 128, 1>();
  check_corrected<32, 8, 4>();
  check_corrected<32, 8, 32>();
  check_corrected<32, 64, 1>();
  check_corrected<16, 16, 1>();
  check_corrected<256, 8, 32>();
  check_corrected<128, 8, 16>(loft::signed_hadamard<128>{0x5a5a'1234'5678'9abcu});
  check_corrected<128, 32, 32>(loft::signed_hadamard<16>{0x9abcu});
}

TEST_CASE("runs with random signs in lanes are those of one thread") {
  using loft::random_hadamard;
  check<loft::operand<loft::mxfp4, loft::even_scale, loft::nearest_even, random_hadamard<32>>, 8, 4>(
      {.rotation = {7, 3}});
  check<loft::operand<loft::mxfp4, loft::even_scale, loft::nearest_even, random_hadamard<16>>, 32, 1>(
      {.rotation = {7, 3}});
  check<loft::operand<loft::fp8_1x128, loft::division_scale, loft::nearest_even, random_hadamard<128>>, 16, 8>(
      {.rotation = {1ull << 50, 1ull << 40}});
  check<loft::operand<loft::nvfp4, loft::two_level, loft::stochastic<8>, random_hadamard<16>>, 8, 2>(
      {{}, {3, 5}, {7, 3}});
}

namespace {

/// Runs that lanes hold together, longer than any block, against one thread.
template <int Count, class Rotation> void check_runs(Rotation const& rotation) {
  constexpr int size = Rotation::size, lanes = size / Count;
  CAPTURE(size);
  for (int width : {32, 64}) {
    if (lanes > width) continue;
    auto const total = static_cast<std::size_t>(width) * Count;
    std::mt19937 random{5};
    std::normal_distribution<float> normal;
    std::vector<float> values(total);
    for (float& v : values) v = normal(random);
    for (bool const inverse : {false, true}) {
      std::vector<float> found = values, expected = values;
      for (std::size_t first = 0; first < total; first += static_cast<std::size_t>(size)) {
        if (inverse) rotation.invert(expected.data() + first);
        else rotation.apply(expected.data() + first);
      }
      emulator::wave wave{width};
      CHECK(wave.run([&](int lane) {
        emulator::group<lanes> const group{&wave, lane};
        if (inverse) rotation.template invert_lanes<Count>(found.data() + lane * Count, group);
        else rotation.template apply_lanes<Count>(found.data() + lane * Count, group);
      }));
      CHECK(std::memcmp(found.data(), expected.data(), total * sizeof(float)) == 0);
    }
  }
}

}  // namespace

TEST_CASE("long runs in lanes are those of one thread") {
  check_runs<32>(loft::random_hadamard<256>{7, 3});
  check_runs<32>(loft::random_hadamard<1024>{7, 3});
  check_runs<16>(loft::signed_hadamard<512>{0x9f1e'57c3'a0b6'd7e8});
  check_runs<8>(loft::random_hadamard<64>{7, 3});
  check_runs<128>(loft::random_hadamard<4096>{7, 3});
  check_runs<64>(loft::hadamard<2048>{});
}

TEST_CASE("control: blocks of another seed differ") {
  using random = loft::operand<loft::mxfp4, loft::ocp_floor, loft::stochastic<8>>;
  CHECK(differences<random, 8, 4>(64, 1, {{}, {3, 5}, {}}, {}, {{}, {4, 5}, {}}) > 0);
}
