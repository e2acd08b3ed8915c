// SPDX-License-Identifier: Apache-2.0
// The text of the frozen codes and scales: every block format of the catalogue on fixed tensors and seeds.
// It is made with any compiler and any flags, and has to be the same text.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "golden.hpp"
#include "loft/loft.hpp"
#include "tensor/any_buffers.hpp"

namespace test {

inline constexpr std::int64_t golden_rows = 3, golden_cols = 48;

// Exact floats over 30 binades, with zeros of both signs and, in the last row, an infinity and a NaN. By bits: flags that
// take NaNs for impossible change nothing.
inline std::vector<float> golden_values() {
  std::vector<float> x;
  for (int i = 0; i < golden_rows * golden_cols; ++i) {
    float const size = i / 16 % 3 == 0 ? 0x1.3p-5f : i / 16 % 3 == 1 ? 0x1.9p2f : 0x1.7p-20f;
    x.push_back(static_cast<float>((i * 37 % 101) - 50) * size);
  }
  x[5] = loft::bit_cast<float>(0x80000000u);
  x[100] = loft::bit_cast<float>(0x7f800000u);
  x[143] = loft::bit_cast<float>(0xffc00001u);
  return x;
}

inline void add_scale(golden_line& line, std::uint8_t s) { line.add(s); }
inline void add_scale(golden_line& line, std::uint32_t s) { line.add(s, 8); }
inline void add_scale(golden_line& line, loft::hif4_levels s) {
  line.add(s.top), line.add(s.eights), line.add(s.fours, 4);
}
inline void add_scale(golden_line& line, loft::double_levels const& s) {
  line.add(loft::bit_cast<std::uint32_t>(s.outer), 8);
  for (auto const inner : s.inner) line.add(inner);
}

template <class Operand> std::string golden_tensor(std::string const& name, Operand const& how) {
  using B = typename Operand::format;
  std::vector<float> const x = golden_values();
  std::vector<float> y(x.size());
  any_buffers<B> q(golden_rows, golden_cols);
  loft::matrix_view<float const> const in{x.data(), golden_rows, golden_cols, golden_cols};
  bool const done = loft::quantize(in, q.view(), how) == loft::status::ok &&
                    loft::fake_quantize(in, loft::matrix_view<float>{y.data(), golden_rows, golden_cols, golden_cols},
                                        how) == loft::status::ok;
  golden_line codes{"codes"}, scales{"scales"}, values{"values"};
  for (std::int64_t i = 0; i < golden_rows * golden_cols; ++i) codes.add(q.code(i / golden_cols, i % golden_cols));
  for (std::size_t i = 0; i < q.scale_places(); ++i) add_scale(scales, q.scale(i));
  for (std::size_t i = 0; i < y.size(); i += 7) {
    auto const bits = loft::bit_cast<std::uint32_t>(y[i]);
    values.add((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits,
               8);  // the sign of a NaN that was computed with is nobody's
  }
  if (loft::has_tensor_scale<B>) scales.add(loft::bit_cast<std::uint32_t>(q.tensor_scale), 8);
  return (done ? name : name + " refused") + '\n' + codes.str() + scales.str() + values.str();
}

inline std::string golden_blocks() {
  std::string text;
  int number = 0;
  using namespace loft;
  using drawn = stochastic<16>;
  auto const add = [&]<class B>(B) {
    std::string const name = "format " + std::to_string(number++) + " of all_block_formats";
    using rule = default_rule<B>;
    text += golden_tensor(name, operand<B>{});
    text += golden_tensor(name + ", stochastic<16>{1, 2}", operand<B, rule, drawn>{.rounding = {1, 2}});
    text += golden_tensor(name + ", signed_hadamard<16>{0x9a5c}",
                          operand<B, rule, default_rounding<B>, signed_hadamard<16>>{.rotation = {0x9a5c}});
  };
  all_block_formats::for_each(add);
  text += golden_tensor("mxfp4 ceil_scale", operand<mxfp4, ceil_scale>{});
  text += golden_tensor("mxfp4 even_scale", operand<mxfp4, even_scale>{});
  text += golden_tensor("mxfp4 nearest_scale", operand<mxfp4, nearest_scale>{});
  text += golden_tensor("mxfp4 floor_four_thirds", operand<mxfp4, floor_four_thirds>{});
  text += golden_tensor("mxfp4 quest_scale", operand<mxfp4, quest_scale>{});
  text += golden_tensor("nvfp4 two_level_256", operand<nvfp4, two_level_256>{});
  text += golden_tensor("nvfp4 unbiased_two_level", operand<nvfp4, unbiased_two_level>{});
  text += golden_tensor("nvfp4 four_over_six<squared_error>", operand<nvfp4, four_over_six<>>{});
  text += golden_tensor("nvfp4 four_over_six<absolute_error>", operand<nvfp4, four_over_six<absolute_error>>{});
  text += golden_tensor("nvfp4 four_over_six<maximal_error>", operand<nvfp4, four_over_six<maximal_error>>{});
  text += golden_tensor("nvfp4 ms_eden<128>{-1, 3, 4}", operand<nvfp4, ms_eden<>>{.rule = {-1, 3, 4}});
  text += golden_tensor("nvfp4 ms_eden<16>{-1, 3, 4}, signed_hadamard<16>{0x9a5c}",
                        operand<nvfp4, ms_eden<16>, nearest_even, signed_hadamard<16>>{{-1, 3, 4}, {}, {0x9a5c}});
  text += golden_tensor("square<nvfp4, 16>", operand<square<nvfp4, 16>>{});
  text += golden_tensor("square<mxfp4, 32>", operand<square<mxfp4, 32>>{});
  return text;
}

// The first line in which two texts differ.
inline std::string first_difference(std::string const& a, std::string const& b) {
  std::istringstream left{a}, right{b};
  std::string x, y, title;
  while (std::getline(left, x)) {
    if (!std::getline(right, y) || x != y) return title + ": " + x + "\n  frozen: " + y;
    if (x.find(':') == std::string::npos) title = x;
  }
  return std::getline(right, y) ? "missing: " + y : "";
}

}  // namespace test
