// SPDX-License-Identifier: Apache-2.0
// per_row<Element>: a float scale for a row, or for each 4096 columns of it, against the formula.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "loft/loft.hpp"
#include "oracle_of.hpp"
#include "tensor/any_buffers.hpp"

namespace {

using loft::status;

struct shape {
  std::int64_t rows, cols;
};
// A token, rows of less than a scale's columns, of all of them, of one more, and of two scales and a rest.
constexpr shape shapes[] = {{1, 1}, {3, 37}, {40, 512}, {2, 4095}, {2, 4096}, {3, 4097}, {2, 9001}};

std::vector<float> rows_of_all_sizes(shape s) {
  test::noise next{static_cast<std::uint64_t>(s.rows * 10007 + s.cols)};
  std::vector<float> x;
  for (std::int64_t i = 0; i < s.rows * s.cols; ++i) x.push_back(next.value(-4, 2) * (i / s.cols % 2 == 0 ? 1 : 4096));
  if (s.cols > 100) std::fill(x.begin(), x.begin() + 37, -0.0f);
  return x;
}

/// Codes, scales and values that differ from gamma = largest / amax, rounded by the oracle in this mode.
template <class Element, class Operand> std::int64_t differences(shape s, Operand const& how, oracle::rounding mode) {
  oracle::table const& table = test::table_of<Element>();
  auto const x = rows_of_all_sizes(s);
  test::any_buffers<typename Operand::format> out(s.rows, s.cols);
  std::vector<float> y(x.size());
  loft::matrix_view<float const> const in{x.data(), s.rows, s.cols, s.cols};
  REQUIRE(quantize(in, out.view(), how) == status::ok);
  REQUIRE(fake_quantize(in, loft::matrix_view<float>{y.data(), s.rows, s.cols, s.cols}, how) == status::ok);
  CHECK(out.margins_are_clean());
  CHECK(out.scale_places() == static_cast<std::size_t>(s.rows * ((s.cols + 4095) / 4096)));
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    for (std::int64_t first = 0; first < s.cols; first += 4096) {
      std::int64_t const end = std::min(first + 4096, s.cols);
      float amax = 0;
      for (std::int64_t c = first; c < end; ++c)
        amax = std::max(amax, std::fabs(x[static_cast<std::size_t>(row * s.cols + c)]));
      float const scale = amax / static_cast<float>(table.max()), gamma = 1 / scale;
      wrong += out.scale_at(row, first) != test::bits_of(scale) ? 1 : 0;
      for (std::int64_t c = first; c < end; ++c) {
        auto const i = static_cast<std::size_t>(row * s.cols + c);
        float const scaled = x[i] * gamma;
        std::uint32_t const code = table.encode(amax == 0 ? std::copysign(0.0, x[i]) : scaled, mode);
        wrong += out.code(row, c) != code ? 1 : 0;
        wrong += test::bits_of(y[i]) != test::bits_of(static_cast<float>(table.decode(code)) * scale) ? 1 : 0;
      }
    }
  }
  return wrong;
}

template <class Element> void check() {
  using format = loft::per_row<Element>;
  using upward = loft::operand<format, loft::division_scale, loft::nearest_upward>;
  for (shape const s : shapes) {
    CAPTURE(s.rows);
    CAPTURE(s.cols);
    CHECK(differences<Element>(s, loft::operand<format>{}, oracle::rounding::nearest_even) == 0);
    CHECK(differences<Element>(s, upward{}, oracle::rounding::nearest_upward) == 0);
    if (s.cols > 1) CHECK(differences<Element>(s, upward{}, oracle::rounding::toward_zero) > 0);  // the control
  }
}

}  // namespace

TEST_CASE("a float scale for each row, or for each 4096 columns of it") {
  check<loft::e2m1>();
  check<loft::int8>();
  check<loft::e4m3>();
  check<loft::e2m3>();
}

TEST_CASE("the scale of a row: views by columns, bfloat16 and ranges of rows give the same bytes") {
  using B = loft::per_row<loft::e2m1>;
  shape const s{19, 5000};
  auto const x = rows_of_all_sizes(s);
  std::vector<loft::bf16_t> const halves(x.begin(), x.end());
  std::vector<float> widened, columns(x.size()), y(x.size()), y_columns(x.size());
  for (loft::bf16_t const h : halves) widened.push_back(static_cast<float>(h));
  for (std::size_t i = 0; i < x.size(); ++i) columns[i % 5000 * 19 + i / 5000] = widened[i];
  test::any_buffers<B> plain(s.rows, s.cols), half(s.rows, s.cols), strided(s.rows, s.cols), parts(s.rows, s.cols);
  loft::operand<B> const how;
  loft::matrix_view<float const> const rows{widened.data(), s.rows, s.cols, s.cols},
      by_columns{columns.data(), s.rows, s.cols, 1, s.rows};
  REQUIRE(quantize(rows, plain.view(), how) == status::ok);
  REQUIRE(quantize(loft::matrix_view<loft::bf16_t const>{halves.data(), s.rows, s.cols, s.cols}, half.view(), how) ==
          status::ok);
  REQUIRE(quantize(by_columns, strided.view(), how) == status::ok);
  for (std::int64_t row = 0; row < s.rows; row += 8)
    REQUIRE(quantize(rows, parts.view(), how, loft::row_range{row, std::min<std::int64_t>(8, s.rows - row)}) ==
            status::ok);
  CHECK(half == plain);
  CHECK(strided == plain);
  CHECK(parts == plain);
  REQUIRE(fake_quantize(rows, loft::matrix_view<float>{y.data(), s.rows, s.cols, s.cols}, how) == status::ok);
  REQUIRE(fake_quantize(by_columns, loft::matrix_view<float>{y_columns.data(), s.rows, s.cols, 1, s.rows}, how) ==
          status::ok);
  bool same = true;
  for (std::size_t i = 0; i < x.size(); ++i) same = same && y[i] == y_columns[i % 5000 * 19 + i / 5000];
  CHECK(same);
}

TEST_CASE("the scale of a row: NaN fills the row's 4096 columns, and a row of zeros has scale 0") {
  using B = loft::per_row<loft::e2m1>;
  std::vector<float> x(2 * 4100, 1.0f), y(x.size());
  std::fill(x.begin() + 4100, x.end(), -0.0f);
  x[17] = std::numeric_limits<float>::quiet_NaN();
  REQUIRE(fake_quantize(loft::matrix_view<float const>{x.data(), 2, 4100, 4100},
                        loft::matrix_view<float>{y.data(), 2, 4100, 4100}, loft::operand<B>{}) == status::ok);
  CHECK(std::all_of(y.begin(), y.begin() + 4096, [](float v) { return std::isnan(v); }));
  CHECK(std::all_of(y.begin() + 4096, y.begin() + 4100, [](float v) { return v == 1; }));
  CHECK(std::all_of(y.begin() + 4100, y.end(), [](float v) { return v == 0 && std::signbit(v); }));
}
