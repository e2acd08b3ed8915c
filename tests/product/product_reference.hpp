// SPDX-License-Identifier: Apache-2.0
// The emulated product as plain loops over doubles, from codes and scales that the oracle decodes; the same product
// exactly, and the bounds that its docstring states.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "loft/block.hpp"
#include "oracle_of.hpp"
#include "tensor/any_buffers.hpp"

namespace test {

// An operand taken apart: an element and a factor for each place, and how many neighbours share a factor, 0: all.
struct operand_values {
  std::int64_t rows, cols;
  int factor_cols;
  std::vector<double> element, factor;
  double tensor = 1;

  [[nodiscard]] std::size_t at(std::int64_t r, std::int64_t c) const { return static_cast<std::size_t>(r * cols + c); }
  [[nodiscard]] double value(std::int64_t r, std::int64_t c) const { return element[at(r, c)] * factor[at(r, c)]; }
};

template <class B> int factor_cols_of() {
  if constexpr (requires { B::factor_cols; }) return B::factor_cols;
  else return B::shape.cols;
}

template <class F> double decoded_scale(std::uint32_t code) {
  if constexpr (std::is_same_v<F, loft::fp32>) return static_cast<double>(float_of(code));
  else return table_of<F>().decode(code);
}

// Element and factor of a code: the format's meaning, written once more.
template <class B, class S>
void take_apart(std::uint32_t code, S const& scale, int col, double& element, double& factor) {
  element = table_of<typename B::element>().decode(code);
  if constexpr (std::is_same_v<B, loft::hif4>) {
    factor = std::ldexp(table_of<loft::e6m2>().decode(scale.top),
                        (scale.eights >> col / 8 & 1) + (scale.fours >> col / 4 & 1));
  } else if constexpr (std::is_same_v<B, loft::double_nvfp4>) {
    factor =
        static_cast<double>(static_cast<float>(table_of<loft::ue4m3>().decode(scale.inner[col / 16])) * scale.outer);
  } else if constexpr (std::is_same_v<B, loft::if4>) {
    factor = table_of<loft::e4m3>().decode(scale & 0x7fu);
    if (scale >> 7 != 0) {
      element = table_of<loft::int4>().decode(code);
      factor *= static_cast<double>(6.0f / 7.0f);
    }
  } else {
    factor = decoded_scale<typename B::scale>(scale);
  }
}

template <class B> operand_values operand_of(any_buffers<B> const& q, std::int64_t rows, std::int64_t cols) {
  auto const size = static_cast<std::size_t>(rows * cols);
  operand_values result{rows, cols, factor_cols_of<B>(), std::vector<double>(size), std::vector<double>(size)};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      std::size_t const i = result.at(r, c);
      auto const scale = q.scale_at(r, c);
      if constexpr (std::is_same_v<typename B::scale, loft::fp32>)
        take_apart<B>(q.code(r, c), static_cast<std::uint32_t>(scale), 0, result.element[i], result.factor[i]);
      else take_apart<B>(q.code(r, c), scale, static_cast<int>(c % B::shape.cols), result.element[i], result.factor[i]);
    }
  if constexpr (loft::has_tensor_scale<B>) result.tensor = static_cast<double>(q.tensor_scale);
  return result;
}

inline operand_values operand_of(std::vector<float> const& x, std::int64_t rows, std::int64_t cols) {
  return {rows, cols, 0, {x.begin(), x.end()}, std::vector<double>(x.size(), 1.0)};
}

// ---- the order of the sums --------------------------------------------------------------------------------------------

// x rounded to nearest even with so many mantissa bits, exponents from `least` to `most`, then infinity.
struct precision {
  int mantissa_bits, least, most;
  [[nodiscard]] double round(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    int const gap = std::max(std::ilogb(x), least) - mantissa_bits;
    double const y = std::ldexp(std::nearbyint(std::ldexp(x, -gap)), gap);
    return std::fabs(y) >= std::ldexp(1.0, most + 1) ? std::copysign(HUGE_VAL, x) : y;
  }
};
inline constexpr precision of_bf16{7, -126, 127}, of_fp32{23, -126, 127};

// How a reference sums, and what it does wrong on purpose.
struct summing {
  bool in_float = false;
  int chunk = 0;
  precision within{}, among{};
  bool backwards = false, without_scales = false, without_tensor_scales = false;

  [[nodiscard]] double add(double sum, double product) const {
    return in_float ? static_cast<double>(static_cast<float>(sum) + static_cast<float>(product)) : sum + product;
  }
  [[nodiscard]] double finish(double total, double run, double factor) const {
    double const volatile term = run * factor;
    if (in_float) return static_cast<double>(static_cast<float>(total) + static_cast<float>(term));
    double const volatile sum = total + term;
    return chunk != 0 ? among.round(sum) : sum;
  }
};

// Columns over which the factors of both sides are constant.
inline std::int64_t run_of(operand_values const& a, operand_values const& b) {
  for (int n = 128; n >= 1; --n)
    if (a.factor_cols % n == 0 && b.factor_cols % n == 0 && a.factor_cols + b.factor_cols > 0) return n;
  return a.cols;
}

inline float product_of(operand_values const& a, std::int64_t i, operand_values const& b, std::int64_t j,
                        summing const& how, float before = 0) {
  double total = 0;
  std::int64_t const length = run_of(a, b);
  for (std::int64_t begin = 0; begin < a.cols; begin += length) {
    std::int64_t const end = std::min(begin + length, a.cols);
    bool const several = how.chunk != 0 && end - begin > how.chunk;
    double sum = 0, run = 0;
    for (std::int64_t n = begin; n < end; ++n) {
      std::int64_t const k = how.backwards ? end - 1 - (n - begin) : n;
      double const x = a.element[a.at(i, k)], y = b.element[b.at(j, k)];
      double const volatile exact = x * y;
      double const volatile next = how.add(sum, how.in_float ? static_cast<double>(static_cast<float>(exact)) : exact);
      sum = next;
      if (several && ((n - begin + 1) % how.chunk == 0 || n + 1 == end)) {
        run = how.within.round(run + sum);
        sum = 0;
      }
    }
    double const factor = a.factor[a.at(i, begin)] * b.factor[b.at(j, begin)];
    total = how.finish(total, several ? run : sum, how.without_scales ? 1.0 : factor);
  }
  if (a.cols != 0 && !how.without_tensor_scales) total *= a.tensor * b.tensor;
  double const volatile stands = total + static_cast<double>(before);
  return static_cast<float>(stands);
}

// ---- the exact product ------------------------------------------------------------------------------------------------

// A sum of doubles without error: parts that do not overlap. source: Shewchuk, Adaptive Precision Floating-Point
// Arithmetic, grow-expansion.
struct exact_sum {
  std::vector<double> parts;
  void add(double x) {
    std::size_t kept = 0;
    for (double p : parts) {
      if (std::fabs(x) < std::fabs(p)) std::swap(x, p);
      double const high = x + p, low = p - (high - x);
      if (low != 0) parts[kept++] = low;
      x = high;
    }
    parts.resize(kept);
    parts.push_back(x);
  }
  [[nodiscard]] double value() const {
    double sum = 0;
    for (double const p : parts) sum += p;  // small to large: within an ulp, and exact where one double holds it
    return sum;
  }
};

struct exact_product {
  double value = 0, magnitudes = 0;  // before the scales of the tensors
};
inline exact_product exactly(operand_values const& a, std::int64_t i, operand_values const& b, std::int64_t j) {
  exact_sum sum;
  exact_product result;
  for (std::int64_t k = 0; k < a.cols; ++k) {
    double const x = a.element[a.at(i, k)] * b.element[b.at(j, k)], f = a.factor[a.at(i, k)] * b.factor[b.at(j, k)];
    double const high = x * f, low = std::fma(x, f, -high);
    sum.add(low);
    sum.add(high);
    result.magnitudes += std::fabs(high);
  }
  result.value = sum.value();
  return result;
}

}  // namespace test
