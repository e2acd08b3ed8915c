// SPDX-License-Identifier: Apache-2.0
// The training of one model with one recipe, or two between which a controller chooses, and what is measured on the way.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "char_gpt/model/linear.hpp"
#include "char_gpt/model/model.hpp"
#include "char_gpt/training/controller.hpp"
#include "char_gpt/training/options.hpp"
#include "char_gpt/training/text.hpp"

namespace char_gpt {

/// What is trained: every quantized linear layer is one of a plan, and a controller may move it to the safe one.
struct trainee {
  std::string name;
  planned_linears<float> layers;
  std::optional<linear<float>> safe{};  // there where a controller is
  control who{};
  std::function<std::vector<double>(model<float>&)> measure{};  // of the trained model
};

struct curve_point {
  int step;
  double train_loss;       // mean over the steps since the last point; NaN at step 0
  double validation_loss;  // both in nats a byte
};

struct result {
  std::string recipe;
  std::vector<curve_point> curve;
  bool diverged = false;                 // a loss was not finite, and training ended there
  std::vector<loft::gnmr_report> steps;  // what the controller did at each; empty without one
  std::size_t units = 0;                 // that it chose for
  quantization_report quantization;      // of the trained model on the first validation batch
  std::vector<double> measured{};        // what the trainee's `measure` gave
  double seconds = 0, step_seconds = 0;  // in all; of a training step, see trainer.cpp
};

result train(options const& o, split_text const& text, trainee const& what, thread_pool& pool);

}  // namespace char_gpt
