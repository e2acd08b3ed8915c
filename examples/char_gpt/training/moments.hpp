// SPDX-License-Identifier: Apache-2.0
// What AdamW keeps between steps, in float or in the codes of LOFT's formats.
//
// A store holds one number for each parameter, in stretches that are read, changed and written one at a time: no more
// than a stretch of a tensor is ever in float. Rounding is stochastic: a moving average moves by a few per cent of its
// distance from what it averages, less than the gap between two codes, and rounding to nearest would stop it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <loft/block.hpp>
#include <loft/number.hpp>
#include <loft/tensor.hpp>
#include <loft/train.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "char_gpt/model/parameters.hpp"
#include "char_gpt/support/errors.hpp"
#include "char_gpt/support/thread_pool.hpp"

namespace char_gpt {

enum class moment_format {
  fp32,  // the moments as they are
  bf16,  // both in bfloat16
  fp8,   // the mean in MXFP8 E4M3, the square in 8 bits without a sign
  fp4,   // the mean in MXFP4, the square in 4 bits without a sign: arXiv 2607.04422
};

/// The format of that name, or nothing.
constexpr std::optional<moment_format> moment_format_of(std::string_view name) noexcept {
  constexpr std::string_view names[] = {"fp32", "bf16", "fp8", "fp4"};
  for (int i = 0; i < 4; ++i)
    if (name == names[i]) return static_cast<moment_format>(i);
  return std::nullopt;
}

/// Of both moments of a parameter: codes, and the scales of blocks of 32.
constexpr double moment_bytes(moment_format format) noexcept {
  switch (format) {
    case moment_format::bf16:
      return 2 * 2.0;
    case moment_format::fp8:
      return 2 * (1 + 1.0 / 32);
    case moment_format::fp4:
      return 2 * (0.5 + 1.0 / 32);
    case moment_format::fp32:
      break;
  }
  return 2 * sizeof(float);
}

inline constexpr int stretch_size = 4096;

/// Up to stretch_size neighbouring parameters of one tensor.
struct stretch {
  std::int64_t begin;
  int count;
};

inline std::vector<stretch> stretches_of(tensor_place const& tensor) {
  std::vector<stretch> result;
  for (std::int64_t done = 0; done < tensor.size; done += stretch_size)
    result.push_back({tensor.begin + done, static_cast<int>(std::min<std::int64_t>(stretch_size, tensor.size - done))});
  return result;
}

/// Each number as a code of F.
template <loft::Format F> class number_store {
 public:
  explicit number_store(std::vector<stretch> stretches)
      : stretches_{std::move(stretches)},
        codes_(static_cast<std::size_t>(stretches_.back().begin + stretches_.back().count)) {}

  void load(std::size_t which, float* to) const {
    loft::decode<F>(codes_.data() + stretches_[which].begin, stretches_[which].count, to);
  }
  void store(std::size_t which, float const* from, std::uint64_t seed, std::uint64_t stream) {
    loft::encode<F>(from, stretches_[which].count, codes_.data() + stretches_[which].begin,
                    loft::stochastic<>{seed, stream});
  }
  std::size_t bytes() const noexcept { return codes_.size() * sizeof(codes_[0]); }

 private:
  std::vector<stretch> stretches_;
  std::vector<loft::code<F>> codes_;
};

/// Memory for each stretch as a row of format B; all are zeros at first, which codes 0 under scales 0 are.
template <class B> class row_memory {
 public:
  explicit row_memory(std::vector<stretch> const& stretches) {
    std::int64_t codes = 0, scales = 0;
    for (auto const& p : stretches) {
      places_.push_back({codes, scales, p.count});
      codes += loft::codes_bytes<B>(1, p.count);
      scales += loft::scale_count<B>(1, p.count);
    }
    codes_.resize(static_cast<std::size_t>(codes));
    scales_.resize(static_cast<std::size_t>(scales));
    if constexpr (loft::has_tensor_scale<B>) tensor_scales_.resize(places_.size());
  }

  loft::quantized_view<B> operator[](std::size_t which) noexcept { return view<B>(*this, which); }
  loft::quantized_view<B const> operator[](std::size_t which) const noexcept { return view<B const>(*this, which); }

  std::size_t bytes() const noexcept {
    return codes_.size() + scales_.size() * sizeof(scales_[0]) + tensor_scales_.size() * sizeof(float);
  }

 private:
  struct place {
    std::int64_t codes, scales;
    int count;
  };
  template <class Seen, class Rows> static loft::quantized_view<Seen> view(Rows& rows, std::size_t which) noexcept {
    auto const& at = rows.places_[which];
    return {rows.codes_.data() + at.codes, rows.scales_.data() + at.scales,
            loft::has_tensor_scale<B> ? &rows.tensor_scales_[which] : nullptr, 1, at.count};
  }

  std::vector<place> places_;
  std::vector<std::uint8_t> codes_;
  std::vector<loft::code<typename B::scale>> scales_;
  std::vector<float> tensor_scales_;
};

/// Each stretch as a quantized row. Squares: numbers that are not negative, as loft::second_moment keeps them: roots,
/// and none becomes 0 that was not.
template <class Operand, bool Squares = false> class block_store {
 public:
  explicit block_store(std::vector<stretch> const& stretches) : rows_{stretches} {}

  void load(std::size_t which, float* to) const {
    auto const in = rows_[which];
    loft::matrix_view<float> const out{to, 1, in.cols, in.cols};
    if constexpr (Squares) require_ok(loft::load_second_moment(in, out, loft::second_moment<Operand>{}));
    else require_ok(loft::dequantize(in, out, Operand{}));
  }
  void store(std::size_t which, float const* from, std::uint64_t seed, std::uint64_t stream) {
    auto const out = rows_[which];
    loft::matrix_view<float const> const in{from, 1, out.cols, out.cols};
    auto const how = loft::reseed(Operand{}, seed, stream);
    if constexpr (Squares) require_ok(loft::store_second_moment(in, out, loft::second_moment<Operand>{how}));
    else require_ok(loft::quantize(in, out, how));
  }
  std::size_t bytes() const noexcept { return rows_.bytes(); }

 private:
  row_memory<typename Operand::format> rows_;
};
template <class Operand> using square_store = block_store<Operand, true>;

/// Roots of second moments in 8 bits: the bit that would be their sign is a fourth mantissa bit.
struct mx_moment8 {
  struct element {
    static constexpr loft::format_spec spec{4, 4, 7, loft::specials::none, false};
  };
  using scale = loft::e8m0;
  using rule = loft::ceil_scale;
  static constexpr loft::block_shape shape{1, 32};
};

/// Both moments, in float.
class float_moments {
 public:
  explicit float_moments(std::size_t parameters) : means_(parameters), squares_(parameters) {}

  /// Calls f(first, count, means, squares) for parts of one tensor, which may change the moments of these parameters.
  template <class F>
  void change(std::size_t, tensor_place const& tensor, std::uint64_t, thread_pool& pool, F const& f) {
    pool.for_parts(tensor.size, [&](range r) {
      auto const first = tensor.begin + r.begin;
      f(first, r.end - r.begin, means_.data() + first, squares_.data() + first);
    });
  }

  std::size_t bytes() const noexcept { return 2 * means_.size() * sizeof(float); }
  std::span<float> means() noexcept { return means_; }
  std::span<float> squares() noexcept { return squares_; }

 private:
  std::vector<float> means_, squares_;
};

/// Each moment in a store of its own.
template <class Means, class Squares> class coded_moments {
 public:
  coded_moments(std::vector<tensor_place> const& tensors, std::uint64_t seed)
      : stretches_{all_stretches(tensors)}, means_{stretches_}, squares_{stretches_}, seed_{seed} {
    for (std::size_t i = 0; i < stretches_.size(); ++i)
      if (firsts_.size() < tensors.size() && stretches_[i].begin == tensors[firsts_.size()].begin) firsts_.push_back(i);
    firsts_.push_back(stretches_.size());
  }

  /// As float_moments; `step` numbers the streams of stochastic rounding.
  template <class F>
  void change(std::size_t number, tensor_place const&, std::uint64_t step, thread_pool& pool, F const& f) {
    auto const first = firsts_[number];
    pool.for_parts(static_cast<std::int64_t>(firsts_[number + 1] - first), [&](range r) {
      std::array<float, stretch_size> means, squares;
      for (auto i = first + static_cast<std::size_t>(r.begin); i < first + static_cast<std::size_t>(r.end); ++i) {
        means_.load(i, means.data());
        squares_.load(i, squares.data());
        f(stretches_[i].begin, stretches_[i].count, means.data(), squares.data());
        std::uint64_t const stream = first_stream + 2 * (step * stretches_.size() + i);
        means_.store(i, means.data(), seed_, stream);
        squares_.store(i, squares.data(), seed_, stream + 1);
      }
    });
  }

  std::size_t bytes() const noexcept { return means_.bytes() + squares_.bytes(); }

 private:
  static constexpr std::uint64_t first_stream = std::uint64_t{1} << 55;  // the layers count theirs from 0

  static std::vector<stretch> all_stretches(std::vector<tensor_place> const& tensors) {
    std::vector<stretch> all;
    for (auto const& tensor : tensors)
      for (auto const& p : stretches_of(tensor)) all.push_back(p);
    return all;
  }

  std::vector<stretch> stretches_;
  std::vector<std::size_t> firsts_;  // the first stretch of each tensor, and the end
  Means means_;
  Squares squares_;
  std::uint64_t seed_;
};

template <class B> using stochastic_operand = loft::operand<B, loft::ceil_scale, loft::stochastic<>>;

using bf16_moments = coded_moments<number_store<loft::bf16>, number_store<loft::bf16>>;
using fp8_moments =
    coded_moments<block_store<stochastic_operand<loft::mxfp8_e4m3>>, square_store<stochastic_operand<mx_moment8>>>;
using fp4_moments =
    coded_moments<block_store<stochastic_operand<loft::mxfp4>>, square_store<stochastic_operand<loft::mx_moment4>>>;

}  // namespace char_gpt
