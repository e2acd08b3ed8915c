// SPDX-License-Identifier: Apache-2.0
// Random tensors of every kind, and the check of quantize, dequantize and fake_quantize on them against the reference.
#pragma once

#include <doctest/doctest.h>

#include "block_reference.hpp"

namespace test {

using loft::nonfinite, loft::status;

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

struct shape {
  std::int64_t rows, cols;
};
inline constexpr shape shapes[] = {{1, 1},    {1, 16},  {1, 33},  {3, 64}, {5, 37},
                                   {17, 100}, {33, 70}, {64, 64}, {2, 15}, {40, 1}};

enum class content { ordinary, wide, specials, zeros, subnormals, huge, mixed_sizes };
inline constexpr content contents[] = {content::ordinary,   content::wide, content::specials,   content::zeros,
                                       content::subnormals, content::huge, content::mixed_sizes};

inline float one_value(content kind, std::size_t i, noise& next) {
  switch (kind) {
    case content::ordinary:
      return next.value(-3, 3);
    case content::wide:
      return next.value(-140, 127);
    case content::specials: {
      float const planted[] = {not_a_number, -not_a_number, infinity, -infinity};
      return next() % 97 == 0 ? planted[next() % 4] : next.value(-2, 2);
    }
    case content::zeros:
      return next() % 2 == 0 ? 0.0f : -0.0f;
    case content::subnormals:
      return float_of((next() & 0x80000000u) | (next() & 0x007fffffu) >> next() % 23);
    case content::huge:
      return next() % 5 == 0 ? std::copysign(float_max, next.value(0, 0)) : next.value(120, 127);
    case content::mixed_sizes:
      return i / 16 % 3 == 0 ? next.value(10, 12) : i / 16 % 3 == 1 ? next.value(-30, -4) : -0.0f;
  }
  return 0;
}

inline std::vector<float> tensor(content kind, shape s) {
  noise next{0x1234567u + static_cast<std::uint64_t>(kind) * 77 + static_cast<std::uint64_t>(s.rows * 1000 + s.cols)};
  std::vector<float> x(static_cast<std::size_t>(s.rows * s.cols));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = one_value(kind, i, next);
  return x;
}

template <class T> loft::matrix_view<T const> view_of(std::vector<T> const& x, shape s) {
  return {x.data(), s.rows, s.cols, s.cols};
}

// Codes (where the block is finite), scales and the tensor scale of `got` against the reference.
template <class B> void compare(buffers<B> const& got, quantized const& expected, shape s) {
  tally codes, scales;
  std::int64_t const blocks_in_row = (s.cols + B::shape.cols - 1) / B::shape.cols;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      auto const i = static_cast<std::size_t>(r * s.cols + c);
      auto const block = static_cast<std::size_t>(r / B::shape.rows * blocks_in_row + c / B::shape.cols);
      if (expected.scales[block] == table_of<typename B::scale>().nan_code) continue;
      codes.add(static_cast<double>(i), got.code(r, c), expected.codes[i]);
    }
  }
  REQUIRE(expected.scales.size() == got.scale_count());
  for (std::size_t b = 0; b < expected.scales.size(); ++b) {
    scales.add(static_cast<double>(b), got.scale(b), expected.scales[b]);
  }
  CHECK_MESSAGE(codes.wrong == 0, "codes: ", codes.first());
  CHECK_MESSAGE(scales.wrong == 0, "scales: ", scales.first());
  CHECK(got.margins_are_clean());
  if constexpr (loft::has_tensor_scale<B>) CHECK(bits_of(got.tensor_scale) == bits_of(expected.tensor_scale));
}

inline void compare_values(std::vector<float> const& got, std::vector<float> const& expected, std::string const& what) {
  tally count;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    bool const equal = same(got[i], expected[i]);
    count.add(static_cast<double>(i), equal ? 0 : bits_of(got[i]), equal ? 0 : bits_of(expected[i]));
  }
  CHECK_MESSAGE(count.wrong == 0, what, ": ", count.first());
}

// The three verbs on one tensor against the reference.
template <class Operand>
void check_tensor(std::vector<float> const& x, shape s, Operand const& how, settings const& same_how) {
  using B = typename Operand::format;
  CAPTURE(s.rows);
  CAPTURE(s.cols);
  quantized const expected = reference<B>(x, s.rows, s.cols, same_how).run();
  buffers<B> out(s.rows, s.cols);
  REQUIRE(loft::quantize(view_of(x, s), out.view(), how) == status::ok);
  compare(out, expected, s);

  std::vector<float> values(x.size() + 1, -5.0f);
  loft::matrix_view<float> const to{values.data(), s.rows, s.cols, s.cols};
  REQUIRE(loft::dequantize(out.view(), to, how) == status::ok);
  compare_values(values, expected.values, "dequantize");
  values.assign(x.size() + 1, -5.0f);
  REQUIRE(loft::fake_quantize(view_of(x, s), to, how) == status::ok);
  compare_values(values, expected.values, "fake_quantize");
  CHECK(values.back() == -5.0f);
}

template <class Operand> void check_all_tensors(Operand const& how, settings const& same_how) {
  for (content const kind : contents) {
    CAPTURE(static_cast<int>(kind));
    for (shape const s : shapes) check_tensor(tensor(kind, s), s, how, same_how);
  }
}

template <class B, loft::Rounding R = loft::nearest_even, nonfinite N = nonfinite::propagate>
using plain = loft::operand<B, loft::default_rule<B>, R, loft::no_rotation, N>;

}  // namespace test
