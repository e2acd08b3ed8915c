// SPDX-License-Identifier: Apache-2.0
// What dequantize and fake_quantize write to bfloat16 and half: the float they give, rounded once more to nearest even,
// whatever the strides of the output, and in place.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "loft/tensor.hpp"

namespace {

using loft::matrix_view, loft::status;

constexpr std::int64_t rows = 37, cols = 2100;

std::vector<float> random_values() {
  std::mt19937_64 random{31};
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * cols);
  for (float& v : values) v = normal(random) * static_cast<float>(1 << (random() % 9));
  return values;
}

template <class T>
long differing(std::vector<T> const& got, std::vector<float> const& floats, bool transposed = false) {
  long count = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      count += got[static_cast<std::size_t>(transposed ? c * rows + r : r * cols + c)].bits() !=
               static_cast<T>(floats[static_cast<std::size_t>(r * cols + c)]).bits();
  return count;
}

template <class O, class T> void check(O const& how) {
  std::vector<float> const x = random_values();
  std::vector<float> floats(x.size());
  matrix_view<float const> const in{x.data(), rows, cols};
  REQUIRE(fake_quantize(in, matrix_view<float>{floats.data(), rows, cols}, how) == status::ok);
  T const poison = T::from_bits(0x5a5a);
  std::vector<T> faked(x.size(), poison), decoded(x.size(), poison), down(x.size(), poison);
  REQUIRE(fake_quantize(in, matrix_view<T>{faked.data(), rows, cols}, how) == status::ok);
  CHECK(differing(faked, floats) == 0);
  REQUIRE(fake_quantize(in, loft::transposed(matrix_view<T>{down.data(), cols, rows}), how) == status::ok);
  CHECK(differing(down, floats, true) == 0);
  loft::quantized_tensor<typename O::format> q{rows, cols};
  REQUIRE(quantize(in, q.view(), how) == status::ok);
  REQUIRE(dequantize(q.view(), matrix_view<T>{decoded.data(), rows, cols}, how) == status::ok);
  CHECK(differing(decoded, floats) == 0);

  // In place: the numbers of the output are those of the input.
  std::vector<T> both(x.begin(), x.end());
  std::vector<float> of_narrow(x.size());
  REQUIRE(fake_quantize(matrix_view<T const>{both.data(), rows, cols}, matrix_view<float>{of_narrow.data(), rows, cols},
                        how) == status::ok);
  CHECK(differing(both, of_narrow) > rows * cols / 2);  // the control: the values are not their own codes
  REQUIRE(fake_quantize(matrix_view<T const>{both.data(), rows, cols}, matrix_view<T>{both.data(), rows, cols}, how) ==
          status::ok);
  CHECK(differing(both, of_narrow) == 0);
}

}  // namespace

TEST_CASE_TEMPLATE("outputs of 16 bits are the floats, rounded once more", T, loft::bf16_t, loft::fp16_t) {
  check<loft::operand<loft::nvfp4>, T>({});
  check<loft::operand<loft::mxfp8_e4m3, loft::ceil_scale, loft::stochastic<8>>, T>({.rounding = {5, 6}});
  check<loft::operand<loft::square<loft::mxfp4, 32>>, T>({});
}

TEST_CASE("a quantized tensor owns its memory, and says by a status that it has none") {
  std::vector<float> const x = random_values();
  matrix_view<float const> const in{x.data(), rows, cols};
  loft::operand<loft::nvfp4> const how{};
  loft::quantized_tensor<loft::nvfp4, loft::tiled_128x4> q{rows, cols};
  REQUIRE(quantize(in, q.view(), how) == status::ok);
  auto copy = q;
  auto moved = static_cast<decltype(q)&&>(q);
  std::vector<float> a(x.size()), b(x.size());
  auto const& read_only = copy;
  REQUIRE(dequantize(read_only.view(), matrix_view<float>{a.data(), rows, cols}, how) == status::ok);
  REQUIRE(dequantize(moved.view(), matrix_view<float>{b.data(), rows, cols}, how) == status::ok);
  CHECK(a == b);
  CHECK(q.rows() == 0);
  copy = decltype(q){3, 5};
  CHECK(copy.rows() == 3);
  CHECK(copy.view().tensor_scale != moved.view().tensor_scale);
  loft::quantized_tensor<loft::mxfp4> negative{-1, 32}, huge{std::int64_t{1} << 40, std::int64_t{1} << 40};
  CHECK(quantize(matrix_view<float const>{x.data(), -1, 32}, negative.view(), loft::operand<loft::mxfp4>{}) ==
        status::negative_extent);
  CHECK(dequantize(huge.view(), matrix_view<float>{a.data(), std::int64_t{1} << 40, std::int64_t{1} << 40},
                   loft::operand<loft::mxfp4>{}) == status::extent_overflow);
}
