// SPDX-License-Identifier: Apache-2.0
// Block quantization as a plain scalar program over row-major floats: the documented meaning, word for word.
// Elements and scales are rounded by the oracle; of the library it knows the types that name the formats, nothing else.
#pragma once

#include <algorithm>
#include <type_traits>

#include "loft/tensor.hpp"
#include "oracle_of.hpp"

namespace test {

enum class mx_rule { floor, ceil, even, nearest };

struct settings {
  mx_rule rule = mx_rule::floor;
  float known_amax = -1;
  bool saturate_infinities = false;
  oracle::rounding mode = oracle::rounding::nearest_even;
  int bits = 16;
  std::uint64_t seed = 0, stream = 0, first_index = 0;
};

// One code an element, one scale a block, and the values they stand for, all row-major.
struct quantized {
  std::vector<std::uint32_t> codes, scales;
  std::vector<float> values;
  float tensor_scale = 1;
};

inline constexpr float float_max = std::numeric_limits<float>::max();

// The exponent of the shared power of two, for amax > 0.
inline int mx_exponent(double amax, oracle::table const& element, mx_rule rule) {
  int const emax = std::ilogb(element.max());
  int k = -300;
  switch (rule) {
    case mx_rule::floor:
      k = std::ilogb(amax) - emax;
      break;
    case mx_rule::ceil:
      while (std::ldexp(amax, -k) > element.max()) ++k;
      break;
    case mx_rule::even: {
      double const ulp = std::ldexp(1.0, std::ilogb(amax) - element.row.mantissa_bits);
      k = std::ilogb(std::floor(amax / ulp + 0.5) * ulp) - emax;
      break;
    }
    case mx_rule::nearest:  // the least k with amax / max < sqrt(2) * 2^k
      while (std::ldexp(amax, -k) * std::ldexp(amax, -k) >= 2 * element.max() * element.max()) ++k;
      break;
  }
  return std::clamp(k, -127, 127);
}

template <class B> class reference {
 public:
  using element = typename B::element;
  using scale = typename B::scale;
  static constexpr bool power_of_two = std::is_same_v<scale, loft::e8m0>;
  static constexpr bool two_level = loft::has_tensor_scale<B>;

  reference(std::vector<float> values, std::int64_t rows, std::int64_t cols, settings how = {})
      : x_(std::move(values)), rows_(rows), cols_(cols), how_(how) {}

  [[nodiscard]] quantized run() {
    result_ = {};
    result_.codes.assign(x_.size(), 0);
    result_.values.assign(x_.size(), 0);
    if (how_.saturate_infinities) {
      for (float& v : x_) v = std::isinf(v) ? std::copysign(float_max, v) : v;
    }
    if constexpr (two_level) find_tensor_scale();
    for (std::int64_t top = 0; top < rows_; top += B::shape.rows) {
      for (std::int64_t left = 0; left < cols_; left += B::shape.cols) one_block(top, left);
    }
    return result_;
  }

 private:
  void find_tensor_scale() {
    float amax = 0;
    for (float const v : x_) amax = std::isfinite(v) ? std::max(amax, std::fabs(v)) : amax;
    if (how_.known_amax >= 0) amax = how_.known_amax;
    auto const top = static_cast<float>(element_.max() * scale_.max());
    encode_scale_ = amax == 0 ? 1.0f : std::min(top / amax, float_max);
    result_.tensor_scale = 1.0f / encode_scale_;
  }

  template <class Function> void each_of(std::int64_t top, std::int64_t left, Function f) {
    for (std::int64_t r = top; r < std::min(rows_, top + B::shape.rows); ++r) {
      for (std::int64_t c = left; c < std::min(cols_, left + B::shape.cols); ++c)
        f(static_cast<std::size_t>(r * cols_ + c));
    }
  }

  std::uint32_t scale_of(float amax) {
    if (amax == 0) return 0;
    if constexpr (power_of_two) return static_cast<std::uint32_t>(mx_exponent(amax, element_, how_.rule) + 127);
    float const sixth = 1.0f / static_cast<float>(element_.max());
    float const per_unit = encode_scale_ * sixth;
    return scale_.encode(amax * per_unit);
  }

  void one_block(std::int64_t top, std::int64_t left) {
    float amax = 0;
    bool finite = true;
    each_of(top, left, [&](std::size_t i) {
      finite = finite && std::isfinite(x_[i]);
      amax = std::max(amax, std::fabs(x_[i]));
    });
    std::uint32_t const code = finite ? scale_of(amax) : scale_.nan_code;
    result_.scales.push_back(code);
    each_of(top, left, [&](std::size_t i) { one_element(i, code); });
  }

  void one_element(std::size_t i, std::uint32_t scale_code) {
    if (scale_code == scale_.nan_code) {
      result_.values[i] = std::numeric_limits<float>::quiet_NaN();
      return;
    }
    double const decoded = scale_.decode(scale_code);
    double scaled = x_[i];
    if constexpr (power_of_two) {
      scaled = std::ldexp(scaled, -std::ilogb(decoded));
    } else if (decoded == 0) {
      scaled = std::copysign(0.0, x_[i]);
    } else {
      float const step = static_cast<float>(decoded) * result_.tensor_scale;
      float const multiplier = std::min(1.0f / step, float_max);
      float const product = x_[i] * multiplier;
      scaled = product;
    }
    oracle::draw draw{how_.bits, 0};
    if (how_.mode == oracle::rounding::stochastic || how_.mode == oracle::rounding::truncated_stochastic) {
      draw.word = oracle::random_word(how_.bits, how_.seed, how_.stream, how_.first_index + i);
    }
    std::uint32_t const code = element_.encode(scaled, how_.mode, oracle::overflow::saturate, draw);
    result_.codes[i] = code;
    auto const exact = static_cast<float>(element_.decode(code) * decoded);
    result_.values[i] = two_level ? exact * result_.tensor_scale : exact;
  }

  oracle::table const& element_ = table_of<element>();
  oracle::table const& scale_ = table_of<scale>();
  std::vector<float> x_;
  std::int64_t rows_, cols_;
  settings how_;
  float encode_scale_ = 1;
  quantized result_;
};

// Buffers for a quantized tensor: poisoned with ff, with guard bytes on both sides.
template <class B> class buffers {
 public:
  static constexpr std::size_t guard = 32;
  static constexpr int bits = B::element::spec.bits();

  buffers(std::int64_t rows, std::int64_t cols)
      : rows_(rows),
        cols_(cols),
        row_bytes_(static_cast<std::size_t>((cols * bits + 7) / 8)),
        codes_(row_bytes_ * static_cast<std::size_t>(rows) + 2 * guard, 0xff),
        scales_(blocks(rows, B::shape.rows) * blocks(cols, B::shape.cols) + 2 * guard, 0xff) {}

  [[nodiscard]] loft::quantized_view<B> view() {
    return {codes_.data() + guard, scales_.data() + guard, &tensor_scale, rows_, cols_};
  }
  [[nodiscard]] std::uint32_t code(std::int64_t row, std::int64_t col) const {
    std::size_t const first = guard + static_cast<std::size_t>(row) * row_bytes_;
    std::uint32_t result = 0;
    for (int i = 0; i < bits; ++i) {
      auto const bit = static_cast<std::size_t>(col * bits + i);
      result |= (codes_[first + bit / 8] >> (bit % 8) & 1u) << i;
    }
    return result;
  }
  [[nodiscard]] std::uint32_t scale(std::size_t block) const { return scales_[guard + block]; }
  [[nodiscard]] std::size_t scale_count() const { return scales_.size() - 2 * guard; }

  // Guards still hold ff, and the bits after the last code of each row are zero.
  [[nodiscard]] bool margins_are_clean() const {
    bool clean = is_poison(codes_, 0) && is_poison(scales_, 0) && is_poison(codes_, codes_.size() - guard) &&
                 is_poison(scales_, scales_.size() - guard);
    int const used = static_cast<int>(cols_ * bits % 8);
    for (std::int64_t r = 0; used != 0 && r < rows_; ++r) {
      clean = clean && codes_[guard + static_cast<std::size_t>(r + 1) * row_bytes_ - 1] >> used == 0;
    }
    return clean;
  }
  [[nodiscard]] bool untouched() const {
    auto const poison = [](std::uint8_t b) { return b == 0xff; };
    return std::all_of(codes_.begin(), codes_.end(), poison) && std::all_of(scales_.begin(), scales_.end(), poison) &&
           tensor_scale == -77.0f;
  }
  friend bool operator==(buffers const&, buffers const&) = default;

  float tensor_scale = -77.0f;

 private:
  static std::size_t blocks(std::int64_t extent, int size) {
    return static_cast<std::size_t>((extent + size - 1) / size);
  }
  static bool is_poison(std::vector<std::uint8_t> const& bytes, std::size_t first) {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(first),
                       bytes.begin() + static_cast<std::ptrdiff_t>(first + guard),
                       [](std::uint8_t b) { return b == 0xff; });
  }
  std::int64_t rows_, cols_;
  std::size_t row_bytes_;
  std::vector<std::uint8_t> codes_, scales_;
};

}  // namespace test
