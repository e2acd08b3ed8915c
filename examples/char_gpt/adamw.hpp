// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov and Hutter, arXiv 1711.05101), clipping by the global norm, and the schedule of the learning rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "parameters.hpp"
#include "shape.hpp"
#include "thread_pool.hpp"

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
  adamw(std::vector<tensor_place> tensors, std::size_t parameters, double weight_decay)
      : tensors_{std::move(tensors)}, mean_(parameters), square_(parameters), weight_decay_{weight_decay} {}

  /// One update with gradients times `factor`.
  void step(std::span<float> parameters, std::span<float const> gradients, double factor, double rate,
            thread_pool& pool) {
    ++steps_;
    auto const scale = static_cast<float>(factor);
    auto const mean_rate = static_cast<float>(rate / (1 - std::pow(beta1, steps_)));
    auto const square_scale = static_cast<float>(1 / (1 - std::pow(beta2, steps_)));
    for (auto const& tensor : tensors_) {
      float const keep = tensor.decays ? static_cast<float>(1 - rate * weight_decay_) : 1.0f;
      pool.for_parts(tensor.size, [&](range r) {
        for (auto i = static_cast<std::size_t>(tensor.begin + r.begin);
             i < static_cast<std::size_t>(tensor.begin + r.end); ++i) {
          float const g = gradients[i] * scale;
          mean_[i] += (1 - beta1) * (g - mean_[i]);
          square_[i] += (1 - beta2) * (g * g - square_[i]);
          parameters[i] = parameters[i] * keep - mean_rate * mean_[i] / (std::sqrt(square_[i] * square_scale) + 1e-8f);
        }
      });
    }
  }

  /// What a checkpoint keeps beside the parameters: the moments, as many of each as there are parameters, and the steps.
  std::span<float> means() noexcept { return mean_; }
  std::span<float> squares() noexcept { return square_; }
  int steps() const noexcept { return steps_; }
  void resume_at(int steps) noexcept { steps_ = steps; }

 private:
  static constexpr float beta1 = 0.9f, beta2 = 0.95f;

  std::vector<tensor_place> tensors_;
  std::vector<float> mean_, square_;
  double weight_decay_;
  int steps_ = 0;
};

}  // namespace char_gpt
