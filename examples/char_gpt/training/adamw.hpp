// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov and Hutter, arXiv 1711.05101), clipping by the global norm, and the schedule of the learning rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "char_gpt/model/parameters.hpp"
#include "char_gpt/model/shape.hpp"
#include "char_gpt/support/thread_pool.hpp"
#include "char_gpt/training/moments.hpp"

namespace char_gpt {

/// Linear warm-up over the first twentieth of the steps, which nGPT does without, then half a cosine down to a tenth of
/// the peak.
inline double learning_rate(double peak, int step, int steps, architecture arch = architecture::gpt) noexcept {
  int const warmup = arch == architecture::ngpt ? 0 : std::max(1, steps / 20);
  if (step < warmup) return peak * (step + 1) / warmup;
  double const progress = static_cast<double>(step - warmup) / std::max(1, steps - warmup);
  return peak * (0.1 + 0.45 * (1 + std::cos(std::numbers::pi * progress)));
}

/// The factor that brings the norm of all gradients down to `limit`, 1 where it is below.
inline double clip_factor(std::span<float const> gradients, double limit) noexcept {
  double squares = 0;
  for (float const g : gradients) squares += static_cast<double>(g) * static_cast<double>(g);
  return std::min(1.0, limit / std::sqrt(squares));
}

class adamw {
 public:
  /// `seed` is that of stochastic rounding, where the moments are kept in fewer bits than float has.
  adamw(std::vector<tensor_place> tensors, std::size_t parameters, double weight_decay,
        moment_format format = moment_format::fp32, std::uint64_t seed = 0)
      : tensors_{std::move(tensors)},
        moments_{moments_in(format, tensors_, parameters, seed)},
        weight_decay_{weight_decay} {}

  /// One update with gradients times `factor`.
  void step(std::span<float> parameters, std::span<float const> gradients, double factor, double rate,
            thread_pool& pool) {
    ++steps_;
    auto const mean_rate = static_cast<float>(rate / (1 - std::pow(beta1, steps_)));
    auto const square_scale = static_cast<float>(1 / (1 - std::pow(beta2, steps_)));
    auto const change = [&](auto& moments) {
      for (std::size_t number = 0; number < tensors_.size(); ++number) {
        auto const& tensor = tensors_[number];
        float const keep = tensor.decays ? static_cast<float>(1 - rate * weight_decay_) : 1.0f;
        update const how{static_cast<float>(factor), keep, mean_rate, square_scale};
        moments.change(number, tensor, static_cast<std::uint64_t>(steps_), pool,
                       [&](std::int64_t first, std::int64_t count, float* mean, float* square) {
                         how(parameters.data() + first, gradients.data() + first, count, mean, square);
                       });
      }
    };
    std::visit(change, moments_);
  }

  /// What a checkpoint keeps beside the parameters: the moments, as many of each as there are parameters, and the steps.
  /// Moments in float only: throws std::bad_variant_access where they are kept otherwise.
  std::span<float> means() { return std::get<float_moments>(moments_).means(); }
  std::span<float> squares() { return std::get<float_moments>(moments_).squares(); }
  int steps() const noexcept { return steps_; }
  void resume_at(int steps) noexcept { steps_ = steps; }

  /// Of the moments between steps.
  std::size_t state_bytes() const noexcept {
    return std::visit([](auto const& m) { return m.bytes(); }, moments_);
  }

 private:
  using any_moments = std::variant<float_moments, bf16_moments, fp8_moments, fp4_moments>;

  static any_moments moments_in(moment_format format, std::vector<tensor_place> const& tensors, std::size_t parameters,
                                std::uint64_t seed) {
    switch (format) {
      case moment_format::bf16:
        return bf16_moments{tensors, seed};
      case moment_format::fp8:
        return fp8_moments{tensors, seed};
      case moment_format::fp4:
        return fp4_moments{tensors, seed};
      case moment_format::fp32:
        break;
    }
    return float_moments{parameters};
  }

  static constexpr float beta1 = 0.9f, beta2 = 0.95f;

  struct update {
    float scale, keep, mean_rate, square_scale;
    void operator()(float* parameters, float const* gradients, std::int64_t count, float* mean,
                    float* square) const noexcept {
      for (std::int64_t i = 0; i < count; ++i) {
        float const g = gradients[i] * scale;
        mean[i] += (1 - beta1) * (g - mean[i]);
        square[i] += (1 - beta2) * (g * g - square[i]);
        parameters[i] = parameters[i] * keep - mean_rate * mean[i] / (std::sqrt(square[i] * square_scale) + 1e-8f);
      }
    }
  };

  std::vector<tensor_place> tensors_;
  any_moments moments_;
  double weight_decay_;
  int steps_ = 0;
};

}  // namespace char_gpt
