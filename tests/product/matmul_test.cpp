// SPDX-License-Identifier: Apache-2.0
// The emulated product: accumulators in their stated order to the bit, the stated bounds, exact results where they are
// exact; layouts, strides, ranges, refusals. Every accumulator with every block format: matmul_formats_test.cpp.
#include "matmul_check.hpp"

using namespace matmul_check;
using loft::rows_of;

TEST_CASE("every accumulator sums in the stated order, within the stated bound") {
  check_format<loft::mxfp4>();
  check_format<loft::hif4>();
  check_format<loft::square<loft::nvfp4, 16>>();
}

namespace {

// Elements and scales as integers: in units of 1/2 and 2^-9 for nvfp4, of 1 and 2^-9 for nvint4.
std::int64_t in_integers(operand_values const& a, std::int64_t i, operand_values const& b, std::int64_t j) {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < a.cols; ++k)
    sum += static_cast<std::int64_t>(a.element[a.at(i, k)] * 2) *
           static_cast<std::int64_t>(a.factor[a.at(i, k)] * 512) * static_cast<std::int64_t>(b.element[b.at(j, k)]) *
           static_cast<std::int64_t>(b.factor[b.at(j, k)] * 512);
  return sum;
}

// The number of results of the double accumulator that are not the exact product, rounded once.
template <class B1, class B2> int inexact(content kind) {
  auto left = quantized<B1>(kind, 19, 200);
  auto right = quantized<B2>(kind, 37, 200);
  operand_values const a = operand_of(left, 19, 200), b = operand_of(right, 37, 200);
  auto const got = multiplied(left.view(), right.view(), 19, 37, in_double);
  int wrong = 0;
  for (std::int64_t i = 0; i < 19; ++i)
    for (std::int64_t j = 0; j < 37; ++j) {
      float const expected = static_cast<float>(test::exactly(a, i, b, j).value * (a.tensor * b.tensor));
      wrong += !test::same(got[static_cast<std::size_t>(i * 37 + j)], expected);
    }
  return wrong;
}

}  // namespace

TEST_CASE("where sums are exact the result is the exact product, rounded") {
  using namespace loft;
  auto left = quantized<nvfp4>(content::ordinary, 19, 200);
  auto right = quantized<nvint4>(content::ordinary, 37, 200);
  operand_values const a = operand_of(left, 19, 200), b = operand_of(right, 37, 200);
  auto const got = multiplied(left.view(), right.view(), 19, 37, in_double);
  int wrong = 0, dropped = 0;
  for (std::int64_t i = 0; i < 19; ++i)
    for (std::int64_t j = 0; j < 37; ++j) {
      double const exact = static_cast<double>(in_integers(a, i, b, j)) * 0x1p-19;
      float const value = got[static_cast<std::size_t>(i * 37 + j)];
      wrong += !test::same(value, static_cast<float>(exact * (a.tensor * b.tensor)));
      dropped += test::same(value, static_cast<float>(exact * a.tensor));
    }
  CHECK(wrong == 0);
  CHECK(dropped == 0);
  CHECK(inexact<mxfp4, mxfp4>(content::ordinary) == 0);
  CHECK(inexact<mxfp6_e2m3, mxfp6_e3m2>(content::ordinary) == 0);
  CHECK(inexact<mxint8, mxint8>(content::ordinary) == 0);
  CHECK(inexact<nvfp4, square<nvfp4, 16>>(content::ordinary) == 0);
  CHECK(inexact<hif4, hif4>(content::ordinary) == 0);
  CHECK(inexact<mxfp4, mxfp8_e4m3>(content::ordinary) == 0);
}

TEST_CASE("within the bound of the product of what dequantize gives") {
  // dequantize rounds the tensor's scale into each value; if4 and double_nvfp4 round once or twice more.
  loft::all_block_formats::for_each([]<class B>(B) {
    auto left = quantized<B>(content::ordinary, 7, 160), right = quantized<B>(content::mixed_sizes, 9, 160);
    auto const values = [](auto& q, std::int64_t rows) {
      std::vector<float> x(static_cast<std::size_t>(rows * 160));
      REQUIRE(loft::dequantize(q.view(), into(x, rows, 160), loft::operand<B>{}) == status::ok);
      return operand_of(x, rows, 160);
    };
    operand_values const a = values(left, 7), b = values(right, 9);
    auto const got = multiplied(left.view(), right.view(), 7, 9, in_double);
    int beyond = 0;
    for (std::int64_t i = 0; i < 7; ++i)
      for (std::int64_t j = 0; j < 9; ++j) {
        test::exact_product const e = test::exactly(a, i, b, j);
        double const error = std::fabs(static_cast<double>(got[static_cast<std::size_t>(i * 9 + j)]) - e.value);
        bool const rounds = loft::has_tensor_scale<B> || std::is_same_v<typename B::scale, loft::fp32> ||
                            sizeof(loft::code<typename B::scale>) > 8;
        beyond += !(error <= std::ldexp(std::fabs(e.value), -24) + (rounds ? 7 * 0x1p-24 : 0x1p-44) * e.magnitudes);
      }
    CHECK(beyond == 0);
  });
}

TEST_CASE("a long sum in fp16 stalls, and promotion saves it") {
  // 4096 products of 1. Alone they are lost from the number on at which the gap is 2; in sixteens they are not.
  std::vector<float> const ones(4096, 1.0f);
  matrix_view<float const> const x{ones.data(), 1, 4096, 4096};
  float out = 0;
  matrix_view<float> const to{&out, 1, 1, 1};
  REQUIRE(loft::matmul(x, x, to, loft::chunked_accumulator<loft::fp16, 1>{}) == status::ok);
  CHECK(out == 2048.0f);
  REQUIRE(loft::matmul(x, x, to, loft::chunked_accumulator<loft::fp16, 16>{}) == status::ok);
  CHECK(out == 4096.0f);
  REQUIRE(loft::matmul(x, x, to, loft::chunked_accumulator<loft::bf16, 1>{}) == status::ok);
  CHECK(out == 256.0f);
  any_buffers<loft::mxfp4> q(1, 4096);
  REQUIRE(loft::quantize<loft::operand<loft::mxfp4>>(x, q.view()) == status::ok);
  REQUIRE(loft::matmul(q.view(), x, to, loft::chunked_accumulator<loft::bf16, 1, loft::fp32>{}) == status::ok);
  CHECK(out == 4096.0f);
  REQUIRE(loft::matmul(x, x, to, loft::chunked_accumulator<loft::e4m3, 1>{}) == status::ok);
  CHECK(out == 16.0f);
}

namespace {

// An accumulator of one's own: the sum of magnitudes.
struct of_magnitudes {
  using number = double;
  static constexpr int chunk = 0;
  constexpr double add(double sum, double x) const { return sum + (x < 0 ? -x : x); }
  constexpr double finish(double total, double run, double factor) const { return total + run * factor; }
};
// A source of one's own: the identity matrix, of which nothing is stored.
struct identity {
  static constexpr int factor_cols = 0;
  std::int64_t size;
  [[nodiscard]] constexpr std::int64_t rows() const { return size; }
  [[nodiscard]] constexpr std::int64_t cols() const { return size; }
  [[nodiscard]] constexpr status check() const { return status::ok; }
  [[nodiscard]] constexpr float element(std::int64_t r, std::int64_t c) const { return r == c ? 1.0f : 0.0f; }
  [[nodiscard]] constexpr double factor(std::int64_t, std::int64_t) const { return 1; }
  [[nodiscard]] constexpr double tensor_factor() const { return 1; }
};

constexpr float at_compile_time() {
  std::uint8_t const codes[2 * 1]{0x22, 0x24};  // 1 1 | 2 1
  std::uint8_t const scales[2]{128, 126};       // 2 | 1/2
  float const x[2]{3, -5};
  float out[2]{100, 100};
  loft::quantized_view<loft::mxfp4 const> const q{codes, scales, nullptr, 2, 2};
  if (loft::matmul(q, matrix_view<float const>{x, 1, 2, 2}, matrix_view<float>{out, 2, 1, 1}) != status::ok) return 0;
  return out[0] * 100 + out[1];  // (3 - 5) * 2 and (6 - 5) / 2
}

}  // namespace

TEST_CASE("accumulators and sources of one's own; at compile time") {
  static_assert(at_compile_time() == -399.5f);
  static_assert(!loft::Accumulator<identity> && !loft::OperandRows<of_magnitudes>);
  auto q = quantized<loft::if4>(content::ordinary, 5, 64);
  operand_values const a = operand_of(q, 5, 64);
  auto const sums = multiplied(q.view(), q.view(), 5, 5, of_magnitudes{});
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(static_cast<double>(sums[static_cast<std::size_t>(6 * i)]) ==
          doctest::Approx(test::exactly(a, i, a, i).magnitudes * a.tensor * a.tensor).epsilon(1e-6));
  auto const values = multiplied(q.view(), identity{64}, 5, 64, in_double);
  int wrong = 0;
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t k = 0; k < 64; ++k) wrong += values[a.at(i, k)] != static_cast<float>(a.value(i, k) * a.tensor);
  CHECK(wrong == 0);
}

TEST_CASE("dot is one element of matmul, to the bit") {
  loft::all_block_formats::for_each([]<class B>(B) {
    auto left = quantized<B>(content::specials, 4, 150);
    auto right = quantized<loft::square<loft::nvfp4, 16>>(content::ordinary, 6, 150);
    std::vector<float> const x = tensor(content::ordinary, {6, 150});
    auto const plain = test::view_of(x, {6, 150});
    auto const check = [&](auto const& b, auto how) {
      auto const whole = multiplied(left.view(), b, 4, 6, how);
      std::vector<float> each;
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < 6; ++j) each.push_back(loft::dot(left.view(), i, b, j, how));
      CHECK(differing(whole, each) == 0);
    };
    check(right.view(), in_float);
    check(right.view(), in_double);
    check(right.view(), promoted{});
    check(plain, in_float);
    check(plain, coarse{});
  });
}

TEST_CASE("operands that are not quantized: either side, both, in any strides, of minifloats") {
  std::vector<float> const x = tensor(content::wide, {9, 70}), y = tensor(content::specials, {35, 70});
  operand_values const a = operand_of(x, 9, 70), b = operand_of(y, 35, 70);
  auto const left = test::view_of(x, {9, 70}), right = test::view_of(y, {35, 70});
  CHECK(differing(multiplied(left, right, 9, 35, in_float), a, b, as_float) == 0);
  CHECK(differing(multiplied(left, right, 9, 35, in_double), a, b, as_double) == 0);
  CHECK(differing(multiplied(left, right, 9, 35, promoted{}), a, b, as_promoted) == 0);
  auto q = quantized<loft::mxfp6_e3m2>(content::ordinary, 35, 70);
  operand_values const c = operand_of(q, 35, 70);
  CHECK(differing(multiplied(left, q.view(), 9, 35, in_float), a, c, as_float) == 0);
  CHECK(differing(multiplied(q.view(), left, 35, 9, in_float), c, a, as_float) == 0);

  std::vector<float> turned(x.size());
  std::vector<loft::bf16_t> halves;
  std::vector<float> as_floats;
  for (std::int64_t r = 0; r < 9; ++r)
    for (std::int64_t k = 0; k < 70; ++k) turned[static_cast<std::size_t>(k * 9 + r)] = x[a.at(r, k)];
  for (float const v : x) {
    halves.emplace_back(v);
    as_floats.push_back(static_cast<float>(halves.back()));
  }
  matrix_view<float const> const by_columns{turned.data(), 9, 70, 1, 9};
  CHECK(differing(multiplied(by_columns, right, 9, 35, in_float), multiplied(left, right, 9, 35, in_float)) == 0);
  matrix_view<loft::bf16_t const> const bf16{halves.data(), 9, 70, 70};
  CHECK(differing(multiplied(bf16, q.view(), 9, 35, in_float),
                  multiplied(test::view_of(as_floats, {9, 70}), q.view(), 9, 35, in_float)) == 0);
}

TEST_CASE("every scale layout, and one of them on either side") {
  loft::all_block_formats::for_each([]<class B>(B) {
    std::int64_t const m = 150, n = 20, k = 3 * B::shape.cols + 8;
    auto left = quantized<B>(content::mixed_sizes, m, k);
    auto right = quantized<B>(content::ordinary, n, k);
    auto left_tiled = quantized<B, loft::tiled_128x4>(content::mixed_sizes, m, k);
    auto right_by_columns = quantized<B, loft::col_major>(content::ordinary, n, k);
    auto const expected = multiplied(left.view(), right.view(), m, n, in_float);
    auto const a = left_tiled.view();
    auto const b = right_by_columns.view();
    CHECK(differing(multiplied(a, b, m, n, in_float), expected) == 0);
    CHECK(differing(multiplied(a, right.view(), m, n, in_float), expected) == 0);
    CHECK(differing(multiplied(left.view(), b, m, n, in_float), expected) == 0);
    loft::quantized_view<B> const wrong{a.codes, a.scales, a.tensor_scale, m, k};  // the control: another layout
    CHECK(differing(multiplied(wrong, b, m, n, in_float), expected) > 0);
  });
}

TEST_CASE("outputs: strides, what lies between, ranges of rows, and sums on top") {
  auto left = quantized<loft::nvfp4>(content::ordinary, 37, 96);
  auto right = quantized<loft::mxfp4>(content::ordinary, 41, 96);
  auto const expected = multiplied(left.view(), right.view(), 37, 41, in_float);
  auto const at = [](std::int64_t r, std::int64_t c) { return static_cast<std::size_t>(r * 41 + c); };
  std::vector<float> wide(4000, -5.0f);
  matrix_view<float> const turned{wide.data() + 3, 37, 41, 2, 80};  // column-major, every other element
  REQUIRE(loft::matmul(left.view(), right.view(), turned, in_float) == status::ok);
  int wrong = 0;
  for (std::int64_t r = 0; r < 37; ++r)
    for (std::int64_t c = 0; c < 41; ++c) wrong += !test::same(turned(r, c), expected[at(r, c)]);
  CHECK(wrong == 0);
  CHECK(std::count(wide.begin(), wide.end(), -5.0f) == 4000 - 37 * 41);

  std::vector<float> parts(37 * 41, -5.0f);
  for (loft::row_range const part : {loft::row_range{30, -1}, {0, 11}, {11, 19}, {5, 0}, {37, -1}})
    REQUIRE(loft::matmul(left.view(), right.view(), into(parts, 37, 41), in_float, part) == status::ok);
  CHECK(differing(parts, expected) == 0);
  parts.assign(37 * 41, -5.0f);
  REQUIRE(loft::matmul(left.view(), right.view(), into(parts, 37, 41), in_float, {3, 2}) == status::ok);
  CHECK(std::count(parts.begin(), parts.end(), -5.0f) == 35 * 41);

  operand_values const a = operand_of(left, 37, 96), b = operand_of(right, 41, 96);
  std::vector<float> sums(37 * 41);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = 0.37f * static_cast<float>(i);
  std::vector<float> const before = sums;
  REQUIRE(loft::matmul_add(left.view(), right.view(), into(sums, 37, 41), in_float) == status::ok);
  wrong = 0;
  int twice = 0;
  for (std::int64_t r = 0; r < 37; ++r)
    for (std::int64_t c = 0; c < 41; ++c) {
      float const was = before[at(r, c)];
      wrong += !test::same(sums[at(r, c)], test::product_of(a, r, b, c, as_float, was));
      twice += !test::same(sums[at(r, c)], expected[at(r, c)] + was);
    }
  CHECK(wrong == 0);
  CHECK(twice > 0);  // rounding the product first is another result
}

TEST_CASE("a NaN scale makes its row or column NaN, the canonical one") {
  loft::all_block_formats::for_each([]<class B>(B) {
    if constexpr (B::shape.rows == 1) {
      std::vector<float> x = tensor(content::ordinary, {6, 80});
      x[2 * 80 + 79] = -test::infinity;
      x[5 * 80 + 3] = test::not_a_number;
      any_buffers<B> q(6, 80);
      REQUIRE(loft::quantize(test::view_of(x, {6, 80}), q.view(), loft::operand<B>{}) == status::ok);
      auto zeros = quantized<loft::mxfp4>(content::zeros, 4, 80);
      for (auto const& out :
           {multiplied(q.view(), zeros.view(), 6, 4, in_float), multiplied(q.view(), zeros.view(), 6, 4, in_double),
            multiplied(q.view(), zeros.view(), 6, 4, coarse{})})
        for (std::size_t i = 0; i < 24; ++i)
          CHECK(test::bits_of(out[i]) == (i / 4 == 2 || i / 4 == 5 ? 0x7fc00000u : 0u));
      auto const out = multiplied(zeros.view(), q.view(), 4, 6, in_float);
      for (std::size_t i = 0; i < 24; ++i) CHECK(std::isnan(out[i]) == (i % 6 == 2 || i % 6 == 5));
    }
  });
}

TEST_CASE("the factor of a rule, and rotations that cancel") {
  std::vector<float> const x = tensor(content::ordinary, {6, 128}), y = tensor(content::ordinary, {8, 128});
  auto const a = test::view_of(x, {6, 128}), b = test::view_of(y, {8, 128});
  {
    loft::operand<loft::mxfp4, loft::floor_four_thirds> const how;
    any_buffers<loft::mxfp4> p(6, 128), q(8, 128);
    REQUIRE(loft::quantize(a, p.view(), how) == status::ok);
    REQUIRE(loft::quantize(b, q.view(), how) == status::ok);
    operand_values left = operand_of(p, 6, 128), right = operand_of(q, 8, 128);
    left.tensor = right.tensor = static_cast<double>(4.0f / 3.0f);
    auto const with = multiplied(rows_of(p.view(), how), rows_of(q.view(), how), 6, 8, in_double);
    CHECK(differing(with, left, right, as_double) == 0);
    CHECK(differing(multiplied(p.view(), q.view(), 6, 8, in_double), left, right, as_double) > 40);
  }
  {
    using turned = loft::operand<loft::mxfp8_e4m3, loft::ceil_scale, loft::nearest_even, loft::signed_hadamard<32>>;
    turned const how{.rotation = {0x9a5c3}};
    any_buffers<loft::mxfp8_e4m3> p(6, 128), q(8, 128);
    REQUIRE(loft::quantize(a, p.view(), how) == status::ok);
    REQUIRE(loft::quantize(b, q.view(), how) == status::ok);
    auto const got = multiplied(rows_of(p.view(), how), q.view(), 6, 8, in_float);
    operand_values const exact_a = operand_of(x, 6, 128), exact_b = operand_of(y, 8, 128);
    for (std::int64_t i = 0; i < 6; ++i)
      for (std::int64_t j = 0; j < 8; ++j) {
        double norms[2] = {};
        for (std::int64_t k = 0; k < 128; ++k) {
          norms[0] += std::pow(exact_a.value(i, k), 2);
          norms[1] += std::pow(exact_b.value(j, k), 2);
        }
        // Each side errs by at most 2^-4 of an element, and by 2^-4 of its norm: rotations keep norms.
        double const error =
            static_cast<double>(got[static_cast<std::size_t>(i * 8 + j)]) - test::exactly(exact_a, i, exact_b, j).value;
        CHECK(std::fabs(error) <= 0.13 * std::sqrt(norms[0] * norms[1]));
      }
  }
}

TEST_CASE("empty products, and what is refused, with nothing written") {
  auto left = quantized<loft::nvfp4>(content::ordinary, 5, 48);
  auto right = quantized<loft::mxfp4>(content::ordinary, 7, 48);
  std::vector<float> out(40, -5.0f);
  auto const untouched = [&] { return std::count(out.begin(), out.end(), -5.0f) == 40; };
  auto const refused = [&](auto const& a, auto const& b, matrix_view<float> to, loft::row_range range = {}) {
    status const s = loft::matmul(a, b, to, in_float, range);
    CHECK(loft::matmul_add(a, b, to, in_double, range) == s);
    CHECK(untouched());
    return s;
  };
  auto const to = into(out, 5, 7);
  auto const a = left.view();
  auto const b = right.view();
  auto const with = [](auto view, auto change) {
    change(view);
    return view;
  };
  auto const matrix = [&](auto change) { return with(to, change); };
  CHECK(refused(a, with(b, [](auto& v) { v.cols = 47; }), to) == status::shape_mismatch);
  CHECK(refused(a, b, into(out, 7, 5)) == status::shape_mismatch);
  CHECK(refused(a, b, matrix([](auto& v) { v.rows = 4; })) == status::shape_mismatch);
  CHECK(refused(with(a, [](auto& v) { v.codes = nullptr; }), b, to) == status::null_pointer);
  CHECK(refused(a, with(b, [](auto& v) { v.scales = nullptr; }), to) == status::null_pointer);
  CHECK(refused(with(a, [](auto& v) { v.tensor_scale = nullptr; }), b, to) == status::missing_tensor_scale);
  CHECK(refused(a, b, matrix([](auto& v) { v.data = nullptr; })) == status::null_pointer);
  CHECK(refused(a, matrix_view<float const>{nullptr, 7, 48, 48}, to) == status::null_pointer);
  CHECK(refused(a, b, matrix([](auto& v) { v.row_stride = 6; })) == status::overlapping_output);
  CHECK(refused(a, b, matrix([](auto& v) { v.col_stride = 0; })) == status::overlapping_output);
  // Memory of an operand, where one starts.
  CHECK(refused(to, matrix_view<float const>{out.data() + 35, 7, 7, 0}, into(out, 5, 7)) == status::overlapping_output);
  CHECK(refused(matrix_view<float const>{out.data() + 35, 5, 5, 0}, into(out, 7, 5), to) == status::overlapping_output);
  CHECK(refused(a, with(b, [&](auto& v) { v.codes = reinterpret_cast<std::uint8_t*>(out.data()); }), to) ==
        status::overlapping_output);
  CHECK(refused(with(a, [](auto& v) { v.rows = -5; }), b, to) == status::negative_extent);
  CHECK(refused(a, with(b, [](auto& v) { v.cols = -48; }), to) == status::negative_extent);
  CHECK(refused(with(a, [](auto& v) { v.rows = std::int64_t{1} << 60; }), b, to) == status::extent_overflow);
  for (loft::row_range const part : {loft::row_range{-1, 1}, {6, 0}, {0, 6}, {3, 3}})
    CHECK(refused(a, b, to, part) == status::invalid_row_range);
  // No rows, no columns: nothing is read or written.
  CHECK(refused(with(a, [](auto& v) { v.rows = 0, v.codes = nullptr; }), b, {nullptr, 0, 7, 7}) == status::ok);
  CHECK(refused(a, with(b, [](auto& v) { v.rows = 0, v.scales = nullptr; }), {nullptr, 5, 0, 0}) == status::ok);
  CHECK(refused(a, into(out, 0, 48), {out.data(), 5, 0, 0}) == status::ok);
  constexpr std::int64_t many = std::int64_t{1} << 40;  // rows of nothing take no time
  loft::quantized_view<loft::nvfp4> const no_columns{nullptr, nullptr, nullptr, many, 0};
  CHECK(refused(no_columns, matrix_view<float const>{nullptr, 0, 0, 0}, {nullptr, many, 0, 0}) == status::ok);
  // An empty sum is zero, and adds nothing.
  loft::quantized_view<loft::nvfp4> const no_a{nullptr, nullptr, nullptr, 5, 0};
  loft::quantized_view<loft::mxfp4> const no_b{nullptr, nullptr, nullptr, 7, 0};
  std::vector<float> kept(35, -0.0f);
  kept[3] = test::float_of(0x7fa00001), kept[4] = test::float_of(0xffc12345), kept[5] = test::float_of(1);
  std::vector<float> const before = kept;
  CHECK(loft::matmul_add(no_a, no_b, into(kept, 5, 7), in_float) == status::ok);
  CHECK(std::memcmp(kept.data(), before.data(), sizeof(float) * 35) == 0);
  CHECK(loft::matmul(no_a, no_b, to, in_float) == status::ok);
  for (std::size_t i = 0; i < 40; ++i) CHECK(test::bits_of(out[i]) == (i < 35 ? 0u : test::bits_of(-5.0f)));
  CHECK(test::bits_of(loft::dot(no_a, 0, no_b, 0)) == 0u);
}
