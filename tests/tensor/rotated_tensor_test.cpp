// SPDX-License-Identifier: Apache-2.0
// Rotations of every kind of size inside quantize, dequantize, fake_quantize and tensor_amax: as if the runs had been
// rotated before; also of a transposed view, of strided outputs, and where runs and blocks do not fit each other.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "loft/loft.hpp"
#include "oracle_of.hpp"

namespace {

using loft::hadamard;
using loft::matrix_view;
using loft::random_hadamard;
using loft::signed_hadamard;
using loft::status;

/// A quantized tensor with its memory, which a test may poison.
template <class B> struct tensor {
  std::vector<std::uint8_t> codes;
  std::vector<loft::code<typename B::scale>> scales;
  float scale = 0;
  std::int64_t rows, cols;

  tensor(std::int64_t r, std::int64_t c)
      : codes(static_cast<std::size_t>(loft::codes_bytes<B>(r, c)), 0xa5),
        scales(static_cast<std::size_t>(loft::scale_count<B>(r, c))),
        rows{r},
        cols{c} {
    std::memset(static_cast<void*>(scales.data()), 0xa5, scales.size() * sizeof scales[0]);
  }
  loft::quantized_view<B> view() { return {codes.data(), scales.data(), &scale, rows, cols}; }
  bool operator==(tensor const& other) const {
    return codes == other.codes && std::memcmp(&scale, &other.scale, sizeof scale) == 0 &&
           std::memcmp(scales.data(), other.scales.data(), scales.size() * sizeof scales[0]) == 0;
  }
};

/// Values of a matrix whose rows are as loud as they like, with a zero run here and there.
std::vector<float> values(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  test::noise next{seed};
  std::vector<float> x(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i / 64 % 5 == 3 ? next.value(-9, -5) : next.value(-3, 2);
    if (i / 32 % 11 == 7) x[i] = 0;
  }
  return x;
}

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
}

template <class B, class Rotation> using with = loft::operand<B, loft::default_rule<B>, loft::stochastic<8>, Rotation>;

/// What is expected: the runs rotated one by one, then the same operand without a rotation; and back.
template <class B, class Rotation> struct expected {
  tensor<B> quantized;
  std::vector<float> back;
  float amax = 0;

  expected(std::vector<float> x, std::int64_t rows, std::int64_t cols, Rotation const& rotation)
      : quantized{rows, cols}, back(x.size()) {
    for (std::size_t i = 0; i < x.size(); i += Rotation::size) rotation.apply(x.data() + i);
    with<B, loft::no_rotation> const plain{.rounding = {3, 4}};
    matrix_view<float> const in{x.data(), rows, cols, cols}, out{back.data(), rows, cols, cols};
    REQUIRE(loft::quantize(in, quantized.view(), plain) == status::ok);
    REQUIRE(loft::dequantize(quantized.view(), out, plain) == status::ok);
    for (std::size_t i = 0; i < x.size(); i += Rotation::size) rotation.invert(back.data() + i);
    for (float const v : x) amax = v > amax ? v : (-v > amax ? -v : amax);
  }
};

template <class T> std::vector<T> transpose(std::vector<T> const& x, std::int64_t rows, std::int64_t cols) {
  std::vector<T> y(x.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      y[static_cast<std::size_t>(c * rows + r)] = x[static_cast<std::size_t>(r * cols + c)];
  return y;
}

template <class B, class Rotation> void check(std::int64_t rows, std::int64_t runs, Rotation const& rotation) {
  std::int64_t const cols = runs * Rotation::size;
  CAPTURE(Rotation::size);
  CAPTURE(rows);
  CAPTURE(cols);
  auto const x = values(rows, cols, static_cast<std::uint64_t>(rows * 10000 + cols));
  expected<B, Rotation> const right(x, rows, cols, rotation);
  with<B, Rotation> const how{.rounding = {3, 4}, .rotation = rotation};
  std::vector<float> copy = x, turned = transpose(x, rows, cols);
  matrix_view<float> const plain{copy.data(), rows, cols, cols};
  matrix_view<float> const strided = loft::transposed(matrix_view<float>{turned.data(), cols, rows, rows});
  for (auto const& in : {plain, strided}) {
    tensor<B> q(rows, cols);
    REQUIRE(loft::quantize(in, q.view(), how) == status::ok);
    CHECK(q == right.quantized);
    float amax = -1;
    REQUIRE(loft::tensor_amax(in, how, amax) == status::ok);
    CHECK(amax == right.amax);
    std::vector<float> back(x.size()), back_turned(x.size());
    REQUIRE(loft::dequantize(q.view(), matrix_view<float>{back.data(), rows, cols, cols}, how) == status::ok);
    CHECK(same_bits(back, right.back));
    matrix_view<float> const out = loft::transposed(matrix_view<float>{back_turned.data(), cols, rows, rows});
    REQUIRE(loft::dequantize(q.view(), out, how) == status::ok);
    CHECK(same_bits(transpose(back_turned, cols, rows), right.back));
    back.assign(x.size(), -1), back_turned.assign(x.size(), -1);
    REQUIRE(loft::fake_quantize(in, matrix_view<float>{back.data(), rows, cols, cols}, how) == status::ok);
    CHECK(same_bits(back, right.back));
    REQUIRE(loft::fake_quantize(in, out, how) == status::ok);
    CHECK(same_bits(transpose(back_turned, cols, rows), right.back));
  }
  REQUIRE(loft::fake_quantize(strided, strided, how) == status::ok);  // in place
  CHECK(same_bits(transpose(turned, cols, rows), right.back));
  if (Rotation::size > 1) {
    tensor<B> other(rows, cols);
    with<B, loft::no_rotation> const without{.rounding = {3, 4}};
    REQUIRE(loft::quantize(plain, other.view(), without) == status::ok);
    CHECK(!(other == right.quantized));  // the control
  }
}

/// Runs shorter than a block, across blocks, and longer; ragged blocks and bands of rows.
template <class B> void check_all() {
  check<B>(3, 7, hadamard<12>{});
  check<B>(37, 5, random_hadamard<20>{5, 6});
  check<B>(2, 3, signed_hadamard<28>{0x9a5c'1234'5678'9abc});
  check<B>(5, 9, hadamard<24>{});
  check<B>(17, 4, random_hadamard<16>{5, 6});
  check<B>(4, 3, random_hadamard<48>{5, 6});
  check<B>(33, 2, random_hadamard<256>{1, 0});
  check<B>(9, 1, random_hadamard<160>{5, 6});
  check<B>(5, 2, hadamard<896>{});
  check<B>(3, 1, random_hadamard<3584>{7, 8});
  check<B>(35, 1, random_hadamard<4096>{7, 8});
}

}  // namespace

TEST_CASE_TEMPLATE("rotations of all kinds of sizes are fused with quantization, in any view", B, loft::mxfp4,
                   loft::nvfp4, loft::fp8_1x128, loft::double_nvfp4, loft::hif4, loft::square<loft::mxfp4, 32>) {
  check_all<B>();
}

TEST_CASE("candidates, saturation and layouts with runs that blocks do not divide") {
  std::int64_t const rows = 21, cols = 8 * 80;
  auto x = values(rows, cols, 9);
  x[100] = 1e38f, x[101] = 2e38f, x[102] = -3e38f;
  auto rotated = x;
  random_hadamard<80> const rotation{12, 13};
  for (std::size_t i = 0; i < x.size(); i += 80) rotation.apply(rotated.data() + i);
  matrix_view<float> const in{x.data(), rows, cols, cols}, in_rotated{rotated.data(), rows, cols, cols};
  auto const compare = [&]<class B, class Rule>(B, Rule) {
    loft::operand<B, Rule, loft::nearest_even, random_hadamard<80>, loft::nonfinite::saturate> const how{.rotation =
                                                                                                             rotation};
    loft::operand<B, Rule, loft::nearest_even, loft::no_rotation, loft::nonfinite::saturate> const plain{};
    tensor<B> a(rows, cols), b(rows, cols);
    REQUIRE(loft::quantize(in, a.view(), how) == status::ok);
    REQUIRE(loft::quantize(in_rotated, b.view(), plain) == status::ok);
    CHECK(a == b);
    std::vector<std::uint8_t> codes(a.codes.size());
    using scale = loft::code<typename B::scale>;
    auto const count = static_cast<std::size_t>(loft::scale_count<B, loft::tiled_128x4>(rows, cols));
    std::vector<scale> tiled(count), expected_scales(count);
    float t = 0;
    loft::quantized_view<B, loft::tiled_128x4> const to{codes.data(), tiled.data(), &t, rows, cols};
    REQUIRE(loft::quantize(in, to, how) == status::ok);
    CHECK(codes == a.codes);
    for (int part = 0; part < 2; ++part) {  // ranges of rows glue
      loft::row_range const range{part == 0 ? 0 : 16, part == 0 ? 16 : -1};
      REQUIRE(loft::quantize(in, a.view(), how, range) == status::ok);
    }
    CHECK(a == b);
  };
  compare(loft::nvfp4{}, loft::four_over_six<>{});
  compare(loft::square<loft::nvfp4, 16>{}, loft::four_over_six<>{});
  compare(loft::if4{}, loft::default_rule<loft::if4>{});
  compare(loft::mxfp6_e2m3{}, loft::even_scale{});
}

TEST_CASE("a product keeps its value under one rotation of both operands, up to their quantization") {
  // Per-step signs: the same seed and step on both sides cancel; another step does not.
  constexpr int n = 96;
  auto const a = values(1, n, 1), b = values(1, n, 2);
  using op = loft::operand<loft::mxfp8_e4m3, loft::even_scale, loft::nearest_even, random_hadamard<96>>;
  auto const fake = [&](std::vector<float> x, std::uint64_t seed, std::uint64_t step) {
    random_hadamard<96>{seed, step}.apply(x.data());
    loft::operand<loft::mxfp8_e4m3, loft::even_scale> const how{};
    matrix_view<float> const m{x.data(), 1, n, n};
    REQUIRE(loft::fake_quantize(m, m, how) == status::ok);
    return x;
  };
  auto const dot = [](std::vector<float> const& x, std::vector<float> const& y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    return sum;
  };
  double const size = std::sqrt(dot(a, a) * dot(b, b));
  CHECK(std::fabs(dot(fake(a, 7, 3), fake(b, 7, 3)) - dot(a, b)) < 0.05 * size);
  CHECK(std::fabs(dot(fake(a, 7, 3), fake(a, 7, 4)) - dot(a, a)) > 0.2 * dot(a, a));
  CHECK(op{.rotation = {7, 3}}.rotation.stream == 3);
}

TEST_CASE("columns that are no multiple of the run are refused, with nothing written") {
  std::vector<float> x(4 * 120, 1.0f);
  tensor<loft::mxfp4> q(4, 120);
  auto const before = q.codes;
  matrix_view<float> const in{x.data(), 4, 120, 120};
  loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, hadamard<28>> const how{};
  float amax = -5;
  CHECK(loft::quantize(in, q.view(), how) == status::rotation_does_not_divide);
  CHECK(loft::dequantize(q.view(), in, how) == status::rotation_does_not_divide);
  CHECK(loft::fake_quantize(in, in, how) == status::rotation_does_not_divide);
  CHECK(loft::tensor_amax(in, how, amax) == status::rotation_does_not_divide);
  CHECK(q.codes == before);
  CHECK(amax == -5);
  CHECK(x == std::vector<float>(4 * 120, 1.0f));
  loft::operand<loft::mxfp4, loft::ocp_floor, loft::nearest_even, hadamard<40>> const divides{};
  CHECK(loft::quantize(in, q.view(), divides) == status::ok);
}
